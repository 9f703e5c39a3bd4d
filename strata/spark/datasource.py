"""The data source of `spark.read.format("strata")`.

    spark.read.format("strata").option("shard", "flights").load().where("carrier = 'UA'")

Options: `shard`; `config`, a settings file; `as_of`, milliseconds, ISO 8601, a
label or `clock:…` (`strata.read.moments`); `pushdown`, "off" to fetch everything ("on" is what the
shard's mode allows); `consolidate`, "true" for each row once;
`where` and `pushed`, see below; `collection`, the name of one in a shard that holds many. A schema
given by the user names the columns to decode, with or without `t` and `d`.

Spark runs a Python data source in processes without a JVM, so it cannot analyse SQL there. The
caller analyses the filter beforehand with `where_option`, and gives it as the option `where`. The
option chooses parts; the query must still have the `.where(...)` that filters rows. In a session
with other settings than those of the analysis, the option chooses nothing; see
`strata.spark.front.option`. `strata.spark.snapshot` does all of this in one call.

The simple comparisons of a `.where(...)` reach the source as objects if the session has
`spark.sql.python.filterPushdown.enabled=true`. But Spark 4.3 reuses the partitions planned for one
filter for all queries of the same `load()`, even with other filters. So these comparisons choose
parts only with the option `pushed`, "true", which asserts that the DataFrame is filtered in only
one place.

A column of type `interval year to month` comes as int, in months: PySpark cannot give such an
interval to a data source (4.3.0). `cast(c as interval year to month)` converts it;
`strata.spark.snapshot` does so automatically.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.datasource import Filter as PushedFilter
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from strata.config.settings import load_settings
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call
from strata.format.columns import D, T
from strata.format.manifest import PartRef
from strata.history import usage
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.settings import ReadSettings, Settings, StoreSettings
from strata.read.collections import column_of, narrowed
from strata.read.moments import resolve_moment
from strata.session.session import CORES
from strata.spark.asked import OF_STREAMS, ReadOptions, request
from strata.spark.front.catalyst import Now, analyse
from strata.spark.front.option import (
    AnalysedFilter,
    check_unaltered,
    fits_task,
    given_filter,
    reads_alike,
)
from strata.spark.front.pushed import pushed_filter
from strata.spark.quiet_end import end_planning_quietly
from strata.spark.rows import (
    TASKS_PER_CORE,
    PartReader,
    in_schema,
    rows_ddl,
    task_parts,
    wanted_columns,
)
from strata.spark.slices import SliceTask, slice_tasks
from strata.spark.stream import ChangesWish, StrataStreamReader
from strata.state.state import State
from strata.store.open import Stores, open_stores

NAME: Final = "strata"
end_planning_quietly()  # planning imports this module, and nothing of ours before it
TASKS: Final = 16  # partitions of a small read where the number of cores is not known


def where_option(
    spark: SparkSession,
    shard: str,
    where: str,
    *,
    config: str | Settings | None = None,
    now: Now = None,
) -> str:
    """Return the text for the option `where`: the filter, as this session analyses it.

    The query's `.where` must be the same text, in a session with the same settings. `now` is the
    earliest possible clock of a query; None is the current time.
    Raises: InvalidRequest for an unknown shard or a filter that Spark refuses.
    """
    settings = config if isinstance(config, Settings) else load_settings(config, os.environ)
    state = Machine(open_stores(settings.store)).load(shard)
    filter = analyse(spark, state.relation, where, now=now, ordered=False)
    return AnalysedFilter.of(spark, shard, state.relation, filter).text()


@dataclass
class TaskInput(InputPartition):
    """The input of one task."""

    reader: PartReader
    parts: Iterable[PartRef]


@dataclass
class Merged(InputPartition):
    """The input of one merging task: a slice of the key space."""

    task: SliceTask


@dataclass
class Guarded(InputPartition):
    """The input of one of `of` tasks: as planned for its session, else a share of all parts."""

    planned: TaskInput | Merged
    session: Mapping[str, str]
    store: StoreSettings
    read: ReadSettings
    state: State
    as_of: int
    number: int
    of: int


class StrataSource(DataSource):
    """The data source: schema and reader of one shard at one time."""

    relation: Relation | None = None  # for which `schema` was made; None: the user gave one

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return NAME

    def schema(self) -> str:
        """Return the shard's columns by name, then t and d."""
        _, state = request(dict(self.options)).open()
        self.relation = state.relation
        return rows_ddl(wanted_columns(state.relation, None))

    def reader(self, schema: StructType) -> "StrataReader":
        """Return the reader of the columns in `schema`."""
        asked = request(dict(self.options))
        if asked.start is not None:
            raise InvalidRequest("only a stream has a start", option="start", cure="as_of")
        return StrataReader(asked, schema, self.relation)

    def streamReader(self, schema: StructType) -> StrataStreamReader:  # noqa: N802 - Spark's name
        """Return the reader of the changes of the columns in `schema`."""
        asked = request(dict(self.options))
        wrong = sorted({key.lower() for key in self.options} - set(OF_STREAMS))
        if wrong:
            cure = f"one of {', '.join(OF_STREAMS)}; see strata.spark.stream"
            raise InvalidRequest(
                "a stream of changes has no such option", option=wrong[0], cure=cure
            )
        wish = ChangesWish(asked.shard, asked.start, asked.question, asked.pushdown)
        most = _most_tasks()
        return StrataStreamReader(wish, asked.settings(), most, schema, self.relation)


class _Bonus:
    """`pushFilters` of a reader that works without it.

    With pushdown switched off, Spark's default, Spark refuses a reader whose class overrides the
    method, so that a required filter is not ignored. Ours is never required: it hands all filters
    back, and Spark applies them to rows. So this class hides the override.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: "StrataReader") -> None:
        self.reader = reader

    def __call__(self, filters: list[PushedFilter]) -> Iterable[PushedFilter]:
        """Remember the filters and return them all."""
        self.reader.pushed = list(filters)
        return filters


class StrataReader(DataSourceReader):
    """Plans on the state and the manifests, reads parts in tasks."""

    def __init__(
        self, asked: ReadOptions, schema: StructType, relation: Relation | None = None
    ) -> None:
        """Keep the request; stores are opened where they are used.

        `relation`: for which the schema was made; None: it is the user's own.
        """
        self.asked = asked
        self.schema = schema
        self.relation = relation
        self.pushed: list[PushedFilter] = []
        self.pushFilters = _Bonus(self)  # type: ignore[method-assign]

    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition for each task.

        Raises: InvalidRequest for an unreadable `as_of`, an unknown column, and one that is
        another, or of another type, than when the DataFrame was loaded.
        """
        stores, state = self.asked.hold()
        wanted_columns(state.relation, self._names())
        before, cure = self.relation or state.relation, "load the DataFrame anew"
        check_unaltered(before, state.relation, self.schema, shard=state.name, cure=cure)
        filter, settings = self._filter(state), self.asked.settings()
        at = resolve_moment(stores, state, self.asked.as_of)
        plan = plan_read(stores, state, as_of=at, filter=filter, pushdown=self.asked.pushdown)
        if (name := self.asked.collection) is not None:
            plan = narrowed(stores, state, plan, column_of(stores, state, name), name)
        usage.record(stores, state, plan, filter, settings.usage, Metrics(settings.metrics))
        tasks = self._tasks(stores, state, plan, settings.read)
        asked = self.asked.question
        if asked is None or filter is None or plan.mode in ("off", "soft"):
            return tasks
        return [
            Guarded(
                task,
                asked.session,
                stores.settings,
                settings.read,
                state,
                plan.as_of,
                number,
                len(tasks),
            )
            for number, task in enumerate(tasks)
        ]

    def _tasks(
        self, stores: Stores, state: State, plan: ReadPlan, read: ReadSettings
    ) -> list[TaskInput | Merged]:
        """Return the input of each task for a plan."""
        columns, only = wanted_columns(state.relation, self._names()), self._only(stores, state)
        most = _most_tasks()
        if self.asked.consolidate:
            return [Merged(t) for t in slice_tasks(stores, state, plan, columns, most, only)]
        reader = PartReader(
            stores.settings,
            state.relations,
            columns,
            as_of=plan.as_of,
            read_format=state.spec.read_format,
            groups=plan.groups,
            settings=read,
            only=only,
        )
        # An empty list would become one partition of None.
        return [TaskInput(reader, some) for some in task_parts(plan.parts, most) or ((),)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the partition's rows in exactly the schema that Spark expects.

        Raises: InvalidRequest for a value that does not fit the user's own schema.
        """
        schema = to_arrow_schema(self.schema, timezone="UTC")
        batches = (b for task in self._rightly(partition) for b in _batches(task))
        for batch in self._counted(batches):
            yield in_schema(batch, schema, self.asked.shard)

    def _rightly(self, partition: InputPartition) -> Sequence[TaskInput | Merged]:
        """Return the input of this task, without the filter if this is not the filter's session."""
        if not isinstance(partition, Guarded):
            assert isinstance(partition, TaskInput | Merged)
            return [partition]
        if fits_task(partition.session):
            return [partition.planned]
        stores, state = open_stores(partition.store), partition.state
        plan = plan_read(stores, state, as_of=partition.as_of, mode="off")
        tasks = self._tasks(stores, state, plan, partition.read)
        return tasks[partition.number :: partition.of]

    def _counted(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task, and report them to monitoring if the settings exist here."""
        try:
            metrics = Metrics(self.asked.settings().metrics)
        except InvalidRequest:
            return batches
        return usage.emitted(batches, metrics, self.asked.shard)

    def _only(self, stores: Stores, state: State) -> tuple[int, str] | None:
        """Return the column of collections and the collection's name; only its rows are shown."""
        name = self.asked.collection
        if name is None:
            return None
        return state.relation.column(column_of(stores, state, name)).id, name

    def _names(self) -> list[str]:
        return [name for name in self.schema.fieldNames() if name not in (T, D)]

    def _filter(self, state: State) -> Filter | None:
        """Return the conjunction of the option's filter and the pushed ones."""
        if not reads_alike(state.relation, self.schema):
            return None
        given = given_filter(self.asked.question, self.asked.shard, state.relation, self.schema)
        pushed = pushed_filter(self.pushed, state.relation) if self.asked.pushed else None
        if given is None or pushed is None:
            return given or pushed
        both = Call("and", (given.expr, pushed.expr), "boolean")
        return replace(given, expr=both)


def _most_tasks() -> int:
    """Return how many tasks a small read may have, in a process that sees no session."""
    cores = os.environ.get(CORES)
    return TASKS if cores is None else TASKS_PER_CORE * int(cores)


def _batches(task: TaskInput | Merged) -> Iterator[pa.RecordBatch]:
    if isinstance(task, Merged):
        return task.task.read()
    return task.reader.read(task.parts)

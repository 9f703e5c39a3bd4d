"""The streaming side of the data source: `spark.readStream.format("strata")`.

    spark.readStream.format("strata").option("shard", "flights").load().writeStream...

Each update comes once, as it was written: columns, then `t` and `d`. An offset is a time before
which everything has been read, so a query resumes from its checkpoint without losing or doubling an
update, even if the shard was compacted meanwhile. Options: `shard`; `config`; `start`, the first
time to read, milliseconds or ISO 8601, by default the beginning. After a snapshot at `as_of`, the
stream begins at as_of + 1.

`where` chooses parts as for `spark.read`, and so does `pushdown`: the query must have the `.where`
of the same text. As there, in a session with other settings all parts are read.

A query fails with an explanation if compaction has moved times that it has not read yet, if the
shard was restored or created again behind what the query has read, and if a column has got another
type since the query began, or its name has gone to another column: that would be read as what it
was.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from strata.format.columns import D, T
from strata.history import usage
from strata.history.metrics import Metrics
from strata.machine.ledger import commit_ms_before
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state
from strata.model.schema import Relation
from strata.model.settings import Settings, StoreSettings
from strata.model.time import MIN_TIME
from strata.read.changes import Stretch, check_same_life, plan_changes, planned_stretch
from strata.spark.front.option import AnalysedFilter, check_unaltered, fits_task, given_filter
from strata.spark.rows import (
    PartReader,
    group_parts,
    in_schema,
    wanted_columns,
    worthwhile_tasks,
)
from strata.state.state import State
from strata.store.open import Stores, open_stores

UPPER = "upper"  # of an offset: all updates before this time were read
COMMIT = "commit_ms"  # of an offset: when the last of them were committed; older ones have none
CLOCK = "now_ms"  # of an offset: a time at or before that of the batch that it ends, likewise
_NEVER_BEFORE = -62_135_596_800_000  # milliseconds: the year 1


@dataclass(frozen=True)
class ChangesWish:
    """What a stream is asked for."""

    shard: str
    start: int | None = None  # None: the beginning
    question: AnalysedFilter | None = None
    pushdown: str | None = None


@dataclass(frozen=True)
class StreamGuard:
    """What a task needs to read its share of all parts, if its session is not the filter's."""

    session: Mapping[str, str]
    store: StoreSettings
    state: State
    number: int
    of: int


@dataclass
class ChangesOf(InputPartition):
    """The input of one task."""

    reader: PartReader
    stretch: Stretch  # with only the parts of this task
    guard: StreamGuard | None = None  # None: no filter chose these parts


class StrataStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans stretches of time on the newest state, reads their parts in tasks."""

    def __init__(
        self,
        wish: ChangesWish,
        settings: Settings,
        tasks: int,
        schema: StructType,
        relation: Relation | None = None,
    ) -> None:
        """Keep the request; each stretch is cut into `tasks` tasks.

        `relation`: for which the schema was made; None: it is the user's own.
        """
        self.wish, self.settings = wish, settings
        self.tasks, self.schema = tasks, schema
        self._relation = relation
        self._last: dict[str, int] | None = None  # where this run of the query ends; None: never

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - Spark's name
        """Return the first offset of a query without a checkpoint."""
        return {UPPER: MIN_TIME if self.wish.start is None else self.wish.start}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Let the query end at what is there now, also if more comes in while it runs.

        Without this, Spark makes one batch: after a kill that is the batch which had not ended, and
        nothing of what came since.
        """
        stores = open_stores(self.settings.store)
        self._last = _end_of(stores, Machine(stores).load(self.wish.shard))

    def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:  # noqa: N802
        """Return the shard's upper: everything before it is complete.

        Raises: InvalidRequest when the shard has another history than the query has read.
        """
        stores = open_stores(self.settings.store)
        state = Machine(stores).load(self.wish.shard)
        self._seen(state)
        check_same_life(stores, state, start[UPPER], start.get(COMMIT, 0))
        last = self._last
        if (state.upper if last is None else last[UPPER]) <= start[UPPER]:
            return start
        return last or _end_of(stores, state)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        """Return one partition for each task.

        Raises: InvalidRequest when compaction has overtaken the query, or a column is gone or has
        another type than when the query began; as `latestOffset`.
        """
        stores = open_stores(self.settings.store)
        state = held_state(stores, self.wish.shard, self.settings.read)
        check_unaltered(
            self._seen(state),
            state.relation,
            self.schema,
            shard=state.name,
            cure="load the stream anew and start the query: it goes on from its checkpoint",
        )
        check_same_life(stores, state, start[UPPER], start.get(COMMIT, 0))
        check_same_life(stores, state, end[UPPER], end.get(COMMIT, 0))
        names = [name for name in self.schema.fieldNames() if name not in (T, D)]
        wish = self.wish
        filter = given_filter(wish.question, wish.shard, state.relation, self.schema)
        if filter is not None:
            # A batch that a restart repeats has the clock of its first try, before the option's.
            since = 1000 * end.get(CLOCK, _NEVER_BEFORE)
            filter = replace(filter, now_low=min(filter.now_low, since))
        stretch, plan = planned_stretch(
            stores, state, start[UPPER], end[UPPER], filter, wish.pushdown
        )
        metrics = Metrics(self.settings.metrics)
        usage.record(stores, state, plan, filter, self.settings.usage, metrics)
        reader = PartReader(
            stores.settings,
            state.relations,
            wanted_columns(state.relation, names),
            read_format=state.spec.read_format,
            groups=stretch.groups,
            settings=self.settings.read,
        )
        # An empty list would become one partition of None.
        tasks = worthwhile_tasks(stretch.parts, self.tasks)
        shares = group_parts(list(stretch.parts), tasks) or ((),)
        found = [ChangesOf(reader, replace(stretch, parts=share)) for share in shares]
        if wish.question is None or filter is None or plan.mode in ("off", "soft"):
            return found
        session, count = wish.question.session, len(found)
        for number, one in enumerate(found):
            one.guard = StreamGuard(session, stores.settings, state, number, count)
        return found

    def _seen(self, state: State) -> Relation:
        """Return the relation when the stream was loaded; else at the first look, perhaps this."""
        self._relation = self._relation or state.relation
        return self._relation

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the partition's rows in exactly the schema that Spark expects.

        Raises: InvalidRequest for a value that does not fit the user's own schema.
        """
        assert isinstance(partition, ChangesOf)
        schema = to_arrow_schema(self.schema, timezone="UTC")
        reader, stretch = _rightly(partition)
        for batch in reader.read(stretch.parts):
            yield in_schema(stretch.within(batch), schema, self.wish.shard)


def _end_of(stores: Stores, state: State) -> dict[str, int]:
    """Return the offset behind all that a shard has."""
    committed = commit_ms_before(stores.blob, state, state.upper)
    return {UPPER: state.upper, COMMIT: committed, CLOCK: stores.clock()}


def _rightly(partition: ChangesOf) -> tuple[PartReader, Stretch]:
    """Return the input of this task, without the filter if this is not the filter's session."""
    guard, stretch = partition.guard, partition.stretch
    if guard is None or fits_task(guard.session):
        return partition.reader, stretch
    stores = open_stores(guard.store)
    every = plan_changes(stores, guard.state, stretch.lower, stretch.upper, mode="off")
    share = every.parts[guard.number :: guard.of]
    return replace(partition.reader, groups={}), replace(every, parts=share)

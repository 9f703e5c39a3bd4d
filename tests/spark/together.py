"""Many filters in one Spark job, each a filter of its own over its own rows.

A job for each filter costs ten times what the filter costs. Here each filter is analysed by
itself, over a relation of the rows it is tried on, as a query of its own; then the plans become
the children of one union, and one task runs them one after the other. Spark optimises each child
by itself, and generates code for each by itself (`UNION` says so to Spark 4.3, which would put
children into one stage): `test_a_filter_among_others_is_run_as_it_is_alone` compares the plans and
the code. An error ends the whole job, so a job that fails is halved until the filter is found.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import pyarrow as pa
from py4j.java_gateway import JavaClass, JavaMember, JavaPackage, JVMView
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from strata.decide.read_plan import ReadPlan
from strata.format.columns import D, T
from strata.model.settings import StoreSettings
from strata.spark.carried import arrived
from strata.spark.front.ordered import frame_of
from strata.spark.rows import PartReader, quoted, rows_ddl, wanted_columns
from strata.spark.tasks import Tasks
from strata.state.state import State
from strata.store.open import Stores
from tests.spark.answers import session
from tests.spark.pushdown import Manifests

UNION: Final = {"spark.sql.codegen.wholeStage.union.enabled": "false"}
REMEMBERED: Final = 200  # sets of parts whose relation is kept
ERRORS: Final = (PySparkException, Py4JJavaError)


Piece: TypeAlias = tuple[str, int]  # the key of a part, and the number of one of its row groups


class Rows:
    """The rows of a shard in the JVM, row group by row group, as Spark has them."""

    def __init__(self, spark: SparkSession, stores: Stores, state: State) -> None:
        """Read them once, by one Spark job; they stay on the driver."""
        self.spark, self.stores, self.state = spark, stores, state
        self.manifests = Manifests.of(stores, state)
        self.pieces: list[Piece] = [
            (ref.key, group)
            for ref in self.manifests.refs
            for group in range(max(1, len(ref.splits)))
        ]
        numbers = spark.range(0, len(self.pieces), 1, len(self.pieces))
        columns = wanted_columns(state.relation, None)
        found = numbers.mapInArrow(self._reading(stores.settings, state), rows_ddl(columns))
        found = found.select(*(arrived(quoted(c.name), c.type) for c in columns), T, D)
        self._schema = found._jdf.schema()
        self._rdd = found.localCheckpoint()._jdf.queryExecution().toRdd()
        whole = sum(ref.rows for ref in self.manifests.refs)
        assert self._rdd.count() == whole, "a row that is not here is missed by no filter"
        self._known: dict[frozenset[Piece], DataFrame] = {}

    def _reading(self, settings: StoreSettings, state: State) -> Tasks:
        reader = PartReader(settings, state.relations, state.relation.columns)
        by_key = {ref.key: ref for ref in self.manifests.refs}
        pieces = [(by_key[key], group) for key, group in self.pieces]

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    ref, group = pieces[number]
                    yield from replace(reader, groups={ref.key: (group,)}).read([ref])

        return read

    def left_out(self, plan: ReadPlan) -> list[Piece]:
        """Return what a plan does not read."""
        read = {(ref.key, group) for ref in plan.fetched for group in plan.groups_of(ref)}
        read |= {(ref.key, 0) for ref in plan.fetched if not ref.splits}
        return [piece for piece in self.pieces if piece not in read]

    def of_pieces(self, pieces: Collection[Piece]) -> DataFrame:
        """Return the rows of some row groups."""
        chosen = frozenset(pieces)
        if chosen not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[chosen] = self._made(chosen)
        return self._known[chosen]

    def _made(self, chosen: frozenset[Piece]) -> DataFrame:
        jvm: Any = self.spark._jvm
        numbers = [n for n, piece in enumerate(self.pieces) if piece in chosen]
        # A set is a function of Scala: whether a partition is in it.
        some = jvm.org.apache.spark.rdd.PartitionPruningRDD.create(
            self._rdd, jvm.PythonUtils.toSeq(numbers).toSet()
        )
        one = some.coalesce(1, False, jvm.scala.Option.empty(), None)
        made = self.spark._jsparkSession.internalCreateDataFrame(one, self._schema, False)
        return DataFrame(made, self.spark)


@dataclass(frozen=True)
class Asked:
    """A query that should give no rows: a filter over rows that it does not touch."""

    number: int  # among those of a job
    what: str
    frame: DataFrame


def troubles(spark: SparkSession, asked: Sequence[Asked]) -> Iterator[tuple[Asked, str]]:
    """Yield the queries that give rows or fail, and which of it they do.

    What fails while Spark plans, fails whatever rows there are, and is none.
    """
    if not asked:
        return
    with _quiet(spark), session(spark, **UNION):
        yield from _halved(spark, asked)


def _halved(spark: SparkSession, asked: Sequence[Asked]) -> Iterator[tuple[Asked, str]]:
    union = united(spark, asked)
    try:
        union._jdf.queryExecution().optimizedPlan()
    except ERRORS:
        if len(asked) == 1:
            return
    else:
        try:
            found = union.collect()
        except ERRORS as error:
            if len(asked) == 1:
                yield asked[0], f"fails ({str(error).splitlines()[0][:100]})"
                return
        else:
            counts = Counter(row.tag for row in found)
            yield from (
                (a, f"accepts {counts[a.number]} rows") for a in asked if a.number in counts
            )
            return
    half = len(asked) // 2
    yield from _halved(spark, asked[:half])
    yield from _halved(spark, asked[half:])


def united(spark: SparkSession, asked: Sequence[Asked]) -> DataFrame:
    """Return the ids of the rows of all queries, with the query's number, in one partition."""
    plans = [
        one.frame.selectExpr(f"{one.number} as tag", "id")._jdf.queryExecution().analyzed()
        for one in asked
    ]
    if len(plans) == 1:
        return frame_of(spark, plans[0])
    jvm: Any = spark._jvm
    union = jvm.org.apache.spark.sql.catalyst.plans.logical.Union
    return frame_of(spark, union(jvm.PythonUtils.toSeq(plans), False, False)).coalesce(1)


@contextmanager
def _quiet(spark: SparkSession) -> Iterator[None]:
    """Have Spark print no errors: those that are expected are told by exceptions."""
    context = spark.sparkContext
    context.setLogLevel("OFF")
    try:
        yield
    finally:
        context.setLogLevel("ERROR")


@contextmanager
def remembered_names() -> Iterator[None]:
    """Have py4j look up packages, classes and static methods of the JVM once each.

    A look-up is a message to the JVM, and a fifth of what the analysis of a filter waits for.
    """
    kinds = (JVMView, JavaPackage, JavaClass)
    before = {kind: kind.__getattr__ for kind in kinds}
    for kind in kinds:
        kind.__getattr__ = _remembering(before[kind])
    try:
        yield
    finally:
        for kind in kinds:
            kind.__getattr__ = before[kind]


def _remembering(look_up: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    def found(self: Any, name: str) -> Any:
        if name.startswith("_"):
            return look_up(self, name)
        known = self.__dict__.setdefault("_names", {})
        if name not in known:
            value = look_up(self, name)
            if not isinstance(value, JavaPackage | JavaClass | JavaMember):
                return value
            known[name] = value
        return known[name]

    return found

"""What was wrong once, put back: does the net find it, and after how many filters?

`python -m tests.spark.planted` prints it for each fault: filters of the general draw, then steps of
a walk between operations.
"""

import random
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

import strata.compact
import strata.maintain.collect
import strata.parts.batch
import strata.parts.part_facts
import strata.stats.absent
from strata.expr.conditions import flat, join_conditions
from strata.expr.entry import Context
from strata.expr.nodes import Expr
from strata.format.columns import D
from strata.model.schema import Column, Relation
from strata.session.session import spark_session
from strata.spark.front.catalyst import _Judge
from strata.spark.front.forms import _tests_for_null
from strata.stats.bounds import cut_low
from strata.stats.wire import ROWS
from tests.spark.as_run import COLLECTOR, Net, Tally
from tests.spark.operations import Walk, try_walk
from tests.spark.tempting import Tempting, register
from tests.spark.together import Rows, remembered_names
from tests.spark.worlds import build

Place: TypeAlias = tuple[str, str, Any]  # a module or class, a name, what stands in
ENOUGH: Final = 2000  # filters
STEPS: Final = 200  # of ten filters each
AT_ONCE: Final = 20
SEED: Final = 1


def _as_it_is(expr: Expr, **_: Any) -> Expr:
    return expr


_OPTIMISED: Final = _Judge._optimised


def _timeless(judge: _Judge, condition: Any) -> list[Expr]:
    """Leave out the form in which the clock stands still."""
    return _OPTIMISED(judge, condition)[:1]


def _no_forms(*_: Any) -> list[Expr]:
    return []


def _replaced(value: Any) -> str:
    return bytes(value.getBytes()).decode(errors="replace")


def _unordered(spark: SparkSession, plan: Any, condition: Any) -> DataFrame:
    from strata.spark.front.ordered import frame_of

    return frame_of(spark, plan.copy(condition, plan.child()))


def _all_last(expr: Expr) -> Expr:
    return join_conditions("and", tuple(sorted(flat("and", expr), key=_tests_for_null)))


# What was wrong once: the session and the shape of filters that show it; what stood where.
FAULTS: Final[Mapping[str, tuple[str, str, list[Place]]]] = {
    "texts that are no UTF-8 become others": (
        "own", "bytes", [("strata.spark.front.constants", "text_of", _replaced)]
    ),
    "filters run in Spark's order, judged in ours": (
        "own", "null_first", [("strata.spark.front.rowfilter", "run_in_order", _unordered)]
    ),
    "null tests are taken for evaluated where they stand": (
        "own", "null_first", [("strata.spark.front.catalyst", "null_tests_last", _as_it_is)]
    ),
    "a null test that may fail is taken for evaluated last": (
        "own", "null_tests", [("strata.spark.front.catalyst", "null_tests_last", _all_last)]
    ),
    "the optimised form is not judged": (
        "own", "absorbed", [("strata.spark.front.catalyst._Judge", "_optimised", _no_forms)]
    ),
    "what is derived is not judged": (
        "stock", "equated",
        [("strata.spark.front.catalyst._Judge", "_optimised", _no_forms),
         ("strata.spark.front.catalyst", "with_derived", _as_it_is)],
    ),
    "the time of the analysis is taken for any": (  # each of the two hides that the other is gone
        "stock", "clocked",
        [("strata.spark.front.forms", "_ANY_TIME", Context(0, 0)),
         ("strata.spark.front.catalyst._Judge", "_optimised", _timeless)],
    ),
    "repeated parts are taken for evaluated where they stand": (
        "uncompiled", "repeated", [("strata.spark.front.catalyst", "with_repeated", _as_it_is)]
    ),
    "what a lambda does to an element is taken for what it does to a row": (
        "stock", "repeated_inside",
        [("strata.spark.front.forms", "is_closed", lambda expr: True)],
    ),
    "Python functions are taken for evaluated where they stand": (
        "own", "called",
        [("strata.spark.front.ordered", "_is_outside", lambda node: False),
         ("strata.spark.front.catalyst._Judge", "_optimised", _no_forms)],
    ),
}  # fmt: skip


def _of_additions(rows: pa.Table, relation: Relation, _keep: object = ()) -> pa.RecordBatch:
    added = rows.filter(pc.greater(rows[D], 0))
    return _collect(added if added.num_rows else rows, relation)


def _compacted(*args: Any, **options: Any) -> Any:
    with patch.object(strata.parts.part_facts, "collect", _of_additions):
        return _compact_shard(*args, **options)


def _of_the_first(rows: pa.Table, relation: Relation, _keep: object = ()) -> pa.RecordBatch:
    return _collect(rows.slice(0, max(1, rows.num_rows // 2)), relation)


def _without_the_last(table: pa.Table) -> pa.RecordBatch | None:
    row = _union(table.slice(0, max(1, table.num_rows - 1)))
    if row is None:
        return None
    # It counts all rows, else nobody would take it for the union of these parts.
    rows = pa.array([pc.sum(table[ROWS]).as_py()], row.schema.field(ROWS).type)
    return row.set_column(row.schema.get_field_index(ROWS), ROWS, rows)


def _of_the_next(keys: list[bytes]) -> list[bytes]:
    return _told_apart([*keys[1:], *keys[-1:]])


def _without_default(column: Column) -> dict[str, pa.StructArray]:
    return _constants(replace(column, default=None, nullable=True))


_collect, _told_apart = strata.parts.part_facts.collect, strata.parts.part_facts._told_apart
_compact_shard = strata.compact.compact_shard
_union, _constants = strata.parts.batch.union, strata.stats.absent._constants

# What an operation could do wrong, and only the reads after it show.
OPERATION_FAULTS: Final[Mapping[str, list[Place]]] = {
    "trimming makes a bound tighter": [("strata.stats.trim_plan", "cut_high", cut_low)],
    "the default of a younger column is forgotten": [
        ("strata.stats.absent", "_constants", _without_default)
    ],
    "compaction does not look at retractions": [
        ("tests.spark.operations", "compact_shard", _compacted)
    ],
    "backfill looks at a part's first rows only": [
        ("strata.maintain.collect", "collect", _of_the_first)
    ],
    "the union of a batch leaves its last part out": [
        ("strata.parts.batch", "union", _without_the_last)
    ],
    "a row group is taken to begin where the next one does": [
        ("strata.parts.part_facts", "_told_apart", _of_the_next)
    ],
}


@contextmanager
def planted(places: Sequence[Place]) -> Iterator[None]:
    """Put something else into some places."""
    with ExitStack() as stack:
        for where, what, instead in places:
            stack.enter_context(patch.object(_owner(where), what, instead))
        yield


def _owner(where: str) -> object:
    """Return a module, or a class in one."""
    try:
        return import_module(where)
    except ModuleNotFoundError:
        module, name = where.rsplit(".", 1)
        return getattr(import_module(module), name)


def filters_until_found(rows: Rows, fault: str, only: Sequence[str] = ()) -> tuple[int, str]:
    """Return which filter of the draw shows a fault, counted from 1, and how; 0: none of them.

    `only`: the names of shapes, else the draw is the general one.
    """
    name, _, places = FAULTS[fault]
    draw, tally = Tempting(random.Random(SEED), rows.state.relation, only), Tally()
    net = Net(rows, tally, "planted")
    with planted(places):
        for before in range(0, ENOUGH, AT_ONCE):
            texts = [draw.filter() for _ in range(AT_ONCE)]
            net.try_filters(texts, [name])
            if tally.wrong:
                found = (n for n, (_, text) in enumerate(texts, 1) if text in tally.wrong[0])
                return before + next(found), tally.wrong[0]
    return 0, ""


def steps_until_found(spark: SparkSession, folder: Path, fault: str) -> tuple[int, str]:
    """Return which step of a walk shows a fault, counted from 1, and how; 0: none of them."""
    tally = Tally()
    with planted(OPERATION_FAULTS[fault]):
        walk = Walk(folder, SEED)
        for step in range(1, STEPS + 1):
            try_walk(spark, walk, 1, tally, ways=())
            if tally.wrong:
                return step, tally.wrong[0]
    return 0, ""


def main() -> int:
    """Print what is found when."""
    from strata.model.settings import SparkSettings

    settings = SparkSettings(master="local[1]", driver_memory_mib=1536, shuffle_partitions=1)
    missed = 0

    def tell(fault: str, unit: str, found: tuple[int, str]) -> None:
        nonlocal missed
        missed += not found[0]
        sys.stdout.write(f"{fault}: {unit} {found[0] or 'none'}\n    {found[1]}\n")
        sys.stdout.flush()

    with remembered_names(), spark_session("planted", settings, COLLECTOR) as spark:
        register(spark)
        for fault in OPERATION_FAULTS:
            with tempfile.TemporaryDirectory() as folder:
                tell(fault, "step", steps_until_found(spark, Path(folder), fault))
        with tempfile.TemporaryDirectory() as folder:
            world = build(Path(folder), SEED)
            rows = Rows(spark, world.stores, world.state)
            for fault in FAULTS:
                tell(fault, "filter", filters_until_found(rows, fault))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

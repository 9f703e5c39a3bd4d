"""Law 8: pruning by value is sound under retractions: +1 and -1 of a row are kept or skipped alike.

The histories are those of upserts and worse: rows come, are taken back, come twice, in runs and
batches of their own, so that a row and its retraction lie in different parts as often as not.
"""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.machine.machine import Machine
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.read.scan import scan
from strata.stats import collect
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0,
    (Declared(1, "k", parse_type("int64")), Declared(2, "v", parse_type("int64"))),
    (1,),
    (),
)
VALUES = st.one_of(st.none(), st.integers(-3, 3))
ROWS = st.lists(st.tuples(st.integers(0, 2), VALUES, st.sampled_from((1, -1, 2))), max_size=3)
BATCHES = st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=4)
FEW = settings(max_examples=max(1, settings().max_examples // 2))  # each writes batches
COMPARISONS = {
    "equal_to": pc.equal,
    "less_than": pc.less,
    "greater_than_or_equal": pc.greater_equal,
}


def _filter(function: str, than: int) -> Filter:
    expr: Expr = Call(function, (Column(2, "v", "long"), Literal(than, "long")), "boolean")
    return Filter(expr, f"v {function} {than}", 0, 0)


@FEW
@given(batches=BATCHES, function=st.sampled_from(sorted(COMPARISONS)), than=st.integers(-3, 3))
def test_what_a_filter_accepts_sums_up_the_same_with_and_without_skipping(
    batches: list[list[list[tuple[int, int | None, int]]]], function: str, than: int
) -> None:
    stores = memory_stores()
    create(stores, RELATION)
    for time, runs in enumerate(batches):
        tables = [table(RELATION, [(k, v, time, d) for k, v, d in run]) for run in runs if run]
        append(stores, "shard", time, time + 1, tables)
    state, found = Machine(stores).load("shard"), {}
    for mode in ("off", "on"):
        for consolidate in (False, True):
            plan = plan_read(stores, state, filter=_filter(function, than), mode=mode)
            counts: Counter[tuple[int, int]] = Counter()
            for batch in scan(stores, state, plan, consolidate=consolidate):
                accepted = pc.fill_null(COMPARISONS[function](batch["v"], than), False)
                for row in batch.filter(accepted).to_pylist():
                    counts[row["k"], row["v"]] += row["d"]
            found[mode, consolidate] = {row: count for row, count in counts.items() if count}

    assert len({tuple(sorted(counts.items())) for counts in found.values()}) == 1, found


@given(rows=st.lists(st.tuples(VALUES, st.sampled_from((1, -1, 7))), min_size=1, max_size=8))
def test_statistics_do_not_look_at_diffs(rows: list[tuple[int | None, int]]) -> None:
    def of(sign: int) -> pa.RecordBatch:
        updates = [(n, value, 0, sign * diff) for n, (value, diff) in enumerate(rows)]
        return collect(table(RELATION, updates), RELATION)

    assert of(1).equals(of(-1))

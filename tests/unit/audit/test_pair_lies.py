"""A pair that is not true of the rows puts both of its columns into quarantine.

A verdict on a pair rests on two columns, and the rows do not say which one was collected wrongly.
"""

from typing import Any

import pyarrow as pa
import pytest

from strata.audit.members import find_member_lies
from strata.decide.decision import decide
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr
from strata.format.columns import updates_schema
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.stats.collect import collect
from strata.stats.pairs import PairGathering, wanted_pairs
from strata.stats.wire import PAIR

RELATION = Relation(
    0,
    (
        Declared(1, "ordered", parse_type("int64")),
        Declared(2, "shipped", parse_type("int64")),
        Declared(3, "trip", parse_type("record<began: int64, ended: int64>")),
    ),
    (1,),
    (),
)
ROWS: dict[str, list[Any]] = {
    "1": [10, 20, 30],
    "2": [13, 22, 31],
    "3": [{"began": 1, "ended": 5}, {"began": 2, "ended": 3}, None],
    "t": [1, 1, 1],
    "d": [1, 1, 1],
}
UPDATES = pa.table(ROWS, schema=updates_schema(RELATION))
BACKWARDS: Expr = Call(
    "less_than", (Column(2, "shipped", "long"), Column(1, "ordered", "long")), "boolean"
)


def claims(*names: str, **changes: Any) -> pa.RecordBatch:
    """Return the statistics of the part with one pair, some of its fields changed."""
    gathering = PairGathering(wanted_pairs(RELATION, StatsSpec(pairs=(names,))))
    gathering.add(UPDATES)
    row = gathering.beside(collect(UPDATES, RELATION))
    *others, pair = row.columns
    lie = pa.array([{**pair[0].as_py(), **changes}], PAIR)
    return pa.RecordBatch.from_arrays([*others, lie], names=row.schema.names)


def test_a_true_pair_accuses_nobody() -> None:
    assert find_member_lies(claims("shipped", "ordered"), UPDATES, RELATION) == []


@pytest.mark.parametrize(
    ("names", "changes", "suspects"),
    [
        (("shipped", "ordered"), {"low": 2.0}, [1, 2]),
        (("shipped", "ordered"), {"both": 2}, [1, 2]),
        (("ordered", "shipped"), {"high": -2.0}, [1, 2]),
        (("trip.ended", "ordered"), {"high": -20.0}, [1, 3]),
        (("trip.ended", "trip.began"), {"low": 2.0}, [3]),
    ],
)
def test_a_wrong_pair_accuses_every_column_that_it_rests_on(
    names: tuple[str, str], changes: dict[str, Any], suspects: list[int]
) -> None:
    lies = find_member_lies(claims(*names, **changes), UPDATES, RELATION)

    assert [lie.column_id for lie in lies] == suspects
    assert {lie.field for lie in lies} == {*changes}


@pytest.mark.parametrize("word", ["1", "2"])
def test_no_verdict_rests_on_a_pair_of_which_either_column_is_in_quarantine(word: str) -> None:
    stats, filter = claims("shipped", "ordered"), Filter(BACKWARDS, "shipped < ordered", 0, 0)

    assert not decide(filter, stats, RELATION).keep[0]
    assert decide(filter, stats, RELATION, quarantine=[word]).keep[0]

"""Of which kind the statistics are that skip a part: evidence is counted for each kind."""

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from strata.audit.soft import kind_of
from strata.expr.nodes import Call, Column
from strata.stats.wire import PAIR, SET, SHAPE
from tests.spec.language import E, call, col, constant

TEXT = pa.struct([("low", pa.string()), ("high", pa.string()), ("low_exact", pa.bool_())])
BOUNDS = {"low": "1", "high": "2", "low_exact": True}
CAST = call("greater_than", call("cast", col("name"), kind="integer"), constant(5, "integer"))
EQUAL = call("equal_to", col("name"), constant("9", "string"))


def skipped(**columns: tuple[pa.DataType, Any]) -> Any:
    stats = {name: pa.array([value], kind) for name, (kind, value) in columns.items()}
    table = pa.table({"s.6": pa.array([BOUNDS], TEXT), **stats})
    return SimpleNamespace(stats=table, by_batch=False, groups=None, by_bloom=False)


SHAPED = {"s.shape.6": (SHAPE, {"low": 1.0, "high": 2.0, "whole": True})}
LISTED = {"s.set.6": (SET, {"form": "text", "values": [b"1"]})}


@pytest.mark.parametrize(
    ("filter", "columns", "kind"),
    [
        (CAST, {}, "exact"),
        (CAST, SHAPED, "shape"),
        (CAST, {"s.shape.6": (SHAPE, None)}, "exact"),
        (CAST, {**SHAPED, **LISTED}, "set"),
        (EQUAL, SHAPED, "exact"),  # no text is read as a number
        (EQUAL, LISTED, "set"),
    ],
)
def test_shapes_are_a_kind_of_their_own(filter: E, columns: Any, kind: str) -> None:
    assert kind_of(filter.expr, skipped(**columns)) == kind


def test_a_pair_that_is_compared_is_a_kind_of_its_own() -> None:
    ends = [Column(number, f"c{number}", "long") for number in (6, 7)]
    order = Call("less_than", (*ends,), "boolean")
    known: Any = {"s.7": (TEXT, BOUNDS), "s.pair.7~6": (PAIR, {"form": "int64", "both": 0})}

    assert kind_of(order, skipped(**known)) == "pair"
    assert kind_of(order, skipped(**{**known, "s.pair.7~6": (PAIR, None)})) == "exact"
    assert kind_of(EQUAL.expr, skipped(**known)) == "exact"

"""Nested columns as JSON: what JSON cannot say exactly is rejected, and nothing is altered."""

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pytest

from strata.ingest.reread import _plain
from strata.ingest.twin import Unreadable, from_python, stored
from strata.ingest.values.cast import from_arrow
from strata.model.types import parse_type

JSONB = parse_type("jsonb")
DAY_MS = 86_400_000
HALF = np.float16(0.1)


def ticks(kind: pa.DataType, *values: int | None) -> pa.Array:
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array(values, width).view(kind)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (ticks(pa.time32("s"), 0, 86_399, 86_400, -1), ["00:00:00", "23:59:59", None, None]),
        (ticks(pa.time32("ms"), 1, DAY_MS, -1), ["00:00:00.001000", None, None]),
        (ticks(pa.time64("us"), 1, 86_400_000_000, -1), ["00:00:00.000001", None, None]),
        (
            ticks(pa.time64("ns"), 1, 1_500, 86_400 * 10**9, -1),
            ["00:00:00.000000001", "00:00:00.000001500", None, None],
        ),
        (ticks(pa.date64(), DAY_MS, -DAY_MS, 1, -1), ["1970-01-02", "1969-12-31", None, None]),
        (ticks(pa.date32(), 0, 2**31 - 1), ["1970-01-01", None]),
        (
            ticks(pa.timestamp("ns"), 1, 1_000, 10**9),
            [
                "1970-01-01T00:00:00.000000001",
                "1970-01-01T00:00:00.000001",
                "1970-01-01T00:00:01",
            ],
        ),
        (
            ticks(pa.timestamp("ns", "Europe/Berlin"), -(2**62), 0),
            ["1823-11-12T00:59:49.572612096+00:53:28", "1970-01-01T01:00:00+01:00"],
        ),
        (ticks(pa.timestamp("us", "-00:30"), 1), ["1969-12-31T23:30:00.000001-00:30"]),
        (ticks(pa.timestamp("s"), 2**62, -(2**62)), [None, None]),
    ],
    ids=lambda one: str(one.type) if isinstance(one, pa.Array) else "",
)
def test_a_time_is_said_whole_or_rejected(values: pa.Array, said: list[str | None]) -> None:
    """Of a time outside of a day Arrow made another one, and of `date64` a day without its time."""
    edges = pa.array(range(len(values) + 1), pa.int32())
    for column, shown in (
        (values, lambda one: one),
        (pa.ListArray.from_arrays(edges, values), lambda one: [one]),
        (pa.StructArray.from_arrays([values], ["a"]), lambda one: {"a": one}),
        (values.dictionary_encode(), lambda one: one),
    ):
        cast = from_arrow(column, JSONB)
        found = [None if v is None else orjson.loads(v) for v in cast.values.to_pylist()]
        assert found == [None if one is None else shown(one) for one in said]
        assert cast.bad.tolist() == [n for n, one in enumerate(said) if one is None]


LIST_VIEW = pa.array([["a", None], [], None, ["b"]], pa.list_view(pa.string_view()))


@pytest.mark.parametrize(
    ("values", "kind", "wanted"),
    [
        (LIST_VIEW, "list<string>", [["a", None], [], None, ["b"]]),
        (LIST_VIEW, "list<int64>", [None, [], None, None]),
        (LIST_VIEW, "jsonb", ['["a",null]', "[]", None, '["b"]']),
        (
            pa.array([[1], None, [2]], pa.large_list_view(pa.time64("ns"))),
            "jsonb",
            ['["00:00:00.000000001"]', None, '["00:00:00.000000002"]'],
        ),
        (
            pa.array([["x"], ["1"]], pa.list_(pa.string_view())),
            "list<int64>",
            [None, [1]],
        ),
        (
            pa.array([{"a": "x"}, None, {"a": "1"}], pa.struct([("a", pa.string_view())])),
            "record<a:int64>",
            [None, None, {"a": 1}],
        ),
        (
            pa.array([[("k", "x")], None, [("k", "1")]], pa.map_(pa.string(), pa.string_view())),
            "map<int64>",
            [None, None, {"k": 1}],
        ),
        (pa.array([Decimal("1.00"), Decimal("1.50")], pa.decimal32(9, 2)), "int64", [1, None]),
        (pa.array([Decimal("1.00"), Decimal("1.50")], pa.decimal64(18, 2)), "uint8", [1, None]),
        (pa.array([HALF], pa.float16()), "numeric(38,10)", [Decimal("0.1")]),
        (pa.array([HALF], pa.float16()), "numeric(10,2)", [Decimal("0.1")]),
    ],
)
def test_rare_types_are_read_as_usual_ones(values: pa.Array, kind: str, wanted: list[Any]) -> None:
    """They ended in a traceback; a cast of a list view to a list lost the items behind a null."""
    target = parse_type(kind)
    for start in range(len(values)):
        cast = from_arrow(values.slice(start), target)
        assert stored(cast.values, target) == wanted[start:]
        bad = [n for n, one in enumerate(wanted[start:]) if one is None]
        assert cast.bad.tolist() == [n for n in bad if values[start + n].is_valid]


@pytest.mark.parametrize(
    "values",
    [
        pa.array([0.1, -0.0, 3.4e38, None], pa.float32()),
        pa.array([HALF, np.float16(65504)], pa.float16()),
        pa.array([Decimal("1.10"), Decimal("-0.01")], pa.decimal128(38, 2)),
        pa.array([10**70], pa.decimal256(76, 0)),
        pa.array([date(1, 1, 1), date(9999, 12, 31)]),
        ticks(pa.date64(), DAY_MS, 1),
        ticks(pa.time32("s"), 1, 86_400),
        ticks(pa.time64("ns"), 1, -1),
        ticks(pa.timestamp("ns", "America/New_York"), 1, -(2**62)),
        ticks(pa.timestamp("ms", "+05:30"), 1, 2**62),
        pa.array([b"[1]", b"\xff"], pa.binary()),
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 5], pa.int8())),
    ],
    ids=lambda values: str(values.type),
)
@pytest.mark.parametrize("kind", ["jsonb", "numeric", "numeric(10,2)", "numeric(38,10)"])
def test_the_second_look_decides_each(values: pa.Array, kind: str) -> None:
    """It left these open, so nobody saw what was altered on the way in."""
    target = parse_type(kind)
    cast = from_arrow(values, target)
    for row, value in enumerate(stored(cast.values, target)):
        if row in cast.bad.tolist():
            with pytest.raises(Unreadable):
                from_python(_plain(values[row]), values.type, target)
        else:
            assert from_python(_plain(values[row]), values.type, target) == value

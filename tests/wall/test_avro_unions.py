"""A number of an Avro union has a type: it is stored exactly, or its row is rejected."""

import io
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pytest

from strata.model.types import parse_type
from tests.wall.rows import File
from tests.wall.world import World

MOST = 2**53
HUGE = 2**63 - 1


def avro(union: Any, values: list[Any]) -> bytes:
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": union}]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"id": n, "v": value} for n, value in enumerate(values)])
    return sink.getvalue()


@pytest.mark.parametrize(
    ("kind", "values", "lost"),
    [
        ("float64", [0, MOST, MOST + 1, -MOST - 1, HUGE, 2**62, 0.5, 1e300, None], [2, 3, 4]),
        ("float32", [2**24, 2**24 + 1, 0.5, 0.1, 1e300, float(np.float32(0.1))], [1, 3, 4]),
    ],
)
def test_a_number_that_a_float_lacks_is_rejected(
    kind: str, values: list[Any], lost: list[int], tmp_path: Path
) -> None:
    """It was rounded: 9007199254740993 became 9007199254740992."""
    world = World(tmp_path, parse_type(kind), {"format": "avro", "verify": "always"})
    world.ingest([File("in/x.avro", avro(["null", "long", "double"], values))])
    assert {n: value for n, value, _ in world.rows()} == {
        n: value for n, value in enumerate(values) if n not in lost
    }
    assert [row["value"] for row in world.rejected()] == [str(values[n]) for n in lost]
    world.retry()
    assert len(world.rejected()) == len(lost), "nor is it taken in by another try"


def test_what_no_float_can_be_stays_what_it_is(tmp_path: Path) -> None:
    values = [float("inf"), float("nan"), "1.5", 7]
    world = World(tmp_path, parse_type("float64"), {"format": "avro", "verify": "always"})
    world.ingest([File("in/x.avro", avro(["long", "double", "string"], values))])
    assert [str(value) for _, value, _ in sorted(world.rows())] == ["inf", "NaN", "1.5", "7.0"]


@pytest.mark.parametrize(
    ("kind", "union", "wrap"),
    [
        ("list<float64>", {"type": "array", "items": ["long", "double"]}, lambda v: [0.5, v]),
        ("map<float64>", {"type": "map", "values": ["long", "double"]}, lambda v: {"a": v}),
    ],
)
def test_nor_is_it_rounded_within_a_list_or_a_map(
    kind: str, union: Any, wrap: Any, tmp_path: Path
) -> None:
    world = World(tmp_path, parse_type(kind), {"format": "avro", "verify": "always"})
    world.ingest([File("in/x.avro", avro(union, [wrap(MOST), wrap(MOST + 1), wrap(0.25)]))])
    assert [value for _, value, _ in sorted(world.rows())] == [wrap(float(MOST)), wrap(0.25)]
    (row,) = world.rejected()
    assert row["line"] == 2


@pytest.mark.parametrize(
    ("kind", "stored"),
    [
        ("numeric(10,2)", ["0.53", "5", "-1.5"]),
        ("numeric", ["0.53", "5", "-1.5"]),
        ("float64", ["0.53", "5", "-1.5"]),
        ("int64", ["5"]),
        ("jsonb", ["0.53", "5", "-1.5"]),
        ("bytes", []),
        ("string", []),
    ],
)
def test_a_decimal_of_a_union_is_a_number(kind: str, stored: list[str], tmp_path: Path) -> None:
    """Its bytes were what counted: `5` for 0.53."""
    decimal = {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}
    values = [Decimal("0.53"), 5, None, Decimal("-1.50")]
    world = World(tmp_path, parse_type(kind), {"format": "avro", "verify": "always"})

    world.ingest([File("in/x.avro", avro(["null", "long", decimal], values))])

    found = [Decimal(str(value)) for _, value, _ in sorted(world.rows()) if value is not None]
    assert found == [Decimal(text) for text in stored]
    assert len(world.rejected()) == 3 - len(stored)

"""Law: a text that does not look like its type is bad, and is found so without a conversion.

The twin halves all texts until the bad ones are alone.
"""

import random

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from strata.format.encodings import arrow_type
from strata.ingest.values.cast import LOOKS, from_text
from strata.ingest.values.column import all_or_halves
from strata.ingest.values.zones import timestamptz_of
from strata.model.types import Kind, parse_type
from tests.support.sizes import tries

KINDS = (
    "bool", "int16", "int32", "int64", "uint8", "uint64", "float32", "float64", "date",
    "timestamp", "timestamptz",
)  # fmt: skip
PIECES = (
    "0", "1", "7", "12", "-", "+", ".", "e", "E", "5", "99", "0x", "0X", "fF", "inf", "-inf", "INF",
    "Infinity", "nan", "NaN", "true", "FALSE", "t", "yes", "2024", "2024-01-02", "0001-01-01",
    "9999-12-31", "10000-01-01", "-0001-01-01", "+2024-01-01", "T", " ", "10:00", "10:00:00", "é",
    ".123456", "Z", "+01", "+01:00", "-0800", " UTC", ",", "\n", "٣", "/p", "_", "1e5", "1e400",
)  # fmt: skip


def drawn(draw: random.Random) -> str:
    return "".join(draw.choice(PIECES) for _ in range(draw.choice((1, 1, 1, 2, 2, 3, 4))))


@pytest.mark.parametrize("name", KINDS)
def test_what_does_not_look_like_a_type_cannot_be_read(name: str) -> None:
    kind = parse_type(name)
    goal = arrow_type(kind)
    draw = random.Random(61)
    texts = pa.array([None, *sorted({drawn(draw) for _ in range(tries(600, 6_000))})])

    def convert(some: pa.Array) -> pa.Array:
        return timestamptz_of(some) if kind.kind is Kind.TIMESTAMPTZ else pc.cast(some, goal)

    looks = next(pattern for is_kind, pattern in LOOKS if is_kind(goal))
    slow = all_or_halves(texts, goal, convert)
    fast = all_or_halves(texts, goal, convert, looks)
    assert str(fast.values.to_pylist()) == str(slow.values.to_pylist())  # NaN is in it
    assert fast.bad.tolist() == slow.bad.tolist()
    assert 0 < len(slow.bad) < len(texts) - 1


def test_a_column_of_other_texts_is_bad_without_a_conversion_of_each() -> None:
    texts = pa.array([f"/page/{n}" for n in range(50_000)] + [None, "12"])
    found = from_text(texts, parse_type("int64"))
    assert len(found.bad) == 50_000
    assert found.values[-2:].to_pylist() == [None, 12]

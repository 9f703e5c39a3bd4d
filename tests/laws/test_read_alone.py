"""Law: whether a text can be read as a type, and as what, does not depend on those beside it.

Bad texts among others are found by how they look, and by halves; the twin reads each alone.
"""

import random

import pyarrow as pa
import pytest

from strata.ingest.values.cast import from_text
from strata.model.types import parse_type
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
def test_texts_together_are_read_as_each_one_alone(name: str) -> None:
    kind = parse_type(name)
    draw = random.Random(61)
    texts = [None, *sorted({drawn(draw) for _ in range(tries(600, 6_000))})]

    together = from_text(pa.array(texts), kind)

    alone = [from_text(pa.array([text], pa.string()), kind) for text in texts]
    assert str(together.values.to_pylist()) == str([one.values[0].as_py() for one in alone])
    assert together.bad.tolist() == [n for n, one in enumerate(alone) if len(one.bad)]
    assert 0 < len(together.bad) < len(texts) - 1


def test_a_column_of_other_texts_is_bad_without_a_conversion_of_each() -> None:
    texts = pa.array([f"/page/{n}" for n in range(50_000)] + [None, "12"])
    found = from_text(texts, parse_type("int64"))
    assert len(found.bad) == 50_000
    assert found.values[-2:].to_pylist() == [None, 12]

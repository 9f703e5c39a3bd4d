r"""Bytes as texts: PostgreSQL's `\x` and hexadecimal digits are what they mean."""

from uuid import UUID

import pyarrow as pa
import pytest

from strata.ingest import twin
from strata.ingest.twin.python import from_python
from strata.ingest.twin.unreadable import Unreadable
from strata.ingest.values.cast import from_arrow, from_objects, from_text
from strata.model.shown import as_json_value
from strata.model.types import parse_type

BYTES = parse_type("bytes")


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        (r"\x", b""),
        (r"\x00fF", b"\x00\xff"),
        (r"\x5c783631", rb"\x61"),
        (r"\x0", rb"\x0"),
        (r"\xfg", rb"\xfg"),
        ("\\x61\n", b"\\x61\n"),
        (r" \x61", rb" \x61"),
        (r"\X61", rb"\X61"),
        ("61", b"61"),
        ("é", b"\xc3\xa9"),
        ("", b""),
    ],
)
def test_a_text_is_its_bytes_or_those_that_postgresql_means(text: str, meant: bytes) -> None:
    """The text of `COPY` was stored letter by letter."""
    for others in ([], ["a"], [None], [r"\x62"]):
        column = pa.array([text, *others], pa.string())
        for cast in (
            from_text(column.cast(pa.binary()), BYTES),
            from_objects([text, *others], BYTES),
            from_objects([text, *others, b"c"], BYTES),
            from_arrow(column, BYTES),
        ):
            assert cast.values[0].as_py() == meant
            assert not len(cast.bad)
    assert twin.from_text(text, BYTES) == meant
    assert twin.from_python(text, pa.string(), BYTES) == meant


def test_bytes_stay_as_they_are() -> None:
    column = pa.array([rb"\x61"], pa.binary())
    assert from_arrow(column, BYTES).values.to_pylist() == [rb"\x61"]
    assert from_objects([rb"\x61"], BYTES).values.to_pylist() == [rb"\x61"]


@pytest.mark.parametrize("data", [b"", b"\x00\xff", b"abc", rb"\x61"])
def test_bytes_that_are_shown_are_read_again(data: bytes) -> None:
    shown = as_json_value(data)
    assert from_objects([shown], BYTES).values.to_pylist() == [data]


@pytest.mark.parametrize(
    ("kind", "size"), [("interval", 16), ("aclitem", 16), ("mz_aclitem", 32), ("time", 8)]
)
def test_bytes_of_the_width_of_a_stored_value_are_none(kind: str, size: int) -> None:
    """A UUID in a column of intervals is not an interval."""
    target, data = parse_type(kind), UUID(int=2**127 + 2**63 + 1).bytes * 2
    bytes_ = pa.array([data[:size], None], pa.binary(size))
    assert from_arrow(bytes_, target).bad.tolist() == [0]
    with pytest.raises(Unreadable, match="bytes of a fixed size"):
        from_python(data[:size], bytes_.type, target)


def test_a_text_in_binary_is_a_text_whatever_its_length() -> None:
    """Sixteen bytes are as many as a stored interval has."""
    text, target = b"1 mon 2 days 3 h", parse_type("interval")
    assert len(text) == 16
    found = from_arrow(pa.array([text], pa.binary()), target)
    assert not len(found.bad)
    assert twin.stored(found.values, target) == [from_python(text, pa.binary(), target)]

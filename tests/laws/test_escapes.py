"""CSV whose quotes are escaped by backslashes: kernel and twin agree, and values come back."""

import csv
import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.land.escapes import doubling
from strata.ingest.land.source_file import Dialect, SourceFile
from tests.support.sizes import tries
from tests.twins.escapes import doubled

FILE = SourceFile("", "x.csv", 0, dialect=Dialect(delimiter=";", escape="\\"))
PIECES = [b'"', b"\\", b";", b"\n", b"\r", b"a", '"ä'.encode(), b'\\"', b"\\\\", b'""', b';"']
TEXTS = st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join)
VALUES = st.text(st.sampled_from('"\\;\na ä'), max_size=8)


@settings(max_examples=tries(300, 30_000))
@given(TEXTS, st.integers(1, 9))
@example(b'"a\\', 1)
def test_kernel_and_twin_agree_in_chunks_of_any_size(text: bytes, size: int) -> None:
    found, wrong = doubled(text, b";")
    double = doubling(FILE)

    def made() -> bytes:
        return b"".join(double(text[at : at + size]) for at in range(0, len(text), size))

    if wrong is None:
        assert made() == found
        return
    with pytest.raises(InvalidRequest) as refused:
        made()
    assert refused.value.details["line"] == 1 + text.count(b"\n", 0, wrong)
    shown = refused.value.details["value"].encode("ascii", "backslashreplace").decode()
    assert shown.endswith(text[wrong : wrong + 1].decode("ascii", "backslashreplace"))


@settings(max_examples=tries(200, 20_000))
@given(st.lists(st.lists(VALUES, min_size=2, max_size=2), max_size=5))
def test_values_come_back(rows: list[list[str]]) -> None:
    lines = (";".join(f'"{escaped(value)}"' for value in row) for row in rows)
    text = "".join(line + "\n" for line in lines)

    found = doubling(FILE)(text.encode()).decode()

    assert list(csv.reader(io.StringIO(found, newline=""), delimiter=";")) == rows


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')

"""CSV with escapes, or blanks around fields: kernels and twins agree, and values come back."""

import csv
import io
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.land.plain_csv import plainly
from strata.ingest.land.source_file import Dialect, SourceFile
from tests.support.sizes import tries
from tests.twins.plain_csv import doubled, unpadded

FILE = SourceFile("", "x.csv", 0, dialect=Dialect(delimiter=";", escape="\\"))
PADDED = replace(FILE, dialect=Dialect(delimiter=";", skip_blanks=True))
BOTH = replace(FILE, dialect=replace(FILE.dialect, skip_blanks=True))
PIECES = [
    b" ",
    b"\t",
    b'"',
    b"\\",
    b";",
    b"\n",
    b"\r",
    b"a",
    '"ä'.encode(),
    b'\\"',
    b"\\\\",
    b'""',
    b';"',
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=20).map(b"".join)
VALUES = st.text(st.sampled_from('"\\;\na ä'), max_size=8)


@settings(max_examples=tries(300, 30_000))
@given(TEXTS, st.integers(1, 9), st.sampled_from([FILE, BOTH]))
@example(b'"a\\', 1, FILE)
def test_kernel_and_twin_agree_in_chunks_of_any_size(
    text: bytes, size: int, file: SourceFile
) -> None:
    skips = file.dialect.skip_blanks
    found, wrong = doubled(text, b";", skips=skips)
    found = unpadded(found, b";") if skips else found
    double = plainly(file)

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


@settings(max_examples=tries(300, 30_000))
@given(TEXTS, st.integers(1, 9), st.sampled_from(";\t"))
@example(b'"a"  b', 2, ";")
@example(b'"a"  "b"', 4, ";")
def test_blanks_are_left_out_in_chunks_of_any_size(text: bytes, size: int, delimiter: str) -> None:
    skip = plainly(replace(PADDED, dialect=replace(PADDED.dialect, delimiter=delimiter)))

    made = b"".join(skip(text[at : at + size]) for at in range(0, len(text), size))

    assert made == unpadded(text, delimiter.encode())


@settings(max_examples=tries(200, 20_000))
@given(
    st.lists(st.lists(VALUES, min_size=2, max_size=2), max_size=5),
    st.lists(st.sampled_from(["", " ", "\t", "  \t"]), min_size=4, max_size=4),
)
def test_values_come_back_without_the_blanks_around_them(
    rows: list[list[str]], blanks: list[str]
) -> None:
    one, two, three, four = blanks
    quoted = [[value.replace('"', '""') for value in row] for row in rows]
    lines = (f'{one}"{a}"{two};{three}"{b}"{four}\n' for a, b in quoted)

    found = plainly(PADDED)("".join(lines).encode()).decode()

    assert list(csv.reader(io.StringIO(found, newline=""), delimiter=";")) == rows


@settings(max_examples=tries(200, 20_000))
@given(st.lists(st.lists(VALUES, min_size=2, max_size=2), max_size=5))
def test_values_come_back(rows: list[list[str]]) -> None:
    lines = (";".join(f'"{escaped(value)}"' for value in row) for row in rows)
    text = "".join(line + "\n" for line in lines)

    found = plainly(FILE)(text.encode()).decode()

    assert list(csv.reader(io.StringIO(found, newline=""), delimiter=";")) == rows


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"')

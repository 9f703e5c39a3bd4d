"""A row that was stored, then widened, equals the same source value read anew.

That is demanded of every widening that is allowed where rows are retracted by value; those that
`reads_otherwise` names are each shown a value for which it does not hold.
"""

from collections.abc import Callable
from itertools import permutations
from typing import Any, Final

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.encodings import arrow_type
from strata.format.values.migrate import reads_otherwise, widen, widens
from strata.ingest.values.cast import from_objects, from_text
from strata.ingest.values.column import Cast
from strata.model.schema import Column
from strata.model.types import ColumnType, parse_type

INSIDE: Final = (  # of lists and the like
    "int16",
    "int32",
    "float32",
    "float64",
    "char(3)",
    "varchar(5)",
    "string",
    "numeric(4,2)",
    "numeric(10,2)",
)
FLAT: Final = (
    *INSIDE,
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "char(5)",
    "varchar(3)",
    "varchar",
    "numeric(38,2)",
)
NESTED: Final = (
    "list<{}>",
    "map<{}>",
    "array<{}>",
    "range<{}>",
    "record<a: {}>",
    "list<record<a: {}>>",
)
TEXTS: Final = (
    "1", "-1", "0", "-0", "-0.0", "+1", "1.0", "1e2", "1E-2", " 1 ", "0x10", "0xFFFF", "1_0", "007",
    "255", "256", "32767", "32768", "-32768", "65535", "2147483647", "2147483648", "4294967295",
    "18446744073709551615", "12.8", "1.005", "0.1", "99.99", "99.995", "1e-60", "1e39", "1e400",
    "16777217", "nan", "inf", "-Infinity", "a", "ab ", "a  ", "  a", "  ", "", "abc", "é",
    "e\u0301", "a\u00a0", "a\t", "a\n", "\x00", "a\x00", "null", "true",
)  # fmt: skip


def parsed(text: str) -> ColumnType | None:
    try:
        return parse_type(text)
    except Exception:
        return None


TYPES: Final = [
    kind
    for pattern in ("{}", *NESTED)
    for flat in (FLAT if pattern == "{}" else INSIDE)
    if (kind := parsed(pattern.format(flat))) is not None
] + [parse_type("record<a: int32, b: int32>"), parse_type("list<record<a: int32, b: string>>")]
PAIRS: Final = [(a, b) for a, b in permutations(TYPES, 2) if widens(a, b)]
EXACT: Final = [pair for pair in PAIRS if reads_otherwise(*pair) is None]
OTHERWISE: Final = [pair for pair in PAIRS if reads_otherwise(*pair) is not None]


def differing(kind: ColumnType, wide: ColumnType, read: Callable[[ColumnType], Cast]) -> list[int]:
    """Return the rows that are readable as `kind` and are other values read as `wide`."""
    old, new = read(kind), read(wide)
    stored = widen(old.values, Column(1, "x", wide))
    assert stored.type == arrow_type(wide)
    pairs = zip(stored.to_pylist(), new.values.to_pylist(), strict=True)
    unread, bad = {*old.bad.tolist()}, {*new.bad.tolist()}
    return [
        row
        for row, (one, other) in enumerate(pairs)
        if row not in unread and (row in bad or repr(one) != repr(other))
    ]


def readings(*texts: str) -> list[Callable[[ColumnType], Cast]]:
    """Return ways in which columns of texts, numbers or nested values come from a source."""
    objects, spelt = zip(*map(_forms, texts), strict=True)
    found = [lambda kind, c=c: from_objects(c, kind) for c in zip(*objects, strict=True)]
    return found + [
        lambda kind, c=c: from_text(pa.array(c, pa.string()), kind)
        for c in zip(*spelt, strict=True)
    ]


def _forms(text: str) -> tuple[list[Any], list[str]]:
    """Return what a source may hold instead of a text: objects, and other texts."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = text
    objects = [value, text, [value], [text], {"a": value}, {"a": text}, [{"a": value}]]
    objects += [{"a": value, "b": value}, {"lower": value, "upper": None}]
    texts = [text, orjson.dumps([text]).decode(), orjson.dumps({"a": text}).decode(), f"[{text},)"]
    texts += [f"{{{text}}}", f'{{"a":{text}}}', f"[{text}]", f'[{{"a":{text},"b":1}}]']
    return objects, texts


def test_the_pairs_are_those_that_are_meant() -> None:
    assert len(EXACT) > 40
    kinds = {(a.kind.value, b.kind.value) for a, b in OTHERWISE if not a.element and not a.fields}
    assert kinds == {
        ("float32", "float64"),
        ("char", "varchar"),
        ("char", "string"),
    }
    assert {"list", "map", "array", "range", "record"} <= {a.kind.value for a, _ in OTHERWISE}


@pytest.mark.parametrize("pair", EXACT, ids=lambda pair: f"{pair[0]} to {pair[1]}")
def test_a_hostile_text_widened_is_the_text_read_anew(pair: tuple[ColumnType, ColumnType]) -> None:
    for number, read in enumerate(readings(*TEXTS)):
        assert [TEXTS[row] for row in differing(*pair, read)] == [], number


@given(st.sampled_from(EXACT), st.text(max_size=8) | st.floats().map(str) | st.integers().map(str))
def test_any_text_widened_is_the_text_read_anew(
    pair: tuple[ColumnType, ColumnType], text: str
) -> None:
    for read in readings(text):
        assert not differing(*pair, read)


@pytest.mark.parametrize("pair", OTHERWISE, ids=lambda pair: f"{pair[0]} to {pair[1]}")
def test_what_reads_otherwise_does_so_for_some_text(pair: tuple[ColumnType, ColumnType]) -> None:
    assert any(differing(*pair, read) for read in readings(*TEXTS))

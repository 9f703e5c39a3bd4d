"""Numbers with marks: the fast reader and its twin agree on random texts, marks and types."""

from typing import Final

import pyarrow as pa
from hypothesis import example, given
from hypothesis import settings as trying
from hypothesis import strategies as st

from strata.ingest import twin
from strata.ingest.twin import Unreadable
from strata.ingest.values.cast import from_text
from strata.ingest.values.numerals import from_marked
from strata.model.spec import DECIMALS, THOUSANDS
from strata.model.types import parse_type
from tests.support.sizes import tries

LETTERS: Final = st.sampled_from([*"0123456789" * 2, *".,'’_ \u00a0\u202f+-eE\tx٣"])
TYPES: Final = ("int16", "int64", "uint64", "float32", "float64", "numeric(12,3)", "numeric", "oid")
MARKS: Final = st.sampled_from([(d, t) for d in DECIMALS for t in THOUSANDS if d != t])


@st.composite
def grouped(draw: st.DrawFn) -> str:
    """Return a text that is mostly a number with marks."""
    decimal, thousands = draw(MARKS)
    groups = draw(st.lists(st.integers(0, 999), max_size=4))
    width = draw(st.sampled_from([3, 3, 3, 2]))
    whole = thousands.join([str(draw(st.integers(0, 9999))), *(f"{g:0{width}}" for g in groups)])
    fraction = draw(st.sampled_from(["", decimal, f"{decimal}5", f"{decimal}1234"]))
    power = draw(st.sampled_from(["", "", "e2", "E-1", f"e{decimal}1"]))
    pad = draw(st.sampled_from(["", " ", "\u00a0"]))
    return f"{pad}{draw(st.sampled_from(['', '-', '+']))}{whole}{fraction}{power}{pad}"


TEXTS: Final = st.none() | st.text(LETTERS, max_size=9) | grouped()


@trying(max_examples=tries(120, 5_000))
@given(st.lists(TEXTS, max_size=8), MARKS, st.sampled_from(TYPES))
@example(["1.234", "1.5", " 1 ", ",5"], (",", "."), "float64")
@example(["1\u202f234,5", "\u202f1", "1 \u202f234"], (",", "\u202f"), "numeric")
@example([" inf ", "-nan", "1 000"], (".", " "), "float64")
def test_both_read_the_same(texts: list[str | None], marks: tuple[str, str], kind: str) -> None:
    column_type = parse_type(kind)
    fields = [None if text is None else text.encode() for text in texts]

    cast = from_marked(pa.array(fields, pa.binary()), column_type, *marks)

    made, bad = twin.stored(cast.values, column_type), set(cast.bad.tolist())
    for row, field in enumerate(fields):
        plain = None if field is None else _plain(field, marks)
        if plain is Unreadable:
            assert row in bad, texts[row]
            continue
        one = from_text(pa.array([plain], pa.string()), column_type)
        assert (row in bad) == bool(len(one.bad)), texts[row]
        assert [made[row]] == twin.stored(one.values, column_type)
        if isinstance(plain, str) and row not in bad:
            assert twin.from_text(plain, column_type) == made[row]


def _plain(field: bytes, marks: tuple[str, str]) -> object:
    """Return the number as it is written with a point; Unreadable if it is none."""
    try:
        return twin.plain_number(field, *marks)
    except Unreadable:
        return Unreadable

"""The twin's shortcuts over whole columns agree with the twin that looks at each value."""

from typing import Any, Final

import pyarrow as pa
from hypothesis import example, given
from hypothesis import settings as trying
from hypothesis import strategies as st

from strata.ingest import twin
from strata.ingest.twin.fields import letter_by_letter
from strata.ingest.twin.jsons import canonical, parse_json
from strata.ingest.twin.physical import PLAIN
from strata.ingest.twin.unreadable import Unreadable
from strata.model.types import ColumnType, Kind
from tests.support.sizes import tries
from tests.support.values import JSON_TEXTS, SCALARS, arrays, values

JSONB: Final = ColumnType(Kind.JSONB)
ROWS: Final = st.text(st.sampled_from("a1;, \\tN\\\\é\r"), max_size=20).map(str.encode)


@given(ROWS, st.sampled_from([b",", b";"]), st.sampled_from([(), ("",), ("", "NA", "\\\\N")]))
@example(b"", b",", ("",))
@example(b",", b",", ())
def test_a_row_without_quotes_is_split_as_letter_by_letter(
    row: bytes, cut: bytes, nulls: tuple[str, ...]
) -> None:
    body = row.removesuffix(b"\n").removesuffix(b"\r")

    slow = letter_by_letter(body, cut, {text.encode() for text in nulls})

    assert twin.csv_fields(row, cut.decode(), nulls) == slow


@trying(deadline=None, max_examples=tries(60, 2000))
@given(st.data())
def test_a_column_holds_values_exactly_if_each_of_its_values_says_so(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(SCALARS))
    column = data.draw(arrays(kind, 4))
    forms = twin.stored(column, kind)
    others = list(forms)
    if others and data.draw(st.booleans()):
        others[data.draw(st.integers(0, len(others) - 1))] = data.draw(
            st.sampled_from([None, 0, 1, True, "", "NaN", 0.0, b""])
        )

    if twin.holds(column, kind, others):
        assert _equal(forms, others)
    elif kind.kind in (*PLAIN, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMPTZ):
        assert not _equal(forms, others)


def _equal(ones: list[Any], others: list[Any]) -> bool:
    pairs = zip(ones, others, strict=True)
    return all(type(one) is type(other) and one == other for one, other in pairs)


@given(st.sampled_from(JSON_TEXTS) | values(JSONB))
def test_a_canonical_text_is_its_own_canonical_form(text: Any) -> None:
    """So a stored jsonb that equals one need not be parsed."""
    try:
        once = canonical(parse_json(text))
    except Unreadable:
        return

    assert twin.stored(pa.array([once]), JSONB) == [once]

"""What texts are written like is the same, all at once or text by text, and true of every text."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.columns import updates_schema
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import collect
from strata.stats.shapes import Shapes, TextShape, encloses, known_patterns, texts_shape
from strata.stats.wire import shape_name
from tests.twins.shapes import shape_of_each

ODD = (
    "", "-", "-0", "-0.0", "0", "-1", "--1", "1-", "1.", ".5", "-.5", "1.5.2", "1e3", "+7", "007",
    "9" * 18, "9" * 19, "-" + "9" * 18, "0x1F", "nan", "inf", " 7", "7 ", "\N{FULLWIDTH DIGIT ONE}",
    "1_0", "1,5", "x" * 40,
    "2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0000-01-01", "2024-13-01",
    "2024-00-10", "2024-04-31", "13/12/2024", "12/13/2024", "12/12/2024", "20240101", "20241301",
    "2024-01-01T23:59:59Z", "2024-01-01t23:59:59Z", "2024-01-01 24:00", "2024-01-01 23:60",
    "2024-01-01 23:59:60", "2024-01-01 23:59:59.123456", "2024-01-01 23:59:59.1234567",
)  # fmt: skip
DIGITS = st.text("0123456789", min_size=1, max_size=19)
NUMBERS = st.from_regex(r"-?[0-9]{1,4}(\.[0-9]{1,3})?", fullmatch=True)
MOMENTS = st.datetimes().map(lambda at: at.isoformat(" ")[:19])
DAYS = st.dates().map(lambda day: day.strftime("%d/%m/%Y").zfill(10))
ALIKE = (DIGITS, NUMBERS, MOMENTS, DAYS, st.dates().map(str), st.sampled_from(ODD))
TEXTS = st.sampled_from(ALIKE).flatmap(lambda one: st.lists(one | st.none(), max_size=12))
WITH_POISON = st.tuples(TEXTS, st.lists(st.sampled_from(ODD), max_size=1)).map(
    lambda both: [*both[0], *both[1]]
)


@given(texts=TEXTS | WITH_POISON)
def test_all_at_once_is_as_text_by_text(texts: list[str | None]) -> None:
    assert texts_shape(pa.array(texts, pa.string())) == shape_of_each(texts)


@given(texts=st.lists(st.sampled_from(ODD), min_size=1, max_size=2))
def test_odd_texts_are_read_as_one_by_one(texts: list[str]) -> None:
    sliced = pa.array(["left out", *texts, "also"], pa.string()).slice(1, len(texts))
    assert texts_shape(sliced) == shape_of_each(texts)


@given(pieces=st.lists(TEXTS, min_size=1, max_size=4))
def test_pieces_together_are_as_the_whole(pieces: list[list[str | None]]) -> None:
    relation = Relation(0, (Column(5, "text", parse_type("string")),), (5,), ())
    shapes = Shapes(relation)
    for texts in pieces:
        rows = [pa.array(texts, pa.string()), *[pa.array([0] * len(texts), pa.int64())] * 2]
        shapes.add(pa.Table.from_arrays(rows, schema=updates_schema(relation)))
    stats = shapes.beside(collect(_nothing(relation), relation))

    whole = shape_of_each([text for texts in pieces for text in texts])
    name = shape_name("s.5")
    assert (name in stats.schema.names) == bool(whole)
    if whole:
        stored = stats.column(name)[0].as_py()
        assert {*(stored["patterns"] or "").splitlines()} == whole.patterns
        assert encloses(stored, whole)
        assert stored["whole"] == (whole.whole is not None)
        exact = whole.whole is None or max(map(abs, whole.whole)) <= 2**53
        ends = whole.number or (None, None)
        assert not exact or (stored["low"], stored["high"]) == ends


def _nothing(relation: Relation) -> pa.Table:
    return updates_schema(relation).empty_table()


@pytest.mark.parametrize("pattern", sorted(known_patterns()))
def test_each_pattern_is_found(pattern: str) -> None:
    text = pattern.replace("'T'", "T").replace("'Z'", "Z")
    for field, value in {"yyyy": "2024", "MM": "12", "dd": "31", "HH": "23"}.items():
        text = text.replace(field, value)
    text = text.replace("mm", "59").replace("ss", "58").replace("S", "7")

    found = texts_shape(pa.array([text]))
    assert found is not None
    assert pattern in found.patterns


def test_texts_of_more_than_32_bytes_have_no_shape() -> None:
    fits, longer = "1." + "5" * 30, "1." + "5" * 31

    found = texts_shape(pa.array([fits], pa.string()))

    assert found is not None
    assert found.number is not None
    assert texts_shape(pa.array([longer], pa.string())) == TextShape()

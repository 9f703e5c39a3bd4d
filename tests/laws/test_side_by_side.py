"""Columns that are converted as one give what each gives by itself: values and unreadable rows."""

from random import Random
from unittest import mock

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.format.encodings import arrow_type
from strata.ingest.readers import side_by_side
from strata.ingest.readers.source import RawFile, TypedRows, WantedColumn, typed_rows
from strata.ingest.values.cast import from_text
from strata.model.types import ColumnType, Kind, parse_type
from tests.support.sizes import tries
from tests.wall.leaves import text

TYPES = [ColumnType(kind) for kind in sorted(side_by_side.KINDS) if kind is not Kind.NUMERIC] + [
    parse_type("numeric(10,2)"),
    parse_type("numeric"),
    parse_type("char(3)"),
]
ENOUGH = side_by_side.FEW + 1


@st.composite
def raw_files(draw: st.DrawFn) -> tuple[RawFile, list[WantedColumn]]:
    """Draw a file of texts with several columns of each of a few types."""
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=3, unique=True))
    rows, random = draw(st.integers(0, 6)), Random(draw(st.integers(0, 2**32)))
    columns, wanted = {}, []
    for place, kind in enumerate(types * draw(st.integers(1, ENOUGH + 1))):
        texts = [_value(random, kind) for _ in range(rows)]
        before = draw(st.integers(0, 2))  # a column may begin anywhere in its array
        columns[f"c{place}"] = pa.array([b"7"] * before + texts, pa.binary())[before:]
        wanted.append(WantedColumn(f"c{place}", kind, draw(st.booleans())))
    shown, places = (lambda *_: ""), (lambda at: [(1, "")] * len(at))
    return RawFile("a file", rows, columns, from_text, shown, places), wanted


def _value(random: Random, kind: ColumnType) -> bytes | None:
    if random.random() < 0.1:
        return None
    found = text(random, kind)
    return found if isinstance(found, bytes) else found.encode(errors="surrogatepass")


def read(raw: RawFile, wanted: list[WantedColumn], short: int) -> TypedRows | str:
    with mock.patch.object(side_by_side, "SHORT", short):
        try:
            return typed_rows(raw, wanted)
        except InvalidRequest as error:
            return str(error)


@settings(max_examples=tries(20, 600), deadline=None)
@given(raw_files())
def test_a_column_is_read_alike_among_others(drawn: tuple[RawFile, list[WantedColumn]]) -> None:
    raw, wanted = drawn
    alone, among = read(raw, wanted, -1), read(raw, wanted, 100)
    if isinstance(alone, str) or isinstance(among, str):
        assert alone == among
        return
    assert alone.bad == among.bad
    for column in wanted:
        one, other = alone.columns[column.name], among.columns[column.name]
        other.validate(full=True)
        assert other.type == arrow_type(column.type)
        assert str(one) == str(other)  # NaN is not equal to itself


def test_only_some_short_columns_of_plain_types_are_read_as_one() -> None:
    texts = pa.array([b"1"] * 3, pa.binary())
    types = [("int64", ENOUGH), ("jsonb", ENOUGH), ("bool", side_by_side.FEW)]
    wanted = {f"{name}{n}": parse_type(name) for name, count in types for n in range(count)}
    found = side_by_side.read_alike(dict.fromkeys(wanted, texts), wanted, from_text)
    assert sorted(found) == [f"int64{n}" for n in range(ENOUGH)]
    assert not side_by_side.read_alike(
        dict.fromkeys(wanted, pa.array([b"1"] * (side_by_side.SHORT + 1))), wanted, from_text
    )

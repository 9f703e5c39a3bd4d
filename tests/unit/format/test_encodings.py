"""Every column type has a whole row: what asks the table finds an answer for each of them."""

from typing import Any

import pyarrow as pa
import pytest

from strata.format.encodings import ENCODINGS, arrow_type, encoding, spark_ddl
from strata.format.rowcodec import decode, encode, objects, scalar
from strata.format.rowcodec.codec import decode_rows, encode_rows
from strata.format.types.row import Encoding, Form
from strata.format.values.canonical import canonical
from strata.format.values.view import from_view, to_view, view_type
from strata.ingest.twin import texts as twin
from strata.ingest.twin.physical import stored
from strata.ingest.values.cast import from_text
from strata.ingest.values.special import RECORDS
from strata.ingest.values.texts import READERS
from strata.model.types import NESTED, ColumnType, Kind, parse_type
from strata.stats.wire import has_bounds

TYPES = [
    parse_type(text)
    for kind in Kind
    for text in (ENCODINGS[kind].examples if kind in ENCODINGS else ()) or (str(kind),)
]
by_type = pytest.mark.parametrize("column_type", TYPES, ids=str)


def test_every_kind_has_one_row() -> None:
    assert set(ENCODINGS) == set(Kind)


def test_every_form_has_a_function_in_each_half_of_the_row_codec() -> None:
    tables: list[dict[Form, Any]] = [encode._ENCODERS, decode._DECODERS, objects._BUILDERS]
    assert [set(table) for table in tables] == [set(Form)] * 3
    assert set(scalar._READERS) == set(Form) - {Form.BOOL}  # which is of the field `other`


def test_field_numbers_are_those_of_one_layout_and_one_name() -> None:
    rows = ENCODINGS.values()
    shapes = {
        row.number: {(r.datum, r.layout.form) for r in rows if r.number == row.number}
        for row in rows
    }
    shared = {number: forms for number, forms in shapes.items() if len(forms) > 1}
    assert shared == {22: {("list", Form.LIST), ("list", Form.RECORD)}}


@by_type
def test_a_row_says_how_its_bytes_lie(column_type: ColumnType) -> None:
    row = encoding(column_type)
    stored = arrow_type(column_type)
    assert row.order
    assert spark_ddl(column_type)
    width = row.layout.dtype.itemsize if row.layout.dtype else None
    if pa.types.is_fixed_size_binary(stored) and row.layout.form is not Form.BLOCK:
        assert width == stored.byte_width
    elif width is not None:
        assert 8 * width == stored.bit_width
    assert (row.stats == "nested") == (column_type.kind in NESTED)
    assert has_bounds(column_type) == (row.stats == "range" and not pa.types.is_struct(stored))
    if row.layout.form is Form.NUMBERS:
        _check_numbers(row)


def _check_numbers(row: Encoding) -> None:
    message = row.layout.numbers
    names = [number.name for number in message.numbers]
    assert len(names) == len(set(names))
    assert len(names) <= 4, "every length inside is one byte"
    assert [number.group for number in message.numbers] == sorted(n.group for n in message.numbers)
    assert {number.group for number in message.numbers} == set(range(len(message.heads)))
    if row.layout.only:
        assert row.layout.only in names
    else:
        assert row.layout.dtype == message.stored


def test_texts_are_values_of_these_types_alone() -> None:
    """A default of another type is JSON: `1.5` of a float, and no text."""
    texts = {Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.BYTES, Kind.UUID, Kind.NUMERIC}
    times = {Kind.DATE, Kind.TIME, Kind.TIMESTAMP, Kind.TIMESTAMPTZ}
    assert {kind for kind, row in ENCODINGS.items() if row.quoted} == texts | times


@by_type
def test_a_null_goes_every_way(column_type: ColumnType) -> None:
    nulls = pa.nulls(2, arrow_type(column_type))
    seen = to_view(nulls, column_type)
    assert seen.type == view_type(column_type)
    assert from_view(seen, column_type).equals(nulls)
    assert canonical(nulls, column_type).equals(nulls)
    [decoded] = decode_rows(encode_rows([nulls], [column_type]), [column_type])
    assert decoded.equals(nulls)
    read = from_text(pa.nulls(2, pa.string()), column_type)
    assert read.values.equals(nulls)
    assert stored(nulls, column_type) == [None, None]


@by_type
def test_what_is_no_value_is_refused_as_json_and_as_text(column_type: ColumnType) -> None:
    if column_type.kind not in {Kind.JSONB}:
        with pytest.raises((ValueError, TypeError, ArithmeticError, AttributeError)):
            encoding(column_type).json([object()], column_type)
    if column_type.kind in {Kind.STRING, Kind.VARCHAR, Kind.BYTES}:
        return
    assert len(from_text(pa.array(["\x01 none"]), column_type).bad) == 1


@by_type
def test_texts_of_a_type_have_a_reader_and_a_twin(column_type: ColumnType) -> None:
    kind, row = column_type.kind, encoding(column_type)
    blocks = pa.types.is_fixed_size_binary(arrow_type(column_type))
    assert blocks <= (kind in READERS), "Arrow has no cast for it"
    assert (kind in RECORDS) == (
        row.view is not None and pa.types.is_struct(row.view.type) and kind is not Kind.NUMERIC
    )
    tables = (twin._TEXTS, twin._SCALARS, twin._LITERALS)
    assert any(kind in table for table in tables) or kind is Kind.BYTES

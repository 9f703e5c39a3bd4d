"""The digest of every type agrees with the algorithm written down a value at a time."""

import struct
from decimal import Decimal, localcontext
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.columns import updates_schema
from strata.format.digest import content_digest, row_hashes
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, Kind, parse_type
from tests.support.sizes import few_a_type
from tests.support.values import arrays, every_type, plain, to_array

M = 2**64
START, STEP = 0x243F6A8885A308D3, 0x9E3779B97F4A7C15
DIMENSION = parse_type("record<lower_bound: int64, length: int64>")
DIMENSIONS = ColumnType(Kind.LIST, element=DIMENSION)
BOOL = ColumnType(Kind.BOOL)


def mix(x: int) -> int:
    x %= M
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % M
    x = (x ^ x >> 27) * 0x94D049BB133111EB % M
    return x ^ x >> 31


def sequence(length: int, items: list[int]) -> int:
    return mix(length + sum(mix(item + (j + 1) * STEP) for j, item in enumerate(items)))


def text(value: bytes) -> int:
    pieces = [value[i : i + 8].ljust(8, b"\0") for i in range(0, len(value), 8)]
    return sequence(len(value), [int.from_bytes(piece, "little") for piece in pieces])


def row(fields: list[tuple[int, Any, ColumnType]]) -> int:
    hashes = [mix(word(value, t) ^ mix(n)) for n, value, t in fields if value is not None]
    return mix(START + sum(hashes))


def listed(values: list[Any], element: ColumnType) -> int:
    items = [0 if v is None else mix(word(v, element) + STEP) for v in values]
    return sequence(len(values), items)


def parts(value: Any, column_type: ColumnType) -> list[tuple[Any, ColumnType]]:
    """Return the parts of a struct, in order."""
    element = column_type.element
    if column_type.kind is Kind.RECORD:
        return [(value[f.name], f.type) for f in column_type.fields]
    assert element is not None
    if column_type.kind is Kind.RANGE:
        flags = [(value[n], BOOL) for n in ("lower_inclusive", "upper_inclusive", "empty")]
        return [(value["lower"], element), (value["upper"], element), *flags]
    return [(value["dims"], DIMENSIONS), (value["vals"], ColumnType(Kind.LIST, element=element))]


def word(value: Any, column_type: ColumnType) -> int:
    kind, element = column_type.kind, column_type.element
    if kind is Kind.LIST:
        return listed(value, element)  # type: ignore[arg-type]
    if kind is Kind.MAP:
        entry = ColumnType(
            Kind.RECORD, fields=parse_type("record<key: string, value: bool>").fields
        )
        entries = [{"key": key, "value": item} for key, item in value]
        key_field, value_field = entry.fields
        fields = (key_field, type(value_field)("value", element))  # type: ignore[arg-type]
        return listed(entries, ColumnType(Kind.RECORD, fields=fields))
    if kind in (Kind.RECORD, Kind.RANGE, Kind.ARRAY, Kind.INT2VECTOR):
        return row([(n, v, t) for n, (v, t) in enumerate(parts(value, column_type), 1)])
    if kind is Kind.NUMERIC and column_type.precision is None:
        return text(value["binary"])
    if isinstance(value, Decimal):
        with localcontext() as context:
            context.prec = 60
            unscaled = int(value.scaleb(column_type.scale or 0))
        return mix(unscaled) ^ (unscaled >> 64) % M
    if isinstance(value, float):
        return int.from_bytes(struct.pack("<d", value), "little")
    if isinstance(value, str | bytes):
        return text(value.encode() if isinstance(value, str) else value)
    return int(value) % M


def one_column(column_type: ColumnType, column_id: int = 7) -> Relation:
    return Relation(0, (Column(column_id, "c", column_type),), (column_id,), ())


def hashes(array: pa.Array, column_type: ColumnType, column_id: int = 7) -> list[int]:
    batch = pa.record_batch([array], [str(column_id)])
    found: list[int] = row_hashes(batch, one_column(column_type, column_id)).tolist()
    return found


@pytest.mark.parametrize("column_type", every_type(), ids=str)
@few_a_type
@given(data=st.data())
def test_each_type_is_digested_as_written_down(
    column_type: ColumnType, data: st.DataObject
) -> None:
    array = data.draw(arrays(column_type))
    expected = [row([(7, value, column_type)]) for value in plain(array)]
    assert hashes(array, column_type) == expected


@pytest.mark.parametrize(
    ("declared", "values"),
    [
        ("list<list<int16>>", [[[1], [2]], [[1, 2]], [[1, 2], []], [[], [1, 2]], [[2, 1]]]),
        ("list<int32>", [[], [None], [None, None], [0], [None, 0], [0, None], None]),
        ("list<string>", [["ab"], ["a", "b"], ["", "ab"], ["ab", ""], [None, "ab"]]),
        (
            "record<a: int32, b: int32>",
            [
                {"a": 1, "b": None},
                {"a": None, "b": 1},
                {"a": None, "b": None},
                {"a": 1, "b": 1},
                None,
            ],
        ),
        ("map<int32>", [[], [("a", None)], [("a", 0)], [("b", 0)], [("a", 0), ("b", 0)]]),
    ],
)
def test_another_structure_is_another_digest(declared: str, values: list[Any]) -> None:
    found = hashes(to_array(values, parse_type(declared)), parse_type(declared))
    assert len(set(found)) == len(values)


@pytest.mark.parametrize(
    ("narrow", "wide", "value"),
    [
        ("uint8", "uint64", 255),
        ("uint8", "int16", 255),
        ("uint32", "int64", 2**32 - 1),
        ("int16", "int64", -3),
        ("list<int16>", "list<int64>", [-1, None]),
        ("map<float32>", "map<float64>", [("a", 1.5)]),
        ("varchar(3)", "string", "abc"),
        ("record<a: int16>", "record<a: int32, b: string>", {"a": 1, "b": None}),
        ("array<uint8>", "array<uint16>", {"dims": [{"lower_bound": 1, "length": 1}], "vals": [9]}),
    ],
)
def test_widening_changes_no_digest(narrow: str, wide: str, value: Any) -> None:
    old, new = parse_type(narrow), parse_type(wide)
    assert hashes(to_array([value], old), old) == hashes(to_array([value], new), new)


def test_parts_of_updates_add_up_whatever_the_type() -> None:
    column_type = parse_type("list<record<a: string, b: numeric>>")
    relation = one_column(column_type)
    values = [[{"a": "x", "b": None}], None, [], [None]]
    arrays_ = [to_array(values, column_type), pa.array([0] * 4), pa.array([1, -2, 3, 5])]
    table = pa.Table.from_arrays(arrays_, schema=updates_schema(relation))
    halves = [content_digest(table.slice(i, 2), relation) for i in (0, 2)]
    assert sum(halves) % M == content_digest(table, relation)

"""The table of column types: how each is stored, ordered, summarised and seen by Spark.

There is one row per kind. All code that depends on a type asks this table. A kind without a row
cannot be declared (`InvalidRequest`), so no type is only half supported. `strata.format.types` has
the rows of scalar types, family by family; the rows of nested types are here.

Canonical values, so that equal rows have equal bytes: -0.0 is stored as 0.0, every NaN as the
quiet NaN 0x7ff8000000000000, JSON text with sorted keys and no white space.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.types import from_json, numbers, rights, texts, times
from strata.format.types.row import Encoding, Form, Layout
from strata.format.values.canonical_nested import canonical_range, check_array
from strata.model.types import ColumnType, Field, Kind

# Types of the inside of stored columns.
INT64: Final = ColumnType(Kind.INT64)
BOOL: Final = ColumnType(Kind.BOOL)
_DIMENSION: Final = (Field("lower_bound", INT64), Field("length", INT64))
DIMENSIONS: Final = pa.list_(
    pa.field("item", pa.struct([(field.name, pa.int64()) for field in _DIMENSION]))
)
DIMENSIONS_TYPE: Final = ColumnType(Kind.LIST, element=ColumnType(Kind.RECORD, fields=_DIMENSION))
FLAGS: Final = ("lower_inclusive", "upper_inclusive", "empty")  # of a range
EMPTY_FIELD: Final = "_"  # a record without fields, which Parquet cannot store, has this one


def _list(column_type: ColumnType) -> pa.DataType:
    return pa.list_(pa.field("item", arrow_type(column_type.inner)))


def _struct(column_type: ColumnType) -> pa.DataType:
    """Return the struct of a type's parts."""
    parts = encoding(column_type).parts(column_type)
    fields = [(part.name, arrow_type(part.type)) for part in parts]
    return pa.struct(fields or [(EMPTY_FIELD, pa.bool_())])


def _array_parts(column_type: ColumnType) -> tuple[Field, ...]:
    elements = ColumnType(Kind.LIST, element=column_type.inner)
    return Field("dims", DIMENSIONS_TYPE), Field("vals", elements)


def _array_spark(column_type: ColumnType) -> str:
    dims = "array<struct<lower_bound: bigint, length: bigint>>"
    return f"struct<dims: {dims}, vals: array<{spark_ddl(column_type.inner)}>>"


def _record_spark(column_type: ColumnType) -> str:
    inner = [(field.name, spark_ddl(field.type)) for field in column_type.fields]
    quoted = (f"{_quoted(n)}: {kind}" for n, kind in inner or [(EMPTY_FIELD, "boolean")])
    return f"struct<{', '.join(quoted)}>"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _range_parts(column_type: ColumnType) -> tuple[Field, ...]:
    ends = (Field(name, column_type.inner) for name in ("lower", "upper"))
    return (*ends, *(Field(name, BOOL) for name in FLAGS))


def _range_spark(column_type: ColumnType) -> str:
    end = spark_ddl(column_type.inner)
    flags = ", ".join(f"{name}: boolean" for name in FLAGS)
    return f"struct<lower: {end}, upper: {end}, {flags}>"


def seen_json(value: Any, column_type: ColumnType) -> Any:
    """Return a JSON value as the Python value of the column's view; null is null.

    Raises: ValueError, TypeError or ArithmeticError for a value that is not of the type.
    """
    return None if value is None else encoding(column_type).json(value, column_type)


def _list_json(value: Any, column_type: ColumnType) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("not a list")
    return [seen_json(item, column_type.inner) for item in value]


def _map_json(value: Any, column_type: ColumnType) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise TypeError("not an object")
    return [(key, seen_json(item, column_type.inner)) for key, item in value.items()]


def _record_json(value: Any, column_type: ColumnType) -> dict[str, Any]:
    types = {field.name: field.type for field in column_type.fields}
    parts = from_json.parts(value, dict.fromkeys(types))
    return {name: seen_json(item, types[name]) for name, item in parts.items()}


def _array_json(value: Any, column_type: ColumnType) -> dict[str, Any]:
    if isinstance(value, list):
        length = len(value)
        value = {"dims": [{"lower_bound": 1, "length": length}] if length else [], "vals": value}
    parts = from_json.parts(value, {"dims": [], "vals": []})
    dims = [from_json.parts(dim, {"lower_bound": 1, "length": None}) for dim in parts["dims"]]
    return {"dims": dims, "vals": _list_json(parts["vals"], column_type)}


def _range_json(value: Any, column_type: ColumnType) -> dict[str, Any]:
    flags = dict(zip(FLAGS, (True, False, False), strict=True))
    parts = from_json.parts(value, {"lower": None, "upper": None, **flags})
    ends = {end: seen_json(parts[end], column_type.inner) for end in ("lower", "upper")}
    return ends | {flag: from_json.boolean(parts[flag]) for flag in flags}


def _nested(kind: Kind, datum: str, number: int, form: Form, **more: Any) -> Encoding:
    return Encoding(
        kind=kind,
        datum=datum,
        number=number,
        layout=Layout(form),
        quoted=False,
        stats="nested",
        by_value=False,
        **more,
    )


def _array(kind: Kind, *examples: str) -> Encoding:
    return _nested(
        kind,
        "array",
        21,
        Form.ARRAY,
        order=f"dimensions, then {_LISTED}",
        arrow=_struct,
        spark=_array_spark,
        json=_array_json,
        parts=_array_parts,
        spelling=check_array,
        examples=examples,
    )


_LISTED: Final = "element by element, the shorter first"
_NESTED: Final = (
    _nested(
        Kind.LIST, "list", 22, Form.LIST, order=_LISTED, arrow=_list,
        spark=lambda t: f"array<{spark_ddl(t.inner)}>", json=_list_json,
        examples=("list<int32>",),
    ),
    _array(Kind.ARRAY, "array<int32>"),
    _array(Kind.INT2VECTOR),
    _nested(
        Kind.MAP, "dict", 23, Form.MAP, order="entry by entry in key order, the shorter first",
        arrow=lambda t: pa.map_(pa.string(), arrow_type(t.inner)),
        spark=lambda t: f"map<string, {spark_ddl(t.inner)}>", json=_map_json,
        examples=("map<int32>",),
    ),
    _nested(
        Kind.RECORD, "list", 22, Form.RECORD, order="field by field", arrow=_struct,
        spark=_record_spark, json=_record_json, parts=lambda t: t.fields,
        examples=("record<a: int32, b: string>", "record<>"),
    ),
    _nested(
        Kind.RANGE, "range", 31, Form.RANGE, arrow=_struct, spark=_range_spark, json=_range_json,
        order="lower end, upper end, then which ends are in it; unbounded last",
        parts=_range_parts, spelling=canonical_range, examples=("range<int32>",),
    ),
)  # fmt: skip
_ROWS: Final = (*numbers.ROWS, *times.ROWS, *texts.ROWS, *rights.ROWS, *_NESTED)
ENCODINGS: Final[Mapping[Kind, Encoding]] = MappingProxyType({row.kind: row for row in _ROWS})


def encoding(column_type: ColumnType) -> Encoding:
    """Return the row of the table for a type.

    Raises: InvalidRequest for a kind that cannot be stored, naming those that can.
    """
    if column_type.kind is Kind.NUMERIC and column_type.precision is None:
        return numbers.UNBOUNDED
    try:
        return ENCODINGS[column_type.kind]
    except KeyError as error:
        known = ", ".join(kind.value for kind in ENCODINGS)
        raise InvalidRequest(
            "this column type cannot be stored", type=str(column_type), cure=f"use one of {known}"
        ) from error


def arrow_type(column_type: ColumnType) -> pa.DataType:
    """Return the Arrow type in which values of a declared type are held and stored."""
    return encoding(column_type).arrow(column_type)


def spark_ddl(column_type: ColumnType) -> str:
    """Return the Spark DDL type under which readers see a declared type."""
    return encoding(column_type).spark(column_type)

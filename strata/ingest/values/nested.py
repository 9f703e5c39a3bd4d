"""Converts nested source values to typed columns: the leaves of all rows together.

A list, map, record, array or range is split into the columns of its leaves. These are converted
like other columns and put together again. A value with a bad leaf is bad as a whole. Nulls hide no
values: children are built only from existing values. `strata.format.values.canonical` makes the one
spelling of maps, arrays and ranges, and refuses invalid ones.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.format.encodings import arrow_type
from strata.ingest.values.column import NONE_BAD, Cast, Rows
from strata.ingest.values.exact_json import NumberText
from strata.ingest.values.literals import Shaped, Text, parse_literal
from strata.ingest.values.spelt import keys_spelt_otherwise, lost_key
from strata.model.types import ColumnType, Kind

Objects = Callable[[Sequence[Any], ColumnType], Cast]
FLAGS: Final = ("lower_inclusive", "upper_inclusive", "empty")
RANGE: Final = frozenset({"lower", "upper", *FLAGS})  # its fields
MAX_DIMENSIONS: Final = 6  # as in PostgreSQL
MAX_BOUND: Final = 2**31 - 1  # of a dimension, as there


def nested_objects(values: Sequence[Any], target: ColumnType, convert: Objects) -> Cast:
    """Return objects of JSON as a nested column; `convert` makes columns of the leaves.

    Texts (`str`) are read as JSON or as PostgreSQL writes such values.
    """
    plain = list(values)
    refused: list[int] = []
    shaped = set(map(type, plain)) <= {_AS_IT_IS.get(target.kind), type(None)}
    for row, value in enumerate([] if shaped else plain):
        if value is None:
            continue
        try:
            plain[row] = _shaped(value, target)
        except (ValueError, TypeError, KeyError, RecursionError):
            plain[row] = None
            refused.append(row)
    cast = _BUILDERS[target.kind](plain, target, convert)
    if len(cast.bad):  # again without them: no trace of a bad value may stay in the leaves
        for row in cast.bad.tolist():
            plain[row] = None
        again = _BUILDERS[target.kind](plain, target, convert)
        cast = Cast(again.values, cast.bad)
    return cast.also(np.array(refused, np.int64))


def _shaped(value: Any, target: ColumnType) -> Any:
    """Return a value in the form that the builder of its kind accepts.

    Raises: ValueError.
    """
    if isinstance(value, str) and not isinstance(value, NumberText):
        value = parse_literal(value, target)
    if target.kind is Kind.LIST:
        return _only(value, list)
    if target.kind in (Kind.ARRAY, Kind.INT2VECTOR):
        return _fitting(value if isinstance(value, Shaped) else _array_of(value, target))
    found = _only(value, dict)
    if target.kind is Kind.RANGE:
        return _range_of(found)
    return found


def _only(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise ValueError(f"not a {kind.__name__}")
    return value


def _array_of(value: Any, target: ColumnType) -> Shaped:
    """Return a list of lists, or an object of dims and vals, as an array."""
    if isinstance(value, dict):
        dims = tuple((int(d["lower_bound"]), int(d["length"])) for d in value.get("dims") or ())
        items = tuple(_only(value.get("vals"), list))
    else:
        first = 0 if target.kind is Kind.INT2VECTOR else 1
        lengths, flat = _flattened(_only(value, list), _own_levels(target))
        dims, items = tuple((first, length) for length in lengths), tuple(flat)
    return Shaped(dims, items)


def _fitting(array: Shaped) -> Shaped:
    """Return an array if its dimensions match its items.

    Raises: ValueError.
    """
    dims = array.dims
    fits = math.prod(length for _, length in dims) == len(array.items) if dims else not array.items
    small = len(dims) <= MAX_DIMENSIONS and all(abs(low) <= MAX_BOUND for low, _ in dims)
    if not (fits and small and all(length > 0 for _, length in dims)):
        raise ValueError("the dimensions of an array are not those of its items")
    return array


def _own_levels(target: ColumnType) -> int | None:
    """Return how many levels of lists an item itself has; None: any (JSON)."""
    levels, inner = 0, target.element
    while inner is not None and inner.kind is Kind.LIST:
        levels, inner = levels + 1, inner.element
    return None if inner is not None and inner.kind is Kind.JSONB else levels


def _flattened(items: list[Any], own: int | None) -> tuple[list[int], list[Any]]:
    """Return the lengths of the dimensions of nested lists, and the items row by row."""
    depth, first = 0, [items]
    while first and isinstance(first[0], list):
        depth, first = depth + 1, first[0]
    lengths: list[int] = []
    for _ in range(1 if own is None else max(1, depth - own)):
        if lengths:
            if any(type(item) is not list or len(item) != len(items[0]) for item in items):
                raise ValueError("the rows of an array differ in length")
            lengths.append(len(items[0]) if items else 0)
            items = [inner for item in items for inner in item]
        else:
            lengths.append(len(items))
    return (lengths if items else []), items


def _range_of(value: dict[str, Any]) -> dict[str, Any]:
    if not value.keys() <= RANGE:
        raise ValueError("a field that a range does not have")
    empty = value.get("empty")
    flags = {"lower_inclusive": True, "upper_inclusive": False, "empty": False}
    found = {name: flags[name] if value.get(name) is None else value[name] for name in FLAGS}
    if any(type(flag) is not bool for flag in found.values()):
        raise ValueError("a range's flags are booleans")
    lower, upper = value.get("lower"), value.get("upper")
    if empty:
        if lower is not None or upper is not None:
            raise ValueError("an empty range has no ends")
        return {"lower": None, "upper": None, **dict.fromkeys(FLAGS, False), "empty": True}
    return {**found, "lower": lower, "upper": upper}


def _counts(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    return np.array([0 if value is None else len(value) for value in values], np.int64)


def _nulls(values: Sequence[Any]) -> pa.Array:
    return pa.array([value is None for value in values], pa.bool_())


def _list(values: Sequence[Any], target: ColumnType, convert: Objects) -> Cast:
    assert target.element is not None
    items = [item for value in values if value is not None for item in value]
    return cut_into_lists(convert(items, target.element), _counts(values), _nulls(values), target)


def _map(values: Sequence[Any], target: ColumnType, convert: Objects) -> Cast:
    assert target.element is not None
    entries = [entry for v in values if v is not None for entry in v.items()]
    keys = convert([Text(key) for key, _ in entries], ColumnType(Kind.STRING))
    items = convert([item for _, item in entries], target.element)
    return mapped(keys, items, _counts(values), _nulls(values), target)


def _array(values: Sequence[Any], target: ColumnType, convert: Objects) -> Cast:
    assert target.element is not None
    there = [value for value in values if value is not None]
    items = convert([item for value in there for item in value.items], target.element)
    counts = np.array([0 if v is None else len(v.items) for v in values], np.int64)
    vals = cut_into_lists(
        items, counts, _nulls(values), ColumnType(Kind.LIST, element=target.element)
    )
    kind = arrow_type(target)
    dims = [
        None if v is None else [{"lower_bound": a, "length": n} for a, n in v.dims] for v in values
    ]
    fields = [pa.array(dims, kind.field("dims").type), vals.values]
    return Cast(structure(fields, _nulls(values), kind), vals.bad)


def _record(values: Sequence[Any], target: ColumnType, convert: Objects) -> Cast:
    kind, casts = arrow_type(target), []
    for field in target.fields:
        column = [None if value is None else value.get(field.name) for value in values]
        casts.append(convert(column, field.type))
    if not casts:
        casts = [Cast(pa.nulls(len(values), kind.field(0).type), NONE_BAD)]
    otherwise = keys_spelt_otherwise(values, [field.name for field in target.fields])
    lost = [n for n, v in enumerate(values if otherwise else []) if v and lost_key(v, otherwise)]
    return joined(casts, _nulls(values), kind).also(np.array(lost, np.int64))


def _range(values: Sequence[Any], target: ColumnType, convert: Objects) -> Cast:
    assert target.element is not None
    ends = [
        convert([None if v is None else v[name] for v in values], target.element)
        for name in ("lower", "upper")
    ]
    flags = [
        Cast(pa.array([None if v is None else v[name] for v in values], pa.bool_()), NONE_BAD)
        for name in FLAGS
    ]
    return joined([*ends, *flags], _nulls(values), arrow_type(target))


# What `_shaped` leaves unchanged.
_AS_IT_IS: Final[dict[Kind, type]] = {Kind.LIST: list, Kind.MAP: dict, Kind.RECORD: dict}
_BUILDERS: Final[dict[Kind, Callable[[Sequence[Any], ColumnType, Objects], Cast]]] = {
    Kind.LIST: _list,
    Kind.MAP: _map,
    Kind.ARRAY: _array,
    Kind.INT2VECTOR: _array,
    Kind.RECORD: _record,
    Kind.RANGE: _range,
}


def cut_into_lists(
    items: Cast, counts: npt.NDArray[np.int64], nulls: pa.Array, target: ColumnType
) -> Cast:
    """Return lists of `counts` items each; lists with a bad item are bad."""
    edges = np.r_[0, np.cumsum(counts)]
    values = pa.ListArray.from_arrays(
        pa.array(edges, pa.int32()), items.values, type=arrow_type(target), mask=nulls
    )
    return Cast(values, owners(edges, items.bad))


def mapped(
    keys: Cast, items: Cast, counts: npt.NDArray[np.int64], nulls: pa.Array, target: ColumnType
) -> Cast:
    """Return maps of `counts` entries each; maps with a bad key or item are bad."""
    edges = np.r_[0, np.cumsum(counts)]
    values = pa.MapArray.from_arrays(
        pa.array(edges, pa.int32()),
        keys.values.fill_null(""),  # of bad ones
        items.values,
        type=arrow_type(target),
        mask=nulls,
    )
    return Cast(values, owners(edges, np.union1d(keys.bad, items.bad)))


def owners(edges: npt.NDArray[np.int64], items: Rows) -> Rows:
    """Return the rows that items belong to, each once."""
    if not len(items):
        return NONE_BAD
    found: Rows = np.unique(np.searchsorted(edges, items, side="right") - 1)
    return found


def structure(children: Sequence[pa.Array], nulls: pa.Array, kind: pa.StructType) -> pa.Array:
    """Return structs of these children."""
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=nulls)


def joined(casts: Sequence[Cast], nulls: pa.Array, kind: pa.StructType) -> Cast:
    """Return structs of converted children; structs with a bad child are bad."""
    bad = NONE_BAD
    for cast in casts:
        bad = np.union1d(bad, cast.bad).astype(np.int64)
    return Cast(structure([cast.values for cast in casts], nulls, kind), bad)

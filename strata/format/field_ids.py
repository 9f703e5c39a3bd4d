"""The field ids of Parquet columns, by which table formats know a column under any name.

An id follows from the place of a column in a part alone: the number of its column in the shard, and
names below it. So parts need no list of ids, a column keeps its id under any name and type, and all
parts of a shard agree. Parts that were written without ids are read by name.

| Place | Id |
|---|---|
| `t`, `d`, `k`, `v`, `k_s`, `v_s` | 1 to 6 |
| `k_s._`, `v_s._`: structs without columns | 7, 8 |
| `k_s.N`, `v_s.N`: column N | 16 + 2 N, 17 + 2 N |
| anything below | 2^24 or more, a checksum of the place |
"""

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias
from zlib import crc32

import pyarrow as pa

from strata.format.columns import K_S, V_S, D, K, T, V
from strata.format.layout import EMPTY_CHILD

FIELD_ID: Final = b"PARQUET:field_id"  # Arrow's name for it
Place: TypeAlias = tuple[str, ...]  # the names on the way to a column of a part

_FIXED: Final[dict[Place, int]] = {
    (T,): 1,
    (D,): 2,
    (K,): 3,
    (V,): 4,
    (K_S,): 5,
    (V_S,): 6,
    (K_S, EMPTY_CHILD): 7,
    (V_S, EMPTY_CHILD): 8,
}
_COLUMNS: Final = {K_S: 16, V_S: 17}
_BELOW: Final = 1 << 24
_LIMIT: Final = (1 << 31) - 1024  # Iceberg keeps the last two hundred for itself


def field_id(place: Place) -> int:
    """Return the id of a column at a place of a part.

    Errs: two places below columns may have the same id, by chance; see `are_distinct`.
    """
    if place in _FIXED:
        return _FIXED[place]
    if len(place) == 2:
        return _COLUMNS[place[0]] + 2 * int(place[1])
    return _BELOW + crc32("\0".join(place).encode()) % (_LIMIT - _BELOW)


def are_distinct(places: Iterable[Place]) -> bool:
    """Return whether no two places have the same id."""
    found = [field_id(place) for place in places]
    return len(found) == len(set(found))


def inner_types(kind: pa.DataType) -> list[tuple[str, pa.DataType]]:
    """Return the names, as Parquet has them, and types of what a nested type holds."""
    if pa.types.is_list(kind):
        return [("element", kind.value_type)]
    if pa.types.is_map(kind):
        return [("key", kind.key_type), ("value", kind.item_type)]
    if pa.types.is_struct(kind):
        return [(field.name, field.type) for field in kind]
    return []


def places_below(place: Place, kind: pa.DataType) -> Iterator[Place]:
    """Yield a place and all places below it."""
    yield place
    for name, inner in inner_types(kind):
        yield from places_below((*place, name), inner)


def with_field_ids(schema: pa.Schema) -> pa.Schema:
    """Return the schema of a part with its ids; without any if two would be the same."""
    every = [found for field in schema for found in places_below((field.name,), field.type)]
    if not are_distinct(every):
        return schema
    fields = [_numbered(field, (field.name,)) for field in schema]
    return pa.schema(fields, schema.metadata)


def _numbered(field: pa.Field, place: Place) -> pa.Field:
    """Return a field with its id, and those of all below it."""
    metadata = {**(field.metadata or {}), FIELD_ID: str(field_id(place)).encode()}
    return field.with_type(_with_ids(field.type, place)).with_metadata(metadata)


def _with_ids(kind: pa.DataType, place: Place) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(_numbered(kind.value_field, (*place, "element")))
    if pa.types.is_map(kind):
        key = _numbered(kind.key_field, (*place, "key"))
        return pa.map_(key, _numbered(kind.item_field, (*place, "value")))
    if pa.types.is_struct(kind):
        return pa.struct([_numbered(field, (*place, field.name)) for field in kind])
    return kind

"""Columns of rarer Arrow types as the usual ones: small decimals, and views of texts and lists.

Arrow 26 lacks much for these types, and its cast of a list view to a list loses the items behind a
null. So nested columns are taken apart and put together.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def usual(values: pa.Array) -> pa.Array:
    """Return a column with the same values, in types that Arrow can convert."""
    kind = values.type
    if pa.types.is_decimal32(kind) or pa.types.is_decimal64(kind):
        return values.cast(pa.decimal128(kind.precision, kind.scale))
    if pa.types.is_string_view(kind):
        return values.cast(pa.large_string())
    if pa.types.is_binary_view(kind):
        return values.cast(pa.large_binary())
    if not _is_rare(kind):
        return values
    nulls = values.is_null()
    if pa.types.is_struct(kind):
        parts = [usual(part) for part in values.flatten()]
        fields = [field.with_type(p.type) for field, p in zip(kind, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=nulls)
    if pa.types.is_map(kind):
        return _map(values, nulls)
    if _is_list(kind):
        items = usual(values.flatten())
        counts = pc.fill_null(pc.list_value_length(values), 0).cast(pa.int64()).to_numpy()
        edges = pa.array(np.r_[0, np.cumsum(counts)])
        field = kind.value_field.with_type(items.type)
        return pa.LargeListArray.from_arrays(edges, items, pa.large_list(field), mask=nulls)
    return values


def _map(values: pa.Array, nulls: pa.Array) -> pa.Array:
    edges = np.asarray(values.offsets)
    first, end = int(edges[0]), int(edges[-1])
    keys, items = (usual(a.slice(first, end - first)) for a in (values.keys, values.items))
    kind = pa.map_(
        values.type.key_field.with_type(keys.type), values.type.item_field.with_type(items.type)
    )
    return pa.MapArray.from_arrays(
        pa.array(edges - first, pa.int32()), keys, items, kind, mask=nulls
    )


def _is_rare(kind: pa.DataType) -> bool:
    """Return whether a type is rare, or holds one that is."""
    rare = (
        pa.types.is_decimal32,
        pa.types.is_decimal64,
        pa.types.is_string_view,
        pa.types.is_binary_view,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return any(is_kind(kind) for is_kind in rare) or any(map(_is_rare, inner))


def _is_list(kind: pa.DataType) -> bool:
    lists = (
        pa.types.is_list,
        pa.types.is_large_list,
        pa.types.is_fixed_size_list,
        pa.types.is_list_view,
        pa.types.is_large_list_view,
    )
    return any(is_kind(kind) for is_kind in lists)

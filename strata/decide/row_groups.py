"""Choose the row groups of kept parts that a filter needs, by the first key of each group.

A part is sorted, and its manifest has the first key of each row group. In a row group, the first
sort column lies between its value in the group's first key and its value in the next group's. If
these are equal, the second column lies between its two values, and so on. Such bounds replace the
part's own, and `strata.decide.question` attempts the same proof again.

Only keys of whole numbers, dates, times, texts and bytes are decoded. For other types, for a cut
key and for a null, the part's own bound stays. If a part was sorted in another order or by other
columns, only the leading columns count that its order shares with today's and whose types have not
changed. So adding a value column, or sorting last by another one, costs old parts nothing. A part
that shares no leading column, or has no statistics of the first one, is read whole.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.decision import needed_columns
from strata.expr.filter import Filter
from strata.format.columns import child, updates_schema
from strata.format.values.sortable import END, ESCAPED_ZERO, VALUE_TAG
from strata.kernels.arrays import Bools, Ints
from strata.model.schema import Relation
from strata.stats.wire import column_name
from strata.updates.slices import columns_alike

KEY: Final = "key"
_TIMES: Final = (pa.types.is_date32, pa.types.is_timestamp, pa.types.is_time)  # whole numbers


@dataclass(frozen=True, slots=True)
class KeyValues:
    """The values of one sort column in many keys, and the bytes that follow them.

    Shape: `values` is null where nothing is known; `rest` is then meaningless.
    """

    values: pa.Array
    rest: pa.BinaryArray


@dataclass(frozen=True, slots=True)
class GroupStats:
    """Statistics of row groups, as the keys of some parts bound them.

    Shape: `stats` and `owner` have one element a group; the groups of a part are adjacent.
    """

    parts: Ints  # rows of the manifest
    owner: Ints  # of each group: the index of its part in `parts`
    stats: pa.Table


def wants_groups(filter: Filter, relation: Relation) -> bool:
    """Return whether a filter reads the first sort column; otherwise keys rule out no groups."""
    return column_name(relation.sort_ids[0]) in needed_columns(filter)


def group_stats(
    manifest: pa.Table, stats: pa.Table, relations: Sequence[Relation]
) -> GroupStats | None:
    """Return statistics of the row groups of parts that have several and whose keys bound them.

    Shape: `stats` has a row for each part of `manifest`, with `rows` and `s.*`. Returns None if
    there is no such part.
    """
    relation = relations[-1]
    if column_name(relation.sort_ids[0]) not in stats.column_names:
        return None
    alike = _columns_alike(manifest, relations)
    several = pc.greater(pc.list_value_length(manifest["splits"]), 1)
    parts = np.flatnonzero((alike > 0) & np.asarray(pc.fill_null(several, False), np.bool_))
    if not len(parts):
        return None
    splits = manifest["splits"].take(pa.array(parts)).combine_chunks()
    owner = np.asarray(pc.list_parent_indices(splits), np.int64)
    starts = pc.struct_field(pc.list_flatten(splits), KEY)
    own = stats.take(pa.array(parts[owner]))
    return GroupStats(parts, owner, _tightened(own, starts, owner, alike[parts][owner], relation))


def _columns_alike(manifest: pa.Table, relations: Sequence[Relation]) -> Ints:
    """Return how many leading sort columns each part's keys share with today's order.

    Cost: a look at each part; columns are compared once for each pair of order and version.
    """
    orders, versions = manifest["order"].combine_chunks(), manifest["relation_version"]
    written = {relation.version: relation for relation in relations}
    known = np.asarray(pc.fill_null(versions, -1), np.int64)
    alike = np.zeros(len(orders), np.int64)
    left = np.ones(len(orders), np.bool_)
    while left.any():
        first = int(np.argmax(left))
        order, version = orders[first].as_py() or (), int(known[first])
        same = left & (known == version) & _is_list(orders, order)
        same[first] = True
        alike[same] = columns_alike(order, written.get(version), relations[-1])
        left &= ~same
    return alike


def _is_list(lists: pa.ListArray, wanted: Sequence[int]) -> Bools:
    """Return which lists equal these numbers."""
    lengths = pc.fill_null(pc.list_value_length(lists), -1)
    same: Bools = pc.equal(lengths, len(wanted)).to_numpy(zero_copy_only=False)
    if wanted and same.any():
        found = lists.filter(pa.array(same)).flatten().to_numpy().reshape(-1, len(wanted))
        same = same.copy()
        same[same] = (found == np.array(wanted)).all(axis=1)
    return same


def _tightened(
    stats: pa.Table, starts: pa.BinaryArray, owner: Ints, alike: Ints, relation: Relation
) -> pa.Table:
    """Return statistics of row groups: those of the part, with bounds narrowed by its keys.

    Shape: `stats` and `alike` have one row a group; the groups of a part are adjacent.
    """
    inner = np.append(owner[1:] == owner[:-1], False)  # the next group belongs to the same part
    following = pa.array(np.append(np.arange(1, len(owner)), 0), mask=~inner)
    low_keys, high_keys = starts, starts.take(following)
    open_rows = np.ones(len(owner), np.bool_)  # the columns before have one value in all rows
    kinds = updates_schema(relation)
    for place, number in enumerate(relation.sort_ids):
        open_rows &= alike > place
        if not open_rows.any():
            break
        kind = kinds.field(child(number)).type
        where = pa.array(open_rows)
        lows = decoded_keys(_where(where, low_keys), kind)
        highs = decoded_keys(_where(where, high_keys), kind)
        if lows is None or highs is None:
            break
        stats = _bounded(stats, column_name(number), lows.values, highs.values, where)
        equal = pc.fill_null(pc.equal(lows.values, highs.values), False)
        open_rows = open_rows & np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)
        low_keys, high_keys = lows.rest, highs.rest
    return stats


def _where(rows: pa.BooleanArray, keys: pa.BinaryArray) -> pa.BinaryArray:
    """Return the keys of these rows; keys of other rows may have any type."""
    return pc.if_else(rows, keys, pa.scalar(None, keys.type))


def _bounded(
    stats: pa.Table, name: str, lows: pa.Array, highs: pa.Array, where: pa.BooleanArray
) -> pa.Table:
    """Return statistics with the bounds of one column narrowed; unknown ones stay as they are.

    A column whose statistics are not of the key's own type is left alone.
    """
    index = stats.schema.get_field_index(name)
    if index < 0:
        return stats
    column = stats.column(index).combine_chunks()
    kind = column.type
    if not pa.types.is_struct(kind):
        return stats
    children = {kind.field(i).name: column.field(i) for i in range(kind.num_fields)}
    for side, found in (("low", lows), ("high", highs)):
        old = children.get(side)
        if old is None or old.type != found.type:
            return stats
        known = pc.and_(where, found.is_valid())
        children[side] = pc.if_else(known, found, old)
        exact = children.get(f"{side}_exact")
        if exact is not None:  # a high bound comes from the first row after the group
            children[f"{side}_exact"] = pc.if_else(known, False, exact)
    mask = column.is_null() if column.null_count else None
    fields = [kind.field(i) for i in range(kind.num_fields)]
    narrowed = pa.StructArray.from_arrays(
        [children[f.name] for f in fields], fields=fields, mask=mask
    )
    return stats.set_column(index, stats.schema.field(index), narrowed)


def decoded_keys(keys: pa.BinaryArray, kind: pa.DataType) -> KeyValues | None:
    """Return the first values in key bytes, null where they are cut, null or unknown.

    None for a type whose bytes are not decoded.
    """
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return _texts(keys, kind)
    if pa.types.is_signed_integer(kind) or any(test(kind) for test in _TIMES):
        return _numbers(keys, kind)
    return None


def _numbers(keys: pa.BinaryArray, kind: pa.DataType) -> KeyValues:
    width = kind.bit_width // 8
    keys = keys.fill_null(b"")
    ends = np.frombuffer(keys.buffers()[1], np.int32, len(keys) + 1, 4 * keys.offset)
    data = np.frombuffer(keys.buffers()[2] or b"", np.uint8)
    starts = ends[:-1].astype(np.int64)
    known = np.diff(ends) > width
    known[known] = data[starts[known]] == VALUE_TAG[0]
    places = starts[known][:, None] + 1 + np.arange(width)
    words = np.zeros(len(keys), f"u{width}")
    words[known] = np.ascontiguousarray(data[places]).view(f">u{width}").ravel()
    signed = (words ^ words.dtype.type(1 << (8 * width - 1))).view(f"i{width}")
    values = pa.array(signed, mask=~known)
    # `binary_slice` of Arrow 26 fails on bytes that end where, or before, the slice begins
    rest = pa.array([key[1 + width :] for key in keys.to_pylist()], pa.binary())
    return KeyValues(values if pa.types.is_integer(kind) else values.view(kind), rest)


def _texts(keys: pa.BinaryArray, kind: pa.DataType) -> KeyValues:
    texts, rests = [], []
    # one key for each row group of the kept parts: thousands, not millions
    for key in keys.to_pylist():
        end = -1 if key is None or key[:1] != VALUE_TAG else key.find(END)
        texts.append(None if end < 0 else key[1:end].replace(ESCAPED_ZERO, b"\0"))
        rests.append(None if end < 0 else key[end + len(END) :])
    values = pa.array(texts, pa.binary())
    if pa.types.is_string(kind):
        values = values.cast(pa.string())
    return KeyValues(values, pa.array(rests, pa.binary()))

"""Row groups of kept parts: which of them a filter needs, by the key at which each begins.

A part is sorted, and its manifest says at which key each row group begins. So the values of the
first sort column lie, in a row group, between those of its own first key and of the next one's;
and where both are the same, those of the second column do, and so on. Such bounds take the place
of the part's own, and the same proof is asked for once more: `strata.decide.question`.

Only keys of whole numbers, dates, times, texts and bytes are read back; a bound from any other,
from a key that was cut, or from a null, stays the part's. Of a part that was sorted otherwise, or
in other columns, those count that lead its order and today's, and have kept their types: to add a
value column, or to sort by another one last, leaves old parts what their keys tell. A part that
shares none, or that has no statistics of the first, is read whole.
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
    """The values of one sort column in many keys, and what follows them.

    Shape: `values` is null where nothing is known; `rest` is then of no use.
    """

    values: pa.Array
    rest: pa.BinaryArray


@dataclass(frozen=True, slots=True)
class GroupStats:
    """What the keys of some parts tell of their row groups.

    Shape: `stats` and `owner` one element a group, those of a part behind one another.
    """

    parts: Ints  # rows of the manifest
    owner: Ints  # of each group: the index of its part in `parts`
    stats: pa.Table


def wants_groups(filter: Filter, relation: Relation) -> bool:
    """Tell whether a filter looks at the first sort column: else keys say nothing to it."""
    return column_name(relation.sort_ids[0]) in needed_columns(filter)


def group_stats(
    manifest: pa.Table, stats: pa.Table, relations: Sequence[Relation]
) -> GroupStats | None:
    """Return the statistics of row groups, of parts with several of which keys tell something.

    Shape: `stats` has a row for each part of `manifest`, `rows` and `s.*`. None: there is no such
    part.
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
    """Return of how many of the first sort columns each part's keys tell.

    Cost: a look at each part; the columns are compared once for each order and version there is.
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
    """Return which lists hold just these numbers."""
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
    """Return statistics of row groups: their part's, with the bounds that its keys give.

    Shape: `stats` one row a group, those of a part behind one another; `alike` of each group.
    """
    inner = np.append(owner[1:] == owner[:-1], False)  # the next group is of the same part
    following = pa.array(np.append(np.arange(1, len(owner)), 0), mask=~inner)
    low_keys, high_keys = starts, starts.take(following)
    open_rows = np.ones(len(owner), np.bool_)  # the columns before are the same in all rows
    kinds = updates_schema(relation)
    for place, number in enumerate(relation.sort_ids):
        open_rows &= alike > place
        if not open_rows.any():
            break
        kind = kinds.field(child(number)).type
        where = pa.array(open_rows)
        lows = decoded(_where(where, low_keys), kind)
        highs = decoded(_where(where, high_keys), kind)
        if lows is None or highs is None:
            break
        stats = _bounded(stats, column_name(number), lows.values, highs.values, where)
        equal = pc.fill_null(pc.equal(lows.values, highs.values), False)
        open_rows = open_rows & np.asarray(equal.to_numpy(zero_copy_only=False), np.bool_)
        low_keys, high_keys = lows.rest, highs.rest
    return stats


def _where(rows: pa.BooleanArray, keys: pa.BinaryArray) -> pa.BinaryArray:
    """Return the keys of these rows; those of others may be of any type."""
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
        if exact is not None:  # a high bound is of the row that follows the group
            children[f"{side}_exact"] = pc.if_else(known, False, exact)
    mask = column.is_null() if column.null_count else None
    fields = [kind.field(i) for i in range(kind.num_fields)]
    narrowed = pa.StructArray.from_arrays(
        [children[f.name] for f in fields], fields=fields, mask=mask
    )
    return stats.set_column(index, stats.schema.field(index), narrowed)


def decoded(keys: pa.BinaryArray, kind: pa.DataType) -> KeyValues | None:
    """Return the first values in key bytes, null where they are cut, null or not known.

    None for a type whose bytes are not read back.
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
    # one key a row group of the parts that are left: thousands, not millions
    for key in keys.to_pylist():
        end = -1 if key is None or key[:1] != VALUE_TAG else key.find(END)
        texts.append(None if end < 0 else key[1:end].replace(ESCAPED_ZERO, b"\0"))
        rests.append(None if end < 0 else key[end + len(END) :])
    values = pa.array(texts, pa.binary())
    if pa.types.is_string(kind):
        values = values.cast(pa.string())
    return KeyValues(values, pa.array(rests, pa.binary()))

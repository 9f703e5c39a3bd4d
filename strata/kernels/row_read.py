"""Kernels that read protobuf datums, one column of them at a time.

A column of messages is given by where each begins and ends in `data`. A beginning of -1 says that
there is no message (its parent is null or odd); its value is null. A message that differs in any
way from the output of `row_write` is marked in `odd`. Then its value is meaningless, and a patient
decoder must read the row. So these kernels may give up at any doubt, but must never read wrongly.

Nothing is read outside [begin, end), and every end is inside its parent's. Sizes of allocations are
counted, never taken from the data. Tags and heads are as in `row_write`.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int32s, Ints, Words
from strata.kernels.jit import compiled, inlined, lean
from strata.kernels.memory import copy
from strata.kernels.row_fields import (
    ALL,
    content,
    framed,
    is_null,
    number_field,
    sized,
    varint_at,
    whole_varint,
    word_at,
)

# Between lines that are written together: a power of two would put all into the same cache lines.
APART: Final = 40


@compiled
def walk(
    data: Bytes, begins: Ints, ends: Ints, keep: Ints, kept: int, odd: Bools
) -> tuple[Ints, Ints]:
    """Return where the kept datums of rows begin and end.

    Shape: a row has len(keep) datums; `keep[c]` is the line of the result for datum c, -1: none.
    """
    starts = np.empty((kept, len(begins) + APART), np.int64)
    stops = np.empty((kept, len(begins) + APART), np.int64)
    for i in range(len(begins)):
        stop, end = begins[i], ends[i]
        for c in range(len(keep)):
            start, stop = framed(data, stop, end, 0x0A)
            if start < 0:
                break
            line = keep[c]
            if line >= 0:
                starts[np.uint64(line), np.uint64(i)] = start
                stops[np.uint64(line), np.uint64(i)] = stop
        if stop != end or begins[i] < 0:
            odd[i] |= begins[i] >= 0
            for line in range(kept):
                starts[line, i] = stops[line, i] = -1
    return starts[:, : len(begins)], stops[:, : len(begins)]


@compiled
def read_varints(
    data: Bytes, starts: Ints, stops: Ints, tag: int, head: int, within: Words, odd: Bools
) -> tuple[Words, Bools]:
    """Return numbers and which are not null; `within`: number + first <= second, modulo 2**64."""
    values = np.zeros(len(starts), np.uint64)
    valid = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        start, stop = starts[i], stops[i]
        word = word_at(data, start) if start >= 0 else np.uint64(0)
        if start < 0 or is_null(word, start, stop):
            continue
        at = content(word, start, stop, tag, head)
        if at >= 0 and 0 < stop - at <= 8 - head:
            value, at = whole_varint(word >> np.uint64(8 * head), stop - at, stop)
        else:
            value, at = varint_at(data, at, stop if at >= 0 else -1)
        if at != stop or value + within[0] > within[1]:
            odd[i] = True
            continue
        values[i] = value
        valid[i] = True
    return values, valid


@compiled
def read_fixed(
    data: Bytes, starts: Ints, stops: Ints, tag: int, width: int, odd: Bools
) -> tuple[Words, Bools]:
    """Return numbers of `width` bytes, the lowest first, and which are not null."""
    values = np.zeros(len(starts), np.uint64)
    valid = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        start, stop = starts[i], stops[i]
        word = word_at(data, start) if start >= 0 else np.uint64(0)
        if start < 0 or is_null(word, start, stop):
            continue
        at = content(word, start, stop, tag, 1)
        if at < 0 or stop - at != width:
            odd[i] = True
            continue
        values[i] = word_at(data, at) & (ALL >> np.uint64(64 - 8 * width))
        valid[i] = True
    return values, valid


@compiled
def read_spans(
    data: Bytes, starts: Ints, stops: Ints, tag: int, head: int, odd: Bools
) -> tuple[Ints, Ints, Bools]:
    """Return where texts or messages begin and end (-1 for nulls), and which are not null."""
    begins, ends = np.full(len(starts), -1, np.int64), np.full(len(starts), -1, np.int64)
    valid = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        start, stop = starts[i], stops[i]
        word = word_at(data, start) if start >= 0 else np.uint64(0)
        if start < 0 or is_null(word, start, stop):
            continue
        at = content(word, start, stop, tag, head)
        size = np.int64(word >> np.uint64(8 * head) & np.uint64(0xFF))
        if at >= 0 and size < 128 and stop - at == size + 1:
            begin, end = at + 1, stop
        else:
            begin, end = sized(data, at, stop if at >= 0 else -1)
        if begin < 0 or end != stop:
            odd[i] = True
            continue
        begins[i], ends[i] = begin, end
        valid[i] = True
    return begins, ends, valid


@compiled
def text_offsets(begins: Ints, ends: Ints) -> Int32s:
    """Return where texts begin when they are concatenated."""
    offsets = np.zeros(len(begins) + 1, np.int32)
    for i in range(len(begins)):
        offsets[i + 1] = offsets[i] + (ends[i] - begins[i])
    return offsets


@lean
def copy_texts(data: Bytes, begins: Ints, ends: Ints, out: Bytes) -> None:
    """Concatenate texts."""
    to = 0
    for i in range(len(begins)):
        begin = begins[i]
        size = ends[i] - begin
        copy(out, to, data, begin, size)
        to += size


@lean
def any_high(data: Bytes) -> bool:
    """Return whether a byte is above 127."""
    high = np.uint8(0)
    for j in range(len(data)):
        high |= data[j]
    return bool(high >= np.uint8(128))


@compiled
def copy_blocks(data: Bytes, begins: Ints, ends: Ints, width: int, odd: Bools) -> Bytes:
    """Return texts of `width` bytes, zeros if there is no text."""
    out = np.zeros(width * len(begins), np.uint8)
    for i in range(len(begins)):
        if begins[i] < 0:
            continue
        if ends[i] - begins[i] != width:
            odd[i] = True
            continue
        copy(out, width * i, data, begins[i], width)
    return out


@compiled
def read_others(data: Bytes, starts: Ints, stops: Ints, low: int, high: int) -> Bytes:
    """Return the numbers of datums `other`, if from `low` to `high`, else 0; take them out."""
    others = np.zeros(len(starts), np.uint8)
    for i in range(len(starts)):
        at = starts[i]
        if at >= 0 and stops[i] - at == 2 and data[at] == 8 and low <= data[at + 1] <= high:
            others[i] = data[at + 1]
            starts[i] = -1
    return others


@compiled
def read_number_messages(
    data: Bytes, begins: Ints, ends: Ints, spec: Ints, heads: Ints, within: Words, odd: Bools
) -> tuple[Bytes, Words]:
    """Return tags and values of the fields of messages of numbers, see `put_number_messages`.

    Shape: `spec` (fields, 2): tag (0: that of a role) and group of a field; `within` (fields, 2)
    as in `read_varints`. Omitted fields have the value 0. Tags are returned only if the first field
    is a role.
    """
    tags = np.zeros((len(spec) if spec[0, 0] == 0 else 0, len(begins)), np.uint8)
    values = np.zeros((len(spec), len(begins)), np.uint64)
    for i in range(len(begins)):
        at, stop = begins[i], ends[i]
        if at < 0:
            continue
        group, good = -1, True
        for f in range(len(spec)):
            if spec[f, 1] != group:
                good = good and (group < 0 or not heads[group] or at == stop)
                group = spec[f, 1]
                stop = ends[i]
                if good and heads[group]:
                    at, stop = framed(data, at, stop, heads[group])
                    good = at >= 0
            if not good:
                break
            tag, value, at = number_field(data, at, stop, spec[f, 0])
            if at < 0 or value + within[f, 0] > within[f, 1] or not (tag or spec[f, 0]):
                good = False
                break
            if not spec[f, 0]:
                tags[f, i] = tag
            values[f, i] = value
        if not good or at != stop or stop != ends[i]:
            odd[i] = True
    return tags, values


@compiled
def count_elements(data: Bytes, begins: Ints, ends: Ints, frame: int, odd: Bools) -> Ints:
    """Return the offsets of lists in all their elements, by counting messages with that frame."""
    offsets = np.zeros(len(begins) + 1, np.int64)
    for i in range(len(begins)):
        count, stop = 0, begins[i]
        while 0 <= stop < ends[i]:
            _, stop = framed(data, stop, ends[i], frame)
            count += 1
        if stop != begins[i] and stop != ends[i]:
            odd[i] = True
            count = 0
        offsets[i + 1] = offsets[i] + count
    return offsets


@compiled
def find_elements(data: Bytes, begins: Ints, ends: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Return where the counted elements begin and end."""
    starts = np.empty(offsets[-1], np.int64)
    stops = np.empty(offsets[-1], np.int64)
    for i in range(len(begins)):
        stop = begins[i]
        for j in range(offsets[i], offsets[i + 1]):
            begin, stop = sized(data, stop + 1, ends[i])
            starts[j], stops[j] = begin, stop
    return starts, stops


@lean
def mark_parents(offsets: Ints, child_odd: Bools, odd: Bools) -> None:
    """Mark lists that have an odd element."""
    for i in range(len(odd)):
        for j in range(offsets[i], offsets[i + 1]):
            odd[i] |= child_odd[j]


@compiled
def find_array(data: Bytes, begins: Ints, ends: Ints, odd: Bools) -> tuple[Ints, Ints]:
    """Return where the elements of arrays begin and end; the dimensions follow."""
    rows, row_ends = np.full(len(begins), -1, np.int64), np.full(len(begins), -1, np.int64)
    for i in range(len(begins)):
        if begins[i] >= 0:
            rows[i], row_ends[i] = framed(data, begins[i], ends[i], 0x0A)
            odd[i] |= rows[i] < 0
    return rows, row_ends


@lean
def check_dimensions(offsets: Ints, lengths: Words, elements: Ints, odd: Bools) -> None:
    """Mark arrays whose lengths do not multiply to the number of elements; no lengths mean none."""
    for i in range(len(odd)):
        count = np.uint64(elements[i + 1] - elements[i])
        product = np.uint64(1 if offsets[i + 1] > offsets[i] else 0)
        for j in range(offsets[i], offsets[i + 1]):
            if lengths[j] == 0 or lengths[j] > count:
                product = np.uint64(0)
                odd[i] = True
                break
            product *= lengths[j]
            if product > count:
                break
        odd[i] |= product != count


@compiled
def find_entries(
    data: Bytes, begins: Ints, ends: Ints, offsets: Ints, odd: Bools
) -> tuple[Ints, Ints, Ints, Ints]:
    """Return keys and values of the entries of maps; keys must ascend, an empty key is omitted."""
    keys, key_ends = np.zeros(len(begins), np.int64), np.zeros(len(begins), np.int64)
    starts, stops = np.full(len(begins), -1, np.int64), np.full(len(begins), -1, np.int64)
    for i in range(len(offsets) - 1):
        for j in range(offsets[i], offsets[i + 1]):
            at, end = begins[j], begins[j]
            if at < ends[j] and data[at] == 0x0A:
                at, end = sized(data, at + 1, ends[j])
            start, stop = framed(data, end if end >= 0 else ends[j], ends[j], 0x12)
            if at < 0 or start < 0 or stop != ends[j]:
                odd[j] = True
                continue
            keys[j], key_ends[j] = (at, end) if end > at else (0, 0)
            starts[j], stops[j] = start, stop
            if j > offsets[i] and not _before(data, keys[j - 1], key_ends[j - 1], at, end):
                odd[j] = True
    return keys, key_ends, starts, stops


@inlined
def _before(data: Bytes, at: int, end: int, other: int, other_end: int) -> bool:
    """Return whether bytes sort before others."""
    while at < end and other < other_end:
        if data[at] != data[other]:
            return bool(data[at] < data[other])
        at += 1
        other += 1
    return other < other_end


@compiled
def find_ends(data: Bytes, begins: Ints, ends: Ints, odd: Bools) -> tuple[Bytes, Ints]:
    """Return the ends of ranges: flags as in `range_sizes` (16: empty), and where the ends lie.

    Shape: (4, n): beginnings and ends of lower ends, then those of upper ends.
    """
    flags = np.zeros(len(begins), np.uint8)
    spans = np.full((4, len(begins)), -1, np.int64)
    for i in range(len(begins)):
        if begins[i] < 0:
            continue
        if begins[i] == ends[i]:
            flags[i] = 16
            continue
        at, stop = framed(data, begins[i], ends[i], 0x0A)
        if at < 0 or stop != ends[i]:
            odd[i] = True
            continue
        for side in range(2):
            if stop - at >= 2 and data[at] == (0x18 if side else 0x08) and data[at + 1] == 1:
                flags[i] |= 2 if side else 1
                at += 2
            if at < stop and data[at] == (0x22 if side else 0x12):
                spans[2 * side, i], spans[2 * side + 1, i] = sized(data, at + 1, stop)
                at = spans[2 * side + 1, i]
                flags[i] |= 8 if side else 4
            if at < 0:
                break
        odd[i] |= at != stop
    return flags, spans

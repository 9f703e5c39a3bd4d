"""Kernels that read protobuf datums, one column of them at a time.

A column of messages is where each begins and where it ends in `data`; a beginning of -1 says that
there is none (its parent is null, or odd), and its value is null. What looks different from what
`row_write` writes, in any way, is marked in `odd`: its value then means nothing, and a patient
decoder has to read the row. So these kernels may give up at any doubt, and must never read wrongly.

Nothing is read outside [begin, end), and every end lies inside its parent's: a length is believed
only if that many bytes are there, and what is allocated is counted, not stated. Tags and heads are
as in `row_write`.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from strata.kernels.arrays import Bools, Bytes, Ints, Words
from strata.kernels.jit import compiled, inlined, lean
from strata.kernels.memory import bit_length, copy, load64

TOPS: Final = np.uint64(0x8080808080808080)
ALL: Final = np.uint64(2**64 - 1)
ROLES: Final = np.uint64(1 << 0x08 | 1 << 0x10 | 1 << 0x1A | 1 << 0x20)  # tags of roles' fields


@inlined
def _word(data: Bytes, at: int) -> np.uint64:
    """Return the eight bytes at `at`; those behind the array are zero."""
    if at + 8 <= len(data):
        return load64(data, at)
    word = np.uint64(0)
    for j in range(at, len(data)):
        word |= np.uint64(data[j]) << np.uint64(8 * (j - at))
    return word


@inlined
def _squeeze(word: np.uint64) -> np.uint64:
    """Return the lower seven bits of each byte, put together."""
    x = word & ~TOPS
    x = (x & np.uint64(0x007F007F007F007F)) | ((x & np.uint64(0x7F007F007F007F00)) >> np.uint64(1))
    x = (x & np.uint64(0x00003FFF00003FFF)) | ((x & np.uint64(0x3FFF00003FFF0000)) >> np.uint64(2))
    return (x & np.uint64(0x0FFFFFFF)) | ((x & np.uint64(0x0FFFFFFF00000000)) >> np.uint64(4))


@inlined
def _varint(data: Bytes, at: int, stop: int) -> tuple[np.uint64, Any]:
    """Return the number at `at` and what follows it; -1: not there, or longer than needed."""
    word = _word(data, at) if 0 <= at < stop else TOPS
    last = ~word & TOPS
    if last == np.uint64(0):
        return _long_varint(data, at, stop)
    bits = np.uint64(bit_length(last & (~last + np.uint64(1))))
    end = at + np.int64(bits >> np.uint64(3))
    word &= ALL >> (np.uint64(64) - bits)
    exact = bits == np.uint64(8) or word >> (bits - np.uint64(8)) != np.uint64(0)
    return _squeeze(word), end if exact and end <= stop else -1


@inlined
def _whole_varint(word: np.uint64, size: int, stop: int) -> tuple[np.uint64, int]:
    """Return the number that fills the first bytes of a word, and `stop`; -1: it does not."""
    keep = ALL >> np.uint64(64 - 8 * size)
    word &= keep
    exact = word & TOPS == TOPS & keep >> np.uint64(8)
    exact = exact and (size == 1 or word >> np.uint64(8 * size - 8) != np.uint64(0))
    return _squeeze(word), stop if exact else -1


@lean
def _long_varint(data: Bytes, at: int, stop: int) -> tuple[np.uint64, int]:
    """Return the number at `at` and what follows it; -1: not there, or longer than needed."""
    value, shift = np.uint64(0), np.uint64(0)
    while 0 <= at < stop and shift < np.uint64(64):
        byte = np.uint64(data[at])
        at += 1
        if byte < np.uint64(128):
            if shift and (byte == 0 or (shift == np.uint64(63) and byte > np.uint64(1))):
                return value, -1
            return value | byte << shift, at
        value |= (byte & np.uint64(127)) << shift
        shift += np.uint64(7)
    return value, -1


@inlined
def _sized(data: Bytes, at: int, stop: int) -> tuple[int, Any]:
    """Return where the bytes behind the length at `at` begin and end; -1: not before `stop`."""
    if 0 <= at < stop and data[np.uint64(at)] < 128:
        size = np.int64(data[np.uint64(at)])
        at += 1
    else:
        value, at = _varint(data, at, stop)
        if at < 0 or value > np.uint64(stop - at):
            return -1, -1
        size = np.int64(value)
    return (at, at + size) if size <= stop - at else (-1, -1)


@inlined
def _framed(data: Bytes, at: int, stop: int, frame: int) -> tuple[int, Any]:
    """Return where the message with this frame at `at` begins and ends; -1: it is not there."""
    if at < 0 or at + 2 > stop or data[np.uint64(at)] != frame:
        return -1, -1
    size = np.int64(data[np.uint64(at + 1)])
    if size >= 128:
        return _sized(data, at + 1, stop)
    return (at + 2, at + 2 + size) if size <= stop - at - 2 else (-1, -1)


@inlined
def _content(word: np.uint64, start: int, stop: int, tag: int, head: int) -> int:
    """Return what follows a datum's tag; -1: it has another one. `word`: how the datum begins."""
    mask = np.uint64(0xFFFF) if head == 2 else np.uint64(0xFF)
    return start + head if stop - start >= head and word & mask == np.uint64(tag) else -1


@inlined
def _is_null(word: np.uint64, start: int, stop: int) -> bool:
    return stop - start == 2 and word & np.uint64(0xFFFF) == np.uint64(0x0108)


@compiled
def walk(
    data: Bytes, begins: Ints, ends: Ints, keep: Ints, kept: int, odd: Bools
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return where the datums of rows begin and end, those that are kept.

    Shape: a row has len(keep) datums; `keep[c]` is the line of the answer for datum c, -1: none.
    """
    starts = np.empty((kept, len(begins)), np.int64)
    stops = np.empty((kept, len(begins)), np.int64)
    for i in range(len(begins)):
        stop, end = begins[i], ends[i]
        for c in range(len(keep)):
            start, stop = _framed(data, stop, end, 0x0A)
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
    return starts, stops


@compiled
def read_varints(
    data: Bytes, starts: Ints, stops: Ints, tag: int, head: int, within: Words, odd: Bools
) -> tuple[Words, Bools]:
    """Return numbers and which are not null; `within`: number + first <= second, modulo 2**64."""
    values = np.zeros(len(starts), np.uint64)
    valid = np.zeros(len(starts), np.bool_)
    for i in range(len(starts)):
        start, stop = starts[i], stops[i]
        word = _word(data, start) if start >= 0 else np.uint64(0)
        if start < 0 or _is_null(word, start, stop):
            continue
        at = _content(word, start, stop, tag, head)
        if at >= 0 and 0 < stop - at <= 8 - head:
            value, at = _whole_varint(word >> np.uint64(8 * head), stop - at, stop)
        else:
            value, at = _varint(data, at, stop if at >= 0 else -1)
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
        word = _word(data, start) if start >= 0 else np.uint64(0)
        if start < 0 or _is_null(word, start, stop):
            continue
        at = _content(word, start, stop, tag, 1)
        if at < 0 or stop - at != width:
            odd[i] = True
            continue
        values[i] = _word(data, at) & (ALL >> np.uint64(64 - 8 * width))
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
        word = _word(data, start) if start >= 0 else np.uint64(0)
        if start < 0 or _is_null(word, start, stop):
            continue
        at = _content(word, start, stop, tag, head)
        size = np.int64(word >> np.uint64(8 * head) & np.uint64(0xFF))
        if at >= 0 and size < 128 and stop - at == size + 1:
            begin, end = at + 1, stop
        else:
            begin, end = _sized(data, at, stop if at >= 0 else -1)
        if begin < 0 or end != stop:
            odd[i] = True
            continue
        begins[i], ends[i] = begin, end
        valid[i] = True
    return begins, ends, valid


@compiled
def text_offsets(begins: Ints, ends: Ints) -> npt.NDArray[np.int32]:
    """Return where texts begin when they stand behind one another."""
    offsets = np.zeros(len(begins) + 1, np.int32)
    for i in range(len(begins)):
        offsets[i + 1] = offsets[i] + (ends[i] - begins[i])
    return offsets


@lean
def copy_texts(data: Bytes, begins: Ints, ends: Ints, out: Bytes) -> None:
    """Copy texts behind one another."""
    to = 0
    for i in range(len(begins)):
        begin = begins[i]
        size = ends[i] - begin
        copy(out, to, data, begin, size)
        to += size


@compiled
def copy_blocks(data: Bytes, begins: Ints, ends: Ints, width: int, odd: Bools) -> Bytes:
    """Return texts of `width` bytes, zeros where there is none."""
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


@inlined
def _number_field(data: Bytes, at: int, stop: int, wanted: int) -> tuple[Any, np.uint64, int]:
    """Return tag, number and end of the field at `at`; tag 0: another one. `wanted` 0: a role."""
    word = _word(data, at) if at < stop else np.uint64(0)
    tag = np.int64(word & np.uint64(0xFF))
    if at >= stop or (wanted and tag != wanted):
        return 0, np.uint64(0), at
    if stop - at >= 2 and word & np.uint64(0x8000) == np.uint64(0):
        value, end = word >> np.uint64(8) & np.uint64(0x7F), at + 2
    else:
        value, end = _varint(data, at + 1, stop)
    if not wanted:
        known = tag < 64 and ROLES >> np.uint64(tag) & np.uint64(1)
        if not known or (tag == 0x1A and value):
            end = -1
    return tag, value, end


@compiled
def read_number_messages(
    data: Bytes, begins: Ints, ends: Ints, spec: Ints, heads: Ints, within: Words, odd: Bools
) -> tuple[Bytes, Words]:
    """Return tags and values of the fields of messages of numbers, see `put_number_messages`.

    Shape: `spec` (fields, 2): tag (0: that of a role) and group of a field; `within` (fields, 2)
    as in `read_varints`. Fields that are left out have the
    value 0. Tags only if the first field is a role.
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
                    at, stop = _framed(data, at, stop, heads[group])
                    good = at >= 0
            if not good:
                break
            tag, value, at = _number_field(data, at, stop, spec[f, 0])
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
    """Return the offsets of lists in all their elements: how many messages with that frame."""
    offsets = np.zeros(len(begins) + 1, np.int64)
    for i in range(len(begins)):
        count, stop = 0, begins[i]
        while 0 <= stop < ends[i]:
            _, stop = _framed(data, stop, ends[i], frame)
            count += 1
        if stop != begins[i] and stop != ends[i]:
            odd[i] = True
            count = 0
        offsets[i + 1] = offsets[i] + count
    return offsets


@compiled
def find_elements(data: Bytes, begins: Ints, ends: Ints, offsets: Ints) -> tuple[Ints, Ints]:
    """Return where the elements that were counted begin and end."""
    starts = np.empty(offsets[-1], np.int64)
    stops = np.empty(offsets[-1], np.int64)
    for i in range(len(begins)):
        stop = begins[i]
        for j in range(offsets[i], offsets[i + 1]):
            begin, stop = _sized(data, stop + 1, ends[i])
            starts[j], stops[j] = begin, stop
    return starts, stops


@lean
def mark_parents(offsets: Ints, child_odd: Bools, odd: Bools) -> None:
    """Mark lists of which an element is odd."""
    for i in range(len(odd)):
        for j in range(offsets[i], offsets[i + 1]):
            odd[i] |= child_odd[j]


@compiled
def find_array(data: Bytes, begins: Ints, ends: Ints, odd: Bools) -> tuple[Ints, Ints]:
    """Return where the elements of arrays begin and end; the dimensions follow."""
    rows, row_ends = np.full(len(begins), -1, np.int64), np.full(len(begins), -1, np.int64)
    for i in range(len(begins)):
        if begins[i] >= 0:
            rows[i], row_ends[i] = _framed(data, begins[i], ends[i], 0x0A)
            odd[i] |= rows[i] < 0
    return rows, row_ends


@lean
def check_dimensions(offsets: Ints, lengths: Words, elements: Ints, odd: Bools) -> None:
    """Mark arrays whose lengths do not multiply to the number of elements; none: no elements."""
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
    """Return keys and values of the entries of maps; keys must ascend, an empty one is left out."""
    keys, key_ends = np.zeros(len(begins), np.int64), np.zeros(len(begins), np.int64)
    starts, stops = np.full(len(begins), -1, np.int64), np.full(len(begins), -1, np.int64)
    for i in range(len(offsets) - 1):
        for j in range(offsets[i], offsets[i + 1]):
            at, end = begins[j], begins[j]
            if at < ends[j] and data[at] == 0x0A:
                at, end = _sized(data, at + 1, ends[j])
            start, stop = _framed(data, end if end >= 0 else ends[j], ends[j], 0x12)
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
def find_ends(
    data: Bytes, begins: Ints, ends: Ints, odd: Bools
) -> tuple[Bytes, npt.NDArray[np.int64]]:
    """Return the ends of ranges: flags as in `range_sizes` (16: empty), and where the ends lie.

    Shape: (4, n): beginnings of lower ends, their ends, the same of upper ends.
    """
    flags = np.zeros(len(begins), np.uint8)
    spans = np.full((4, len(begins)), -1, np.int64)
    for i in range(len(begins)):
        if begins[i] < 0:
            continue
        if begins[i] == ends[i]:
            flags[i] = 16
            continue
        at, stop = _framed(data, begins[i], ends[i], 0x0A)
        if at < 0 or stop != ends[i]:
            odd[i] = True
            continue
        for side in range(2):
            if stop - at >= 2 and data[at] == (0x18 if side else 0x08) and data[at + 1] == 1:
                flags[i] |= 2 if side else 1
                at += 2
            if at < stop and data[at] == (0x22 if side else 0x12):
                spans[2 * side, i], spans[2 * side + 1, i] = _sized(data, at + 1, stop)
                at = spans[2 * side + 1, i]
                flags[i] |= 8 if side else 4
            if at < 0:
                break
        odd[i] |= at != stop
    return flags, spans

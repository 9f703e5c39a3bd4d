"""Kernels that write protobuf datums, one column of them at a time.

A *datum* is the content of a repeated or embedded field: a frame (one tag byte and the size), then
the field of the value (a tag of one or two bytes and its content). Every type has two steps: get
the size of each datum's body (`*_sizes`), then write each datum at its cursor (`put_*`).

Cursors: `at[i]` is where datum i begins in `out`; -1: there is no datum, as its parent is null.
Writing moves a cursor after its datum. `tag` holds the field's tag bytes, the first one lowest;
`head` is their number. A null of any type has the body `08 01`.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Ints, Words
from strata.kernels.jit import compiled, inlined, lean
from strata.kernels.memory import bit_length, byte_swap, copy, store32, store64

NULL: Final = 1
TOPS: Final = np.uint64(0x8080808080808080)
ALL: Final = np.uint64(2**64 - 1)


@inlined
def _varint_size(value: np.uint64) -> int:
    return (bit_length(value | np.uint64(1)) * 9 + 64) >> 6


@inlined
def _spread(value: np.uint64, size: int) -> np.uint64:
    """Return the first eight bytes of a number of `size` bytes as a varint."""
    x = value & np.uint64(2**56 - 1)
    x = (x & np.uint64(0x000000000FFFFFFF)) | ((x & np.uint64(0x00FFFFFFF0000000)) << np.uint64(4))
    x = (x & np.uint64(0x00003FFF00003FFF)) | ((x & np.uint64(0x0FFFC0000FFFC000)) << np.uint64(2))
    x = (x & np.uint64(0x007F007F007F007F)) | ((x & np.uint64(0x3F803F803F803F80)) << np.uint64(1))
    if size > 8:
        return x | TOPS
    return x | (TOPS & (ALL >> np.uint64(64 - 8 * size)) >> np.uint64(8))


@inlined
def _put_short(out: Bytes, at: int, low: np.uint64, high: np.uint64, size: int) -> int:
    """Write exactly 4 to 15 bytes of two words: the stores overlap."""
    if size > 8:
        shift = np.uint64(8 * size - 64)
        store64(out, at, low)
        store64(out, at + size - 8, low >> shift | high << (np.uint64(64) - shift))
    else:
        store32(out, at, low)
        store32(out, at + size - 4, low >> np.uint64(8 * size - 32))
    return at + size


@inlined
def _put_number(out: Bytes, at: int, tag: int | np.int64, value: np.uint64, stop: int) -> int:
    """Write a tag of one byte and a number, inside a message that ends at `stop`."""
    size = 1 + _varint_size(value)
    if size > 8:
        out[at] = tag
        return _put_varint(out, at + 1, value)
    word = np.uint64(tag) | _spread(value, size - 1) << np.uint64(8)
    if at + 8 <= stop:  # the next field overwrites the excess
        store64(out, at, word)
    elif size >= 4:
        _put_short(out, at, word, np.uint64(0), size)
    else:
        for j in range(size):
            out[at + j] = word >> np.uint64(8 * j) & np.uint64(255)
    return at + size


@inlined
def _put_varint(out: Bytes, at: int, value: np.uint64) -> int:
    while value >= np.uint64(128):
        out[at] = (value & np.uint64(127)) | np.uint64(128)
        value >>= np.uint64(7)
        at += 1
    out[at] = value
    return at + 1


@inlined
def _framed(size: int | np.int64) -> int:
    """Return how many bytes a body takes with its frame: a tag of one byte and its size."""
    return 1 + _varint_size(np.uint64(size)) + int(size)


@inlined
def _put_frame(out: Bytes, at: int, frame: int, size: int | np.int64) -> int:
    out[at] = frame
    if size < 128:
        out[at + 1] = size
        return at + 2
    return _put_varint(out, at + 1, np.uint64(size))


@inlined
def _begin(out: Bytes, at: int, frame: int, size: int, tag: int, head: int, inner: int) -> int:
    """Write the frame, the field's tag and the length of its content; return where that goes."""
    if size < 128:
        word = np.uint64(frame | size << 8 | tag << 16)
        store32(out, at, word | np.uint64(inner) << np.uint64(16 + 8 * head))
        if head == 2:
            out[at + 4] = inner
        return at + 3 + head
    at = _put_frame(out, at, frame, size)
    out[at] = tag & 255
    if head == 2:
        out[at + 1] = tag >> 8
    return _put_varint(out, at + head, np.uint64(inner))


@inlined
def _put_other(out: Bytes, at: int, frame: int, other: int | np.int64) -> int:
    store32(out, at, np.uint64(frame | 0x080200 | other << 24))
    return at + 4


@lean
def add_framed(total: Ints, sizes: Ints) -> None:
    """Add to each total the bytes of one more datum with its frame."""
    for i in range(len(total)):
        total[i] += _framed(sizes[i])


@compiled
def framed_sums(sizes: Ints, offsets: Ints) -> Ints:
    """Return for each list the bytes of its datums with their frames."""
    sums = np.zeros(len(offsets) - 1, np.int64)
    for i in range(len(sums)):
        for j in range(offsets[i], offsets[i + 1]):
            sums[i] += _framed(sizes[j])
    return sums


@compiled
def message_sizes(inner: Ints, valid: Bools, head: int) -> Ints:
    """Return body sizes of fields that are messages of `inner` bytes."""
    sizes = np.empty(len(inner), np.int64)
    for i in range(len(inner)):
        size = inner[i]
        sizes[i] = head + _varint_size(np.uint64(size)) + size if valid[i] else 2
    return sizes


@compiled
def put_messages(
    inner: Ints, valid: Bools, sizes: Ints, tag: int, head: int, frame: int, out: Bytes, at: Ints
) -> Ints:
    """Write a message without its content; return where the content goes, -1 under a null."""
    inside = np.empty(len(at), np.int64)
    for i in range(len(at)):
        inside[i] = -1
        if at[i] < 0:
            continue
        if not valid[i]:
            at[i] = _put_other(out, at[i], frame, NULL)
            continue
        inside[i] = _begin(out, at[i], frame, sizes[i], tag, head, inner[i])
        at[i] = inside[i] + inner[i]
    return inside


@lean
def put_frames(frame: int, sizes: Ints, out: Bytes, at: Ints) -> None:
    """Write the frame of each message and move its cursor into it."""
    for i in range(len(at)):
        if at[i] >= 0:
            at[i] = _put_frame(out, at[i], frame, sizes[i])


@compiled
def positions(inside: Ints, offsets: Ints, sizes: Ints) -> Ints:
    """Return where each element goes if lists begin at `inside` and frames are included."""
    at = np.full(len(sizes), -1, np.int64)
    for i in range(len(inside)):
        here = inside[i]
        if here >= 0:
            for j in range(offsets[i], offsets[i + 1]):
                at[j] = here
                here += _framed(sizes[j])
    return at


@compiled
def varint_sizes(values: Words, valid: Bools, head: int) -> Ints:
    """Return body sizes of numbers."""
    sizes = np.empty(len(values), np.int64)
    for i in range(len(values)):
        sizes[i] = head + _varint_size(values[i]) if valid[i] else 2
    return sizes


@lean
def put_varints(
    values: Words, valid: Bools, sizes: Ints, tag: int, head: int, frame: int, out: Bytes, at: Ints
) -> None:
    """Write numbers."""
    shift = np.uint64(16 + 8 * head)
    back = np.uint64(64) - shift
    for i in range(len(at)):
        if at[i] < 0:
            continue
        if not valid[i]:
            at[i] = _put_other(out, at[i], frame, NULL)
            continue
        size = sizes[i]
        number = _spread(values[i], size - head)
        rest = np.uint64(0)
        if size - head > 8:
            rest = values[i] >> np.uint64(56)
            rest = (rest & np.uint64(0x7F)) | (rest >> np.uint64(7)) << np.uint64(8)
            rest |= np.uint64(0x80) if size - head == 10 else np.uint64(0)
        low = np.uint64(frame | size << 8 | tag << 16) | number << shift
        at[i] = _put_short(out, at[i], low, number >> back | rest << shift, size + 2)


@lean
def put_fixed(
    bits: Words, valid: Bools, width: int, tag: int, frame: int, out: Bytes, at: Ints
) -> None:
    """Write numbers of `width` bytes, the lowest first; the tag is one byte."""
    head = np.uint64(frame | (width + 1) << 8 | tag << 16)
    for i in range(len(at)):
        if at[i] < 0:
            continue
        if valid[i]:
            low, high = head | bits[i] << np.uint64(24), bits[i] >> np.uint64(40)
            at[i] = _put_short(out, at[i], low, high, width + 3)
        else:
            at[i] = _put_other(out, at[i], frame, NULL)


@compiled
def text_sizes(offsets: Ints, valid: Bools, head: int) -> Ints:
    """Return body sizes of texts."""
    sizes = np.empty(len(valid), np.int64)
    for i in range(len(valid)):
        size = offsets[i + 1] - offsets[i]
        sizes[i] = head + _varint_size(np.uint64(size)) + size if valid[i] else 2
    return sizes


@lean
def put_texts(
    offsets: Ints,
    data: Bytes,
    valid: Bools,
    sizes: Ints,
    tag: int,
    head: int,
    frame: int,
    out: Bytes,
    at: Ints,
) -> None:
    """Write texts."""
    for i in range(len(at)):
        if at[i] < 0:
            continue
        if valid[i]:
            size = offsets[i + 1] - offsets[i]
            here = _begin(out, at[i], frame, sizes[i], tag, head, size)
            copy(out, here, data, offsets[i], size)
            at[i] = here + size
        else:
            at[i] = _put_other(out, at[i], frame, NULL)


@compiled
def entry_sizes(key_offsets: Ints, value_sizes: Ints) -> Ints:
    """Return the sizes of a map's entries: a key, omitted if empty, and a value."""
    sizes = np.empty(len(value_sizes), np.int64)
    for i in range(len(sizes)):
        size = key_offsets[i + 1] - key_offsets[i]
        sizes[i] = (_framed(size) if size else 0) + _framed(value_sizes[i])
    return sizes


@lean
def put_keys(key_offsets: Ints, data: Bytes, sizes: Ints, out: Bytes, at: Ints) -> None:
    """Write the frames of entries and their keys; the cursors move on to the values."""
    for i in range(len(at)):
        if at[i] < 0:
            continue
        here = _put_frame(out, at[i], 0x0A, sizes[i])
        size = key_offsets[i + 1] - key_offsets[i]
        if size:
            here = _put_frame(out, here, 0x0A, size)
            copy(out, here, data, key_offsets[i], size)
        at[i] = here + size


@compiled
def number_message_sizes(values: Words, fields: Ints, heads: Ints) -> Ints:
    """Return the bytes of messages of numbers; see `put_number_messages`."""
    fixed = 0
    for g in range(len(heads)):
        fixed += 2 if heads[g] else 0
    sizes = np.full(values.shape[1], fixed, np.int64)
    for f in range(len(fields)):
        role = fields[f, 0] == 0
        for i in range(values.shape[1]):
            sizes[i] += 1 + _varint_size(values[f, i]) if values[f, i] or role else 0
    return sizes


@lean
def put_number_messages(
    values: Words, roles: Bytes, fields: Ints, heads: Ints, sizes: Ints, out: Bytes, at: Ints
) -> None:
    """Write messages whose fields are numbers, or messages (groups) of numbers.

    Shape: `values` fields by rows; a zero is omitted. `fields` (fields, 2): the tag, and the group,
    ascending. A tag of 0 means a role's tag: it is in `roles` by field and row, and the field is
    never omitted. `heads[g]` is a group's tag; 0: its fields are in the message itself. There are
    at most four fields, so that every length is one byte.
    """
    for i in range(len(at)):
        here = at[i]
        if here < 0:
            continue
        group, start, stop = -1, 0, here + sizes[i]
        for f in range(len(fields)):
            if fields[f, 1] != group:
                if start:
                    out[start - 1] = here - start
                group, start = fields[f, 1], 0
                if heads[group]:
                    out[here] = heads[group]
                    here += 2
                    start = here
            tag, value = fields[f, 0], values[f, i]
            if tag == 0:
                here = _put_number(out, here, np.int64(roles[f, i]), value, stop)
            elif value:
                here = _put_number(out, here, tag, value, stop)
        if start:
            out[start - 1] = here - start
        at[i] = here


@compiled
def numeric_sizes(words: Words, scales: Ints, others: Bytes) -> tuple[Ints, Ints]:
    """Return the bytes of each packed decimal, sign included, and body sizes."""
    lengths = np.zeros(len(others), np.int64)
    sizes = np.full(len(others), 2, np.int64)
    for i in range(len(others)):
        if others[i]:
            continue
        nibbles = 2  # at least one digit, and the sign
        for k in range(3):
            if words[i, k]:
                nibbles = max(nibbles, 16 * k + ((bit_length(words[i, k]) + 3) >> 2))
        lengths[i] = (nibbles + 1) >> 1
        scale = 1 + _varint_size(np.uint64(scales[i])) if scales[i] else 0
        sizes[i] = 2 + 1 + 2 + lengths[i] + scale
    return lengths, sizes


@inlined
def _put_money(
    out: Bytes, at: int, word: np.uint64, scale: int, length: int, size: int, tag: int, frame: int
) -> int:
    """Write a decimal of at most 11 digits as two words."""
    head = np.uint64(frame | size << 8 | tag << 16) | np.uint64(size - 3) << np.uint64(32)
    head |= np.uint64(0x0A) << np.uint64(40) | np.uint64(length) << np.uint64(48)
    digits = byte_swap(word << np.uint64(64 - 8 * length))
    if scale:
        digits |= np.uint64(0x10 | scale << 8) << np.uint64(8 * length)
    low, high = head | digits << np.uint64(56), digits >> np.uint64(8)
    return _put_short(out, at, low, high, size + 2)


@lean
def put_numerics(
    words: Words,
    scales: Ints,
    others: Bytes,
    lengths: Ints,
    sizes: Ints,
    tag: int,
    frame: int,
    out: Bytes,
    at: Ints,
) -> None:
    """Write digits, most significant first, and scales; a scale of 0 is omitted."""
    for i in range(len(at)):
        if at[i] < 0:
            continue
        if others[i]:
            at[i] = _put_other(out, at[i], frame, np.int64(others[i]))
            continue
        if lengths[i] <= 6 and 0 <= scales[i] < 128:
            at[i] = _put_money(out, at[i], words[i, 0], scales[i], lengths[i], sizes[i], tag, frame)
            continue
        here = _begin(out, at[i], frame, sizes[i], tag, 2, sizes[i] - 3)
        out[here] = 0x0A
        out[here + 1] = lengths[i]
        here += 2 + lengths[i]
        for j in range(lengths[i]):
            out[here - 1 - j] = words[i, j >> 3] >> np.uint64((j & 7) << 3) & np.uint64(255)
        if scales[i]:
            out[here] = 0x10
            here = _put_varint(out, here + 1, np.uint64(scales[i]))
        at[i] = here


@compiled
def range_sizes(lower_sizes: Ints, upper_sizes: Ints, ends: Bytes, empty: Bools) -> Ints:
    """Return the bytes of a range's inner message.

    `ends`: 1 the lower end is inclusive, 2 the upper end is, 4 there is a lower end, 8 an upper.
    """
    sizes = np.zeros(len(ends), np.int64)
    for i in range(len(ends)):
        if not empty[i]:
            sizes[i] += 2 if ends[i] & 1 else 0
            sizes[i] += 2 if ends[i] & 2 else 0
            sizes[i] += _framed(lower_sizes[i]) if ends[i] & 4 else 0
            sizes[i] += _framed(upper_sizes[i]) if ends[i] & 8 else 0
    return sizes


@compiled
def put_ranges(
    sizes: Ints, lower_sizes: Ints, ends: Bytes, empty: Bools, out: Bytes, inside: Ints
) -> tuple[Ints, Ints]:
    """Write the inner messages without their ends; return where the ends go, -1 for none."""
    lower, upper = np.full(len(ends), -1, np.int64), np.full(len(ends), -1, np.int64)
    for i in range(len(ends)):
        if inside[i] < 0 or empty[i]:
            continue
        here = _put_frame(out, inside[i], 0x0A, sizes[i])
        if ends[i] & 1:
            out[here], out[here + 1] = 0x08, 1
            here += 2
        if ends[i] & 4:
            lower[i] = here
            here += _framed(lower_sizes[i])
        if ends[i] & 2:
            out[here], out[here + 1] = 0x18, 1
            here += 2
        if ends[i] & 8:
            upper[i] = here
    return lower, upper

"""Kernels that write protobuf datums, one column of them at a time.

A *datum* here is what stands in a repeated or embedded field: a frame (one tag byte and the size),
then the field of the value (a tag of one or two bytes and its content). Every type has two steps:
how many bytes each datum's body takes (`*_sizes`), then writing each at its cursor (`put_*`).

Cursors: `at[i]` is where datum i begins in `out`; -1: there is none, its parent is null. Writing
moves a cursor behind its datum. `tag` holds the field's tag bytes, the first one lowest; `head` is
how many they are. A null takes the body `08 01`, whatever its type.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Ints, Words
from strata.kernels.jit import compiled

NULL: Final = 1


@compiled
def _varint_size(value: np.uint64) -> int:
    size = 1
    while value >= np.uint64(128):
        value >>= np.uint64(7)
        size += 1
    return size


@compiled
def _put_varint(out: Bytes, at: int, value: np.uint64) -> int:
    while value >= np.uint64(128):
        out[at] = (value & np.uint64(127)) | np.uint64(128)
        value >>= np.uint64(7)
        at += 1
    out[at] = value
    return at + 1


@compiled
def _framed(size: int | np.int64) -> int:
    """Return how many bytes a body takes with its frame: a tag of one byte and its size."""
    return 1 + _varint_size(np.uint64(size)) + size


@compiled
def _put_frame(out: Bytes, at: int, frame: int, size: int | np.int64) -> int:
    out[at] = frame
    if size < 128:
        out[at + 1] = size
        return at + 2
    return _put_varint(out, at + 1, np.uint64(size))


@compiled
def _begin(out: Bytes, at: int, frame: int, size: int, tag: int, head: int) -> int:
    """Write the frame and the field's tag; return where its content goes."""
    at = _put_frame(out, at, frame, size)
    if head:
        out[at] = tag & 255
        if head == 2:
            out[at + 1] = tag >> 8
    return at + head


@compiled
def _put_other(out: Bytes, at: int, frame: int, other: int) -> int:
    out[at] = frame
    out[at + 1] = 2
    out[at + 2] = 8
    out[at + 3] = other
    return at + 4


@compiled
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
    """Write all of a message but its content; return where that goes, -1 under a null."""
    inside = np.empty(len(at), np.int64)
    for i in range(len(at)):
        inside[i] = -1
        if at[i] < 0:
            continue
        if not valid[i]:
            at[i] = _put_other(out, at[i], frame, NULL)
            continue
        here = _begin(out, at[i], frame, sizes[i], tag, head)
        inside[i] = _put_varint(out, here, np.uint64(inner[i]))
        at[i] = inside[i] + inner[i]
    return inside


@compiled
def put_frames(frame: int, sizes: Ints, out: Bytes, at: Ints) -> None:
    """Write the frame of each message and move its cursor into it."""
    for i in range(len(at)):
        if at[i] >= 0:
            at[i] = _put_frame(out, at[i], frame, sizes[i])


@compiled
def positions(inside: Ints, offsets: Ints, sizes: Ints) -> Ints:
    """Return where each element goes, when lists begin at `inside` and frames are included."""
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


@compiled
def put_varints(
    values: Words, valid: Bools, sizes: Ints, tag: int, head: int, frame: int, out: Bytes, at: Ints
) -> None:
    """Write numbers."""
    for i in range(len(at)):
        if at[i] < 0:
            continue
        if valid[i]:
            here = _begin(out, at[i], frame, sizes[i], tag, head)
            at[i] = _put_varint(out, here, values[i])
        else:
            at[i] = _put_other(out, at[i], frame, NULL)


@compiled
def put_fixed(
    bits: Words, valid: Bools, width: int, tag: int, frame: int, out: Bytes, at: Ints
) -> None:
    """Write numbers of `width` bytes, the lowest first; the tag is one byte."""
    for i in range(len(at)):
        if at[i] < 0:
            continue
        if valid[i]:
            here = _begin(out, at[i], frame, width + 1, tag, 1)
            word = bits[i]
            for j in range(width):
                out[here + j] = word & np.uint64(255)
                word >>= np.uint64(8)
            at[i] = here + width
        else:
            at[i] = _put_other(out, at[i], frame, NULL)


@compiled
def text_sizes(offsets: Ints, valid: Bools, head: int) -> Ints:
    """Return body sizes of texts."""
    sizes = np.empty(len(valid), np.int64)
    for i in range(len(valid)):
        size = np.int64(offsets[i + 1]) - np.int64(offsets[i])
        sizes[i] = head + _varint_size(np.uint64(size)) + size if valid[i] else 2
    return sizes


@compiled
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
            first = np.int64(offsets[i])
            size = np.int64(offsets[i + 1]) - first
            here = _begin(out, at[i], frame, sizes[i], tag, head)
            here = _put_varint(out, here, np.uint64(size))
            for j in range(size):
                out[here + j] = data[first + j]
            at[i] = here + size
        else:
            at[i] = _put_other(out, at[i], frame, NULL)


@compiled
def entry_sizes(key_offsets: Ints, value_sizes: Ints) -> Ints:
    """Return the sizes of a map's entries: a key, left out if empty, and a value."""
    sizes = np.empty(len(value_sizes), np.int64)
    for i in range(len(sizes)):
        size = np.int64(key_offsets[i + 1]) - np.int64(key_offsets[i])
        sizes[i] = (_framed(size) if size else 0) + _framed(value_sizes[i])
    return sizes


@compiled
def put_keys(key_offsets: Ints, data: Bytes, sizes: Ints, out: Bytes, at: Ints) -> None:
    """Write the frames of entries and their keys; the cursors move on to the values."""
    for i in range(len(at)):
        if at[i] < 0:
            continue
        here = _put_frame(out, at[i], 0x0A, sizes[i])
        first = np.int64(key_offsets[i])
        size = np.int64(key_offsets[i + 1]) - first
        if size:
            here = _put_frame(out, here, 0x0A, size)
            for j in range(size):
                out[here + j] = data[first + j]
        at[i] = here + size


@compiled
def number_message_sizes(tags: Bytes, values: Words, groups: Ints, heads: Ints) -> Ints:
    """Return the bytes of messages of numbers; see `put_number_messages`."""
    fixed = 0
    for g in range(len(heads)):
        fixed += 2 if heads[g] else 0
    sizes = np.full(values.shape[1], fixed, np.int64)
    for f in range(len(groups)):
        for i in range(values.shape[1]):
            if tags[f, i]:
                sizes[i] += 1 + _varint_size(values[f, i])
    return sizes


@compiled
def put_number_messages(
    tags: Bytes, values: Words, groups: Ints, heads: Ints, out: Bytes, at: Ints
) -> None:
    """Write messages whose fields are numbers, or messages (groups) of numbers.

    Shape: fields by rows. A tag of 0: the field is left out. `groups[f]` is the group of field f,
    ascending; `heads[g]` the group's tag, 0: its fields stand in the message itself. No more than
    four fields, so that every length is one byte.
    """
    for i in range(len(at)):
        here = at[i]
        if here < 0:
            continue
        group, start = -1, 0
        for f in range(len(groups)):
            if groups[f] != group:
                if start:
                    out[start - 1] = here - start
                group, start = groups[f], 0
                if heads[group]:
                    out[here] = heads[group]
                    here += 2
                    start = here
            if tags[f, i]:
                out[here] = tags[f, i]
                here = _put_varint(out, here + 1, values[f, i])
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
        nibbles = 2  # a digit at least, and the sign
        for k in range(3):
            word, top = words[i, k], 16 * k
            while word:
                word >>= np.uint64(4)
                top += 1
            nibbles = max(nibbles, top) if top > 16 * k else nibbles
        lengths[i] = (nibbles + 1) >> 1
        scale = 1 + _varint_size(np.uint64(scales[i])) if scales[i] else 0
        sizes[i] = 2 + 1 + 2 + lengths[i] + scale
    return lengths, sizes


@compiled
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
    """Write digits, most significant first, and scales; a scale of 0 is left out."""
    for i in range(len(at)):
        if at[i] < 0:
            continue
        if others[i]:
            at[i] = _put_other(out, at[i], frame, others[i])
            continue
        here = _begin(out, at[i], frame, sizes[i], tag, 2)
        out[here] = sizes[i] - 3
        out[here + 1] = 0x0A
        out[here + 2] = lengths[i]
        here += 3 + lengths[i]
        for j in range(lengths[i]):
            out[here - 1 - j] = words[i, j >> 3] >> np.uint64((j & 7) << 3) & np.uint64(255)
        if scales[i]:
            out[here] = 0x10
            here = _put_varint(out, here + 1, np.uint64(scales[i]))
        at[i] = here


@compiled
def range_sizes(lower_sizes: Ints, upper_sizes: Ints, ends: Bytes, empty: Bools) -> Ints:
    """Return the bytes of a range's inner message.

    `ends`: 1 lower end in the range, 2 upper end in it, 4 there is a lower end, 8 an upper end.
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
    """Write the inner messages but for their ends; return where the ends go, -1 for none."""
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

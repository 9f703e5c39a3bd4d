"""Read some columns of an Arrow file of one batch, buffer by buffer.

Arrow's own reader costs a parse of the schema for each file, and a decompression for each buffer. A
page of a manifest has hundreds of buffers, and most of them say the same: no nulls, no strings, all
of them zero. So what a schema asks for is worked out once, and an array that takes a few bytes is
made once, too. All that is unusual is left to Arrow's reader.
Law (tests/laws/test_batch_read.py): what is read is what Arrow's reader reads.
Source: the format of Arrow's IPC files, and RFC 8878 for a frame of Zstandard.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa

_MAGIC: Final = b"ARROW1\0\0"
_CONTINUES: Final = b"\xff\xff\xff\xff"
_END: Final = _CONTINUES + bytes(4)
_FRAME: Final = b"\x28\xb5\x2f\xfd"
_RECORD_BATCH: Final = 3
_ZSTD: Final = 1
_AS_IT_IS: Final = -1  # the size of a buffer that is not compressed
_KEPT_BYTES: Final = 1024  # of the buffers of an array that is made once
_KEPT_ROWS: Final = 4096  # of such an array
_KEPT_SIZE: Final = 1 << 16  # of what such a buffer holds
_SIZE_MAX: Final = 1 << 26  # of what any buffer may claim to hold
_BYTE, _SHORT, _PLACE, _SIZE = (struct.Struct(kind) for kind in ("<b", "<h", "<i", "<q"))
_CODEC: Final = pa.Codec("zstd")
_NOTHING: Final = pa.py_buffer(b"")
_DAMAGE: Final = (
    struct.error,
    pa.ArrowException,
    OSError,
    ValueError,
    IndexError,
    OverflowError,
    TypeError,
)


class _UnusualError(Exception):
    """Something that Arrow's own reader shall read, or refuse."""


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """How an array is made, from which of the batch's nodes and buffers."""

    kind: pa.DataType
    own: int  # buffers of its own: the first ones
    nodes: slice  # two numbers each: rows and nulls; those of what is inside follow
    buffers: slice  # two numbers each: place and size
    inside: "tuple[_Step, ...]"


def head_of_file(data: bytes) -> bytes | None:
    """Return the message of a file's schema; None if the bytes do not begin as such a file does."""
    whole = data.startswith(_MAGIC + _CONTINUES) and data.endswith(_MAGIC[:6])
    if not whole or len(data) < 16:
        return None
    size = _PLACE.unpack_from(data, 12)[0]
    return data[8 : 16 + size] if 0 < size <= len(data) - 16 else None


@lru_cache(maxsize=64)
def schema_of(head: bytes) -> pa.Schema:
    """Return the schema of a message. What Arrow raises about damaged bytes is passed on."""
    return pa.ipc.read_schema(pa.py_buffer(head))


def read_columns(data: bytes, head: bytes, columns: tuple[int, ...]) -> pa.RecordBatch | None:
    """Return columns of a file of one batch by their numbers; None: Arrow's reader has to do it.

    `head` is the file's, of `head_of_file`. As with Arrow, the batch has to be validated.
    """
    try:
        schema, steps = _steps(head, columns)
        return _Batch(data, 8 + len(head)).read(schema, steps)
    except (_UnusualError, *_DAMAGE):
        return None


def has_one_batch(data: bytes, head: bytes) -> bool:
    """Return whether a file has one batch, as `read_columns` reads; else Arrow's reader says so."""
    try:
        _Batch(data, 8 + len(head))
    except (_UnusualError, *_DAMAGE):
        return False
    return True


@lru_cache(maxsize=64)
def _steps(head: bytes, columns: tuple[int, ...]) -> tuple[pa.Schema, tuple[_Step, ...]]:
    if _Record.root(head, 8).record(2).number(0, _SHORT):
        raise _UnusualError("numbers begin with their greatest byte")
    whole, node, buffer = schema_of(head), 0, 0
    every = []
    for field in whole:
        step, node, buffer = _step(field.type, node, buffer)
        every.append(step)
    schema = pa.schema([whole.field(n) for n in columns], whole.metadata)
    return schema, tuple(every[n] for n in columns)


def _step(kind: pa.DataType, node: int, buffer: int) -> tuple[_Step, int, int]:
    """Return how an array of a type is made, and the next node and buffer behind it."""
    if not any(test(kind) for test in _KNOWN):
        raise _UnusualError(str(kind))
    own, inside = kind.num_buffers, []
    next_node, next_buffer = node + 1, buffer + own
    for number in range(kind.num_fields):
        step, next_node, next_buffer = _step(kind.field(number).type, next_node, next_buffer)
        inside.append(step)
    nodes, buffers = slice(2 * node, 2 * next_node), slice(2 * buffer, 2 * next_buffer)
    return _Step(kind, own, nodes, buffers, tuple(inside)), next_node, next_buffer


_KNOWN: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal128,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_timestamp,
    pa.types.is_duration,
    pa.types.is_string,
    pa.types.is_binary,
    pa.types.is_list,
    pa.types.is_struct,
)


class _Record:
    """A table of a FlatBuffer: how Arrow's messages are written."""

    def __init__(self, data: bytes, place: int) -> None:
        """Find its fields: the places of those that are there are listed in front of it."""
        self._data, self._place = data, place
        self._list = place - _PLACE.unpack_from(data, place)[0]
        self._fields = (_SHORT.unpack_from(data, self._list)[0] - 4) // 2

    @classmethod
    def root(cls, data: bytes, start: int) -> "_Record":
        """Return the outermost table of a message."""
        return cls(data, start + _PLACE.unpack_from(data, start)[0])

    def _at(self, field: int) -> int:
        """Return where a field is; 0: nowhere."""
        if field >= self._fields:
            return 0
        found = int(_SHORT.unpack_from(self._data, self._list + 4 + 2 * field)[0])
        return self._place + found if found else 0

    def number(self, field: int, kind: struct.Struct) -> int:
        """Return a number, 0 where it is left out."""
        place = self._at(field)
        return int(kind.unpack_from(self._data, place)[0]) if place else 0

    def record(self, field: int) -> "_Record":
        """Return a table inside."""
        place = self._found(field)
        return _Record(self._data, place)

    def pairs(self, field: int) -> tuple[int, ...]:
        """Return the numbers of a vector of pairs, 64 bits each."""
        place = self._found(field)
        count = _PLACE.unpack_from(self._data, place)[0]
        return struct.unpack_from(f"<{2 * count}q", self._data, place + 4)

    def has(self, field: int) -> bool:
        """Return whether a field is there."""
        return self._at(field) > 0

    def _found(self, field: int) -> int:
        place = self._at(field)
        if not place:
            raise _UnusualError("a message lacks a field")
        return place + int(_PLACE.unpack_from(self._data, place)[0])


class _Batch:
    """The one batch of a file."""

    def __init__(self, data: bytes, start: int) -> None:
        """Find its nodes and buffers; `start` is where its message begins."""
        if data[start : start + 4] != _CONTINUES:
            raise _UnusualError("an old message")
        message = _Record.root(data, start + 8)
        self._body = start + 8 + _PLACE.unpack_from(data, start + 4)[0]
        self._end = self._body + message.number(3, _SIZE)
        if message.number(1, _BYTE) != _RECORD_BATCH or data[self._end : self._end + 8] != _END:
            raise _UnusualError("a dictionary, or several batches")
        batch = message.record(2)
        self._packed = batch.has(3)
        if self._packed and [batch.record(3).number(n, _BYTE) for n in (0, 1)] != [_ZSTD, 0]:
            raise _UnusualError("another codec")
        self._rows = batch.number(0, _SIZE)
        self._nodes, self._buffers = batch.pairs(1), batch.pairs(2)
        self._keeps = self._packed and self._rows <= _KEPT_ROWS
        self._data, self._whole = data, pa.py_buffer(data)

    def read(self, schema: pa.Schema, steps: Sequence[_Step]) -> pa.RecordBatch:
        """Return some columns."""
        if any(self._nodes[step.nodes][0] != self._rows for step in steps):
            raise _UnusualError("a column of another length")
        return pa.RecordBatch.from_arrays([self._array(step) for step in steps], schema=schema)

    def _array(self, step: _Step) -> pa.Array:
        places = self._buffers[step.buffers]
        first, behind = places[0], places[-2] + places[-1]
        if self._keeps and behind - first <= _KEPT_BYTES:
            start, end = self._inside(first, behind - first)
            moved = tuple(n if odd % 2 else n - first for odd, n in enumerate(places))
            return _kept_array(step, self._nodes[step.nodes], moved, self._data[start:end])
        buffers = [self._buffer(*places[n : n + 2]) for n in range(0, 2 * step.own, 2)]
        inside = [self._array(one) for one in step.inside]
        return _made(step, self._nodes[step.nodes], buffers, inside)

    def _inside(self, place: int, size: int) -> tuple[int, int]:
        """Return where some bytes of the body begin and end."""
        start = self._body + place
        if place < 0 or size < 0 or start + size > self._end:
            raise _UnusualError("a buffer outside of the batch")
        return start, start + size

    def _buffer(self, place: int, size: int) -> pa.Buffer:
        start, _ = self._inside(place, size)
        if not self._packed:
            return self._whole.slice(start, size)
        return _unpacked(self._data[start : start + 26], self._whole.slice(start, size))


def _made(
    step: _Step, nodes: Sequence[int], buffers: list[pa.Buffer], inside: Sequence[pa.Array]
) -> pa.Array:
    if not buffers[0].size:
        buffers[0] = None  # all are valid
    return pa.Array.from_buffers(step.kind, nodes[0], buffers, nodes[1], 0, inside or None)


@lru_cache(maxsize=128)
def _kept_array(
    step: _Step, nodes: tuple[int, ...], places: tuple[int, ...], stored: bytes
) -> pa.Array:
    """Return an array that takes a few stored bytes; many pages have the same.

    `places` of the buffers are relative to these bytes. Memory: as of `_kept`.
    """
    kept = [_kept(stored[a : a + n]) for a, n in zip(places[::2], places[1::2], strict=True)]
    return _assembled(step, step, nodes, kept)


def _assembled(
    whole: _Step, step: _Step, nodes: tuple[int, ...], kept: Sequence[pa.Buffer]
) -> pa.Array:
    """Return the array of one step of a whole, of all of its nodes and buffers."""
    first = (step.buffers.start - whole.buffers.start) // 2
    inside = [_assembled(whole, one, nodes, kept) for one in step.inside]
    own = nodes[step.nodes.start - whole.nodes.start :]
    return _made(step, own, list(kept[first : first + step.own]), inside)


@lru_cache(maxsize=256)
def _kept(stored: bytes) -> pa.Buffer:
    """Return what a stored buffer of a few bytes holds; nobody can write to it, as many read it.

    Memory: 16 MiB at most.
    """
    return pa.py_buffer(_unpacked(stored[:26], pa.py_buffer(stored), _KEPT_SIZE).to_pybytes())


def _unpacked(front: bytes, stored: pa.Buffer, most: int = _SIZE_MAX) -> pa.Buffer:
    """Return what a stored buffer holds; `front`: its first bytes.

    The size that the frame itself says is the one that its decoder insists on.
    """
    if not stored.size:
        return _NOTHING
    (size,) = _SIZE.unpack_from(front)
    if size == _AS_IT_IS:
        return stored.slice(8)
    if not 0 <= size <= most or _frame_size(front[8:]) != size:
        raise _UnusualError("a size that the frame does not confirm")
    return _CODEC.decompress(stored.slice(8), size)


def _frame_size(front: bytes) -> int | None:
    """Return how much a frame says that it holds; None if it does not say so."""
    if front[:4] != _FRAME:
        return None
    says, single, named = front[4] >> 6, front[4] >> 5 & 1, front[4] & 3
    place = 5 + (not single) + (0, 1, 2, 4)[named]
    width = (single, 2, 4, 8)[says]
    if not width:
        return None
    found = int.from_bytes(front[place : place + width], "little")
    return found + 256 if width == 2 else found

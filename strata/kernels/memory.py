"""Reads and writes words of eight and four bytes at any byte of an array.

Nothing is checked here: callers make sure that all bytes of a word are inside the array. Words are
little-endian. If Numba is switched off, the same functions run in Python.
"""

from collections.abc import Callable
from ctypes import string_at
from typing import Any, Final

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from strata.kernels.arrays import Bytes, Int
from strata.kernels.jit import inlined

WORD: Final = ir.IntType(64)
HALF: Final = ir.IntType(32)
BYTE: Final = ir.IntType(8)
Emitted = tuple[Any, Callable[..., Any]]  # what Numba requires of an intrinsic: types and generator


def _pointer(context: Any, builder: Any, kind: Any, array: Any, at: Any, size: Any) -> Any:
    """Return a pointer to `size` bits at a byte of an array."""
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), size.as_pointer())


def _load64(_: Any, data: Any, at: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1], WORD)
        return builder.load(pointer, align=1)

    return types.uint64(data, types.int64), emit


def _store64(_: Any, out: Any, at: Any, word: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1], WORD)
        builder.store(args[2], pointer, align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.uint64), emit


def _store32(_: Any, out: Any, at: Any, word: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1], HALF)
        builder.store(builder.trunc(args[2], HALF), pointer, align=1)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.uint64), emit


def _load32(_: Any, data: Any, at: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], args[0], args[1], HALF)
        return builder.zext(builder.load(pointer, align=1), WORD)

    return types.uint64(data, types.int64), emit


def _fetch(_: Any, out: Any, to: Any, address: Any, size: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        target = _pointer(context, builder, signature.args[0], args[0], args[1], BYTE)
        source = builder.inttoptr(args[2], BYTE.as_pointer())
        cgutils.raw_memcpy(builder, target, source, args[3], 1)  # type: ignore[no-untyped-call]
        return context.get_dummy_value()

    return types.void(out, types.int64, types.int64, types.int64), emit


def _at8(_: Any, address: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = builder.load(builder.inttoptr(args[0], BYTE.as_pointer()), align=1)
        return builder.zext(byte, WORD)

    return types.uint64(types.int64), emit


def _at32(_: Any, address: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        half = builder.load(builder.inttoptr(args[0], HALF.as_pointer()), align=1)
        return builder.sext(half, WORD)

    return types.int64(types.int64), emit


def _at64(_: Any, address: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], WORD.as_pointer()), align=1)

    return types.uint64(types.int64), emit


def _byte_swap(_: Any, word: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bswap(args[0])

    return types.uint64(types.uint64), emit


def _bit_length(_: Any, word: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = builder.ctlz(args[0], ir.IntType(1)(0))
        return builder.sub(WORD(64), zeros)

    return types.int64(types.uint64), emit


def _trailing_zeros(_: Any, word: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.IntType(1)(0))

    return types.int64(types.uint64), emit


def _multiply_high(_: Any, one: Any, other: Any) -> Emitted:
    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = [builder.zext(word, ir.IntType(128)) for word in args]
        product = builder.mul(*wide)
        return builder.trunc(builder.lshr(product, ir.IntType(128)(64)), WORD)

    return types.uint64(types.uint64, types.uint64), emit


if numba.config.DISABLE_JIT:  # type: ignore[attr-defined]

    def _inside(data: Bytes, at: Int, size: int) -> slice:
        """Return the slice; the machine code would read or write beyond the array (tests/fuzz)."""
        if not 0 <= at <= len(data) - size:
            raise IndexError(f"{size} bytes at {at} of {len(data)}")
        return slice(at, at + size)

    def load64(data: Bytes, at: Int) -> np.uint64:
        """Return the eight bytes at `at`."""
        return np.uint64(int.from_bytes(data[_inside(data, at, 8)].tobytes(), "little"))

    def load32(data: Bytes, at: Int) -> np.uint64:
        """Return the four bytes at `at`."""
        return np.uint64(int.from_bytes(data[_inside(data, at, 4)].tobytes(), "little"))

    def byte_swap(word: np.uint64) -> np.uint64:
        """Return a word with its bytes in the opposite order."""
        return np.uint64(int.from_bytes(int(word).to_bytes(8, "little"), "big"))

    def store64(out: Bytes, at: int, word: np.uint64) -> None:
        """Write eight bytes at `at`."""
        out[_inside(out, at, 8)] = np.frombuffer(int(word).to_bytes(8, "little"), np.uint8)

    def store32(out: Bytes, at: int, word: np.uint64) -> None:
        """Write the lower four bytes of a word at `at`."""
        out[_inside(out, at, 4)] = np.frombuffer(int(word).to_bytes(8, "little")[:4], np.uint8)

    def fetch(out: Bytes, to: int, address: Int, size: Int) -> None:
        """Copy `size` bytes from an address of memory: of one of many arrays."""
        out[_inside(out, to, int(size))] = np.frombuffer(
            string_at(int(address), int(size)), np.uint8
        )

    def at8(address: Int) -> np.uint64:
        """Return the byte at an address of memory."""
        return np.uint64(string_at(int(address), 1)[0])

    def at32(address: Int) -> int:
        """Return the signed 32-bit number at an address of memory."""
        return int.from_bytes(string_at(int(address), 4), "little", signed=True)

    def at64(address: Int) -> np.uint64:
        """Return the eight bytes at an address of memory."""
        return np.uint64(int.from_bytes(string_at(int(address), 8), "little"))

    def bit_length(word: np.uint64) -> int:
        """Return how many bits a word needs, 0 for 0."""
        return int(word).bit_length()

    def trailing_zeros(word: np.uint64) -> int:
        """Return how many zeros stand below the lowest one, 64 for 0."""
        return (int(word) & -int(word)).bit_length() - 1 if word else 64

    def multiply_high(one: np.uint64, other: np.uint64) -> np.uint64:
        """Return the upper 64 bits of a product."""
        return np.uint64(int(one) * int(other) >> 64)

else:
    emitted: Any = intrinsic
    load64, load32 = emitted(_load64), emitted(_load32)
    store64, store32 = emitted(_store64), emitted(_store32)
    fetch = emitted(_fetch)
    at8, at32, at64 = emitted(_at8), emitted(_at32), emitted(_at64)
    byte_swap, bit_length = emitted(_byte_swap), emitted(_bit_length)
    trailing_zeros, multiply_high = emitted(_trailing_zeros), emitted(_multiply_high)


@inlined
def copy(out: Bytes, to: int, data: Bytes, at: int, size: int) -> None:
    """Copy exactly `size` bytes, eight at a time as far as possible."""
    if size >= 8:
        for j in range(0, size - 8, 8):
            store64(out, to + j, load64(data, at + j))
        store64(out, to + size - 8, load64(data, at + size - 8))
    elif size >= 4:
        last = load32(data, at + size - 4)
        store32(out, to, load32(data, at))
        store32(out, to + size - 4, last)
    else:
        for j in range(size):
            out[to + j] = data[at + j]

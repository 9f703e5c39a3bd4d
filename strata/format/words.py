"""Bytes looked at as 8-byte words that begin anywhere: the trick behind codec and digest.

A view with a stride of one byte lets NumPy gather and scatter eight bytes at a time at any
offset. All words are little-endian, whatever the machine.
"""

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]

PAD: Final = 8  # bytes behind the data that a view needs
KEEP: Final = np.array([(1 << (8 * n)) - 1 for n in range(9)], np.uint64)  # the first n bytes


def word_view(data: Any, size: int, front: int = 0) -> Words:
    """Return a view in which element i is the word at byte i of a padded copy of `data`.

    Its elements 0 to `size` exist; bytes beyond the data are zero. `front` zero bytes come before.
    """
    padded = np.zeros(front + size + PAD, np.uint8)
    if size:
        padded[front : front + size] = np.frombuffer(data, np.uint8, count=size)
    return unaligned(padded)


def unaligned(data: npt.NDArray[np.uint8]) -> Words:
    """Return the words that begin at each byte of `data` but its last seven; writes go through."""
    count = max(len(data) - 7, 0)
    return np.ndarray((count,), np.dtype("<u8"), data, strides=(1,))


def mask_tail(words: Words, lengths: npt.NDArray[Any]) -> Words:
    """Return words with only their first `lengths` (0 to 8) bytes, the others zero."""
    return words & KEEP[lengths]

"""Kernel that lays lists of numbers out as bytes that sort like them: `sortable`.

A list is 01, its items, 00; an item 01 and its bytes; a null is 02, whether list or item. Where a
mask is empty, nothing is null. The caller made room for all bytes.
"""

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int, Int32s, Ints
from strata.kernels.jit import lean


@lean
def list_bytes(
    counts: Ints,
    listed: Bools,
    items: Bytes,
    width: Int,
    known: Bools,
    ends: Int32s,
    out: Bytes,
) -> Int:
    """Write the bytes of each list behind one another, and where each ends; return their sum."""
    at, item = np.int64(0), np.int64(0)
    for i in range(len(counts)):
        if len(listed) and not listed[i]:
            out[at] = 2
            at += 1
        else:
            out[at] = 1
            at += 1
            for j in range(item, item + counts[i]):
                if len(known) and not known[j]:
                    out[at] = 2
                    at += 1
                else:
                    out[at] = 1
                    for k in range(width):
                        out[at + 1 + k] = items[j * width + k]
                    at += 1 + width
            out[at] = 0
            at += 1
        item += counts[i]
        ends[i + 1] = at
    return at

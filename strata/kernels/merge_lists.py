"""Kernel that lays lists of numbers out as bytes that sort like them: `sortable`.

A list is 01, its items, 00. An item is 01 and its bytes. A null list or item is 02. If a mask is
empty, nothing is null. The caller provides room for all bytes.
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
    """Write the bytes of all lists in order, and where each ends; return their total size."""
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

"""Kernels over the codes of texts: `strata.format.values.coded`.

Codes from a file were checked when they were read (`are_within`). If `valid` is empty, all are
valid.
"""

import numpy as np

from strata.kernels.arrays import Bools, Int, Int32s, Ints
from strata.kernels.jit import lean


@lean
def renumber(codes: Int32s, valid: Bools, numbers: Int32s, made: Int32s) -> Int:
    """Renumber codes in the order of their first use; return how many there are.

    `numbers` gets the new code of each old one and must start as -1; `made` gets the new codes of
    all values, 0 for null.
    """
    count = np.int32(0)
    for i in range(len(codes)):
        made[i] = 0
        if len(valid) and not valid[i]:
            continue
        code = codes[i]
        if numbers[code] < 0:
            numbers[code] = count
            count += np.int32(1)
        made[i] = numbers[code]
    return np.int64(count)


@lean
def write_text_ends(codes: Int32s, valid: Bools, lengths: Ints, ends: Ints) -> None:
    """Write 0 and then where each text would end without the coding; a null is empty."""
    total = np.int64(0)
    ends[0] = 0
    for i in range(len(codes)):
        if not len(valid) or valid[i]:
            total += lengths[codes[i]]
        ends[i + 1] = total

"""Loops compiled to machine code, where Arrow and NumPy have no operation that would do.

A kernel works on plain NumPy arrays, knows no types of Strata, and never trusts an offset that
came from a file. Each has a slow, obviously right twin in `tests/`. With `NUMBA_DISABLE_JIT=1` the
same code runs as Python, thousands of times slower.
"""

from typing import Final

# Functions that use every kernel once, `module:function`, for `python -m strata.kernels`. They are
# called by name: who uses kernels stands above them.
WARM: Final = (
    "strata.format.rowcodec.warm:warm",
    "strata.stats.flat:warm",
    "strata.stats.json_scan:warm",
    "strata.updates.warm:warm",
)

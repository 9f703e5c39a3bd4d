"""Loops compiled to machine code, for work that no Arrow or NumPy operation does.

A kernel works on plain NumPy arrays, knows no types of Strata, and never trusts an offset from a
file. Each has a slow, obviously correct twin in `tests/`. With `NUMBA_DISABLE_JIT=1` the same code
runs as Python, thousands of times slower.
"""

from typing import Final

# `module:function`: those that use every kernel once, the longest first, for `python -m
# strata.kernels`. They are named, not imported, because users of kernels are in higher layers.
WARM: Final = (
    "strata.format.rowcodec.warm:warm",
    "strata.stats.json_scan:warm",
    "strata.updates.warm:warm",
    "strata.stats.bloom:warm",
    "strata.format.values.json_text:warm",
    "strata.stats.flat:warm",
    "strata.ingest.readers.csv_lines:warm",
    "strata.ingest.readers.json_members:warm",
)

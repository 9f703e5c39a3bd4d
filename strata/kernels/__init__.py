"""Loops compiled to machine code, where Arrow and NumPy have no operation that would do.

A kernel works on plain NumPy arrays, knows no types of Strata, and never trusts an offset that
came from a file. Each has a slow, obviously right twin in `tests/`. With `NUMBA_DISABLE_JIT=1` the
same code runs as Python, thousands of times slower.
"""

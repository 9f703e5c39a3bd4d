"""A kernel is compiled once for the type of a constant, not anew for each constant."""

from typing import Any

from numba import types

from strata.kernels.jit import lean

_literal: Any = types.literal


@lean
def _shifted(value: int, by: int) -> int:
    return value + by


def test_calls_with_constants_share_one_compiled_kernel() -> None:
    kernel: Any = _shifted
    for constant in (0, 7, 7_000):  # as numba compiles a call in another kernel
        kernel.get_call_template((types.int64, _literal(constant)), {})

    assert kernel.signatures == [(types.int64, types.int64)]

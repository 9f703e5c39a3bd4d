"""A kernel is compiled once for the type of a constant, not anew for each constant."""

from numba import types

from strata.kernels.jit import lean


@lean
def _shifted(value: int, by: int) -> int:
    return value + by


def test_calls_with_constants_share_one_compiled_kernel() -> None:
    for constant in (0, 7, 7_000):  # as numba compiles a call in another kernel
        _shifted.get_call_template((types.int64, types.literal(constant)), {})  # type: ignore[attr-defined]

    assert _shifted.signatures == [(types.int64, types.int64)]  # type: ignore[attr-defined]

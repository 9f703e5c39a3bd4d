"""The float64 nearest to a decimal number, without reading its text again.

If both parts are exact, Clinger's fast path is used. Otherwise Eisel and Lemire's method multiplies
the digits by a 128-bit power of ten; 64 of its bits nearly always decide. The result is marked as
uncertain if they do not decide, or if the number is too small to be normal or too large. Then the
caller must take the slow way.

Source: D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and Experience
51 (2021); the form with truncated powers is the one of Go's strconv.
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Int
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import bit_length, multiply_high

LEAST: Final = -300  # powers of ten in the tables: with 19 digits, well inside normal float64
MOST: Final = 290
_EXACT: Final = np.array([10.0**e for e in range(23)])  # all float64 powers of ten without error
_TWOS_FROM: Final = -1074
_TWOS: Final = np.array([2.0**e for e in range(_TWOS_FROM, 1024)])
_U64: Final = (1 << 64) - 1


def _power(exponent: int) -> int:
    """Return the first 128 bits of a power of ten, truncated."""
    if exponent >= 0:
        value = 10**exponent
        return value << 128 >> value.bit_length()
    value = 10**-exponent
    return (1 << (value.bit_length() + 127)) // value


_POWERS: Final = [_power(e) for e in range(LEAST, MOST + 1)]
_HIGH: Final = np.array([p >> 64 for p in _POWERS], np.uint64)
_LOW: Final = np.array([p & _U64 for p in _POWERS], np.uint64)
_TENS: Final = np.array([float(f"1e{e}") for e in range(LEAST, MOST + 1)])
_BELOW: Final = np.uint64(0x1FF)  # bits of the product's upper half after the 54 that count
_ONES: Final = np.uint64(_U64)
_ZERO: Final = np.uint64(0)
_ONE: Final = np.uint64(1)
_THREE: Final = np.uint64(3)


@lean
def float_of(digits: Int, exponent: Int) -> tuple[float, bool]:
    """Return digits × 10^exponent rounded to the nearest float64, and whether that is certain.

    `digits` is not negative and below 2^63.
    """
    if digits == 0:
        return 0.0, True
    if digits <= 9007199254740992 and -22 <= exponent <= 22:
        if exponent < 0:
            return float(digits) / _EXACT[-exponent], True
        return float(digits) * _EXACT[exponent], True
    if exponent < LEAST or exponent > MOST:
        return 0.0, False
    return _eisel_lemire(digits, exponent)


@inlined
def about(digits: Int, exponent: Int) -> float:
    """Return digits × 10^exponent within 3 units of the last place, for LEAST <= exponent <= MOST.

    `digits` is not negative. The result is 0, normal, or infinite.
    """
    return float(digits) * _TENS[np.uint64(exponent - LEAST)]


@lean
def _eisel_lemire(digits: Int, exponent: Int) -> tuple[float, bool]:
    zeros = 64 - bit_length(np.uint64(digits))
    factor = np.uint64(digits) << np.uint64(zeros)
    high, low = multiply_high(factor, _HIGH[exponent - LEAST]), factor * _HIGH[exponent - LEAST]
    if high & _BELOW == _BELOW and low + factor < factor:  # the power's other half may matter
        more, rest = multiply_high(factor, _LOW[exponent - LEAST]), factor * _LOW[exponent - LEAST]
        merged = low + more
        if merged < low:
            high += _ONE
        if high & _BELOW == _BELOW and merged == _ONES and rest + factor < factor:
            return 0.0, False
        low = merged
    top = high >> np.uint64(63)
    mantissa = high >> (top + np.uint64(9))
    if low == _ZERO and high & _BELOW == _ZERO and mantissa & _THREE == _ONE:
        return 0.0, False  # half-way between two, as far as these bits show
    mantissa = (mantissa + (mantissa & _ONE)) >> _ONE
    # 217706 / 2^16 is log2(10), precisely enough for these exponents.
    power = ((217706 * exponent) >> 16) + 64 - zeros - (1 - np.int64(top)) - 52
    return float(np.int64(mantissa)) * _TWOS[power - _TWOS_FROM], True

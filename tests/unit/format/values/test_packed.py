"""Packed numbers: bytes, text and order against Python's decimal."""

import math
from decimal import Context, Decimal, localcontext
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.errors import Corrupt, InvalidRequest
from strata.format.values.packed import (
    approximate,
    from_text,
    numeric,
    order_bytes,
    pack,
    to_text,
    unpack,
)
from tests.support.values import pack_decimal, unpack_decimal

WIDE = Context(prec=50, Emax=10**12, Emin=-(10**12))
DIGITS = st.integers(0, 10**39 - 1) | st.integers(0, 999) | st.integers(0, 38).map(lambda n: 10**n)
EXPONENTS = st.integers(-45, 45) | st.sampled_from([-400, -330, 308, 400, 2**31 - 99, 99 - 2**31])
FINITE = st.builds(
    lambda sign, digits, exponent: Decimal(f"{sign}{digits}E{exponent}"),
    st.sampled_from(["", "-"]),
    DIGITS,
    EXPONENTS,
)
NUMBERS = FINITE | st.sampled_from([Decimal(t) for t in ("NaN", "-NaN", "Infinity", "-Infinity")])


def canonical(number: Decimal) -> Decimal:
    """Return a number as it is stored: shortest, zero and NaN without sign."""
    if number.is_nan():
        return Decimal("NaN")
    return number.normalize(WIDE) if number else Decimal(0)


def twin(number: Decimal) -> bytes:
    """Return the 40 bytes, made a digit at a time."""
    sign, digits, exponent = canonical(number).as_tuple()
    special = {"n": 0x20, "F": 0x40}.get(str(exponent), 0)
    value = 0 if special else int("".join(map(str, digits)))
    head = (1 if special else len(digits)).to_bytes(4, "little")
    head += (0 if special else int(exponent)).to_bytes(4, "little", signed=True)
    units = b"".join((value // 1000**i % 1000).to_bytes(2, "little") for i in range(13))
    return head + units + bytes([special | (0x80 if sign else 0)]) + bytes(5)


def packed(numbers: list[Decimal | None]) -> pa.Array:
    return from_text(pa.array([None if n is None else str(n) for n in numbers], pa.string()))


@given(st.lists(st.none() | NUMBERS, max_size=8))
@example([Decimal("-101"), None, Decimal("-0.00"), Decimal("1E-39"), Decimal("1E+38")])
def test_bytes_text_and_approximation_are_those_of_decimal(numbers: list[Decimal | None]) -> None:
    found = packed(numbers)
    texts = to_text(found).to_pylist()
    floats = approximate(found).to_pylist()

    assert found.to_pylist() == [None if n is None else twin(n) for n in numbers]
    valid = np.array([n is not None for n in numbers], np.bool_)
    assert pack(unpack(found), valid).equals(found)
    for number, text, near in zip(numbers, texts, floats, strict=True):
        if number is None:
            assert text is None
            assert near is None
            continue
        assert str(canonical(Decimal(text))) == str(canonical(number))
        assert math.isnan(near) if number.is_nan() else near == float(number)
        assert math.copysign(1, near) == 1 or near < 0


@example([Decimal(3), Decimal(12), Decimal(-12), Decimal("1.25"), Decimal("1.3")])
@given(st.lists(NUMBERS, min_size=2, max_size=8))
def test_order_bytes_sort_like_numbers(numbers: list[Decimal]) -> None:
    keys = order_bytes(packed(numbers)).to_pylist()
    key = {k: n for k, n in zip(keys, numbers, strict=True)}
    with localcontext(WIDE):
        for a, b in pairwise(sorted(keys)):
            first, second = key[a], key[b]
            assert second.is_nan() or first <= second
            same = first.is_nan() == second.is_nan() and (first.is_nan() or first == second)
            assert (a == b) == same


@pytest.mark.parametrize(
    ("number", "text"),
    [("1500", "1500"), ("-0.00", "0"), ("1.50", "1.5"), ("1e38", "1" + "0" * 38), ("1e39", "1E+39"),
     ("1e-39", "0." + "0" * 38 + "1"), ("1e-40", "1E-40"), (".5", "0.5"), ("5.", "5"),
     ("+1", "1"), ("-inf", "-Infinity"), ("nan", "NaN"), ("9" * 39, "9" * 39),
     ("100001", "100001"), ("7200300", "7200300"), ("0.900", "0.9")],
)  # fmt: skip
def test_the_text_is(number: str, text: str) -> None:
    assert to_text(from_text(pa.array([number]))).to_pylist() == [text]


def test_the_published_vector() -> None:
    bytes_ = pack_decimal(Decimal(-101))
    assert bytes_ == bytes.fromhex("03000000000000006500") + bytes(24) + b"\x80" + bytes(5)
    assert unpack_decimal(bytes_) == -101


@pytest.mark.parametrize(
    "text", ["", ".", "e5", "1e", "1e+", "x", "1_0", " 1", "9" * 40, "1e99999999999", "+-1", "nan1"]
)
def test_what_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="number"):
        from_text(pa.array(["1", None, text]))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("1e2147483647", "1E+2147483647"),
        ("0.1e2147483648", "1E+2147483647"),
        ("-9e-2147483648", "-9E-2147483648"),
        ("1e2147483648", None),
        ("10e2147483647", None),
        ("1e-2147483649", None),
        ("0.1e-2147483648", None),
    ],
)
def test_an_exponent_has_32_bits(text: str, kept: str | None) -> None:
    if kept is None:
        with pytest.raises(InvalidRequest, match="too large or too small"):
            from_text(pa.array(["1", text]))
    else:
        assert to_text(from_text(pa.array(["1", text]))).to_pylist() == ["1", kept]


@pytest.mark.parametrize("at", [(0, 2), (8, 0xFF), (34, 1)])
def test_bytes_that_are_no_number_are_corrupt(at: tuple[int, int]) -> None:
    data = bytearray(pack_decimal(Decimal(7)))
    data[at[0]] = at[1]
    if at[0] == 8:
        data[9] = 0xFF
    with pytest.raises(Corrupt):
        unpack(pa.array([bytes(data)], pa.binary(40)))


def test_slices_and_no_numbers_at_all() -> None:
    whole = packed([Decimal(1), None, Decimal("2.5"), Decimal("NaN")])
    assert to_text(whole.slice(1, 2)).to_pylist() == [None, "2.5"]
    assert numeric(whole.slice(1, 2)).field("approx").to_pylist() == [None, 2.5]
    assert to_text(whole.slice(0, 0)).to_pylist() == []
    assert len(packed([])) == len(order_bytes(packed([]))) == 0

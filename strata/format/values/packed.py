"""Numbers of up to 39 digits, NaN and the infinities as 40 bytes, and as text.

    0   u32     how many digits the coefficient has
    4   i32     exponent: the number is coefficient * 10**exponent
    8   u16[13] the coefficient in base 1000, least significant first
    34  u8      0x80 negative, 0x40 infinity, 0x20 NaN
    35          zeros

All little-endian. Canonical, so that equal numbers have equal bytes: no trailing zeros (the
exponent is raised instead), zero is one digit with exponent 0 and no sign, one NaN without a
sign; infinities and NaN have one digit, a zero. The bytes do not sort like the numbers;
`order_bytes` do. Stored beside them is the nearest float64 (`approximate`).

Text: plain (`-0.00125`) where the number has at most 39 places on either side of its point,
otherwise with an exponent (`1.5E+300`); `NaN`, `Infinity`, `-Infinity`.

Twin: Python's decimal, in `tests/unit/format/values/test_packed.py`.
"""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import Corrupt, InvalidRequest
from strata.format.values.physical import pack_mask, present, true, valid_mask
from strata.kernels.arrays import Bools, Bytes, Ints

NUMERIC_BYTES: Final = 40
UNBOUNDED_NUMERIC: Final = pa.struct([("approx", pa.float64()), ("binary", pa.binary(40))])
MAX_DIGITS: Final = 39
UNITS: Final = MAX_DIGITS // 3
NEGATIVE: Final = 0x80
INFINITY: Final = 0x40
NAN: Final = 0x20
PACKED: Final = np.dtype(
    [
        ("digits", "<u4"),
        ("exponent", "<i4"),
        ("units", "<u2", UNITS),
        ("flags", "u1"),
        ("zeros", "u1", 5),
    ]
)
EXPONENTS: Final = range(-(2**31), 2**31)
POWERS: Final = np.array([1, 10, 100], np.uint16)
TEXT: Final = (
    r"^(?P<sign>[+-]?)(?P<whole>[0-9]*)(?P<point>\.?)(?P<part>[0-9]*)"
    r"(?P<e>[eE]?)(?P<exponent>[+-]?[0-9]{0,18})$"
)
SPECIAL: Final = r"(?i)^[+-]?(nan|inf|infinity)$"


@dataclass(frozen=True, slots=True)
class PackedNumbers:
    """A column of numbers, taken apart.

    Shape: n each; `digits` (n, 39), least significant first. Under a null: anything canonical.
    """

    digits: Bytes
    exponent: Ints
    negative: Bools
    infinite: Bools
    nan: Bools

    def __len__(self) -> int:
        """Return how many numbers there are."""
        return len(self.exponent)

    @property
    def count(self) -> Ints:
        """Return the number of significant digits of each, at least 1."""
        found: Ints = MAX_DIGITS - np.argmax(self.digits[:, ::-1] != 0, axis=1)
        return np.where(self.digits.any(axis=1), found, 1)

    @property
    def flags(self) -> Bytes:
        """Return the flag byte of each."""
        bits = (self.negative * NEGATIVE) | (self.infinite * INFINITY) | (self.nan * NAN)
        return bits.astype(np.uint8)


def unpack(array: pa.FixedSizeBinaryArray) -> PackedNumbers:
    """Unpack numbers.

    Raises: Corrupt for bytes that are not a packed number.
    """
    records = _records(array)
    valid = valid_mask(array)
    if valid is not None:
        records = np.where(valid, records, _ZERO)
    units, flags = records["units"], records["flags"]
    spread = np.empty((len(records), UNITS, 3), np.uint8)
    spread[:, :, 0] = units % 10
    spread[:, :, 1] = units // 10 % 10
    spread[:, :, 2] = units // 100
    numbers = PackedNumbers(
        digits=spread.reshape(len(records), MAX_DIGITS),
        exponent=records["exponent"].astype(np.int64),
        negative=(flags & NEGATIVE) != 0,
        infinite=(flags & INFINITY) != 0,
        nan=(flags & NAN) != 0,
    )
    known = (flags & (0xFF & ~(NEGATIVE | INFINITY | NAN))) == 0
    if (units > 999).any() or not known.all() or (numbers.count != records["digits"]).any():
        raise Corrupt("bytes are no packed number", cure="see docs/reference/format.md, numeric")
    return numbers


def pack(numbers: PackedNumbers, valid: Bools | None = None) -> pa.FixedSizeBinaryArray:
    """Pack numbers in canonical form, in 40 bytes each; null where not `valid`.

    Raises: InvalidRequest for an exponent that 32 bits cannot hold.
    """
    numbers = canonical(numbers)
    far = (numbers.exponent < EXPONENTS.start) | (numbers.exponent >= EXPONENTS.stop)
    if far.any():
        raise InvalidRequest(
            "a number is too large or too small", exponent=int(numbers.exponent[far][0])
        )
    records = np.zeros(len(numbers), PACKED)
    records["digits"] = numbers.count
    records["exponent"] = numbers.exponent
    records["units"] = numbers.digits.reshape(len(numbers), UNITS, 3) @ POWERS
    records["flags"] = numbers.flags
    if valid is not None:
        records[~valid] = np.zeros((), PACKED)
    return pa.Array.from_buffers(
        pa.binary(NUMERIC_BYTES), len(numbers), [pack_mask(valid), pa.py_buffer(records)]
    )


def canonical(numbers: PackedNumbers) -> PackedNumbers:
    """Return the same numbers with one spelling each."""
    special = numbers.infinite | numbers.nan
    digits = np.where(special[:, None], np.uint8(0), numbers.digits)
    some = digits.any(axis=1)
    zeros: Ints = np.argmax(digits != 0, axis=1)  # trailing ones; 0 where there are only zeros
    if zeros.any():
        at = np.minimum(np.arange(MAX_DIGITS) + zeros[:, None], MAX_DIGITS - 1)
        moved = np.take_along_axis(digits, at, axis=1)
        kept = np.arange(MAX_DIGITS) < (MAX_DIGITS - zeros)[:, None]
        digits = np.where(kept, moved, np.uint8(0))
    return PackedNumbers(
        digits=digits,
        exponent=np.where(some, numbers.exponent + zeros, 0),
        negative=numbers.negative & (some | numbers.infinite) & ~numbers.nan,
        infinite=numbers.infinite & ~numbers.nan,
        nan=numbers.nan,
    )


def to_text(array: pa.FixedSizeBinaryArray) -> pa.StringArray:
    """Return packed numbers as text, null where null."""
    numbers = unpack(array)
    top = numbers.exponent + numbers.count  # places in front of the point
    long = (top > MAX_DIGITS) | (numbers.exponent < -MAX_DIGITS)
    result = _plain_text(numbers)
    special = numbers.infinite | numbers.nan
    if special.any():
        names = np.where(numbers.nan, "NaN", np.where(numbers.negative, "-Infinity", "Infinity"))
        result = pc.if_else(pa.array(special), pa.array(names, pa.string()), result)
    if long.any():
        rare = [str(_decimal(numbers, int(i))) for i in np.flatnonzero(long)]
        result = pc.replace_with_mask(result, pa.array(long), pa.array(rare, pa.string()))
    return result if not array.null_count else pc.if_else(array.is_valid(), result, None)


def from_text(texts: pa.StringArray) -> pa.FixedSizeBinaryArray:
    """Pack numbers from texts such as `-1.50`, `1e300`, `NaN`, `inf`, `-Infinity`.

    Raises: InvalidRequest naming a text that is not a number or has more than 39 digits.
    """
    pieces = pc.extract_regex(texts, TEXT)
    special = true(pc.match_substring_regex(texts, SPECIAL))
    valid = valid_mask(texts)
    field = {name: pc.fill_null(pc.struct_field(pieces, name), "") for name in _PIECES}
    coefficient = pc.binary_join_element_wise(field["whole"], field["part"], "")
    wrong = true(pc.equal(coefficient, "")) & ~special
    wrong |= true(pc.not_equal(field["e"], "")) != true(pc.not_equal(field["exponent"], ""))
    wrong |= true(pc.match_substring_regex(field["exponent"], "^[+-]$"))
    if valid is not None:
        wrong &= valid
    _refuse(texts, wrong, "not a number", "as in -1.50, 1E+30, NaN or Infinity")
    significant = pc.utf8_ltrim(coefficient, "0")
    short = pc.utf8_rtrim(significant, "0")
    long = pc.greater(pc.utf8_length(short), MAX_DIGITS).to_numpy(zero_copy_only=False)
    _refuse(texts, long, f"a number has more than {MAX_DIGITS} digits", "round it")
    exponent = pc.if_else(pc.equal(field["exponent"], ""), "0", field["exponent"])
    cut = pc.subtract(pc.utf8_length(significant), pc.utf8_length(short))
    shift = pc.subtract(cut, pc.utf8_length(field["part"])).cast(pa.int64()).to_numpy()
    sign = pc.equal(pc.utf8_slice_codeunits(texts.fill_null(""), 0, 1), "-")
    nan = special & true(pc.match_substring(texts, "nan", ignore_case=True))
    numbers = PackedNumbers(
        digits=_digit_matrix(short),
        exponent=_integers(exponent) + shift,
        negative=sign.to_numpy(zero_copy_only=False),
        infinite=special & ~nan,
        nan=nan,
    )
    return pack(numbers, valid)


def approximate(array: pa.FixedSizeBinaryArray) -> pa.DoubleArray:
    """Return the float64 nearest to each number; infinite where it is too large for one."""
    numbers = unpack(array)
    exponents = pa.array(numbers.exponent).cast(pa.string())
    marks = pc.if_else(pa.array(numbers.negative), "-", "")
    digits = _digit_text(numbers.digits)
    texts = pc.binary_join_element_wise(marks, digits, "E", exponents, "")
    floats = texts.cast(pa.float64()).to_numpy() + 0.0  # no -0.0
    floats = np.where(numbers.infinite, np.where(numbers.negative, -np.inf, np.inf), floats)
    floats = np.where(numbers.nan, np.nan, floats)
    return pa.array(floats, mask=None if not array.null_count else ~present(array))


def numeric(array: pa.FixedSizeBinaryArray) -> pa.StructArray:
    """Return packed numbers in stored form, with the nearest float64 in front."""
    mask = array.is_null() if array.null_count else None
    children = [approximate(array), array]
    return pa.StructArray.from_arrays(children, fields=list(UNBOUNDED_NUMERIC), mask=mask)


def order_bytes(array: pa.FixedSizeBinaryArray) -> pa.FixedSizeBinaryArray:
    """Return 45 bytes for each number that sort exactly like it; NaN last, null where null."""
    numbers = canonical(unpack(array))
    zero = ~numbers.digits.any(axis=1) & ~numbers.infinite & ~numbers.nan
    rows = np.zeros((len(numbers), 6 + MAX_DIGITS), np.uint8)
    top = numbers.exponent + numbers.count + 2**39
    rows[:, 1:6] = top.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 3:]
    shift = MAX_DIGITS - numbers.count
    at = np.arange(MAX_DIGITS) - shift[:, None]
    left = np.take_along_axis(numbers.digits, np.maximum(at, 0), axis=1)
    rows[:, 6:] = np.where(at >= 0, left, 0)[:, ::-1]
    rows[zero | numbers.infinite | numbers.nan, 1:] = 0
    rows[numbers.infinite, 1:6] = 0xFF
    rows[numbers.negative, 1:] ^= 0xFF
    rows[:, 0] = np.where(numbers.nan, 3, np.where(zero, 1, np.where(numbers.negative, 0, 2)))
    buffer = pa.py_buffer(np.ascontiguousarray(rows))
    mask = pack_mask(valid_mask(array))
    return pa.Array.from_buffers(pa.binary(6 + MAX_DIGITS), len(numbers), [mask, buffer])


_PIECES: Final = ("whole", "part", "e", "exponent")
_ZERO: Final = np.array([(1, 0, (0,) * UNITS, 0, (0,) * 5)], PACKED)


def _records(array: pa.FixedSizeBinaryArray) -> npt.NDArray[Any]:
    if not len(array):
        return np.empty(0, PACKED)
    whole = np.frombuffer(array.buffers()[1], PACKED, array.offset + len(array))
    return whole[array.offset :]


def _refuse(texts: pa.StringArray, wrong: Bools, message: str, cure: str) -> None:
    if wrong.any():
        value = texts[int(np.argmax(wrong))].as_py()
        raise InvalidRequest(message, value=value, cure=cure)


def _integers(texts: pa.StringArray) -> Ints:
    found: Ints = pc.utf8_ltrim(texts, "+").cast(pa.int64()).to_numpy()
    return found


def _digit_matrix(texts: pa.StringArray) -> Bytes:
    """Return texts of at most 39 digits as digits, least significant first."""
    if not len(texts):
        return np.zeros((0, MAX_DIGITS), np.uint8)
    padded = pc.ascii_lpad(texts, MAX_DIGITS, "0")
    start = padded.offset * MAX_DIGITS
    data = np.frombuffer(padded.buffers()[2], np.uint8, len(texts) * MAX_DIGITS, start)
    return data.reshape(-1, MAX_DIGITS)[:, ::-1] - np.uint8(ord("0"))


def _digit_text(digits: Bytes) -> pa.StringArray:
    return _ragged(digits[:, ::-1] + np.uint8(ord("0")), None)


def _ragged(chars: Bytes, kept: Bools | None) -> pa.StringArray:
    """Return the rows of a matrix of characters, without those not kept, as texts."""
    rows, width = chars.shape
    lengths = np.full(rows, width) if kept is None else kept.sum(axis=1)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    data = np.ascontiguousarray(chars if kept is None else chars[kept])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def _plain_text(numbers: PackedNumbers) -> pa.StringArray:
    """Return finite numbers of at most 39 places on either side of the point as texts.

    Shape: columns of the matrix: sign, places before the point, the point, places after it; as
    many as the longest number needs.
    """
    top = np.clip(numbers.exponent + numbers.count, 1, MAX_DIGITS)
    low = np.clip(numbers.exponent, -MAX_DIGITS, 0)
    whole, part = int(top.max(initial=1)), -int(low.min(initial=0))
    place = np.concatenate([np.arange(whole)[::-1], -1 - np.arange(part)])
    at = place[None, :] - numbers.exponent[:, None]
    inside = (at >= 0) & (at < MAX_DIGITS)
    digits = np.take_along_axis(numbers.digits, np.clip(at, 0, MAX_DIGITS - 1), axis=1)
    chars = np.where(inside, digits, np.uint8(0)) + np.uint8(ord("0"))
    kept = (place[None, :] < top[:, None]) & (place[None, :] >= low[:, None])
    count = len(numbers)
    sign = np.full((count, 1), ord("-"), np.uint8)
    point = np.full((count, 1), ord("."), np.uint8)
    matrix = np.hstack([sign, chars[:, :whole], point, chars[:, whole:]])
    shown = [numbers.negative[:, None], kept[:, :whole], low[:, None] < 0, kept[:, whole:]]
    return _ragged(matrix, np.hstack(shown))


def _decimal(numbers: PackedNumbers, i: int) -> Decimal:
    negative = int(numbers.negative[i])
    if numbers.nan[i]:
        return Decimal("NaN")
    if numbers.infinite[i]:
        return Decimal("-Infinity" if negative else "Infinity")
    count = int(numbers.count[i])
    digits = tuple(int(d) for d in numbers.digits[i, :count][::-1])
    return Decimal((negative, digits, int(numbers.exponent[i])))

"""Compare the row codec with the columns: both halves of a part must hold the same values."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.values.nested import is_listed, items
from strata.format.values.physical import numbers, valid_mask
from strata.kernels.arrays import Bools
from strata.model.schema import Column

MAX_SHOWN: Final = 20  # mismatches kept with their values; all are counted
MAX_TEXT: Final = 120  # characters of a shown value


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One value that the two halves of a part disagree on."""

    row: int  # from 0, in the whole part (or the read's selection of row groups)
    column: int  # column id
    codec: str  # the value in k or v, shortened
    columns: str  # the value in k_s or v_s, shortened


@dataclass(frozen=True, slots=True)
class PartCheck:
    """The number of values of each column that agree, and the first mismatches."""

    rows: int = 0
    valid: dict[int, int] = field(default_factory=dict)  # by column id
    invalid: dict[int, int] = field(default_factory=dict)  # by column id
    first: tuple[Mismatch, ...] = ()  # at most MAX_SHOWN

    @property
    def mismatches(self) -> int:
        """Return the number of values that disagree."""
        return sum(self.invalid.values())

    def plus(self, other: "PartCheck") -> "PartCheck":
        """Return both checks as one."""
        ids = [*self.valid, *(i for i in other.valid if i not in self.valid)]
        return PartCheck(
            self.rows + other.rows,
            {i: self.valid.get(i, 0) + other.valid.get(i, 0) for i in ids},
            {i: self.invalid.get(i, 0) + other.invalid.get(i, 0) for i in ids},
            (self.first + other.first)[:MAX_SHOWN],
        )


def compare(
    columns: Sequence[Column],
    decoded: Sequence[pa.Array],
    stored: Sequence[pa.Array],
    first_row: int,
) -> PartCheck:
    """Compare the decoded values of the row codec with the stored columns, bit by bit.

    Both must have the same types. A missing row group or reordered rows show as mismatches.
    """
    valid: dict[int, int] = {}
    invalid: dict[int, int] = {}
    shown: list[Mismatch] = []
    for column, left, right in zip(columns, decoded, stored, strict=True):
        wrong = np.flatnonzero(differs(left, right))
        invalid[column.id] = len(wrong)
        valid[column.id] = len(right) - len(wrong)
        shown += (
            Mismatch(first_row + int(i), column.id, shorten(left[int(i)]), shorten(right[int(i)]))
            for i in wrong[: MAX_SHOWN - len(shown)]
        )
    return PartCheck(len(stored[0]) if stored else 0, valid, invalid, tuple(shown))


def differs(left: pa.Array, right: pa.Array) -> Bools:
    """Return the rows in which two arrays of one type differ; null equals null.

    Nested values are equal when everything in them is; values under a null are ignored.
    """
    left_valid, right_valid = _valid(left), _valid(right)
    both = left_valid & right_valid
    kind = left.type
    wrong: Bools
    if pa.types.is_struct(kind):
        wrong = np.zeros(len(left), np.bool_)
        for a, b in zip(left.flatten(), right.flatten(), strict=True):
            wrong |= differs(a, b)
    elif is_listed(kind):
        wrong = _lists_differ(left, right)
    else:
        wrong = _values_differ(left, right)
    wrong = (left_valid != right_valid) | (both & wrong)
    return wrong


def _lists_differ(left: pa.Array, right: pa.Array) -> Bools:
    (lengths, a), (others, b) = items(left), items(right)
    wrong: Bools = lengths != others
    if wrong.any():
        same = pa.array(~wrong)
        lengths, a = items(left.filter(same))
        b = items(right.filter(same))[1]
    rows = np.repeat(np.flatnonzero(~wrong), lengths)
    wrong[rows[differs(a, b)]] = True
    return wrong


def _values_differ(left: pa.Array, right: pa.Array) -> Bools:
    kind = left.type
    if pa.types.is_floating(kind):
        # By bits: NaN equals itself, and -0.0, which is not canonical, is not 0.0.
        dtype = np.dtype("<u4") if kind == pa.float32() else np.dtype("<u8")
        wrong: Bools = numbers(left, dtype) != numbers(right, dtype)
    else:
        if pa.types.is_string(kind):
            left, right = left.cast(pa.binary()), right.cast(pa.binary())
        wrong = pc.not_equal(left, right).fill_null(False).to_numpy(zero_copy_only=False)
    return wrong


def _valid(array: pa.Array) -> Bools:
    valid = valid_mask(array)
    return np.ones(len(array), np.bool_) if valid is None else valid


def shorten(value: pa.Scalar) -> str:
    """Return a value as text, cut to a length that fits a report."""
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError):  # a date outside Python's years, alone or inside
        text = " ".join(str(pa.array([value])).split()).removeprefix("[ ").removesuffix(" ]")
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}... ({len(text)} characters)"

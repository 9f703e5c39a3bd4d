"""The row codec against the columns: whether both halves of a part say the same."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.physical import TEXTS, numbers, valid_mask
from strata.format.words import Bools
from strata.model.schema import Column
from strata.model.types import Kind

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
    """How many values of each column agree, and the first that do not."""

    rows: int = 0
    valid: dict[int, int] = field(default_factory=dict)  # by column id
    invalid: dict[int, int] = field(default_factory=dict)  # by column id
    first: tuple[Mismatch, ...] = ()  # at most MAX_SHOWN

    @property
    def mismatches(self) -> int:
        """Return how many values disagree."""
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
    """Return how the decoded values of the row codec and the stored columns agree, bit by bit.

    Equal types are needed. A missing row group or reordered rows show as mismatches.
    """
    check = PartCheck(rows=len(stored[0]) if stored else 0)
    for column, left, right in zip(columns, decoded, stored, strict=True):
        wrong = np.flatnonzero(differs(left, right, column.type.kind))
        shown = tuple(
            Mismatch(first_row + int(i), column.id, shorten(left[int(i)]), shorten(right[int(i)]))
            for i in wrong[:MAX_SHOWN]
        )
        check = check.plus(
            PartCheck(0, {column.id: len(right) - len(wrong)}, {column.id: len(wrong)}, shown)
        )
    return check


def differs(left: pa.Array, right: pa.Array, kind: Kind) -> Bools:
    """Return in which rows two arrays of one type are not the same, null equal to null."""
    if kind in (Kind.FLOAT32, Kind.FLOAT64):
        # By bits: NaN equals itself, and -0.0, which is not canonical, is not 0.0.
        dtype = np.dtype("<u4") if kind is Kind.FLOAT32 else np.dtype("<u8")
        unequal = numbers(left, dtype) != numbers(right, dtype)
    else:
        if kind in TEXTS:
            left, right = left.cast(pa.binary()), right.cast(pa.binary())
        answer = pc.not_equal(left, right).fill_null(False)
        unequal = answer.to_numpy(zero_copy_only=False)
    left_valid, right_valid = valid_mask(left), valid_mask(right)
    ones = np.ones(len(left), np.bool_)
    a = ones if left_valid is None else left_valid
    b = ones if right_valid is None else right_valid
    wrong: Bools = (a != b) | (a & b & unequal)
    return wrong


def shorten(value: pa.Scalar) -> str:
    """Return a value as text, cut to a length that fits a report."""
    try:
        text = repr(value.as_py())
    except (ValueError, OverflowError):  # a date outside Python's years
        text = str(value.cast(pa.int64()))
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}... ({len(text)} characters)"

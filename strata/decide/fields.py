"""Columns of statistics as NumPy sees them: physical values and validity."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.spec import NO, YES, Bounds, Flags, uniform
from strata.format.encodings import arrow_type
from strata.format.values.view import has_view, to_view
from strata.model.types import ColumnType
from strata.stats.table import widens

Rows = slice | np.ndarray[Any, np.dtype[np.intp]]  # which parts: a chunk, or survivors in it


class StatsArray:
    """One Arrow array as NumPy sees it: physical values and validity; texts stay in Arrow."""

    def __init__(self, array: pa.Array) -> None:
        self.type = array.type
        self.array = array

    # Decoded when first asked for: many fields of a struct are not.

    @cached_property
    def valid(self) -> Flags | None:
        """Return where there is a value; None for everywhere."""
        return None if self.array.null_count == 0 else _validity(self.array)

    @cached_property
    def values(self) -> Bounds | None:
        """Return the numbers behind the array; None for text and nested types."""
        return _physical(self.array)

    def known(self, rows: Rows) -> Flags:
        """Return where there is a value."""
        return YES if self.valid is None else uniform(self.valid[rows])

    def texts(self, rows: Rows) -> pa.Array:
        """Return text as binary; null where there is none."""
        if isinstance(rows, slice):
            chosen = self.array.slice(rows.start, rows.stop - rows.start)
        else:
            chosen = self.array.take(pa.array(rows))
        return chosen if pa.types.is_binary(self.type) else chosen.cast(pa.binary())


@dataclass(frozen=True, slots=True)
class Part:
    """One part of values that are stored as one number and seen as a struct."""

    low: StatsArray
    high: StatsArray
    known: Flags  # where the bounds of the whole say something of this part
    type: str  # as Spark names it


_SPARK_NAMES: Final = {
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.decimal128(20, 0): "decimal(20,0)",
    pa.string(): "string",
}


def seen(raw: StatsArray, declared: ColumnType) -> StatsArray | None:
    """Return bounds as Spark sees values of the declared type.

    Errs: None, "nothing is known", for bounds of another type that it has not widened.
    """
    wanted = arrow_type(declared)
    if raw.type != wanted and not _narrower(raw.type, wanted):
        return None
    if raw.type == wanted and not has_view(declared):
        return raw
    try:
        return StatsArray(to_view(raw.array.cast(wanted), declared))
    except (pa.ArrowException, ValueError, OverflowError):  # no values of the type
        return None


def _narrower(old: pa.DataType, new: pa.DataType) -> bool:
    """Return whether a column of the type `old` may have been widened to `new`."""
    if not widens(old, new) or pa.types.is_signed_integer(old) != pa.types.is_signed_integer(new):
        return False
    if pa.types.is_decimal(old):
        return bool(old.precision < new.precision)
    return bool(old.bit_width < new.bit_width)


def seen_part(low: StatsArray, high: StatsArray, ordinal: int) -> Part | None:
    """Return the bounds of one part; None if there is no such part.

    Values sort by their parts in turn: a part has bounds where all before it are one value. The
    names of roles do not sort as the roles do: they are known only where they are one value.
    """
    if not pa.types.is_struct(low.type) or not 0 <= ordinal < low.type.num_fields:
        return None
    a, b = low.array.flatten(), high.array.flatten()
    name = _SPARK_NAMES.get(a[ordinal].type)
    if name is None:
        return None
    known = np.ones(len(low.array), bool)
    for place in range(ordinal + (name == "string")):
        known &= pc.fill_null(pc.equal(a[place], b[place]), False).to_numpy(zero_copy_only=False)
    return Part(StatsArray(a[ordinal]), StatsArray(b[ordinal]), known, name)


def nonzero(counts: Bounds) -> Flags:
    """Return where counts, as int64, are not 0; one element where all are alike."""
    if counts.size <= 1:
        return uniform(counts != 0) if counts.size else NO
    unsigned = counts.view(np.uint64)  # least and greatest are quicker than comparing all
    if not unsigned.max():
        return NO
    return YES if unsigned.min() else counts != 0


def _validity(array: pa.Array) -> Flags:
    flags: Flags = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return flags


def _physical(array: pa.Array) -> Bounds | None:
    """Return the numbers behind an array, or None for text and nested types.

    Shape: what lies under a null is arbitrary. Decimals of up to 18 digits become int64, longer
    ones Python integers, as `spark_type(...).wide` says.
    """
    kind = array.type
    if pa.types.is_boolean(kind):
        return np.asarray(pc.fill_null(array, False).to_numpy(zero_copy_only=False))
    if not (pa.types.is_primitive(kind) or pa.types.is_decimal128(kind)):
        return None
    if (buffer := array.buffers()[1]) is None:  # nothing but nulls
        return np.zeros(len(array), np.int64)
    if pa.types.is_decimal128(kind):
        return _decimals(array, buffer)
    letter = "f" if pa.types.is_floating(kind) else "i"
    whole = np.frombuffer(buffer, dtype=f"{letter}{kind.bit_width // 8}")
    return whole[array.offset : array.offset + len(array)]


def _decimals(array: pa.Array, buffer: pa.Buffer) -> Bounds:
    words = np.frombuffer(buffer, dtype=np.int64)
    words = words[2 * array.offset : 2 * (array.offset + len(array))]
    if array.type.precision <= 18:
        return words[0::2]
    low = words[0::2].view(np.uint64).astype(object)
    whole: Bounds = words[1::2].astype(object) * 2**64 + low
    return whole

"""Statistics columns as NumPy arrays: physical values and validity."""

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
from strata.stats.table import keeps_bounds

Rows = slice | np.ndarray[Any, np.dtype[np.intp]]  # selects parts: a chunk, or the survivors in it


class StatsArray:
    """One Arrow array as NumPy arrays of physical values and validity; texts stay in Arrow."""

    def __init__(self, array: pa.Array) -> None:
        self.type = array.type
        self.array = array

    # Decoded on first use, since many fields of a struct are never used.

    @cached_property
    def valid(self) -> Flags | None:
        """Return a mask of the present values; None means all."""
        return None if self.array.null_count == 0 else _validity(self.array)

    @cached_property
    def values(self) -> Bounds | None:
        """Return the numbers behind the array; None for text and nested types."""
        return _physical(self.array)

    def known(self, rows: Rows) -> Flags:
        """Return a mask of the present values."""
        return YES if self.valid is None else uniform(self.valid[rows])

    @cached_property
    def _binary(self) -> pa.Array:
        """Return all texts as binary: the same bytes."""
        return self.array if pa.types.is_binary(self.type) else self.array.cast(pa.binary())

    def texts(self, rows: Rows) -> pa.Array:
        """Return the texts as binary, null where missing."""
        if isinstance(rows, slice):
            return self._binary.slice(rows.start, rows.stop - rows.start)
        return self._binary.take(pa.array(rows))


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a value that is stored as one number and shown as a struct."""

    low: StatsArray
    high: StatsArray
    known: Flags  # where the bounds of the whole value also bound this field
    type: str  # as Spark names it


_SPARK_NAMES: Final = {
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.decimal128(20, 0): "decimal(20,0)",
    pa.string(): "string",
}


def seen(raw: StatsArray, declared: ColumnType) -> StatsArray | None:
    """Return bounds as Spark sees values of the declared type.

    Errs: None, "nothing is known", for bounds of a type that the declared one has not widened.
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
    if not keeps_bounds(old, new) or pa.types.is_signed_integer(old) != pa.types.is_signed_integer(
        new
    ):
        return False
    if pa.types.is_decimal(old):
        return bool(old.precision < new.precision)
    return bool(old.bit_width < new.bit_width)


def seen_part(low: StatsArray, high: StatsArray, ordinal: int) -> Part | None:
    """Return the bounds of one field of a value; None if there is no such field.

    Values sort by their fields in turn: a field has bounds where each earlier field has a single
    value. Names of roles sort differently from roles, so a name is known only where it is single.
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
    """Return where counts (int64) are not 0; a single element where all agree."""
    if counts.size <= 1:
        return uniform(counts != 0) if counts.size else NO
    unsigned = counts.view(np.uint64)  # taking minimum and maximum is faster than comparing all
    if unsigned[0]:  # one of both is enough where all agree
        return YES if unsigned.min() else counts != 0
    return counts != 0 if unsigned.max() else NO


def _validity(array: pa.Array) -> Flags:
    flags: Flags = pc.is_valid(array).to_numpy(zero_copy_only=False)
    return flags


def _physical(array: pa.Array) -> Bounds | None:
    """Return the numbers behind an array, or None for text and nested types.

    Shape: values under a null are arbitrary. Decimals of up to 18 digits become int64, longer
    ones Python integers, according to `spark_type(...).wide`.
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

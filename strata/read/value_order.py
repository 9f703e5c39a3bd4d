"""Values of a column as Spark compares them, and sums of diffs for each: for `strata.read.values`.

Texts compare by their bytes, NaN is above every number, and -0.0 equals 0.0; null is no value.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.plain.conditions import Day, Moment, Value

HELD_ROWS: Final = 1 << 20  # of sums that wait to be added up


@dataclass(frozen=True, slots=True)
class ValueOrder:
    """Which end of the values is looked for: the greatest or the least."""

    greatest: bool

    @property
    def up_to(self) -> str:
        """Return the sign that compares values at or before the end so far with it."""
        return ">=" if self.greatest else "<="

    @property
    def before(self) -> str:
        """Return the sign that compares values before the end so far with it."""
        return ">" if self.greatest else "<"

    def best(self, values: pa.Array) -> pa.Scalar:
        """Return the first of some values in this order."""
        if pa.types.is_floating(values.type):
            nan = pc.is_nan(values)
            if pc.any(nan).as_py() if self.greatest else pc.all(nan).as_py():
                return pa.scalar(math.nan, values.type)
            values = values.filter(pc.invert(nan))
        return pc.max(values) if self.greatest else pc.min(values)

    def not_beyond(self, values: pa.Array, best: pa.Scalar) -> pa.BooleanArray:
        """Return which values come before the best one so far, or are equal to it."""
        compare = pc.greater_equal if self.greatest else pc.less_equal
        found = compare(values, best)
        if not pa.types.is_floating(values.type):
            return found
        if math.isnan(best.as_py()):
            return pc.is_nan(values) if self.greatest else pc.is_valid(values)
        return pc.or_(found, pc.is_nan(values)) if self.greatest else found


class ValueSums:
    """The sum of the diffs of each value, as decimals: one beyond int64 keeps its sign."""

    def __init__(self) -> None:
        self._tables: list[pa.Table] = []
        self._rows = 0

    def add(self, values: pa.Array, diffs: pa.Array) -> None:
        """Add rows."""
        found = pa.table({"value": values, "d": diffs.cast(pa.decimal128(38))})
        self._tables.append(_by_value([found]))
        self._rows += self._tables[-1].num_rows
        if self._rows > HELD_ROWS:
            self._tables = [_by_value(self._tables)]
            self._rows = 0  # the next pass comes after as many new ones

    def positive(self) -> pa.Array:
        """Return the values whose sum is above 0."""
        if not self._tables:
            return pa.array([])
        table = _by_value(self._tables)
        found = table.filter(pc.greater(table["d"], 0))["value"]
        return found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)


def _by_value(tables: Iterable[pa.Table]) -> pa.Table:
    sums = pa.concat_tables(tables).group_by("value").aggregate([("d", "sum")])
    return pa.table({"value": sums["value"], "d": sums["d_sum"]})


def one_form(values: pa.Array) -> pa.Array:
    """Return values with one NaN and one zero, which are equal but have several forms."""
    if not pa.types.is_floating(values.type):
        return values
    nan = pa.scalar(math.nan, values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))


def joined_values(values: pa.Array, *more: pa.Scalar) -> pa.Array:
    """Return values with some more behind them."""
    return pa.concat_arrays([values, *(pa.repeat(scalar, 1) for scalar in more)])


def condition_constant(scalar: pa.Scalar) -> Value | None:
    """Return a value as conditions have it; None for one that no plain filter names."""
    kind = scalar.type
    if pa.types.is_timestamp(kind):
        return Moment(scalar.cast(pa.timestamp("us", kind.tz)).value, kind.tz is not None)
    if pa.types.is_date32(kind):
        return Day(scalar.value)
    found = scalar.as_py()
    return None if isinstance(found, bytes) else found

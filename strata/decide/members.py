"""Members of places as the interpreter asks for them: from sets, fetched bloom filters, shapes."""

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.fields import Rows, StatsArray
from strata.expr.shapes import Shape
from strata.expr.spec import NO, Bounds, Flags, uniform
from strata.kernels.arrays import Bools
from strata.stats.bloom import may_hold
from strata.stats.members import DECIMAL_BYTES, FLOAT_FORM, INTEGER_FORM, JSON_FORM, TEXT_FORM
from strata.stats.shapes import patterns_known
from strata.stats.wire import BITS, BLOOM

_WORD_BYTES: Final = 8
_FAR: Final = 1e18  # whole numbers of a shape are no further from zero
_BLOOM_FIELDS: Final = {(field.name, field.type) for field in BLOOM}


def is_bloom(kind: pa.DataType) -> bool:
    """Return whether a column is of bloom filters, with or without their bits."""
    return pa.types.is_struct(kind) and {(f.name, f.type) for f in kind} >= _BLOOM_FIELDS


class PlaceMembers:
    """What sets, bloom filters and shapes say of the values at one place, in all parts.

    A filter without its bits says nothing. With `hopeful` it says that no value is there: what is
    kept even so needs no filter to be fetched.
    """

    def __init__(
        self,
        sets: pa.Array | None,
        blooms: pa.Array | None,
        shapes: pa.Array | None,
        form: str,
        parts: int,
        *,
        hopeful: bool,
    ) -> None:
        """Take the statistics columns, None where there are none, and the form of the type."""
        self._sets, self._blooms, self._form = sets, blooms, form
        self._shapes = shapes if form in (TEXT_FORM, JSON_FORM) else None
        self._parts, self._hopeful = parts, hopeful
        self._known: dict[bytes, Bools] = {}

    def at(self, rows: Rows) -> "SomeMembers":
        """Return the members of some of the parts."""
        return SomeMembers(self, rows)

    def listed(self) -> tuple[Bools, pa.ListArray] | None:
        """Return in which parts all values are known, and the sets; None where there are none."""
        if self._sets is None:
            return None
        values = self._sets.field("values")
        return self._recorded(self._sets) & np.asarray(values.is_valid(), np.bool_), values

    @cached_property
    def shape(self) -> Shape | None:
        """Return what all texts of a part are written like, for all parts."""
        if self._shapes is None:
            return None
        known = np.asarray(self._shapes.is_valid(), np.bool_)
        low, high = (StatsArray(self._shapes.field(name)) for name in ("low", "high"))
        number = _closed(known, low, high)
        ends = _chosen(number, low), _chosen(number, high)
        claimed = pc.fill_null(self._shapes.field("whole"), False)
        whole = number & np.asarray(claimed, np.bool_) & (np.abs(ends).max(axis=0) <= _FAR)
        least, most = (np.where(whole, end, 0.0) for end in (np.floor(ends[0]), np.ceil(ends[1])))
        return Shape(
            whole,
            least.astype(np.int64),
            most.astype(np.int64),
            number,
            *ends,
            self._patterns(known),
        )

    def _patterns(self, known: Bools) -> dict[str, Flags]:
        """Return in which parts a pattern that is known reads every text."""
        assert self._shapes is not None
        coded = self._shapes.field("patterns").dictionary_encode()
        codes = np.asarray(pc.fill_null(coded.indices, -1))
        found: dict[str, Flags] = {}
        for code, patterns in enumerate(coded.dictionary.to_pylist()):
            there = known & (codes == code)
            # A pattern that is not known here may mean anything
            for pattern in patterns_known().intersection(patterns.splitlines()):
                found[pattern] = found.get(pattern, NO) | there
        return found

    def may_hold(self, value: int | float | bytes) -> Bools:
        """Return which parts may hold a value. Shape: one element a part."""
        data = _as_bytes(value, self._form)
        if data is None:
            return np.ones(self._parts, np.bool_)
        if data not in self._known:
            self._known[data] = self._in_sets(data) & self._in_blooms(data)
        return self._known[data]

    def _in_sets(self, data: bytes) -> Bools:
        found: Bools = np.ones(self._parts, np.bool_)
        if self._sets is None:
            return found
        values = self._sets.field("values")
        known = self._recorded(self._sets) & np.asarray(values.is_valid())
        found[known] = False
        hits = np.flatnonzero(
            np.asarray(pc.fill_null(pc.equal(pc.list_flatten(values), pa.scalar(data)), True))
        )
        found[np.asarray(pc.list_parent_indices(values), np.int64)[hits]] = True
        return found

    def _in_blooms(self, data: bytes) -> Bools:
        found: Bools = np.ones(self._parts, np.bool_)
        if self._blooms is None:
            return found
        recorded = self._recorded(self._blooms)
        if self._hopeful:
            return ~recorded
        if self._blooms.type.get_field_index(BITS) < 0:
            return found
        held = may_hold(self._blooms.field(BITS), data)
        found[recorded] = held[recorded]
        return found

    def _recorded(self, column: pa.StructArray) -> Bools:
        """Return in which parts values are recorded in the form of today's type."""
        same = pc.fill_null(pc.equal(column.field("form"), self._form), False)
        return np.asarray(same, np.bool_) & np.asarray(column.is_valid(), np.bool_)


@dataclass(frozen=True, slots=True)
class SomeMembers:
    """The members of some parts, as `strata.expr.spec.Members`."""

    place: PlaceMembers
    rows: Rows

    def may_hold(self, value: int | float | bytes) -> Flags:
        """Return which of these parts may hold a value."""
        return uniform(self.place.may_hold(value)[self.rows])

    def shape(self) -> Shape | None:
        """Return what all texts of these parts are written like."""
        found, rows = self.place.shape, self.rows
        if found is None:
            return None
        patterns = {name: uniform(flags[rows]) for name, flags in found.patterns.items()}
        return Shape(
            uniform(found.whole[rows]),
            found.low[rows],
            found.high[rows],
            uniform(found.number[rows]),
            found.num_low[rows],
            found.num_high[rows],
            {name: flags for name, flags in patterns.items() if flags.any()},
        )


def _closed(known: Bools, low: StatsArray, high: StatsArray) -> Bools:
    """Return where two ends are recorded, in order."""
    assert low.values is not None
    assert high.values is not None
    ends = [np.broadcast_to(side.known(slice(None)), known.shape) for side in (low, high)]
    closed: Bools = known & ends[0] & ends[1] & (low.values <= high.values)
    return closed


def _chosen(where: Bools, side: StatsArray) -> Bounds:
    """Return the ends of a range where they are known, otherwise 0."""
    assert side.values is not None
    return np.where(where, side.values, side.values.dtype.type(0))


def _as_bytes(value: int | float | bytes, form: str) -> bytes | None:
    """Return a value in the form in which values are recorded; None for one of another kind."""
    if isinstance(value, bytes):
        return None if form in (INTEGER_FORM, FLOAT_FORM) or form.startswith("decimal") else value
    if isinstance(value, float):
        return np.float64(value + 0.0).tobytes() if form == FLOAT_FORM else None
    width = {INTEGER_FORM: _WORD_BYTES}.get(
        form, DECIMAL_BYTES if form.startswith("decimal") else 0
    )
    if not width or not -(2 ** (8 * width - 1)) <= value < 2 ** (8 * width - 1):
        return None
    return int(value).to_bytes(width, "little", signed=True)

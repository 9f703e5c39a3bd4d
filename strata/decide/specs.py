"""Translate the statistics of each part's columns into the interpreter's Specs.

Errs: a statistic that is missing, null, of another type, inverted, NaN or contradictory opens the
range of the part; only consistent numbers close it. `rows == nulls + nans` is the only proof that a
column holds no other value.
"""

from dataclasses import replace
from functools import cached_property, partial
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.fields import Rows, StatsArray, nonzero
from strata.decide.pairs import PairBounds
from strata.decide.ranges import Population, Side, ranged, same_type
from strata.decide.statistics import Statistics
from strata.expr import nodes
from strata.expr.elements import MOST, Elements, Entries
from strata.expr.records import Record
from strata.expr.sparktype import SparkType, spark_type
from strata.expr.spec import (
    NO,
    YES,
    Bools,
    Bounds,
    Flags,
    Json,
    Members,
    Numbers,
    Spec,
    Texts,
    Values,
    both,
    either,
    everything,
    gate,
    negated,
    text_compare,
    uniform,
)
from strata.format.encodings import arrow_type, encoding
from strata.model.schema import Column
from strata.model.types import ColumnType, Kind
from strata.stats.members import JSON_FORM, form_of
from strata.stats.nested import stored_fields
from strata.stats.wire import (
    ELEMENT,
    KEYS,
    LENGTHS,
    ROWS,
    VALUES,
    Path,
    Steps,
    column_name,
    field_step,
    has_bounds,
    inside_name,
    path_name,
)

V = TypeVar("V", bound=Values)


class PartSpecs(Statistics):
    """The statistics of many parts, decoded once."""

    def at(self, rows: Rows) -> "View":
        """Return the environment for some of the parts."""
        return View(self, rows)


def _with_members(values: V, members: Members | None) -> V:
    """Return numbers or texts with their members; other values are returned as they are."""
    if members is None or not isinstance(values, Numbers | Texts):
        return values
    return replace(values, members=members)


_NOTHING_KNOWN: Final = NO
_ZERO: Final = np.array([0])
_OPEN: Final = pa.scalar(None, pa.binary())


class View:
    """The environment of some parts: what each column may hold in them."""

    def __init__(self, specs: PartSpecs, rows: Rows) -> None:
        self._specs = specs
        self._rows = rows
        self._columns: dict[int, Spec] = {}

    def column(self, column: nodes.Column) -> Spec:
        """Return what a column may hold."""
        if column.id not in self._columns:
            self._columns[column.id] = self._column(column)
        return self._columns[column.id]

    def sees(self, column: nodes.Column) -> Column | None:
        """Return the declared column whose statistics are of what is read; None if none is."""
        declared = self._specs.relation.by_id.get(column.id)
        if declared is None or str(column.id) in self._specs.quarantine:
            return None
        same = same_type(encoding(declared.type).spark(declared.type), column.type)
        return declared if same else None

    def pair(self, left: str, right: str) -> PairBounds | None:
        """Return how the values of two places of a row differ; None if nothing is known of them."""
        found = self._specs.pair(left, right)
        return None if found is None else found.at(self._rows)

    def _column(self, column: nodes.Column) -> Spec:
        declared = self.sees(column)
        if declared is None:
            return Spec(everything(column.type), YES)
        if declared.type.kind is Kind.JSONB:
            return self._json_column(declared)
        return self._place(declared.id, (), declared.type)

    def _place(self, column_id: int, steps: Steps, declared: ColumnType) -> Spec:
        """Return what a column, or a place inside one, may hold."""
        name = inside_name(column_id, steps)
        kind = spark_type(encoding(declared).spark(declared))
        rows = self._population(name, steps)
        if has_bounds(declared) and kind.family != "other":
            return self._scalar(name, declared, kind, rows)
        null, _, none = self._absent(name, rows)
        if has_bounds(declared):  # stored as one number, a struct to Spark
            return Spec(Record(none, partial(self._part, name, declared, rows)), null)
        if declared.kind in (Kind.LIST, Kind.MAP):
            return Spec(self._many(column_id, steps, declared, none), null)
        inside = stored_fields(declared)

        def child(ordinal: int) -> Spec | None:
            if not 0 <= ordinal < len(inside):
                return None
            field = inside[ordinal]
            return self._place(column_id, (*steps, field_step(field.name)), field.type)

        return Spec(
            Record(none, child) if inside else gate(everything(kind.name), negated(none)), null
        )

    def _many(
        self, column_id: int, steps: Steps, declared: ColumnType, none: Flags
    ) -> Elements | Entries:
        """Return what the lists or maps at a place may hold."""
        assert declared.element is not None
        shortest, longest = self._lengths(inside_name(column_id, steps))

        def inner(step: str, kind: ColumnType, empty: Flags = NO) -> Elements:
            element = partial(self._place, column_id, (*steps, step), kind)
            return Elements(empty, element, shortest, longest)

        if declared.kind is Kind.LIST:
            return inner(ELEMENT, declared.element, none)
        keys = inner(KEYS, ColumnType(Kind.STRING))
        return Entries(none, keys, inner(VALUES, declared.element))

    def _lengths(self, name: str) -> tuple[Bounds, Bounds]:
        """Return bounds on the lengths of lists or maps; all lengths where nothing is known."""
        (low, low_known), (high, high_known) = (self._count(name, n) for n in LENGTHS)
        known = uniform(both(both(low_known, high_known), (low >= 0) & (low <= high)))
        if known is YES:
            return low, high
        return np.where(known, low, 0), np.where(known, high, MOST)

    def _population(self, name: str, steps: Steps) -> Population:
        """Return the number of values at a place: rows, or elements inside lists and maps."""
        if any(step in (ELEMENT, KEYS, VALUES) for step in steps):
            return self._counted(*self._count(name, "count"))
        return self._all_rows

    def _part(self, name: str, declared: ColumnType, rows: Population, ordinal: int) -> Spec | None:
        """Return what one field of an interval or access right may hold.

        Values sort by their fields in turn: a field is bounded where each earlier one is single.
        """
        part = self._specs.part(name, declared, ordinal)
        if part is None:
            return None
        null, _, none = self._absent(name, rows)
        known = both(self._known(name), uniform(part.known[self._rows]))
        kind = spark_type(part.type)
        if kind.family == "text":
            return Spec(self._texts(known, part.low, part.high, none), null)
        bottom, top = self._side(name, part.low), self._side(name, part.high)
        sides = [Side(side.values, side.known & known) for side in (bottom, top)]
        return Spec(ranged(sides[0], sides[1], kind, none, _NOTHING_KNOWN), null)

    def _count(self, column: str, name: str) -> tuple[Bounds, Flags]:
        """Return a count, and a mask of where it is known."""
        field = self._specs.field(column, name)
        if field is None or field.values is None or not pa.types.is_int64(field.type):
            return _ZERO, _NOTHING_KNOWN
        return field.values[self._rows], both(field.known(self._rows), self._known(column))

    def _known(self, column: str) -> Flags:
        """Return where the statistics struct of a column is present."""
        field = self._specs.field(column)
        return _NOTHING_KNOWN if field is None else field.known(self._rows)

    def _absent(
        self, column: str, rows: Population, *, floating: bool = False
    ) -> tuple[Flags, Flags, Flags]:
        """Return three masks: nulls are possible, NaN is possible, other values are impossible.

        Only types without NaN may lack the count of NaNs; for a float that means unknown.
        """
        nulls, nulls_known = self._count(column, "nulls")
        nans, nans_known = self._count(column, "nans") if floating else (_ZERO, YES)
        some_nulls, some_nans = nonzero(nulls), nonzero(nans)
        none = both(rows.known, both(nulls_known, nans_known))
        if some_nulls is NO and some_nans is NO:
            none = both(none, negated(rows.some))
        else:
            none = both(none, (nulls >= 0) & (nans >= 0) & (nulls + nans == rows.count))
        null, nan = (
            either(some_nulls, negated(nulls_known)),
            either(some_nans, negated(nans_known)),
        )
        return uniform(null), uniform(nan), uniform(none)

    @cached_property
    def _row_counts(self) -> tuple[Bounds, Flags]:
        field = self._specs.field(ROWS)
        if field is None or field.values is None or not pa.types.is_int64(field.type):
            return _ZERO, _NOTHING_KNOWN
        return field.values[self._rows], field.known(self._rows)

    @cached_property
    def _all_rows(self) -> Population:
        return self._counted(*self._row_counts)

    def _counted(self, count: Bounds, known: Flags) -> Population:
        return Population(count, known, nonzero(count))

    def _scalar(self, name: str, declared: ColumnType, kind: SparkType, rows: Population) -> Spec:
        floating = pa.types.is_floating(arrow_type(declared))
        null, nan, none = self._absent(name, rows, floating=floating)
        low, high = (self._specs.bound(name, side, declared) for side in ("low", "high"))
        members = self._members(name, form_of(declared))
        if low is None or high is None:
            return Spec(_with_members(gate(everything(kind.name), negated(none)), members), null)
        if kind.family == "text":
            found = self._texts(self._known(name), low, high, none)
            return Spec(_with_members(found, members), null)
        if low.values is None or high.values is None:
            return Spec(_with_members(gate(everything(kind.name), negated(none)), members), null)
        bottom, top = self._side(name, low), self._side(name, high)
        if kind.family == "bool":
            twisted = both(both(bottom.known, top.known), bottom.values & ~top.values)
            true = either(either(negated(top.known), top.values), twisted)
            false = either(either(negated(bottom.known), ~bottom.values), twisted)
            some = negated(none)
            return Spec(Bools(both(true, some), both(false, some)), null)
        return Spec(_with_members(ranged(bottom, top, kind, none, nan), members), null)

    def _members(self, name: str, form: str | None) -> Members | None:
        found = self._specs.members(name, form)
        return None if found is None else found.at(self._rows)

    def _side(self, name: str, field: StatsArray) -> Side:
        assert field.values is not None
        return Side(field.values[self._rows], both(field.known(self._rows), self._known(name)))

    def _texts(self, known: Flags, low: StatsArray, high: StatsArray, none: Flags) -> Texts:
        bottom, top = low.texts(self._rows), high.texts(self._rows)
        open_ = negated(known)
        if bottom.equals(top):  # one text in each part, which functions see by the one bound
            top = bottom
        else:
            open_ = either(text_compare("less", top, bottom, unknown=False), open_)
        if open_.any():
            mask = pa.array(np.broadcast_to(open_, len(bottom)))
            alike, bottom = top is bottom, pc.if_else(mask, _OPEN, bottom)
            top = bottom if alike else pc.if_else(mask, _OPEN, top)
        return Texts(bottom, top, none)

    # JSON: the column is the root; a key leads to the path below.

    def _json_column(self, declared: Column) -> Spec:
        null, _, none = self._absent(column_name(declared.id), self._all_rows)
        # Whole documents are rarely compared, so their kinds are read only on demand.
        anything = Numbers(np.array([-np.inf]), np.array([np.inf]))
        texts = Texts(None, None)
        root = Json(
            YES,
            YES,
            anything,
            NO,
            texts,
            YES,
            YES,
            True,
            lambda key: self._json(declared.id, (key,)),
            lambda: self._json(declared.id, ()),
        )
        return Spec(gate(root, negated(none)), null)

    def _json(self, column_id: int, path: Path) -> Spec:
        """Return what a path may hold. It is null where it is missing or JSON null."""
        name = path_name(column_id, path)
        known, absent = self._known(name), self._is_absent(column_id, path)

        def may(field: str, less: str = "") -> Flags:
            count, is_known = self._count(name, field)
            some = nonzero(count)
            if less:
                other, other_known = self._count(name, less)
                some = some if nonzero(other) is NO else nonzero(count - other)
                is_known = both(is_known, other_known)
            return uniform(both(either(some, negated(is_known)), negated(absent)))

        present, present_known = self._count(name, "present")
        rows, rows_known = self._row_counts
        everywhere = both(both(present_known, rows_known), uniform(present == rows))
        numbers = may("numbers")
        values = Json(
            may("trues"),
            may("bools", less="trues"),
            self._json_numbers(name, numbers),
            NO if numbers is NO else self._integral(name),
            _with_members(self._json_strings(name, may("strings")), self._members(name, JSON_FORM)),
            may("lists"),
            may("maps"),
            False,
            lambda key: self._json(column_id, (*path, key)),
        )
        gone = either(absent, negated(both(everywhere, known)))
        return Spec(values, uniform(either(may("json_nulls"), gone)))

    def _integral(self, name: str) -> Flags:
        """Return where all numbers of a path are known to be written as integers."""
        whole, whole_known = self._count(name, "integers")
        written, written_known = self._count(name, "numbers")
        return both(both(whole_known, written_known), uniform(whole == written))

    def _is_absent(self, column_id: int, path: Path) -> Flags:
        """Return where no row has a path that lacks statistics."""
        known = self._known(path_name(column_id, path))
        if not path or known is YES:
            return NO
        return both(negated(known), self._complete(column_id, path[:-1]))

    def _complete(self, column_id: int, path: Path) -> Flags:
        """Return whether the nearest ancestor with statistics lists all of its keys."""
        name = path_name(column_id, path)
        above = self._complete(column_id, path[:-1]) if path else _NOTHING_KNOWN
        known, complete = self._known(name), _NOTHING_KNOWN
        field = self._specs.field(name, "complete")
        if field is not None and field.values is not None and pa.types.is_boolean(field.type):
            complete = both(field.known(self._rows), field.values[self._rows])
        return either(both(known, complete), both(negated(known), above))

    def _json_numbers(self, name: str, some: Flags) -> Numbers:
        low, high = (self._specs.field(name, side) for side in ("num_low", "num_high"))
        full = everything("double")
        assert isinstance(full, Numbers)
        if low is None or high is None or low.values is None or high.values is None or some is NO:
            return Numbers(full.low, full.high, negated(some))
        if not (pa.types.is_float64(low.type) and pa.types.is_float64(high.type)):
            return Numbers(full.low, full.high, negated(some))
        ends = self._side(name, low), self._side(name, high)
        return ranged(*ends, spark_type("double"), negated(some), _NOTHING_KNOWN)

    def _json_strings(self, name: str, some: Flags) -> Texts:
        low, high = (self._specs.field(name, side) for side in ("str_low", "str_high"))
        if low is None or high is None or some is NO:
            return Texts(None, None, negated(some))
        if not (pa.types.is_string(low.type) and pa.types.is_string(high.type)):
            return Texts(None, None, negated(some))
        return self._texts(self._known(name), low, high, negated(some))

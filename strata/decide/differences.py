"""The interpreter that knows how two places of a row differ.

Ranges say what each place may hold, and not which values meet in a row. Where a part records how
two places differ (`strata.stats.pairs`), their comparisons, differences and quotients are narrowed:
a result lies in the range that the arguments give it, and in the range that the pair gives it.
Law (tests/laws/test_pairs.py): the concrete result on every row lies in what remains.
Errs: leaves a result as it is where a mode, a zone or an overflow leads away from the plain number.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from strata.decide.implied import EQUATED, implied
from strata.decide.pairs import PairBounds
from strata.decide.specs import View
from strata.decide.terms import (
    COMPARED,
    PAIRED,
    SUBTRACTED,
    Term,
    dividend,
    reads_column,
    subtracted,
    term,
)
from strata.expr import bounds as exact
from strata.expr.calendar import DAY_US, SECOND_US
from strata.expr.entry import Context, bools, wraps
from strata.expr.functions.timestamps import foreign
from strata.expr.interpret import Environment, Interpreter, Unknown
from strata.expr.members import single
from strata.expr.nodes import Call, Expr
from strata.expr.sparktype import INT32, INT64, SparkType, spark_type
from strata.expr.spec import (
    Bools,
    Bounds,
    Flags,
    Numbers,
    Spec,
    both,
    either,
    negated,
    uniform,
)

_FURTHEST_DAY: Final = INT64[1] // DAY_US  # its microseconds fit 64 bits
_UNITS_US: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": SECOND_US,
    "minute": 60 * SECOND_US,
    "hour": 3600 * SECOND_US,
    "day": DAY_US,
    "week": 7 * DAY_US,
}
# A difference, two conversions to double and a quotient round by less than 2**-52 each
_ROUNDING: Final = 2.0**-48
_SMALLEST: Final = 1e-300  # quotients below it are rounded by more
_NARROWED: Final = frozenset(PAIRED) | EQUATED


@dataclass(frozen=True, slots=True)
class _Apart:
    """By how much one value exceeds the other. Shape: one element a part."""

    known: Flags
    none: Flags  # no row has both
    low: Bounds
    high: Bounds


class PairInterpreter(Interpreter):
    """Evaluates the nodes of one filter; narrows what pairs of places say more about.

    It also narrows equalities by what they imply (`strata.decide.implied`).
    """

    def __init__(
        self,
        context: Context,
        quarantine: Collection[str] = (),
        *,
        lenient: bool = True,
        repeated: frozenset[int] = frozenset(),
    ) -> None:
        """As `Interpreter`."""
        super().__init__(context, quarantine, lenient=lenient, repeated=repeated)
        self._implications: dict[int, Expr | None] = {}

    def evaluate(
        self, expr: Expr, environment: Environment, trace: dict[int, Spec] | None = None
    ) -> Spec:
        """Return what `expr` may yield, as `Interpreter.evaluate`."""
        spec = super().evaluate(expr, environment, trace)
        if not (isinstance(expr, Call) and expr.function in _NARROWED):
            return spec
        if not isinstance(environment, View):
            return spec
        if self.quarantine and self.quarantine & functions_in(expr):
            return spec
        narrowed = spec
        if expr.function in PAIRED and len(expr.args) == 2:
            narrowed = self._narrowed(expr, spec, environment)
        if expr.function in EQUATED:
            narrowed = self._implied(expr, narrowed, environment)
        if trace is not None:
            trace[id(expr)] = narrowed
        return narrowed

    def _implied(self, call: Call, spec: Spec, view: View) -> Spec:
        """Return what an equality may yield, true only where what it implies may be."""
        if id(call) not in self._implications:
            self._implications[id(call)] = implied(call)
            self._nodes.append(call)
        condition, values = self._implications[id(call)], spec.values
        if condition is None or not isinstance(values, Bools) or not values.true.any():
            return spec
        possible = bools(self.evaluate(condition, view)).true
        return replace(spec, values=replace(values, true=both(values.true, possible)))

    def _narrowed(self, call: Call, spec: Spec, view: View) -> Spec:
        if call.function == "divide":
            return self._quotient(call, spec, view)
        left, right = (term(arg, self._constant) for arg in call.args)
        if call.function == "timestamp_diff":  # from start to end
            left, right = right, left
        if left is None or right is None:
            return spec
        apart = self._apart(left, right, view)
        if apart is None:
            return spec
        if call.function in COMPARED:
            return _compared(call, spec, apart)
        assert call.function in SUBTRACTED
        return _difference(call, spec, apart, sure=left.sure and right.sure)

    def _constant(self, expr: Expr) -> int | None:
        """Return the one whole number that an expression without columns can yield."""
        if reads_column(expr) or spark_type(expr.type).family != "int":
            return None
        value = single(self.evaluate(expr, Unknown()).values)
        return value if isinstance(value, int) else None

    def _apart(self, left: Term, right: Term, view: View) -> _Apart | None:
        if (left.unit, left.toward_zero) != (right.unit, right.toward_zero):
            return None
        pair = _pair(left, right, view)
        if pair is None:
            return None
        known, moved = pair.known, left.before - right.before  # of floats 0: none is moved
        low, high = pair.low + moved, pair.high + moved
        if left.unit != 1:
            low, high = _in_units(low, high, left.unit, toward_zero=left.toward_zero)
        low, high = (end + (left.after - right.after) for end in (low, high))
        for held in (*left.held, *right.held):
            values = self.evaluate(held.expr, view).values
            if not isinstance(values, Numbers) or values.low.dtype != np.int64:
                return None
            ends = (
                exact.add(values.low, np.array([held.by])),
                exact.add(values.high, np.array([held.by])),
            )
            over = either(*(flags for _, flags in ends))
            inside = (ends[0][0] >= held.kind.low) & (ends[1][0] <= held.kind.high)
            known = both(known, either(values.empty, both(inside, negated(over))))
        return _Apart(known, pair.none, low, high)

    def _quotient(self, call: Call, spec: Spec, view: View) -> Spec:
        if call.type != "double" or not isinstance(spec.values, Numbers):
            return spec
        found = self._ratio(call, view)
        if found is None:
            return spec
        apart, nonzero = found
        args = [self.evaluate(arg, view).fail for arg in call.args]
        fail = either(either(*args), both(spec.fail, negated(uniform(nonzero))))
        return replace(spec, values=_inside(spec.values, apart), fail=both(spec.fail, fail))

    def _ratio(self, call: Call, view: View) -> tuple[_Apart, Flags] | None:
        """Return the range of a quotient, and where no divisor is zero."""
        above, below = dividend(call.args[0]), dividend(call.args[1])
        if below is None:
            return None
        if above is not None:
            pair = view.pair(above.place, below.place) if _are_seen(view, above, below) else None
            if pair is None:
                return None
            return _Apart(pair.divides, pair.none, pair.ratio_low, pair.ratio_high), pair.nonzero
        found = subtracted(call.args[0])
        if found is None:
            return None
        difference, left, right = found
        if below.place not in (left.place, right.place) or not _are_seen(view, left, right):
            return None
        other = left if below.place == right.place else right
        pair = view.pair(other.place, below.place)
        if pair is None:
            return None
        # Infinity less infinity is no number
        finite = np.isfinite(pair.ratio_low) & np.isfinite(pair.ratio_high)
        known = both(both(pair.divides, finite), _plain_difference(difference, pair))
        # (a - b) / b is a / b - 1, and (b - a) / b is 1 - a / b
        low, high = pair.ratio_low - 1, pair.ratio_high - 1
        if other is right:
            low, high = -high, -low
        off = (np.maximum(np.abs(pair.ratio_low), np.abs(pair.ratio_high)) + 2) * _ROUNDING
        off = off + _SMALLEST
        return _Apart(known, pair.none, low - off, high + off), pair.nonzero


def functions_in(expr: Expr) -> frozenset[str]:
    """Return the names of the functions in an expression."""
    if not isinstance(expr, Call):
        return frozenset()
    return frozenset({expr.function}).union(*map(functions_in, expr.args))


def _are_seen(view: View, *terms: Term) -> bool:
    return all(view.sees(one.column) is not None for one in terms)


def _pair(left: Term, right: Term, view: View) -> PairBounds | None:
    """Return by how much the left place exceeds the right one, recorded in either direction."""
    if left.place == right.place or not _are_seen(view, left, right):
        return None
    found = view.pair(left.place, right.place)
    if found is not None:
        return found
    turned = view.pair(right.place, left.place)
    return None if turned is None else turned.turned()


def _in_units(low: Bounds, high: Bounds, unit: int, *, toward_zero: bool) -> tuple[Bounds, Bounds]:
    """Return by how much two values differ in whole units, if they differ so in small ones."""
    down, up = low // unit, -(-high // unit)
    if not toward_zero:
        return down, up
    # Rounding keeps the order of two values, and moves each of them by less than a unit
    return np.where(low >= 0, np.maximum(down - 1, 0), down - 1), np.where(
        high <= 0, np.minimum(up + 1, 0), up + 1
    )


def _compared(call: Call, spec: Spec, apart: _Apart) -> Spec:
    if not isinstance(spec.values, Bools):
        return spec
    below, above = apart.low < 0, apart.high > 0
    match call.function:
        case "less_than":
            true, false = below, apart.high >= 0
        case "less_than_or_equal":
            true, false = apart.low <= 0, above
        case "greater_than":
            true, false = above, apart.low <= 0
        case "greater_than_or_equal":
            true, false = apart.high >= 0, below
        case _:
            true, false = (apart.low <= 0) & (apart.high >= 0), below | above
    open_, some = ~apart.known, ~apart.none
    return replace(
        spec,
        values=Bools(
            both(spec.values.true, uniform(open_ | (true & some))),
            both(spec.values.false, uniform(open_ | (false & some))),
        ),
    )


def _difference(call: Call, spec: Spec, apart: _Apart, *, sure: bool) -> Spec:
    """Return a difference within what the pair says; `sure`: its arguments never fail."""
    kind, values = spark_type(call.type), spec.values
    if not isinstance(values, Numbers) or kind.scale != spark_type(call.args[0].type).scale:
        return spec  # a legacy interval, or a rounded decimal: of (38,10) it is (38,9)
    known, low, high = apart.known, apart.low, apart.high
    if call.function in ("subtract_timestamps", "timestamp_diff") and foreign(call):
        return spec
    if call.function == "timestamp_diff":
        unit = _UNITS_US.get(call.option("unit").lower())
        if unit is None:
            return spec
        low, high = (exact.truncating(end, unit) for end in (low, high))
    if call.function == "subtract_dates":
        known = known & (low >= -_FURTHEST_DAY) & (high <= _FURTHEST_DAY)
        low, high = low * DAY_US, high * DAY_US  # wraps where not known
    if call.function == "date_diff":  # wraps
        known = known & (low >= INT32[0]) & (high <= INT32[1])
    fits = _fits(kind, low, high)
    if call.function == "subtract" and wraps(call):
        known = known & (fits | apart.none)
    if kind.single:
        low, high = exact.single(low), exact.single(high)
    fail = spec.fail
    if sure and call.function != "timestamp_diff" and kind.family != "float":
        fail = both(fail, uniform(~(known & (fits | apart.none))))
    return replace(spec, values=_inside(values, _Apart(known, apart.none, low, high)), fail=fail)


def _fits(kind: SparkType, low: Bounds, high: Bounds) -> Flags:
    if kind.family == "float":
        return np.ones(len(low), np.bool_)
    fits: Flags = (low >= kind.low) & (high <= kind.high)
    return fits


def _inside(values: Numbers, apart: _Apart) -> Numbers:
    """Return the numbers that lie within a range where one is known."""
    low = np.where(apart.known, np.maximum(values.low, apart.low), values.low)
    high = np.where(apart.known, np.minimum(values.high, apart.high), values.high)
    empty = either(values.empty, uniform(apart.known & (apart.none | (low > high))))
    return Numbers(low, high, empty, both(values.nan, uniform(~apart.known)))


def _plain_difference(call: Call, pair: PairBounds) -> Flags:
    """Return where a difference is the plain number: it neither wraps nor becomes infinite."""
    if call.type == "double":
        finite: Flags = np.isfinite(pair.low) & np.isfinite(pair.high)
        return both(pair.known, finite)
    return both(pair.known, _fits(spark_type(call.type), pair.low, pair.high))

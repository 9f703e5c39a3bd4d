"""How the values of two places in one row differ: bounds of their difference and of their ratio.

The ranges of two columns say little about rows: `shipped` and `ordered` of a part both cover a
month, and yet each order is shipped within three days. A declaration names the pairs
(`stats.pairs`), and each part records the bounds of left - right over the rows in which neither is
null, and of left / right over those in which the right one is not zero.

Whole numbers, dates (days) and timestamps (microseconds) are subtracted exactly, decimals of one
scale as whole numbers of it, floats as float64. Bounds are float64, rounded outward. A difference
of zero is exact in all of them, so its sign says which value is greater.
Errs: nothing is known of a part in which one value is NaN, or both are infinite.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.columns import child
from strata.format.encodings import encoding
from strata.format.values.view import to_view, view_type
from strata.kernels.arrays import Bools
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import ColumnType
from strata.stats.flat import Values
from strata.stats.json_bounds import at_least, at_most
from strata.stats.nested import Place, enter, places
from strata.stats.wire import PAIR, Steps, inside_name, pair_name, parse_inside, parse_pair

PAIRS_MAX: Final = 16  # of a declaration
MOST_BYTES: Final = 72  # of one pair in a part, as `strata.stats.size` measures
INTEGERS: Final = "int64"
FLOATS: Final = "float64"
UNKNOWN: Final = ""  # the form where nothing can be known, so that nobody collects it again
_DECIMAL_DIGITS: Final = 18  # unscaled decimals of more need more than 64 bits
_FAR: Final = 2.0**63  # differences beyond 64 bits are at least so large


@dataclass(frozen=True, slots=True)
class PairSide:
    """One of the two places; picklable."""

    column: Column
    steps: Steps
    type: ColumnType  # of the place

    @property
    def name(self) -> str:
        """Return the name of the place's statistics."""
        return inside_name(self.column.id, self.steps)


@dataclass(frozen=True, slots=True)
class SoughtPair:
    """Two places whose differences are collected; picklable."""

    left: PairSide
    right: PairSide
    form: str

    @property
    def name(self) -> str:
        """Return the name of the pair's statistics."""
        return pair_name(self.left.name, self.right.name)

    @property
    def ids(self) -> frozenset[int]:
        """Return the columns that are read for it."""
        return frozenset({self.left.column.id, self.right.column.id})


@dataclass(frozen=True, slots=True)
class PairFacts:
    """What is true of two places in some rows."""

    both: int  # rows in which neither is null
    zeros: int  # rows in which the right one is zero
    low: float = math.inf  # of left - right; above `high` where there is no such row
    high: float = -math.inf
    ratio_low: float = math.inf  # of left / right
    ratio_high: float = -math.inf

    def joined(self, other: "PairFacts") -> "PairFacts":
        """Return what is true of these rows and others."""
        return PairFacts(
            self.both + other.both,
            self.zeros + other.zeros,
            min(self.low, other.low),
            max(self.high, other.high),
            min(self.ratio_low, other.ratio_low),
            max(self.ratio_high, other.ratio_high),
        )


def pair_form(left: ColumnType, right: ColumnType) -> str | None:
    """Return the form in which two types are compared; None if they are not.

    >>> from strata.model.types import parse_type
    >>> kinds = [("int32", "int64"), ("date", "date"), ("numeric(9,2)", "numeric(12,2)")]
    >>> [pair_form(parse_type(a), parse_type(b)) for a, b in kinds]
    ['int64', 'date32[day]', 'decimal2']
    >>> pair_form(parse_type("date"), parse_type("timestamp")) is None
    True
    """
    a, b = view_type(left), view_type(right)
    if pa.types.is_signed_integer(a) and pa.types.is_signed_integer(b):
        return INTEGERS
    if pa.types.is_floating(a) and pa.types.is_floating(b):
        return FLOATS
    if pa.types.is_decimal128(a) and pa.types.is_decimal128(b):
        fits = a.scale == b.scale and max(a.precision, b.precision) <= _DECIMAL_DIGITS
        return f"decimal{a.scale}" if fits else None
    return str(a) if a == b and (pa.types.is_date32(a) or pa.types.is_timestamp(a)) else None


def wanted_pairs(relation: Relation, spec: StatsSpec) -> tuple[SoughtPair, ...]:
    """Return the pairs that a shard collects; those of dropped columns are passed over."""
    found = {p.name: p for names in spec.pairs if (p := _pair(relation, names)) is not None}
    return tuple(found.values())


def check_pairs(relation: Relation, spec: StatsSpec, shard: str) -> None:
    """Refuse pairs that are none, and too many. Raises: InvalidRequest, naming the pair."""
    for names in spec.pairs:
        if _pair(relation, names) is None:
            raise InvalidRequest(
                "no two places whose difference can be recorded",
                shard=shard,
                setting="stats.pairs",
                value=", ".join(names),
                cure="two columns, or fields of records, of numbers (decimals of one scale, up to "
                "18 digits), of dates, or of one kind of timestamps, as in [[ended, started]]",
            )
    if len(spec.pairs) > PAIRS_MAX:
        raise InvalidRequest(
            "too many pairs",
            shard=shard,
            setting="stats.pairs",
            value=len(spec.pairs),
            cure=f"at most {PAIRS_MAX}; `strata advise {shard}` says which of them help",
        )


def pair_named(relation: Relation, name: str) -> SoughtPair | None:
    """Return the pair that statistics are about; None if it is none today."""
    found = parse_pair(name)
    sides = [_side_named(relation, side) for side in found or ()]
    return _sought(sides[0], sides[1]) if len(sides) == 2 else None


def _pair(relation: Relation, names: Sequence[str]) -> SoughtPair | None:
    if len(names) != 2 or names[0] == names[1]:
        return None
    return _sought(*(_side(relation, name) for name in names))


def _sought(left: PairSide | None, right: PairSide | None) -> SoughtPair | None:
    if left is None or right is None or left == right:
        return None
    form = pair_form(left.type, right.type)
    return None if form is None else SoughtPair(left, right, form)


def _side(relation: Relation, name: str) -> PairSide | None:
    whole = relation.by_name.get(name)
    first, *rest = name.split(".")
    column = whole or relation.by_name.get(first)
    wanted = () if whole else tuple(rest)
    # Steps that no user has named lead into a range, or into a number without a precision
    named = len(wanted)
    return (
        None
        if column is None
        else _chosen(column, lambda one: one.names == wanted and len(one.steps) == named)
    )


def _side_named(relation: Relation, name: str) -> PairSide | None:
    inside = parse_inside(name)
    column = None if inside is None else relation.by_id.get(inside[0])
    if inside is None or column is None:
        return None
    return _chosen(column, lambda one: one.steps == inside[1])


def _chosen(column: Column, fits: Any) -> PairSide | None:
    """Return the place inside a column that fits, if it has one value a row, and an order."""
    if encoding(column.type).stats == "json":
        return None
    found = [one for one in places(column.type) if fits(one) and _is_single(one)]
    return PairSide(column, found[0].steps, found[0].type) if found else None


def _is_single(place: Place) -> bool:
    return not place.counted and pair_form(place.type, place.type) is not None


class PairGathering:
    """Takes the rows of a part as they come, and remembers how the wanted pairs differ."""

    def __init__(self, wanted: Sequence[SoughtPair]) -> None:
        """Begin without rows."""
        self._found: dict[SoughtPair, PairFacts | None] = {
            one: PairFacts(0, 0) for one in wanted
        }  # None: nothing can be known

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows; nothing can be known of a pair with a column that they lack."""
        for pair, known in self._found.items():
            if known is not None:
                new = pair_facts(rows, pair)
                self._found[pair] = None if new is None else known.joined(new)

    def beside(self, stats: pa.RecordBatch) -> pa.RecordBatch:
        """Return the statistics of the part, one row, with those of its pairs."""
        for pair, facts in self._found.items():
            stats = stats.append_column(pair.name, pa.array([_stored(pair, facts)], PAIR))
        return stats


def pair_facts(rows: pa.Table | pa.RecordBatch, pair: SoughtPair) -> PairFacts | None:
    """Return what is true of a pair in rows; None if nothing can be known."""
    if not {child(i) for i in pair.ids} <= set(rows.schema.names):
        return None
    left, right = (_values(rows, side) for side in (pair.left, pair.right))
    there = _valid(left) & _valid(right)
    a, b = (_numbers(side)[there] for side in (left, right))
    zeros = int(np.count_nonzero(_numbers(right)[_valid(right)] == 0))
    if not len(a):
        return PairFacts(0, zeros)
    if pair.form != FLOATS:
        ratio = _ratio(a, b) if pair.form == INTEGERS else ()
        return PairFacts(len(a), zeros, *_whole_difference(a, b), *ratio)
    if (np.isnan(a) | np.isnan(b) | (np.isinf(a) & np.isinf(b))).any():
        return None
    with np.errstate(over="ignore"):
        difference = a - b
    low, high = (_outward(end, way) for end, way in _both_ends(difference))
    return PairFacts(len(a), zeros, low, high, *_ratio(a, b))


def _both_ends(values: np.ndarray[Any, Any]) -> Iterable[tuple[float, float]]:
    """Return the least and the greatest, each with the way outward."""
    return (float(values.min()) + 0.0, -math.inf), (float(values.max()) + 0.0, math.inf)


def _outward(value: float, way: float) -> float:
    """Return a rounded difference moved so far that the exact one is enclosed; zero is exact."""
    return math.nextafter(value, way) if value else 0.0


def _whole_difference(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[float, float]:
    difference = a - b  # wraps
    over = ((a ^ b) & (a ^ difference)) < 0
    lows, highs = [], []
    if (inside := difference[~over]).size:
        lows.append(at_most(int(inside.min())))
        highs.append(at_least(int(inside.max())))
    if (over & (a < 0)).any():  # below what fits 64 bits
        lows.append(-math.inf)
        highs.append(-_FAR)
    if (over & (a >= 0)).any():
        lows.append(_FAR)
        highs.append(math.inf)
    return min(lows), max(highs)


def _ratio(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> tuple[float, float]:
    """Return the bounds of the quotients as doubles, which every engine rounds alike."""
    divisible = b != 0
    if not divisible.any():
        return math.inf, -math.inf
    with np.errstate(over="ignore", under="ignore"):
        ratio = a[divisible].astype(np.float64) / b[divisible].astype(np.float64)
    return float(ratio.min()) + 0.0, float(ratio.max()) + 0.0


def _values(rows: pa.Table | pa.RecordBatch, side: PairSide) -> pa.Array:
    found: Values = rows.column(child(side.column.id))
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks() if found.num_chunks != 1 else found.chunk(0)
    for step in side.steps:
        found = enter(found, step)
    return to_view(found, side.type)


def _valid(values: pa.Array) -> Bools:
    return np.asarray(values.is_valid(), np.bool_)


def _numbers(values: pa.Array) -> np.ndarray[Any, Any]:
    """Return values as whole numbers of 64 bits or as doubles; something for null."""
    if pa.types.is_floating(values.type):
        return np.asarray(pc.fill_null(values.cast(pa.float64()), 0.0))
    if pa.types.is_decimal128(values.type):
        if not len(values):
            return np.zeros(0, np.int64)
        words = np.frombuffer(values.buffers()[1], "<i8")
        return words[2 * values.offset : 2 * (values.offset + len(values)) : 2]
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return np.asarray(pc.fill_null(values.cast(pa.int64()), 0))


def _stored(pair: SoughtPair, facts: PairFacts | None) -> dict[str, Any]:
    if facts is None:
        return {"form": UNKNOWN}
    stored: dict[str, Any] = {"form": pair.form, "both": facts.both, "zeros": facts.zeros}
    if facts.low <= facts.high:
        stored |= {"low": facts.low, "high": facts.high}
    if facts.ratio_low <= facts.ratio_high:
        stored |= {"ratio_low": facts.ratio_low, "ratio_high": facts.ratio_high}
    return stored


def pair_contradictions(
    claim: Mapping[str, Any], facts: PairFacts
) -> Iterator[tuple[str, object, object]]:
    """Yield each recorded field that is not true of rows: its name, the claim, the truth."""
    truth = {"both": facts.both, "zeros": facts.zeros}
    for name, count in truth.items():
        if claim[name] != count:
            yield name, claim[name], count
    ends = (
        ("low", "high", facts.low, facts.high),
        ("ratio_low", "ratio_high", facts.ratio_low, facts.ratio_high),
    )
    for low, high, least, most in ends:
        if least > most:
            continue
        if claim[low] is not None and not claim[low] <= least:
            yield low, claim[low], least
        if claim[high] is not None and not claim[high] >= most:
            yield high, claim[high], most


def fits_later(pair: SoughtPair, table: pa.Table, budget_bytes: int) -> Bools:
    """Return which parts of a manifest lack a pair for which their budget has room.

    Where there is no room it was left out, and would be again.
    """
    size = np.asarray(table["stats_bytes"], np.int64)
    room: Bools = size + MOST_BYTES <= budget_bytes
    if pair.name not in table.column_names or table[pair.name].type != PAIR:
        return room
    form = pc.struct_field(table[pair.name], "form")
    stale = pc.and_(pc.not_equal(form, UNKNOWN), pc.not_equal(form, pair.form))
    lacking: Bools = np.asarray(pc.fill_null(stale, True), np.bool_)
    return lacking & room

"""Case by case: a part that holds few values at a place is judged once for each of them.

Where the set of the values at a place is known, each row of the part has one of them there, or none
of them. So what a filter can do to the rows is the union of what it can do in these cases, and a
function of a single value is exact (`strata.expr.functions.points`). Only places with one value a
row have cases: columns, fields of records, and paths of JSON that are read as text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from strata.decide.fields import Rows
from strata.decide.members import PlaceMembers
from strata.decide.places import accessed
from strata.decide.specs import PartSpecs, View
from strata.expr.functions.json import parse_list_path, parse_path
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.sparktype import SparkType
from strata.expr.spec import (
    NO,
    Flags,
    Json,
    Numbers,
    Spec,
    Texts,
    Values,
    both,
    either,
    gate,
    negated,
    none_of,
    occupied,
    uniform,
)
from strata.kernels.arrays import Bools, Ints
from strata.model.types import ColumnType
from strata.stats.members import (
    DECIMAL_BYTES,
    FLOAT_FORM,
    INTEGER_FORM,
    JSON_FORM,
    TEXT_FORM,
    place_named,
)
from strata.stats.wire import Path, parse_inside, path_name

CASES: Final = 65_536  # that are judged together
CASES_MAX: Final = 1 << 20  # of one decision, for each choice of places: about a second
TOGETHER: Final = 256  # cases of one part, where two places have values
_EXACT: Final = frozenset({"equal_to", "equal_null_safe", "in", "is_null", "is_not_null"})
_FAR: Final = 10**18  # whole numbers of JSON below it are recorded


def case_places(expr: Expr) -> tuple[str, ...]:
    """Return the statistics of the places of an expression that may have cases.

    A place that is only compared with constants for equality has none: its members say as much.
    """
    return tuple(dict.fromkeys(_worthwhile(expr)))


def _worthwhile(expr: Expr) -> Iterator[str]:
    if not isinstance(expr, Call):
        return
    for arg in expr.args:
        place = accessed(arg)
        if place is None:
            yield from _worthwhile(arg)
        elif expr.function not in _EXACT or any(
            not isinstance(other, Literal) for other in expr.args if other is not arg
        ):
            yield place


def printed_only(expr: Expr, column_id: int) -> bool:
    """Return whether a JSON column is read by paths as text only.

    Then the text "12" is no other than the number 12, which is printed alike.
    """
    if isinstance(expr, Column):
        return expr.id != column_id
    if not isinstance(expr, Call):
        return True
    args = expr.args
    if expr.function == "get_json_object" and isinstance(args[0], Column):
        path = args[1].value if isinstance(args[1], Literal) else None
        return isinstance(path, str) and bool(parse_path(path) or parse_list_path(path))
    if expr.function in ("is_null", "is_not_null") and isinstance(args[0], Column):
        return True
    return all(printed_only(arg, column_id) for arg in args)


@dataclass(frozen=True)
class CasePlace:
    """A place with sets of values in some parts."""

    name: str
    known: Bools  # the parts whose set is known
    starts: Ints  # of each part's values among all
    counts: Ints  # of values, a part
    values: pa.BinaryArray
    form: str


def places_with_cases(specs: PartSpecs, expr: Expr) -> list[CasePlace]:
    """Return the places of a filter that have sets of values in some parts."""
    found = []
    for name in case_places(expr):
        place = place_named(specs.relation, name)
        if place is None or str(place.column.id) in specs.quarantine:
            continue
        if place.form == JSON_FORM and not printed_only(expr, place.column.id):
            continue
        members = specs.members(name, place.form)
        one = None if members is None else _case_place(name, place.form, members)
        if one is not None:
            found.append(one)
    return found


def _case_place(name: str, form: str, members: PlaceMembers) -> CasePlace | None:
    listed = members.listed()
    if listed is None or not listed[0].any():
        return None
    known, values = listed
    ends = np.asarray(values.offsets, np.int64)
    flat = values.values.slice(0)
    counts = np.where(known, np.diff(ends), 0)
    return CasePlace(name, known, ends[:-1], counts, flat, form)


class CaseSpecs:
    """The statistics of some parts, with a row for each case instead of each part."""

    def __init__(self, specs: PartSpecs, places: Sequence[CasePlace], parts: Ints) -> None:
        """Make the cases of parts in which the sets of all the places are known."""
        self.specs, self.places = specs, places
        self.owner = np.arange(len(parts))  # the number of a case's part among `parts`
        self.chosen: list[Ints] = []  # a place's value in each case, -1: none of them
        self.num_rows = len(parts)
        others = [other_cases(specs, place, parts) for place in places]
        for place, other in zip(places, others, strict=True):
            part = parts[self.owner]
            many = place.counts[part] + other[self.owner]
            case = np.repeat(np.arange(len(self.owner)), many)
            number = np.arange(len(case)) - np.repeat(np.cumsum(many) - many, many)
            part = part[case]
            value = np.where(number < place.counts[part], place.starts[part] + number, -1)
            self.chosen = [*(one[case] for one in self.chosen), value]
            self.owner = self.owner[case]
        self._rows = parts[self.owner]
        self.num_rows = len(self.owner)

    def at(self, rows: Rows) -> "CaseView":
        """Return the environment of some cases."""
        chosen = {
            place.name: (place, value[rows])
            for place, value in zip(self.places, self.chosen, strict=True)
        }
        return CaseView(self.specs, self._rows[rows], chosen)


class CaseView(View):
    """The environment of some cases: at some places there is one value, or none of the set."""

    def __init__(
        self, specs: PartSpecs, rows: Ints, chosen: dict[str, tuple[CasePlace, Ints]]
    ) -> None:
        """Take the part of each case, and the value at each place in it, -1 for none."""
        super().__init__(specs, rows)
        self._chosen = chosen

    def of_place(self, name: str) -> Spec:
        """Return what is at a place with cases."""
        place = place_named(self._specs.relation, name)
        assert place is not None, name
        if place.path is not None:
            return self._json(place.column.id, place.path)
        return self._place(place.column.id, place.steps, place.type)

    def _scalar(self, name: str, declared: ColumnType, kind: SparkType, rows: object) -> Spec:
        spec = super()._scalar(name, declared, kind, rows)  # type: ignore[arg-type]
        if name not in self._chosen:
            return spec
        place, value = self._chosen[name]
        there = uniform(value >= 0)
        if isinstance(spec.values, Numbers):
            values: Values = _numbers(place, value, there, spec.values, kind)
        elif isinstance(spec.values, Texts) and place.form == TEXT_FORM:
            values = _texts(place, value, there)
        else:  # a type whose values are not seen as they are recorded
            return spec
        # Of a record that is null, its fields are neither null nor a value
        inside = parse_inside(name)
        nested = inside is not None and bool(inside[1])
        null = both(either(spec.null, np.array([nested])), negated(there))
        return Spec(values, null)

    def _json(self, column_id: int, path: Path) -> Spec:
        spec = super()._json(column_id, path)
        name = path_name(column_id, path)
        if name not in self._chosen or not isinstance(spec.values, Json):
            return spec
        place, value = self._chosen[name]
        there, found = uniform(value >= 0), spec.values
        other = negated(there)
        numbers = _unrecorded(found)
        values = replace(
            found,
            true=both(found.true, other),
            false=both(found.false, other),
            numbers=_gated(numbers, other),
            strings=_texts(place, value, there),
            lists=both(found.lists, other),
            maps=both(found.maps, other),
        )
        return Spec(values, both(spec.null, other))


def _unrecorded(values: Json) -> Numbers:
    """Return the numbers that no set has: fractions, very large ones, and zero as -0."""
    numbers = values.numbers
    small = (numbers.low > -_FAR) & (numbers.high < _FAR)
    recorded = both(values.integral, uniform(small))
    zero = (numbers.low <= 0) & (numbers.high >= 0)
    low = np.where(both(recorded, uniform(zero)), 0.0, numbers.low)
    high = np.where(both(recorded, uniform(zero)), 0.0, numbers.high)
    empty = either(numbers.empty, both(recorded, uniform(~zero)))
    return Numbers(low, high, empty, numbers.nan)


def _gated(numbers: Numbers, where: Flags) -> Numbers:
    found = gate(numbers, where)
    assert isinstance(found, Numbers)
    return found


def _texts(place: CasePlace, value: Ints, there: Flags) -> Texts:
    if there is NO or not len(place.values):
        found = none_of(Texts(None, None))
        assert isinstance(found, Texts)
        return found
    texts = place.values.take(pa.array(np.maximum(value, 0)))
    return Texts(texts, texts, negated(there))


def _numbers(place: CasePlace, value: Ints, there: Flags, old: Numbers, kind: SparkType) -> Numbers:
    """Return the recorded numbers; beside them there may be NaN, or numbers in another form."""
    wanted = {"int": INTEGER_FORM, "float": FLOAT_FORM}.get(kind.family, f"decimal{kind.scale}")
    if place.form != wanted:
        return old
    nan = both(old.nan, negated(there))
    if there is NO or not len(place.values):
        return replace(old, empty=np.array([True]), nan=nan, members=None)
    data = b"".join(place.values.take(pa.array(np.maximum(value, 0))).to_pylist())
    if kind.family == "decimal":
        words = np.frombuffer(data, "<i8").reshape(-1, DECIMAL_BYTES // 8)
        low = words[:, 0].copy()
        if old.low.dtype == object or kind.wide:
            low = words[:, 1].astype(object) * 2**64 + words[:, 0].view("<u8").astype(object)
    else:
        low = np.frombuffer(data, "<f8" if kind.family == "float" else "<i8")
    return Numbers(low, low, negated(there), nan)


def other_cases(specs: PartSpecs, place: CasePlace, parts: Ints) -> Ints:
    """Return 1 where a row may hold none of the values at a place, otherwise 0."""
    nothing = np.full(len(parts), -1)
    spec = CaseView(specs, parts, {place.name: (place, nothing)}).of_place(place.name)
    some = either(spec.null, occupied(spec.values))
    return np.broadcast_to(some, len(parts)).astype(np.int64)


def case_groups(places: Sequence[CasePlace], parts: Ints) -> Iterator[Ints]:
    """Yield parts in groups of at most about CASES cases, and CASES_MAX in all."""
    many = np.ones(len(parts), np.int64)
    for place in places:
        many = many * (place.counts[parts] + 1)
    if len(places) > 1:
        parts, many = parts[many <= TOGETHER], many[many <= TOGETHER]
    ends = np.cumsum(many)
    parts, ends = parts[ends <= CASES_MAX], ends[ends <= CASES_MAX]
    groups = ends // CASES
    for group in np.unique(groups):
        yield parts[groups == group]

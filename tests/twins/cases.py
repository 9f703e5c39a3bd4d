"""The slow twin of judging parts case by case: one part, one case, one conjunct at a time."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pyarrow as pa

from strata.decide.cases import TOGETHER, case_places
from strata.decide.decision import split_conjuncts
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context, bools
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Column
from strata.expr.spec import Numbers, Spec, exactly, none_of, occupied
from strata.model.schema import Relation
from tests.twins.concrete import Value


class _Case:
    """The environment of one part in which some columns have a Spec of their own."""

    def __init__(self, specs: PartSpecs, part: int, chosen: Mapping[int, Spec]) -> None:
        self._view, self._chosen = specs.at(slice(part, part + 1)), chosen

    def column(self, column: Column) -> Spec:
        return self._chosen.get(column.id) or self._view.column(column)


def kept(
    filter: Filter, stats: pa.Table, relation: Relation, sets: Sequence[Mapping[int, list[Value]]]
) -> list[bool]:
    """Return which parts are kept. `sets`: of each part, the values of a column, by its id."""
    specs = PartSpecs(stats, relation, ())
    places = [int(name.removeprefix("s.")) for name in case_places(filter.expr)]
    found = []
    for part, known in enumerate(sets):
        some = [place for place in places if place in known]
        one = _Case(specs, part, {})
        options = {
            place: list(_options(one, Column(place, "", _kind(filter, place)), known[place]))
            for place in some
        }
        true, fail = _judged(filter, one)
        pairs = [
            (a, b)
            for a, b in combinations(some, 2)
            if (len(known[a]) + 1) * (len(known[b]) + 1) <= TOGETHER
        ]
        for chosen in (*((place,) for place in some), *pairs):
            verdicts = [
                _judged(filter, _Case(specs, part, dict(zip(chosen, values, strict=True))))
                for values in product(*(options[place] for place in chosen))
            ]
            true = true and any(t for t, _ in verdicts)
            fail = fail and any(f for _, f in verdicts)
        found.append(true or fail)
    return found


def _options(one: _Case, column: Column, values: Sequence[Value]) -> Iterator[Spec]:
    """Yield what a row may hold in a column: a value of the set, or null or NaN."""
    yield from (exactly(value, column.type) for value in values)
    spec = one.column(column)
    rest = none_of(spec.values)
    if isinstance(spec.values, Numbers) and isinstance(rest, Numbers):
        rest = replace(rest, nan=spec.values.nan)
    if (spec.null | occupied(rest)).any():
        yield Spec(rest, spec.null)


def _kind(filter: Filter, place: int) -> str:
    from tests.support.expressions import read_by

    return next(column.type for column in read_by(filter.expr) if column.id == place)


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def _judged(filter: Filter, case: _Case) -> tuple[bool, bool]:
    """Return whether the filter may be true, and whether it may fail."""
    interpreter = Interpreter(Context(filter.now_low, filter.now_high))
    true, fail, reached = True, False, True
    for conjunct in split_conjuncts(filter.expr):
        spec = interpreter.evaluate(conjunct, case)
        fail = fail or (reached and bool(spec.fail[0]))
        possible = bool(bools(spec).true[0])
        reached = reached and (possible or bool(spec.null[0]))
        true = true and possible
    return true, fail

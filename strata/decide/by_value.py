"""Value by value: what a conjunct makes of a value is the same in every part that holds the value.

A conjunct that reads one place only is judged once for each different value that any part holds
there, and once a part for what is not in its set. Parts of one shard share most values, so there
are far fewer of these than cases (`strata.decide.cases`). Where such a conjunct is true for none of
a part's values, the filter is true on no row of it. Whether it may fail is left to the cases:
that depends on which conjuncts are reached.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from strata.decide.cases import CASES, CASES_MAX, CasePlace, CaseView, other_cases
from strata.decide.fields import Rows
from strata.decide.places import accessed
from strata.decide.specs import PartSpecs
from strata.expr.entry import bools
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.kernels.arrays import Bools, Ints

LISTED_MAX: Final = 1 << 22  # values of all parts together that are compared: half a second
# What these make of a text of JSON is known from what the part says of the paths inside it
_ENTERS: Final = frozenset(
    {
        "from_json",
        "get_json_object",
        "get_struct_field",
        "is_variant_null",
        "json_array_length",
        "json_object_keys",
        "parse_json",
        "variant_get",
    }
)


def reads_only(expr: Expr, place: str) -> bool:
    """Return whether an expression is a function of the one value at a place, and of constants."""
    found = accessed(expr)
    if found is not None:
        return found == place
    if isinstance(expr, Call):
        return expr.function not in _ENTERS and all(reads_only(arg, place) for arg in expr.args)
    return isinstance(expr, Literal)


def never_true(
    conjunct: Expr, interpreter: Interpreter, specs: PartSpecs, place: CasePlace, parts: Ints
) -> Bools:
    """Return in which parts a conjunct that reads only this place is true on no row.

    Shape: one element for each of `parts`, in all of which the place's set is known. All are False
    where there are more different values than one decision judges.
    """
    nothing = np.zeros(len(parts), np.bool_)
    within = np.cumsum(place.counts[parts]) <= LISTED_MAX
    some = parts[within]
    counts = place.counts[some]
    owner = np.repeat(np.arange(len(some)), counts)
    number = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    listed = place.starts[some][owner] + number
    coded = place.values.take(listed).dictionary_encode()
    if len(coded.dictionary) > CASES_MAX:
        return nothing
    codes = np.asarray(coded.indices, np.int64)
    first = np.zeros(len(coded.dictionary), np.int64)
    first[codes[::-1]] = np.arange(len(codes))[::-1]  # where each value is listed first
    true = _possible(
        conjunct, interpreter, _Values(specs, place, some[owner[first]], listed[first])
    )
    possible = np.zeros(len(some), np.bool_)
    possible[owner[true[codes]]] = True
    others = np.flatnonzero(other_cases(specs, place, some))
    none = np.full(len(others), -1)
    possible[others] |= _possible(conjunct, interpreter, _Values(specs, place, some[others], none))
    nothing[within] = ~possible
    return nothing


class _Values:
    """Single values at a place, each in a part that holds it; -1: none of that part's values."""

    def __init__(self, specs: PartSpecs, place: CasePlace, parts: Ints, values: Ints) -> None:
        self._specs, self._place, self._parts, self._values = specs, place, parts, values
        self.num_rows = len(parts)

    def at(self, rows: Rows) -> CaseView:
        chosen = {self._place.name: (self._place, self._values[rows])}
        return CaseView(self._specs, self._parts[rows], chosen)


def _possible(conjunct: Expr, interpreter: Interpreter, values: _Values) -> Bools:
    """Return for which values a conjunct may be true."""
    found = np.zeros(values.num_rows, np.bool_)
    for start in range(0, values.num_rows, CASES):
        rows = slice(start, min(start + CASES, values.num_rows))
        found[rows] = bools(interpreter.evaluate(conjunct, values.at(rows))).true
    return found


def conjuncts_of(conjuncts: Sequence[Expr], place: str) -> list[tuple[int, Expr]]:
    """Return the conjuncts that read this place and nothing else, with their numbers."""
    return [
        (number, one)
        for number, one in enumerate(conjuncts)
        if reads_only(one, place) and _reads(one)
    ]


def _reads(expr: Expr) -> bool:
    return isinstance(expr, Column) or (
        isinstance(expr, Call) and any(_reads(arg) for arg in expr.args)
    )

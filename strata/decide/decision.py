"""The verdict: keep a part if the filter may be true or may fail on a row of it.

Conjuncts are evaluated in the reader's order, on chunks of parts that fit the cache. A part that
one conjunct decides is not evaluated again. A part is skipped when the filter can neither be true
nor fail: a false conjunct hides the errors of later conjuncts, never of earlier ones, and a null
conjunct hides nothing. What is kept then is judged once more case by case, where sets of values
are known (`strata.decide.cases`).
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.decide.by_value import conjuncts_of, never_true
from strata.decide.cases import CasePlace, CaseSpecs, case_groups, case_places, places_with_cases
from strata.decide.differences import PairInterpreter
from strata.decide.early import EARLY_PARTS, EarlyLook
from strata.decide.fields import Rows
from strata.decide.places import compared_places, shaped_places, statistics_of
from strata.decide.specs import PartSpecs
from strata.decide.terms import paired_places
from strata.expr.entry import Context, bools
from strata.expr.filter import Filter
from strata.expr.interpret import Environment, Interpreter, Unknown
from strata.expr.nodes import Call, Expr
from strata.expr.repeats import with_repeats
from strata.expr.spec import NO, YES, Flags, both, either, negated
from strata.kernels.arrays import Ints
from strata.model.schema import Relation
from strata.stats.wire import ROWS, bloom_name, set_name, shape_name

Proof = npt.NDArray[np.int32]

# The bounds of this many parts fit the caches; smaller chunks cost more in Python
CHUNK_PARTS: Final = 131_072
NO_PROOF: Final = -1
_WORTH_NARROWING: Final = 0.5  # gathering survivors costs about as much as evaluating the rest


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict for each part. Shape: one element a row of the statistics."""

    keep: Flags
    may_be_true: Flags
    may_fail: Flags
    # Index, in the order of `split_conjuncts`, of the first conjunct that is never true; NO_PROOF
    # if there is none. The statistics of its columns are what skipped a skipped part.
    proof: Proof


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # a bound may become infinite
def decide(
    filter: Filter,
    stats: pa.Table | pa.RecordBatch,
    relation: Relation,
    *,
    quarantine: Collection[str] = (),
    hopeful: bool = False,
) -> Decision:
    """Return which parts a reader of the filter needs.

    Shape: `stats` has a column `rows` and `s.*` columns, one row a part; any may be missing.
    `quarantine`: ids of columns whose statistics are not trusted, and names of functions whose
    rules are not trusted. `hopeful` supposes that bloom filters hold no value, which shows where it
    might help to fetch them; such a decision skips nothing.
    Errs: may keep too much, never skips wrongly. `may_be_true` is not narrowed further where a
    part is kept for a possible error.
    """
    specs = PartSpecs(stats, relation, quarantine, hopeful=hopeful)
    expr, repeated = with_repeats(filter.expr)
    context = Context(filter.now_low, filter.now_high)
    interpreter = PairInterpreter(context, quarantine, repeated=repeated)
    conjuncts = split_conjuncts(expr, quarantine)
    fallible_later = _fallible_later(conjuncts, interpreter)
    true, fail = np.ones(stats.num_rows, bool), np.zeros(stats.num_rows, bool)
    proof = np.full(stats.num_rows, NO_PROOF, np.int32)
    judge = _Judge(conjuncts, fallible_later, interpreter)
    _decide_parts(judge, specs, (true, fail, proof))
    _decide_cases(judge, expr, specs, (true, fail, proof))
    return Decision(true | fail, true, fail, proof)


@dataclass(frozen=True, slots=True)
class _Judge:
    """What judges parts and cases alike."""

    conjuncts: Sequence[Expr]
    fallible_later: Sequence[bool]
    interpreter: Interpreter


class Situations(Protocol):
    """Parts, or cases of parts."""

    def at(self, rows: Rows) -> Environment:
        """Return the environment of some of them."""
        ...


def _decide_parts(judge: _Judge, specs: PartSpecs, verdict: tuple[Flags, Flags, Proof]) -> None:
    """Write the verdict for all parts, chunk by chunk."""
    early, every = None, specs.at(slice(0, specs.num_rows))
    if specs.num_rows >= EARLY_PARTS:
        first, later = judge.conjuncts[0], judge.fallible_later[0]
        early = EarlyLook(first, judge.interpreter, every, specs.num_rows, null_matters=later)
        judge = replace(judge, conjuncts=[early.conjunct, *judge.conjuncts[1:]])
    for start in range(0, specs.num_rows, CHUNK_PARTS):
        rows = slice(start, min(start + CHUNK_PARTS, specs.num_rows))
        view = every if specs.num_rows <= CHUNK_PARTS else specs.at(rows)
        out = NO if early is None else early.ruled_out(view, rows)
        chosen = _left(out, rows, verdict)
        if chosen is None:
            continue
        if chosen is not rows:
            view = specs.at(chosen)
        _decide_chunk(judge, specs, (chosen, view), verdict)


def _left(out: Flags, rows: slice, verdict: tuple[Flags, Flags, Proof]) -> Rows | None:
    """Return the parts of a chunk that are still to be judged; None: there are none.

    The first conjunct has ruled out some parts; where these are few, all parts are judged again.
    """
    count = rows.stop - rows.start
    left = count - int(np.count_nonzero(out)) if out.size > 1 else count * (not out[0])
    if left >= _WORTH_NARROWING * count:
        return rows
    verdict[0][rows], verdict[2][rows] = False, 0
    if not left:
        return None
    chosen: Ints = np.flatnonzero(~out) + rows.start
    verdict[0][chosen], verdict[2][chosen] = True, NO_PROOF
    return chosen


def _decide_cases(
    judge: _Judge, expr: Expr, specs: PartSpecs, verdict: tuple[Flags, Flags, Proof]
) -> None:
    """Narrow the verdict on kept parts whose values at a place, or at two, are known."""
    true, fail, _ = verdict
    if not (true | fail).any():
        return
    places = places_with_cases(specs, expr)
    for place in places:
        _decide_by_value(judge, specs, place, verdict)
    for some in (*((one,) for one in places), *combinations(places, 2)):
        parts = np.flatnonzero(np.logical_and.reduce([true | fail, *(p.known for p in some)]))
        for group in case_groups(some, parts):
            _decide_group(judge, CaseSpecs(specs, some, group), group, verdict)


def _decide_by_value(
    judge: _Judge, specs: PartSpecs, place: CasePlace, verdict: tuple[Flags, Flags, Proof]
) -> None:
    """Narrow the verdict by the conjuncts that read one place only (`strata.decide.by_value`)."""
    true, _, proof = verdict
    for number, conjunct in conjuncts_of(judge.conjuncts, place.name):
        parts = np.flatnonzero(true & place.known)
        if not len(parts):
            return
        out = parts[never_true(conjunct, judge.interpreter, specs, place, parts)]
        true[out] = False
        proof[out] = np.where(proof[out] == NO_PROOF, number, proof[out])


def _decide_group(
    judge: _Judge, cases: CaseSpecs, parts: Ints, verdict: tuple[Flags, Flags, Proof]
) -> None:
    count = cases.num_rows
    true, fail = np.ones(count, bool), np.zeros(count, bool)
    proof = np.full(count, NO_PROOF, np.int32)
    rows = slice(0, count)
    _decide_chunk(judge, cases, (rows, cases.at(rows)), (true, fail, proof))
    some_true, some_fail = np.zeros(len(parts), bool), np.zeros(len(parts), bool)
    some_true[cases.owner[true]] = True
    some_fail[cases.owner[fail]] = True
    last = np.zeros(len(parts), np.int32)  # each case has a conjunct; the last one rules out all
    np.maximum.at(last, cases.owner, proof)
    out = parts[~some_true & (verdict[2][parts] == NO_PROOF)]
    verdict[2][out] = last[~some_true & (verdict[2][parts] == NO_PROOF)]
    verdict[0][parts] &= some_true
    verdict[1][parts] &= some_fail


def split_conjuncts(expr: Expr, quarantine: Collection[str] = ()) -> list[Expr]:
    """Return the conjuncts of an expression, in the order of evaluation."""
    if isinstance(expr, Call) and expr.function == "and" and "and" not in quarantine:
        return [conjunct for arg in expr.args for conjunct in split_conjuncts(arg, quarantine)]
    return [expr]


def _fallible_later(conjuncts: Sequence[Expr], interpreter: Interpreter) -> list[bool]:
    """Return, for each conjunct, whether a later one may fail on some statistics."""
    flags, later = [False], False
    for conjunct in reversed(conjuncts[1:]):
        later = later or bool(interpreter.evaluate(conjunct, Unknown()).fail.any())
        flags.append(later)
    return flags[::-1]


def _decide_chunk(
    judge: _Judge,
    specs: Situations,
    seen: tuple[Rows, Environment],
    verdict: tuple[Flags, Flags, Proof],
) -> None:
    """Write the verdict for some parts: may be true, may fail, deciding conjunct."""
    chosen, view = seen
    count = chosen.stop - chosen.start if isinstance(chosen, slice) else len(chosen)
    true, reached, fail = YES, YES, NO
    flow = zip(judge.conjuncts, judge.fallible_later, strict=True)
    for number, (conjunct, later) in enumerate(flow):
        spec = judge.interpreter.evaluate(conjunct, view)
        possible = bools(spec).true
        fail = either(fail, both(reached, spec.fail))
        reached = both(reached, either(possible, spec.null))
        _note(both(true, negated(possible)), chosen, verdict[2], number)
        true = both(true, possible)
        verdict[0][chosen], verdict[1][chosen] = true, fail
        undecided = both(negated(fail), reached if later else true)
        left = int(np.count_nonzero(undecided)) if undecided.size > 1 else count * undecided[0]
        if not left:
            return
        if left < _WORTH_NARROWING * count:
            survivors = np.flatnonzero(undecided)
            chosen = survivors + chosen.start if isinstance(chosen, slice) else chosen[survivors]
            true, reached, fail = (_some(f, survivors) for f in (true, reached, fail))
            view, count = specs.at(chosen), left


def _some(flags: Flags, rows: Rows) -> Flags:
    return flags if flags.size == 1 else flags[rows]


def _note(fell: Flags, chosen: Rows, proof: Proof, number: int) -> None:
    """Record the conjunct for the parts that it has just ruled out."""
    if isinstance(chosen, slice):
        proof[chosen] += fell.view(np.int8) * np.int32(number - NO_PROOF)
    elif fell.size > 1:
        proof[chosen[fell]] = number
    elif fell[0]:
        proof[chosen] = number


def needed_columns(filter: Filter) -> set[str]:
    """Return the columns of a manifest that `decide` reads for a filter.

    Shape: `rows`, `s.{id}` for each column, also of places inside structs, lists and maps. A JSON
    path needs every step from the root, since an ancestor may say that the path is absent. Sets and
    bloom filters of places that are compared for equality, sets of those that have cases, shapes of
    those whose texts are read as numbers or moments, pairs of those that are compared.
    """
    compared = set(compared_places(filter.expr))
    members = {name for place in compared for name in (set_name(place), bloom_name(place))}
    cases = {set_name(place) for place in case_places(filter.expr)}
    shapes = {shape_name(place) for place in shaped_places(filter.expr)}
    pairs = paired_places(filter.expr)
    return {ROWS, *statistics_of(filter.expr), *members, *cases, *shapes, *pairs}

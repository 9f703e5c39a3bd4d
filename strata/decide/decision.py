"""The verdict: keep a part if the filter may be true or may fail on a row of it.

Conjuncts are evaluated in the reader's order, on chunks of parts that fit the cache. A part that
one conjunct decides is not evaluated again. A part is skipped when the filter can neither be true
nor fail: a false conjunct hides the errors of later conjuncts, never of earlier ones, and a null
conjunct hides nothing.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.decide.fields import Rows
from strata.decide.places import compared_places, statistics_of
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context, bools
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter, Unknown
from strata.expr.nodes import Call, Expr
from strata.expr.spec import NO, YES, Flags, both, either, negated
from strata.model.schema import Relation
from strata.stats.wire import ROWS, bloom_name, set_name

Proof = npt.NDArray[np.int32]

# The bounds of this many parts fit the caches; smaller chunks cost more in Python
CHUNK_PARTS: Final = 65_536
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
    interpreter = Interpreter(Context(filter.now_low, filter.now_high), quarantine)
    conjuncts = split_conjuncts(filter.expr, quarantine)
    fallible_later = _fallible_later(conjuncts, interpreter)
    true, fail = np.ones(stats.num_rows, bool), np.zeros(stats.num_rows, bool)
    proof = np.full(stats.num_rows, NO_PROOF, np.int32)
    for start in range(0, stats.num_rows, CHUNK_PARTS):
        rows = slice(start, min(start + CHUNK_PARTS, stats.num_rows))
        _decide_chunk(conjuncts, fallible_later, interpreter, specs, rows, (true, fail, proof))
    return Decision(true | fail, true, fail, proof)


def split_conjuncts(expr: Expr, quarantine: Collection[str] = ()) -> list[Expr]:
    """Return the conjuncts of an expression, in the order of evaluation."""
    if isinstance(expr, Call) and expr.function == "and" and "and" not in quarantine:
        return [conjunct for arg in expr.args for conjunct in split_conjuncts(arg, quarantine)]
    return [expr]


def _fallible_later(conjuncts: Sequence[Expr], interpreter: Interpreter) -> list[bool]:
    """Return, for each conjunct, whether a later one may fail on some statistics."""
    flags, later = [], False
    for conjunct in reversed(conjuncts):
        flags.append(later)
        later = later or bool(interpreter.evaluate(conjunct, Unknown()).fail.any())
    return flags[::-1]


def _decide_chunk(
    conjuncts: Sequence[Expr],
    fallible_later: Sequence[bool],
    interpreter: Interpreter,
    specs: PartSpecs,
    rows: slice,
    verdict: tuple[Flags, Flags, Proof],
) -> None:
    """Write the verdict for the parts of a chunk: may be true, may fail, deciding conjunct."""
    chosen: Rows = rows
    count = rows.stop - rows.start
    true, reached, fail = YES, YES, NO
    view = specs.at(chosen)
    for number, (conjunct, later) in enumerate(zip(conjuncts, fallible_later, strict=True)):
        spec = interpreter.evaluate(conjunct, view)
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
    bloom filters of places that are compared for equality.
    """
    compared = set(compared_places(filter.expr))
    members = {name for place in compared for name in (set_name(place), bloom_name(place))}
    return {ROWS, *statistics_of(filter.expr), *members}

"""Say why each part is kept or skipped, from the same evaluation that decides.

A skipped part names the conjunct that is never true on it and the ranges that prove it. A kept
part names the sub-expression that stopped the proof, why (`strata.decide.causes`), and what would
help.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pyarrow as pa

from strata.decide.cases import case_places
from strata.decide.causes import Cause, Known, Stopped, cause_of, left_out, ranged_leaves
from strata.decide.decision import decide, split_conjuncts
from strata.decide.differences import PairInterpreter
from strata.decide.specs import PartSpecs
from strata.decide.terms import paired_places
from strata.expr.entry import Context, bools
from strata.expr.filter import Filter
from strata.expr.interpret import Environment, Interpreter
from strata.expr.nodes import Call, Expr, Opaque
from strata.expr.render import describe, render
from strata.expr.spec import Spec
from strata.model.schema import Relation
from strata.stats.members import place_named
from strata.stats.pairs import pair_named
from strata.stats.wire import parse_name

Trace = dict[int, Spec]


@dataclass(frozen=True, slots=True)
class Reason:
    """Why one part is kept or skipped."""

    keep: bool
    cause: Cause
    expression: str  # the conjunct that proves it, or the sub-expression that stopped the proof
    text: str  # one line with the ranges, for people
    help: str = ""  # what would let the part be skipped; empty if nothing is known or needed


@dataclass(slots=True)
class JudgedPart:
    """The conjuncts of a filter on one part, in the order of evaluation."""

    trace: Trace = field(default_factory=dict)
    failing: Expr | None = None  # the first conjunct that is evaluated and may fail
    never: Expr | None = None  # the first that is never true

    @property
    def keep(self) -> bool:
        """Return the verdict, as `decide` gives it."""
        return self.failing is not None or self.never is None


def explain(
    filter: Filter,
    stats: pa.Table | pa.RecordBatch,
    relation: Relation,
    rows: Sequence[int],
    *,
    quarantine: Collection[str] = (),
) -> list[str]:
    """Return the line of `reasons` for each of the parts `rows`."""
    found = reasons(filter, stats, relation, rows, quarantine=quarantine)
    return [reason.text for reason in found]


def reasons(  # noqa: PLR0913 - what is known of the parts, and of whom to speak
    filter: Filter,
    stats: pa.Table | pa.RecordBatch,
    relation: Relation,
    rows: Sequence[int],
    *,
    versions: Sequence[int | None] | None = None,
    quarantine: Collection[str] = (),
    shard: str = "SHARD",
    paths_kept: Callable[[int, int], int] | None = None,
) -> list[Reason]:
    """Return why each of the parts `rows` is kept or skipped.

    `versions`: the statistics version of each row of `stats`, None for a part without any; they
    distinguish what was never collected from what was trimmed. `shard` is for commands in the help.
    `paths_kept`: how many paths have statistics, by one of `rows` and a JSON column.
    Cost: milliseconds a part; `decide` is for many.
    """
    specs = PartSpecs(stats, relation, quarantine)
    interpreter = PairInterpreter(Context(filter.now_low, filter.now_high), quarantine)
    conjuncts = split_conjuncts(filter.expr, quarantine)
    verdict = decide(filter, stats, relation, quarantine=quarantine)  # also case by case
    found = []
    for row in rows:
        judged = judge_part(conjuncts, interpreter, specs.at(slice(row, row + 1)))
        version = None if versions is None else versions[row]
        kept = None if paths_kept is None else partial(paths_kept, row)
        known = Known(stats, relation, row, version, versions is not None, quarantine, shard, kept)
        if judged.keep and not verdict.keep[row]:
            conjunct = conjuncts[max(int(verdict.proof[row]), 0)]
            found.append(_without_case(conjunct, filter, relation))
        else:
            found.append(_reason(conjuncts, interpreter, judged, known))
    return found


def _without_case(conjunct: Expr, filter: Filter, relation: Relation) -> Reason:
    """Return the reason for a part that is skipped since none of its values will do."""
    shown = render(conjunct)
    names = [name for name in case_places(filter.expr) if parse_name(name) is not None]
    places = ", ".join(_shown(name, relation) for name in names)
    text = f"skipped: {shown} is never true for the values that occur (sets of {places})"
    return Reason(keep=False, cause=Cause.PROVEN, expression=shown, text=text)


def _shown(name: str, relation: Relation) -> str:
    """Return the name of a place, for people."""
    place = place_named(relation, name)
    if place is None:
        return name
    steps = place.steps if place.path is None else place.path
    return ".".join([place.column.name, *steps])


@np.errstate(over="ignore", invalid="ignore", divide="ignore")  # a bound may become infinite
def judge_part(
    conjuncts: Sequence[Expr], interpreter: Interpreter, environment: Environment
) -> JudgedPart:
    """Evaluate the conjuncts on one part, up to where `decide` stops, and then the rest."""
    judged, reached = JudgedPart(), True
    for conjunct in conjuncts:
        spec = interpreter.evaluate(conjunct, environment, judged.trace)
        if reached and spec.fail[0] and judged.failing is None:
            judged.failing = conjunct
        if judged.never is None and not bools(spec).true[0]:
            judged.never = conjunct
        reached = reached and bool((bools(spec).true | spec.null)[0])
    return judged


def _reason(
    conjuncts: Sequence[Expr], interpreter: Interpreter, judged: JudgedPart, known: Known
) -> Reason:
    if judged.failing is not None:
        return _failing(judged.failing, conjuncts, interpreter, judged, known)
    if judged.never is not None:
        shown = render(judged.never)
        text = f"skipped: {shown} is never true{_ranges(judged.never, judged.trace)}"
        text += _pairs(judged.never, known)
        return Reason(keep=False, cause=Cause.PROVEN, expression=shown, text=text)
    return _possible(conjuncts, interpreter, judged.trace, known)


def _failing(
    conjunct: Expr,
    conjuncts: Sequence[Expr],
    interpreter: Interpreter,
    judged: JudgedPart,
    known: Known,
) -> Reason:
    """Return the innermost expression that may fail although its arguments do not."""
    node, trace = conjunct, judged.trace
    while isinstance(node, Call):
        inner = [arg for arg in node.args if trace[id(arg)].fail[0]]
        if not inner:
            break
        node = inner[0]
    opened = interpreter.opened.get(id(node))
    stopped = Stopped(node, trace, opened, fails=True)
    cause, help = cause_of(stopped, known)
    first = _hiding(conjunct, conjuncts, trace)
    if first is not None:
        help = f"write `{render(first)}` first: it is never true here, so nothing behind it runs"
    because = f": {opened}" if opened else _ranges(node, trace)
    text = f"kept: {render(node)} may fail{because}"
    text += left_out(node, known) if cause is Cause.TRIMMED else ""
    return Reason(keep=True, cause=cause, expression=render(node), text=text, help=help)


def _hiding(failing: Expr, conjuncts: Sequence[Expr], trace: Trace) -> Expr | None:
    """Return a later conjunct that would skip the part if it stood in front."""
    for conjunct in conjuncts:
        spec = trace[id(conjunct)]
        never = not (bools(spec).true[0] or spec.null[0] or spec.fail[0])
        if never and conjunct is not failing:
            return conjunct
    return None


def _possible(
    conjuncts: Sequence[Expr], interpreter: Interpreter, trace: Trace, known: Known
) -> Reason:
    """Return the conjunct closest to a proof; one that nothing is known of comes first."""
    for conjunct in conjuncts:
        for node in _walk(conjunct):
            if (why := interpreter.opened.get(id(node))) is not None:
                cause, help = cause_of(Stopped(node, trace, why, fails=False), known)
                text = f"kept: nothing is known of {render(node)}: {why}"
                return Reason(keep=True, cause=cause, expression=render(node), text=text, help=help)
    # Of several conjuncts, the one whose statistics can be improved most.
    judged = [(cause_of(Stopped(c, trace, None, fails=False), known), c) for c in conjuncts]
    (cause, help), chosen = min(judged, key=lambda pair: pair[0][0].rank)
    text = f"kept: {render(chosen)} may be true{_ranges(chosen, trace)}"
    text += left_out(chosen, known) if cause is Cause.TRIMMED else ""
    return Reason(keep=True, cause=cause, expression=render(chosen), text=text, help=help)


def _ranges(expr: Expr, trace: Trace) -> str:
    """Return the ranges of the columns and JSON paths in an expression."""
    known = {
        render(node): describe(trace[id(node)], node.type)
        for node in ranged_leaves(expr)
        if not isinstance(node, Opaque)
    }
    return f" ({'; '.join(f'{name} in {text}' for name, text in known.items())})" if known else ""


def _pairs(expr: Expr, known: Known) -> str:
    """Return how two places differ that an expression compares, as the part records it."""
    found = []
    for name in dict.fromkeys(paired_places(expr)):
        pair = pair_named(known.relation, name)
        value = known.stats.column(name)[known.row] if name in known.names else None
        claim = None if value is None else value.as_py()
        if pair is None or claim is None or claim["form"] != pair.form:
            continue
        left, right = (_shown(side.name, known.relation) for side in (pair.left, pair.right))
        shown = (
            (f"{left} - {right}", "low", "high"),
            (f"{left} / {right}", "ratio_low", "ratio_high"),
        )
        found += [
            f"{what} in [{claim[low]:g}, {claim[high]:g}]"
            for what, low, high in shown
            if claim[low] is not None and claim[high] is not None
        ]
    return f", with {', '.join(found)}" if found else ""


def _walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from _walk(arg)

"""Could a filter skip any part at all? The same evaluation, on the most favourable statistics.

The most favourable statistics of a column leave it no value: whatever real ones say encloses
that. Where a filter may be true or fail even so, it does on every statistics, and no part is ever
skipped: a static *no* is certain. A *yes* is none; it says that nothing in the filter itself is
in the way.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from strata.decide.decision import split
from strata.decide.reasons import JudgedPart, judge
from strata.expr.entry import Context, bools
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr
from strata.expr.render import render
from strata.expr.spec import Spec, everything, none_of
from strata.model.shown import json_of


class Favourable:
    """The environment in which every column holds nothing: no value, no null."""

    def column(self, column: Column) -> Spec:
        """Return nothing."""
        return Spec(none_of(everything(column.type)))


@dataclass(frozen=True, slots=True)
class Prospect:
    """What can become of one conjunct."""

    expression: str
    proves: bool  # it can be never true on some statistics
    fails: bool  # it may fail on every statistics
    because: str  # why it proves nothing, or always fails; empty otherwise


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a filter could skip a part, on statistics of whatever kind."""

    could_skip: bool
    conjuncts: tuple[Prospect, ...]
    help: str  # what would make it a yes

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON shows it."""
        return json_of(self)


def outlook(filter: Filter, quarantine: Collection[str] = ()) -> Outlook:
    """Return whether `decide` could skip a part for this filter; no means never.

    Errs: towards yes. Cost: one evaluation, no statistics.
    """
    interpreter = Interpreter(Context(filter.now_low, filter.now_high), quarantine)
    conjuncts = split(filter.expr, quarantine)
    judged = judge(conjuncts, interpreter, Favourable())
    prospects = tuple(_prospect(conjunct, interpreter, judged) for conjunct in conjuncts)
    return Outlook(not judged.keep, prospects, _help(judged, prospects))


def _prospect(conjunct: Expr, interpreter: Interpreter, judged: JudgedPart) -> Prospect:
    spec = judged.trace[id(conjunct)]
    proves, fails = not bools(spec).true[0], bool(spec.fail[0])
    because = "" if proves and not fails else _because(conjunct, interpreter)
    return Prospect(render(conjunct), proves, fails, because)


def _because(expr: Expr, interpreter: Interpreter) -> str:
    """Return what in an expression nothing is known of; or that it reads no column."""
    reasons = [interpreter.opened[id(n)] for n in _walk(expr) if id(n) in interpreter.opened]
    if reasons:
        return "; ".join(dict.fromkeys(reasons))
    return "" if any(isinstance(n, Column) for n in _walk(expr)) else "it reads no column"


def _help(judged: JudgedPart, prospects: Sequence[Prospect]) -> str:
    if not judged.keep:
        return ""
    safe = [p.expression for p in prospects if p.proves and not p.fails]
    if safe and judged.failing is not None:
        return f"write `{safe[0]}` in front of `{render(judged.failing)}`, which may fail"
    reference = "docs/reference/functions.md"
    return f"put in front a conjunct over a column, of functions with rules: {reference}"


def _walk(expr: Expr) -> list[Expr]:
    inner = expr.args if isinstance(expr, Call) else ()
    return [expr, *(node for arg in inner for node in _walk(arg))]

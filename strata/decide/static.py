"""Decide whether a filter could skip any part at all, given the most favourable statistics.

The most favourable statistics of a column leave it no value; any real ones enclose that. A filter
that may be true or fail even then may do so on all statistics, and no part is ever skipped: a
static *no* is certain. A static *yes* is no promise; it says only that nothing in the filter itself
prevents skipping.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from strata.decide.decision import split_conjuncts
from strata.decide.reasons import JudgedPart, judge_part
from strata.expr.entry import Context, bools
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr
from strata.expr.render import render
from strata.expr.spec import Spec, everything, none_of
from strata.model.shown import json_of


class Favourable:
    """The environment in which every column is empty: no value, no null."""

    def column(self, column: Column) -> Spec:
        """Return the Spec without any value."""
        return Spec(none_of(everything(column.type)))


@dataclass(frozen=True, slots=True)
class Prospect:
    """What one conjunct can prove."""

    expression: str
    proves: bool  # on some statistics it is never true
    fails: bool  # it may fail on all statistics
    because: str  # why it proves nothing or may always fail; empty otherwise


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a filter could skip a part on any statistics."""

    could_skip: bool
    conjuncts: tuple[Prospect, ...]
    help: str  # what would turn a no into a yes

    def to_json(self) -> dict[str, Any]:
        """Return the outlook as JSON values."""
        return json_of(self)


def outlook(filter: Filter, quarantine: Collection[str] = ()) -> Outlook:
    """Return whether `decide` could skip a part for this filter; no means never.

    Errs: may say yes wrongly, never no. Cost: one evaluation, no statistics.
    """
    interpreter = Interpreter(Context(filter.now_low, filter.now_high), quarantine)
    conjuncts = split_conjuncts(filter.expr, quarantine)
    judged = judge_part(conjuncts, interpreter, Favourable())
    prospects = tuple(_prospect(conjunct, interpreter, judged) for conjunct in conjuncts)
    return Outlook(not judged.keep, prospects, _help(judged, prospects))


def _prospect(conjunct: Expr, interpreter: Interpreter, judged: JudgedPart) -> Prospect:
    spec = judged.trace[id(conjunct)]
    proves, fails = not bools(spec).true[0], bool(spec.fail[0])
    because = "" if proves and not fails else _because(conjunct, interpreter)
    return Prospect(render(conjunct), proves, fails, because)


def _because(expr: Expr, interpreter: Interpreter) -> str:
    """Return the unknown part of an expression, or that the expression reads no column."""
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

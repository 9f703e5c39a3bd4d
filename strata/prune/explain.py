"""Why each part was kept or skipped, from the same evaluation that decides."""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from strata.expr.entry import Context, bools
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr
from strata.expr.render import describe, render
from strata.expr.spec import Spec
from strata.model.schema import Relation
from strata.prune.decide import split
from strata.prune.specs import PartSpecs

Trace = dict[int, Spec]


def explain(
    filter: Filter,
    stats: pa.Table | pa.RecordBatch,
    relation: Relation,
    rows: Sequence[int],
    *,
    quarantine: Collection[str] = (),
) -> list[str]:
    """Return one reason for each of the parts `rows`.

    A skipped part: the conjunct that is never true there, and the ranges that prove it. A kept
    part: the sub-expression that may fail, or the conjunct that may be true and why.
    Cost: milliseconds a part; `decide` is for many.
    """
    specs = PartSpecs(stats, relation, quarantine)
    interpreter = Interpreter(Context(filter.now_low, filter.now_high), quarantine)
    conjuncts = split(filter.expr, quarantine)
    return [_reason(conjuncts, interpreter, specs, row) for row in rows]


def _reason(conjuncts: Sequence[Expr], interpreter: Interpreter, specs: PartSpecs, row: int) -> str:
    trace: Trace = {}
    view, reached, never = specs.at(slice(row, row + 1)), True, None
    for conjunct in conjuncts:
        spec = interpreter.evaluate(conjunct, view, trace)
        if reached and spec.fail[0]:
            return _failing(conjunct, interpreter, trace)
        if never is None and not bools(spec).true[0]:
            never = conjunct
        reached = reached and bool((bools(spec).true | spec.null)[0])
    if never is not None:
        return f"skipped: {render(never)} is never true{_ranges(never, trace)}"
    return _possible(conjuncts, interpreter, trace)


def _failing(conjunct: Expr, interpreter: Interpreter, trace: Trace) -> str:
    """Return the innermost expression that may fail although its arguments do not."""
    node = conjunct
    while isinstance(node, Call):
        inner = [arg for arg in node.args if trace[id(arg)].fail[0]]
        if not inner:
            break
        node = inner[0]
    why = interpreter.opened.get(id(node))
    cause = f": {why}" if why else _ranges(node, trace)
    return f"kept: {render(node)} may fail{cause}"


def _possible(conjuncts: Sequence[Expr], interpreter: Interpreter, trace: Trace) -> str:
    """Return the conjunct that comes closest to a proof: one that nothing is known of, first."""
    for conjunct in conjuncts:
        for node in _walk(conjunct):
            if (why := interpreter.opened.get(id(node))) is not None:
                return f"kept: nothing is known of {render(node)}: {why}"
    last = conjuncts[-1] if len(conjuncts) == 1 else _widest(conjuncts, trace)
    return f"kept: {render(last)} may be true{_ranges(last, trace)}"


def _widest(conjuncts: Sequence[Expr], trace: Trace) -> Expr:
    """Return the first conjunct with a column that has no bounds, or else the first of all."""
    for conjunct in conjuncts:
        for node in _walk(conjunct):
            if isinstance(node, Column) and "any " in describe(trace[id(node)], node.type):
                return conjunct
    return conjuncts[0]


def _ranges(expr: Expr, trace: Trace) -> str:
    """Return the ranges of the columns and JSON paths in an expression."""
    known = {render(node): describe(trace[id(node)], node.type) for node in _leaves(expr)}
    return f" ({'; '.join(f'{name} in {text}' for name, text in known.items())})" if known else ""


def _leaves(expr: Expr) -> Iterator[Expr]:
    """Yield what statistics or the clock speak of: columns and their fields, JSON paths, clocks."""
    path = isinstance(expr, Call) and expr.function in ("get_json_object", "get_struct_field")
    if isinstance(expr, Column) or path or (isinstance(expr, Call) and not expr.args):
        yield expr
    elif isinstance(expr, Call):
        for arg in expr.args:
            yield from _leaves(arg)


def _walk(expr: Expr) -> Iterator[Expr]:
    yield expr
    if isinstance(expr, Call):
        for arg in expr.args:
            yield from _walk(arg)

"""The abstract interpreter: what an expression may yield on the rows of each part.

One evaluation handles every part of an environment. Subtrees without columns are evaluated once for
all environments. A call that the interpreter cannot handle is opened, never refused: an unknown or
quarantined function, a wrong number of arguments, values of an unexpected kind.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from strata.expr.entry import Context, Outcome, strict
from strata.expr.functions.folds import folded
from strata.expr.growth import Extent, may_outgrow, size_of
from strata.expr.members import bare
from strata.expr.nodes import Call, Column, Expr, Literal, Opaque
from strata.expr.registry import REGISTRY
from strata.expr.spec import (
    YES,
    Bools,
    Json,
    Numbers,
    Spec,
    Texts,
    anything,
    everything,
    exactly,
)

# What a rule that is wrong raises: its call is opened
BUGS: Final = (TypeError, ValueError, ArithmeticError, AssertionError, pa.ArrowException)


class Environment(Protocol):
    """Gives what the columns of some parts may hold."""

    def column(self, column: Column) -> Spec:
        """Return what a column may hold in each part."""
        ...


class Unknown:
    """The environment that knows nothing: every column may hold anything of its type."""

    def column(self, column: Column) -> Spec:
        """Return every value, and null; reading a column never fails."""
        return Spec(everything(column.type), np.array([True]))


@dataclass(frozen=True, slots=True)
class _Step:
    """The environment of a lambda that goes from element to element (`aggregate`)."""

    around: Environment
    variable: str  # the option of the calls that stand for what it has made so far
    value: Spec

    def column(self, column: Column) -> Spec:
        """Return what the environment around it knows."""
        return self.around.column(column)


def _accumulated(environment: Environment, call: Call) -> Spec | None:
    """Return what the lambda that a call names has made so far; None outside of it."""
    while isinstance(environment, _Step):
        if environment.variable == call.option("variable"):
            return environment.value
        environment = environment.around
    return None


class Interpreter:
    """Evaluates the nodes of one filter; keeps constants from one environment to the next."""

    def __init__(
        self,
        context: Context,
        quarantine: Collection[str] = (),
        *,
        lenient: bool = True,
        repeated: frozenset[int] = frozenset(),
    ) -> None:
        """`lenient`: a bug in a transfer function opens the call instead of raising.

        `repeated`: ids of calls that occur more than once (`strata.expr.repeats`); each is
        evaluated once in an environment.
        """
        self.context = context
        self.quarantine = frozenset(quarantine)
        self.lenient = lenient
        self.opened: dict[int, str] = {}  # reasons why nodes are open, by id(node)
        self._repeated = repeated
        self._latest: tuple[Environment, dict[int, Spec]] | None = None  # of repeated calls
        self._constants: dict[int, Spec] = {}
        self._sizes: dict[int, Extent] = {}
        self._nodes: list[Expr] = []  # keeps the nodes alive, so that their ids are not reused

    def evaluate(
        self, expr: Expr, environment: Environment, trace: dict[int, Spec] | None = None
    ) -> Spec:
        """Return what `expr` may yield; `trace` receives the Spec of every node by its id."""
        if (known := self._constants.get(id(expr))) is not None and trace is None:
            return known
        if trace is None and id(expr) in self._repeated:
            return self._once(expr, environment)
        return self._evaluated(expr, environment, trace)

    def _once(self, expr: Expr, environment: Environment) -> Spec:
        """Return what a repeated call may yield, evaluated anew in each environment."""
        if self._latest is None or self._latest[0] is not environment:
            self._latest = environment, {}
        found = self._latest[1]
        if id(expr) not in found:
            spec = self._evaluated(expr, environment, None)
            found[id(expr)] = spec
        return found[id(expr)]

    def _evaluated(
        self, expr: Expr, environment: Environment, trace: dict[int, Spec] | None
    ) -> Spec:
        match expr:
            case Column():
                spec = environment.column(expr)
            case Literal():
                spec = exactly(expr.value, expr.type)
            case Opaque():
                spec = self._open(expr, expr.type, expr.reason)
            case Call():
                spec = self._call(expr, self._args(expr, environment, trace))
        if trace is not None:
            trace[id(expr)] = spec
        if not isinstance(expr, Column) and self._is_constant(expr):
            self._constants[id(expr)] = spec
            self._nodes.append(expr)
        return spec

    def _args(
        self, call: Call, environment: Environment, trace: dict[int, Spec] | None
    ) -> list[Spec]:
        """Return what the arguments may yield; of `aggregate`, what its lambdas make."""
        if call.function == "accumulated":
            return [_accumulated(environment, call) or anything(call.type)]
        if call.function != "aggregate" or len(call.args) != len(("list", "start", "by", "last")):
            return [self.evaluate(arg, environment, trace) for arg in call.args]
        lists, start = (self.evaluate(arg, environment, trace) for arg in call.args[:2])
        known = self._latest

        def made(body: Expr, value: Spec) -> Spec:
            return self.evaluate(body, _Step(environment, call.option("variable"), value), trace)

        try:
            whole = folded(lists, start, lambda value: made(call.args[2], value), call.args[1].type)
        except BUGS as error:
            if not self.lenient:
                raise
            self.opened[id(call)] = f"{call.function} could not be evaluated: {error}"
            whole = anything(call.args[1].type)
        finished = made(call.args[3], Spec(whole.values, whole.null))
        self._latest = known
        return [lists, start, whole, finished]

    def _is_constant(self, expr: Expr) -> bool:
        if isinstance(expr, Call) and expr.function == "accumulated":
            return False
        if isinstance(expr, Call):
            return all(id(arg) in self._constants for arg in expr.args)
        return isinstance(expr, Literal | Opaque)

    def _call(self, call: Call, args: list[Spec]) -> Spec:
        entry = REGISTRY.get(call.function)
        if entry is None:
            return self._open(call, call.type, f"the function {call.function} is not known")
        if call.function in self.quarantine:
            return self._open(call, call.type, f"the function {call.function} is in quarantine")
        least, most = entry.arity
        if len(args) < least or (most is not None and len(args) > most):
            return self._open(call, call.type, f"{call.function} with {len(args)} arguments")
        try:
            spec = entry.transfer(call, args, self.context)
        except BUGS as error:
            if not self.lenient:
                raise
            return self._open(call, call.type, f"{call.function} could not be evaluated: {error}")
        if not entry.passes:
            # What values occur is said of arguments; a rule that returns one may mean its range
            spec = replace(spec, values=bare(spec.values)) if _has_members(spec) else spec
        if not _suits(spec, call.type):
            spec = strict([spec], Outcome(everything(call.type), spec.null, spec.fail))
        return Spec(spec.values, spec.null, YES) if may_outgrow(call, self._size(call)) else spec

    def _size(self, expr: Expr) -> Extent:
        """Return how large an expression can make a value; it is the same in all environments."""
        known = self._sizes.get(id(expr))
        if known is None:
            args = [self._size(arg) for arg in expr.args] if isinstance(expr, Call) else []
            unknown = isinstance(expr, Call) and expr.function not in REGISTRY
            known = size_of(Opaque("", expr.type) if unknown else expr, args)
            self._sizes[id(expr)] = known
            self._nodes.append(expr)
        return known

    def _open(self, node: Expr, type_name: str, reason: str) -> Spec:
        self.opened[id(node)] = reason
        return anything(type_name)


def _has_members(spec: Spec) -> bool:
    return isinstance(spec.values, Numbers | Texts) and spec.values.members is not None


def _suits(spec: Spec, type_name: str) -> bool:
    """Return whether values have the kind of a type."""
    expected = everything(type_name)
    match expected:
        case Texts():
            return isinstance(spec.values, Texts | Json)
        case Bools():
            return isinstance(spec.values, Bools)
        case Numbers():
            return isinstance(spec.values, Numbers)
        case _:
            return True

"""The rows of the function table, and the parts that transfer functions share.

A transfer function takes the call and what its arguments may yield, and returns what the result may
yield. Most functions are *strict*: null if an argument is null, an error if an argument fails. They
return their own contribution as an `Outcome`, and `strict` adds the rest.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Final

import numpy as np

from strata.expr.nodes import Call, Literal
from strata.expr.sparktype import spark_type
from strata.expr.spec import (
    NO,
    YES,
    Bools,
    Flags,
    Json,
    Numbers,
    Spec,
    Texts,
    Values,
    as_texts,
    both,
    either,
    everything,
    gate,
    negated,
    no,
    occupied,
    uniform,
)

# Zone ids that are UTC at every instant; in other zones local time is up to 18 h away and may
# jump, so results are widened (see `abroad`).
UTC_ZONES: Final = frozenset({"UTC", "Etc/UTC", "Z", "GMT", "Etc/GMT", "+00:00", "UTC+00:00"})


@dataclass(frozen=True, slots=True)
class Context:
    """The context of a filter's evaluation beside the statistics: the span of the clock, in µs."""

    now_low: int
    now_high: int


Transfer = Callable[[Call, Sequence[Spec], Context], Spec]


@dataclass(frozen=True, slots=True)
class Entry:
    """One function of the registry."""

    name: str
    arguments: str  # names of the arguments, for people; `...` repeats the one before
    arity: tuple[int, int | None]  # fewest and most arguments; None: any number
    transfer: Transfer
    note: str  # knowledge about the result, for docs/reference/functions.md
    passes: bool = False  # members of the result are those that the rule gives it


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a strict function on arguments that are neither null nor errors."""

    values: Values
    null: Flags = field(default_factory=no)
    fail: Flags = field(default_factory=no)


def strict(args: Sequence[Spec], outcome: Outcome) -> Spec:
    """Return the Spec of a strict function.

    Where an argument has no value, there is neither a result nor a failure of its own.
    """
    if not args:
        return Spec(outcome.values, outcome.null, outcome.fail)
    possible = uniform(reduce(both, [occupied(arg.values) for arg in args]))
    null = reduce(either, [arg.null for arg in args], both(outcome.null, possible))
    fail = reduce(either, [arg.fail for arg in args], both(outcome.fail, possible))
    return Spec(gate(outcome.values, possible), null, fail)


def opened(call: Call, args: Sequence[Spec], *, null: bool = True, fail: bool = True) -> Spec:
    """Return all values of the call's type, with the arguments' own nulls and errors."""
    return strict(args, Outcome(everything(call.type), YES if null else NO, YES if fail else NO))


def settle(call: Call, failing: Flags) -> tuple[Flags, Flags]:
    """Return (null, fail) for evaluations that a mode may turn into null."""
    if call.option("ansi", "ansi") == "ansi":
        return NO, failing
    return failing, NO


def wraps(call: Call) -> bool:
    """Return whether overflow wraps silently instead of failing or yielding null."""
    return call.option("ansi", "ansi") == "legacy"


def abroad(call: Call) -> bool:
    """Return whether the call's zone is another than UTC."""
    return call.option("zone", "UTC") not in UTC_ZONES


def numbers(spec: Spec, type_name: str) -> Numbers:
    """Return the numbers of an argument; untracked values become all numbers of its type."""
    values = spec.values
    floating = spark_type(type_name).family == "float"
    if isinstance(values, Numbers) and (values.low.dtype == np.float64) == floating:
        return values
    full = everything(type_name)
    assert isinstance(full, Numbers), type_name
    some = occupied(values)
    return Numbers(full.low, full.high, negated(some), both(full.nan, some))


def bools(spec: Spec) -> Bools:
    """Return the truth values of an argument; untracked values become both."""
    if isinstance(spec.values, Bools):
        return spec.values
    some = occupied(spec.values)
    return Bools(some, some)


def texts(spec: Spec) -> Texts:
    """Return the texts of an argument; untracked values become all texts."""
    values = spec.values
    if isinstance(values, Texts | Json):
        return as_texts(values)
    return Texts(None, None, negated(occupied(values)))


def literal(call: Call, position: int) -> Literal | None:
    """Return the argument if it is a constant."""
    arg = call.args[position]
    return arg if isinstance(arg, Literal) else None


def family(type_name: str) -> str:
    """Return the family of a Spark type, as `SparkType.family`."""
    return spark_type(type_name).family

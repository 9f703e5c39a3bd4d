"""Exact results where all arguments are single values: of constants, and of values one by one.

A rule says what a function makes of ranges. Of a value by itself far more is known, and a part with
a set of values is judged value by value (`strata.decide.cases`). A function that is evaluated here
means exactly what Spark does for the arguments that it takes, or it takes them not: then the rule
for ranges stands.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.elements import Elements
from strata.expr.entry import Context, Transfer
from strata.expr.functions.singles import Places, are_single, coded, count_of, texts_at
from strata.expr.nodes import Call
from strata.expr.sparktype import spark_type
from strata.expr.spec import (
    NO,
    YES,
    Bools,
    Flags,
    Numbers,
    Spec,
    Texts,
    Values,
    both,
    either,
    everything,
    negated,
    text_where,
    uniform,
)

MOST: Final = 200_000  # different arguments that are evaluated: a few microseconds each


class NotEvaluated(Exception):
    """The function is not evaluated for these arguments."""


# Takes the call and its arguments, str for texts and int for whole numbers; the result is one of
# them, a float, a bool, a list of texts, or a pair of bounds. Raises NotEvaluated.
Evaluate = Callable[[Call, tuple[Any, ...]], Any]

# The same of many texts of ASCII (`strata.expr.functions.many_texts`).
EvaluateMany = Callable[[Call, tuple[Any, ...]], pa.Array]


def pointwise(
    rule: Transfer,
    evaluate: Evaluate,
    *,
    strict: bool = True,
    many: EvaluateMany | None = None,
) -> Transfer:
    """Return a rule that is exact where all arguments are single values.

    Where the function is evaluated, it does not fail and is not null for arguments that are
    neither. `strict`: it is null if an argument is; otherwise it is evaluated only where none is.
    `many` evaluates many texts at once, and leaves to `evaluate` what it does not know.
    """

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        alone = _alone(call, args, strict=strict)
        if alone is None:
            return rule(call, args, context)
        results = None if many is None else _at_once(call, args, alone, many)
        if results is None:
            results = _one_by_one(call, args, alone, evaluate)
        elif results.unknown.any():
            results = _with_others(call, args, alone, evaluate, results)
        if results is None or results.unknown.all():
            return rule(call, args, context)
        whole = len(alone.rows) == alone.parts and not results.unknown.any()
        if whole and spark_type(call.type).family in ("text", "bool", "int", "float"):
            found = Spec(everything(call.type))  # what the rule says is not needed
        else:
            found = rule(call, args, context)
        return _sharpened(found, call, args, alone, results)

    transfer.__module__ = rule.__module__  # its certificate is of the code of both
    return transfer


@dataclass(frozen=True, slots=True)
class _Alone:
    """The parts where all arguments are single values."""

    rows: Places
    parts: int  # of the environment; 1 may stand for all


@dataclass(frozen=True, slots=True)
class _Results:
    """Results for some parts."""

    made: pa.Array | list[Any]  # the different ones
    which: Places  # of these, for each part
    unknown: Flags  # the parts for which there is none


def _alone(call: Call, args: Sequence[Spec], *, strict: bool) -> _Alone | None:
    """Return where all arguments are single; None if they are nowhere."""
    there = YES
    for spec, node in zip(args, call.args, strict=True):
        single = are_single(spec.values, node.type)
        if single is None:
            return None
        single = single if strict else both(single, negated(spec.null))
        there = uniform(both(there, single))
        if not there.any():
            return None
    sizes = {size for spec in args if (size := count_of(spec.values)) > 1} | (
        {there.size} if there.size > 1 else set()
    )
    if len(sizes) > 1:
        return None
    parts = sizes.pop() if sizes else 1
    return _Alone(np.flatnonzero(np.broadcast_to(there, parts)), parts)


def _one_by_one(
    call: Call, args: Sequence[Spec], alone: _Alone, evaluate: Evaluate
) -> _Results | None:
    """Return a result for each different set of arguments; None if too many differ."""
    found = [coded(spec.values, alone.rows) for spec in args]
    which = np.zeros(len(alone.rows), np.int64)
    for values, codes in found:
        which = np.unique(which * len(values) + codes, return_inverse=True)[1]
    _, first, which = np.unique(which, return_index=True, return_inverse=True)
    if len(first) > MOST:
        return None
    arguments = [tuple(values[codes[i]] for values, codes in found) for i in first.tolist()]
    made = [_evaluated(call, one, evaluate) for one in arguments]
    return _Results(made, which, np.array([one is None for one in made], np.bool_)[which])


def _at_once(
    call: Call, args: Sequence[Spec], alone: _Alone, many: EvaluateMany
) -> _Results | None:
    """Return the results of texts of ASCII if only one argument varies, and is a text."""
    if alone.parts == 1:
        return None
    given: list[Any] = []
    for spec, node in zip(args, call.args, strict=True):
        if count_of(spec.values) == 1:
            values, _ = coded(spec.values, np.zeros(1, np.int64))
            given.append(values[0])
        elif node.type == "string":
            given.append(_of_ascii(texts_at(spec.values), alone))
        else:
            return None
    if sum(isinstance(one, pa.Array) for one in given) != 1:
        return None
    try:
        made = many(call, tuple(given))
    except NotEvaluated:
        return None
    assert len(made) == len(alone.rows)
    if pa.types.is_string(made.type):
        made = made.cast(pa.binary())
    unknown = NO if not made.null_count else np.asarray(pc.is_null(made))
    return _Results(made, np.arange(len(made)), np.broadcast_to(unknown, len(made)))


def _of_ascii(bound: pa.Array, alone: _Alone) -> pa.StringArray:
    """Return the texts of some parts, null where they are not of ASCII."""
    if len(alone.rows) < alone.parts:
        bound = bound.take(pa.array(alone.rows))
    if isinstance(bound, pa.ChunkedArray):
        bound = bound.combine_chunks()
    _, ends, data = bound.buffers()
    offsets = np.frombuffer(ends, np.int32)[bound.offset : bound.offset + len(bound) + 1]
    every = np.frombuffer(data or b"", np.uint8)[offsets[0] : offsets[-1]]
    if len(every) and every.max() > _LAST_OF_ASCII:
        others = np.concatenate([[0], np.cumsum(every > _LAST_OF_ASCII)])[offsets - offsets[0]]
        bound = pc.if_else(pa.array(others[1:] == others[:-1]), bound, None)
    return bound.view(pa.string())


_LAST_OF_ASCII: Final = 127


def _with_others(
    call: Call, args: Sequence[Spec], alone: _Alone, evaluate: Evaluate, results: _Results
) -> _Results:
    """Return the results with those that are found one by one."""
    left = np.flatnonzero(results.unknown)
    others = _one_by_one(call, args, _Alone(alone.rows[left], alone.parts), evaluate)
    if others is None:
        return results
    made = [one.encode() if isinstance(one, str) else one for one in others.made]
    which, unknown = results.which.copy(), results.unknown.copy()
    which[left], unknown[left] = others.which + len(results.made), others.unknown
    assert isinstance(results.made, pa.Array)
    return _Results(
        pa.concat_arrays([results.made, pa.array(made, results.made.type)]), which, unknown
    )


def _sharpened(
    found: Spec, call: Call, args: Sequence[Spec], alone: _Alone, results: _Results
) -> Spec:
    """Return a Spec with the results of single arguments in place of what the rule says of them."""
    parts, known = alone.parts, ~results.unknown
    if parts > 1 and parts != max(count_of(found.values), 1) and count_of(found.values) > 1:
        return found
    if len(alone.rows) == parts and known.all():
        there, chosen = YES, results.which
    else:
        there = np.zeros(parts, np.bool_)
        there[alone.rows[known]] = True
        chosen = np.zeros(parts, np.int64)  # the number of a result, for each part
        chosen[alone.rows[known]] = results.which[known]
    values = _placed(found.values, call.type, results.made, chosen, there)
    if values is None:
        return found
    null, fail = NO, NO
    for spec in args:
        null, fail = either(null, spec.null), either(fail, spec.fail)
    return Spec(values, _where(there, null, found.null), _where(there, fail, found.fail))


def _where(there: Flags, a: Flags, b: Flags) -> Flags:
    return uniform(a if there is YES else np.where(there, a, b))


def _evaluated(call: Call, one: tuple[Any, ...], evaluate: Evaluate) -> Any:
    """Return the result for some arguments; None if it is not known."""
    if any(value is None for value in one):
        return None
    try:
        return evaluate(call, one)
    except NotEvaluated:
        return None


def _placed(
    old: Values, type_name: str, made: pa.Array | list[Any], chosen: Places, there: Flags
) -> Values | None:
    """Return the results in their places, the old values elsewhere; None for another kind."""
    if isinstance(old, Elements):
        return _lists(old, made, chosen, there) if isinstance(made, list) else None
    match spark_type(type_name).family, old:
        case "text", Texts():
            if isinstance(made, list):
                made = pa.array([b"" if r is None else r.encode() for r in made], pa.binary())
            made = _taken(made, chosen)
            low, high = (text_where(there, made, end) for end in (old.low, old.high))
            if len(chosen) == 1:
                low, high = low[0], high[0]
            return Texts(low, high, _where(there, NO, old.empty))
        case "bool", Bools():
            if isinstance(made, list):
                made = pa.array([r is True for r in made])
            true = np.asarray(pc.fill_null(_taken(made, chosen), False))
            return Bools(_where(there, true, old.true), _where(there, ~true, old.false))
        case (("int" | "float" | "decimal"), Numbers()):
            if old.low.dtype == object:
                return None
            low, high = (end[chosen] for end in _ends(made, old.low.dtype))
            return Numbers(
                low if there is YES else np.where(there, low, old.low),
                high if there is YES else np.where(there, high, old.high),
                _where(there, NO, old.empty),
                _where(there, NO, old.nan),
            )
    return None


def _taken(made: pa.Array, chosen: Places) -> pa.Array:
    """Return the results of parts; nothing is copied where each part has its own."""
    if np.array_equal(chosen, np.arange(len(made))):
        return made
    return made.take(pa.array(chosen))


def _ends(made: pa.Array | list[Any], dtype: Any) -> list[Any]:
    """Return the bounds of numbers; most are single."""
    if isinstance(made, pa.Array):
        return [np.asarray(pc.fill_null(made, 0)).astype(dtype)] * 2
    ends = [(r, r) if not isinstance(r, tuple) else r for r in made]
    return [np.array([0 if e[side] is None else e[side] for e in ends], dtype) for side in (0, 1)]


def _lists(old: Elements, results: Sequence[Any], chosen: Any, there: Flags) -> Elements | None:
    """Return lists that are written out; only where all parts have one, or have none."""
    if not either(there, old.empty).all():
        return None
    lists = [[] if r is None else r for r in results]
    lengths = np.array([len(one) for one in lists])[chosen]
    members = tuple(
        _element([one[i] if i < len(one) else None for one in lists], chosen)
        for i in range(max(map(len, lists), default=0))
    )
    return Elements(old.empty, old.element, lengths, lengths, members) if members else None


def _element(texts: Sequence[str | None], chosen: Any) -> Spec:
    data = pa.array([None if t is None else t.encode() for t in texts], pa.binary())
    made = data.take(pa.array(chosen))
    missing = np.array([t is None for t in texts])[chosen]
    return Spec(Texts(made, made, uniform(missing)))


def numbers_of(spec: Spec) -> tuple[Any, Any]:
    """Return the bounds of numbers of one part. Raises: NotEvaluated for anything else."""
    values = spec.values
    if not isinstance(values, Numbers) or values.low.dtype == object or values.nan.any():
        raise NotEvaluated
    if values.empty.any() or spec.null.any() or spec.fail.any():
        raise NotEvaluated
    return values.low[0].item(), values.high[0].item()

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
from strata.expr.nodes import Call
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
    both,
    either,
    negated,
    text_compare,
    text_where,
    uniform,
)

MOST: Final = 200_000  # different arguments that are evaluated: a few microseconds each


class NotEvaluated(Exception):
    """The function is not evaluated for these arguments."""


# Takes the call and its arguments, str for texts and int for whole numbers; the result is one of
# them, a float, a bool, a list of texts, or a pair of bounds. Raises NotEvaluated.
Evaluate = Callable[[Call, tuple[Any, ...]], Any]


def pointwise(rule: Transfer, evaluate: Evaluate, *, strict: bool = True) -> Transfer:
    """Return a rule that is exact where all arguments are single values.

    Where the function is evaluated, it does not fail and is not null for arguments that are
    neither. `strict`: it is null if an argument is; otherwise it is evaluated only where none is.
    """

    def transfer(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        found = rule(call, args, context)
        points = _points(call, args, strict=strict)
        return found if points is None else _sharpened(found, call, args, points, evaluate)

    return transfer


@dataclass(frozen=True, slots=True)
class _Points:
    """Arguments that are single values in some parts."""

    arguments: list[tuple[Any, ...]]  # the different ones
    rows: np.ndarray[Any, np.dtype[np.intp]]  # the parts where all are single
    which: np.ndarray[Any, np.dtype[np.intp]]  # of the arguments, for each of these parts
    parts: int  # of the environment; 1 may stand for all


def _points(call: Call, args: Sequence[Spec], *, strict: bool) -> _Points | None:
    """Return where all arguments are single; None if they are nowhere, or too many differ."""
    there = YES
    for spec, node in zip(args, call.args, strict=True):
        single = _single(spec.values, node.type)
        if single is None:
            return None
        single = single if strict else both(single, negated(spec.null))
        there = uniform(both(there, single))
        if not there.any():
            return None
    sizes = {size for spec in args if (size := _size(spec.values)) > 1} | (
        {there.size} if there.size > 1 else set()
    )
    if len(sizes) > 1:
        return None
    parts = sizes.pop() if sizes else 1
    rows = np.flatnonzero(np.broadcast_to(there, parts))
    coded = [_coded(spec.values, rows) for spec in args]
    which = np.zeros(len(rows), np.int64)
    for values, codes in coded:
        which = np.unique(which * len(values) + codes, return_inverse=True)[1]
    _, first, which = np.unique(which, return_index=True, return_inverse=True)
    if len(first) > MOST:
        return None
    arguments = [tuple(values[codes[i]] for values, codes in coded) for i in first.tolist()]
    return _Points(arguments, rows, which, parts)


def _single(values: Values, type_name: str) -> Flags | None:
    """Return where there is exactly one value; None for a kind of values that is not handled."""
    if isinstance(values, Json) and type_name == "string":
        return None if values.quoted else _only_strings(values)
    if isinstance(values, Texts) and type_name == "string":
        if values.low is None or values.high is None:
            return None
        alike = YES if values.low is values.high else NO
        if alike is NO:
            return both(
                text_compare("equal", values.low, values.high, unknown=False),
                negated(values.empty),
            )
        known = pc.is_valid(values.low)
        valid = np.array([known.as_py()]) if isinstance(known, pa.Scalar) else np.asarray(known)
        return both(uniform(valid), negated(values.empty))
    if isinstance(values, Numbers) and spark_type(type_name).family == "int":
        if {values.low.dtype.kind, values.high.dtype.kind} != {"i"}:
            return None  # a whole number that is held as a fraction is written otherwise
        return both(uniform(values.low == values.high), negated(either(values.empty, values.nan)))
    return None


def _only_strings(values: Json) -> Flags | None:
    """Return where JSON is one text."""
    others = (values.true, values.false, values.lists, values.maps, negated(values.numbers.empty))
    found = _single(values.strings, "string")
    if found is None:
        return None
    for kind in (*others, values.numbers.nan):
        found = both(found, negated(kind))
    return found


def _size(values: Values) -> int:
    """Return the number of parts that values are of; 1 may stand for all."""
    if isinstance(values, Json):
        values = values.strings
    if isinstance(values, Numbers):
        return max(values.low.size, values.high.size)
    ends = (values.low, values.high) if isinstance(values, Texts) else ()
    return max(
        (1 if end is None or isinstance(end, pa.Scalar) else len(end) for end in ends), default=1
    )


def _coded(
    values: Values, rows: np.ndarray[Any, np.dtype[np.intp]]
) -> tuple[list[Any], np.ndarray[Any, np.dtype[np.int64]]]:
    """Return the different values of some parts, and the number of each part's value among them."""
    if isinstance(values, Json):
        values = values.strings
    if isinstance(values, Numbers):
        low = np.broadcast_to(values.low, max(values.low.size, values.high.size))
        some = low[rows] if low.size > 1 else np.repeat(low, len(rows))
        different, codes = np.unique(some, return_inverse=True)
        return different.tolist(), codes
    assert isinstance(values, Texts)
    if isinstance(values.low, pa.Scalar) or len(values.low) == 1:
        one = values.low if isinstance(values.low, pa.Scalar) else values.low[0]
        return [_decoded(one.as_py())], np.zeros(len(rows), np.int64)
    array = values.low.take(pa.array(rows))
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    encoded = array.dictionary_encode()
    texts = [_decoded(data) for data in encoded.dictionary.to_pylist()]
    return texts, np.asarray(encoded.indices, np.int64)


def _decoded(data: bytes) -> str | None:
    """Return a text; None for bytes that are none."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _sharpened(
    found: Spec, call: Call, args: Sequence[Spec], points: _Points, evaluate: Evaluate
) -> Spec:
    """Return a Spec with the results of single arguments in place of what the rule says of them."""
    results = [_evaluated(call, one, evaluate) for one in points.arguments]
    known = np.array([result is not None for result in results], np.bool_)
    if not known.any():
        return found
    rows, which = points.rows[known[points.which]], points.which[known[points.which]]
    if points.parts > 1 and points.parts != max(_size(found.values), 1) and _size(found.values) > 1:
        return found
    there = np.zeros(points.parts, np.bool_)
    there[rows] = True
    chosen = np.zeros(points.parts, np.int64)  # the number of a result, for each part
    chosen[rows] = which
    values = _placed(found.values, call.type, results, chosen, there)
    if values is None:
        return found
    null, fail = NO, NO
    for spec in args:
        null, fail = either(null, spec.null), either(fail, spec.fail)
    return Spec(values, _where(there, null, found.null), _where(there, fail, found.fail))


def _where(there: Flags, a: Flags, b: Flags) -> Flags:
    return uniform(np.where(there, a, b))


def _evaluated(call: Call, one: tuple[Any, ...], evaluate: Evaluate) -> Any:
    """Return the result for some arguments; None if it is not known."""
    if any(value is None for value in one):
        return None
    try:
        return evaluate(call, one)
    except NotEvaluated:
        return None


def _placed(
    old: Values, type_name: str, results: Sequence[Any], chosen: Any, there: Flags
) -> Values | None:
    """Return the results in their places, the old values elsewhere; None for another kind."""
    if isinstance(old, Elements):
        return _lists(old, results, chosen, there)
    match spark_type(type_name).family, old:
        case "text", Texts():
            data = [b"" if r is None else r.encode() for r in results]
            made = pa.array(data, pa.binary()).take(pa.array(chosen))
            low, high = (text_where(there, made, end) for end in (old.low, old.high))
            if there.size == 1:
                low, high = low[0], high[0]
            return Texts(low, high, _where(there, NO, old.empty))
        case "bool", Bools():
            true = np.array([r is True for r in results])[chosen]
            return Bools(_where(there, true, old.true), _where(there, ~true, old.false))
        case (("int" | "float" | "decimal"), Numbers()):
            if old.low.dtype == object:
                return None
            ends = [(r, r) if not isinstance(r, tuple) else r for r in results]
            low, high = (
                np.array([0 if e[side] is None else e[side] for e in ends], old.low.dtype)[chosen]
                for side in (0, 1)
            )
            return Numbers(
                np.where(there, low, old.low),
                np.where(there, high, old.high),
                _where(there, NO, old.empty),
                _where(there, NO, old.nan),
            )
    return None


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

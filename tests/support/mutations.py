"""The ways in which a rule is flipped: what `tools/mutate.py` tries on every function."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.expr.entry import Context, Transfer
from strata.expr.nodes import Call
from strata.expr.spec import NO, Numbers, Spec, Texts, hull, none_of

Change = Callable[[Transfer], Transfer]


def _of_result(change: Callable[[Spec], Spec]) -> Change:
    def mutate(transfer: Transfer) -> Transfer:
        return lambda call, args, context: change(transfer(call, args, context))

    return mutate


def _of_arguments(change: Callable[[Spec], Spec]) -> Change:
    def mutate(transfer: Transfer) -> Transfer:
        return lambda call, args, context: transfer(call, [change(arg) for arg in args], context)

    return mutate


def _ends(spec: Spec, change: Callable[[Any, Any], tuple[Any, Any]]) -> Spec:
    match spec.values:
        case Numbers() as values:
            low, high = change(values.low, values.high)
            return replace(spec, values=replace(values, low=low, high=high))
        case Texts() as values if values.low is not None and values.high is not None:
            low, high = change(values.low, values.high)
            return replace(spec, values=Texts(low, high, values.empty))
        case _:
            return spec


def _swapped(spec: Spec) -> Spec:
    return _ends(spec, lambda low, high: (high, low))


def _ends_only(transfer: Transfer) -> Transfer:
    """Take the values at the two ends for all that lie between them."""

    def mutate(call: Call, args: Sequence[Spec], context: Context) -> Spec:
        lows, highs = [_at_end(arg, "low") for arg in args], [_at_end(arg, "high") for arg in args]
        if all(low is arg for low, arg in zip(lows, args, strict=True)):
            return transfer(call, args, context)  # nothing has two ends
        first, last = transfer(call, lows, context), transfer(call, highs, context)
        return Spec(hull(first.values, last.values), first.null | last.null, first.fail | last.fail)

    return mutate


def _at_end(spec: Spec, side: str) -> Spec:
    """Return the argument at one end of its range; as it is where a bound is open."""
    values = spec.values
    if isinstance(values, Numbers):
        if np.array_equal(values.low, values.high):
            return spec
        return _ends(spec, lambda low, high: (low, low) if side == "low" else (high, high))
    if not isinstance(values, Texts) or values.low is None or values.high is None:
        return spec
    if isinstance(values.low, pa.Scalar) or isinstance(values.high, pa.Scalar):
        return spec  # a constant
    opened = pc.or_(values.low.is_null(), values.high.is_null())
    end = values.low if side == "low" else values.high
    low, high = (pc.if_else(opened, own, end) for own in (values.low, values.high))
    return replace(spec, values=Texts(low, high, values.empty))


def _next(bound: Any, *, up: bool) -> Any:
    """Return the bound moved inward by the least step."""
    if isinstance(bound, np.ndarray):
        if bound.dtype == np.float64:
            return np.nextafter(bound, np.inf if up else -np.inf)
        top = np.iinfo(np.int64)
        step = np.where(bound != (top.max if up else top.min), 1, 0)
        return bound + step if up else bound - step
    if up:
        tail = pa.scalar(b"\0", pa.binary())
        return pc.binary_join_element_wise(bound, tail, pa.scalar(b"", pa.binary()))
    return pc.binary_slice(bound, 0, -1)


def _inward(low: Any, high: Any) -> tuple[Any, Any]:
    """Return the ends of a range moved inward; a single value has no inside, and stays."""
    if isinstance(low, np.ndarray):
        wide = low < high
        return np.where(wide, _next(low, up=True), low), np.where(wide, _next(high, up=False), high)
    return _where_wide(low, high, _next(low, up=True), _next(high, up=False))


def _far_inward(low: Any, high: Any) -> tuple[Any, Any]:
    if isinstance(low, np.ndarray):
        return _quarter(low, high), _quarter(high, low)
    raised, lowered = _next(low, up=True), high if isinstance(high, pa.Scalar) else _lowered(high)
    return _where_wide(low, high, raised, lowered)


def _where_wide(low: Any, high: Any, raised: Any, lowered: Any) -> tuple[Any, Any]:
    """Return other bounds of texts, and the same ones where there is one text alone."""
    wide = pc.fill_null(pc.not_equal(low, high), True)
    return pc.if_else(wide, raised, low), pc.if_else(wide, lowered, high)


def _replaced(spec: Spec) -> Spec:
    """Return a Spec with another text where a part has one text alone; constants stay."""
    values = spec.values
    if not isinstance(values, Texts) or not isinstance(values.low, pa.Array | pa.ChunkedArray):
        return spec
    one = pc.fill_null(pc.equal(values.low, values.high), False)
    low, high = (pc.if_else(one, b"q", end) for end in (values.low, values.high))
    return replace(spec, values=Texts(low, high, values.empty))


def _lowered(bounds: Any) -> pa.Array:
    """Return texts whose last byte is one less."""
    texts = [t and t[:-1] + bytes([max(t[-1] - 1, 0)]) for t in bounds.to_pylist()]
    return pa.array(texts, pa.binary())


def _quarter(low: Any, high: Any) -> Any:
    """Return a quarter of the way from one end to the other."""
    if isinstance(low, np.ndarray):
        with np.errstate(all="ignore"):
            if low.dtype == np.float64:
                return np.where(np.isfinite(high - low), low + (high - low) / 4, low / 4)
            step = high.astype(object) // 4 - low.astype(object) // 4
            moved = low.astype(object) + step
        return moved if low.dtype == object else moved.astype(np.int64)
    return _next(low, up=True)


def _without(**flags: Any) -> Callable[[Spec], Spec]:
    def change(spec: Spec) -> Spec:
        values = spec.values
        names = {f.name for f in fields(values)}
        return replace(
            spec, values=replace(values, **{k: v for k, v in flags.items() if k in names})
        )

    return change


def _option(name: str, values: Mapping[str, str]) -> Change:
    def mutate(transfer: Transfer) -> Transfer:
        def changed(call: Call, args: Sequence[Spec], context: Context) -> Spec:
            options = {k: values.get(v, v) if k == name else v for k, v in call.options}
            if name == "zone" and "zone" in options:
                options["zone"] = "UTC"
            return transfer(replace(call, options=tuple(options.items())), args, context)

        return changed

    return mutate


_NO_VALUE: Final = _of_result(lambda spec: replace(spec, values=none_of(spec.values)))
MUTATIONS: Final[Mapping[str, tuple[Change, ...]]] = {
    "direction reversed": (_of_arguments(_swapped),),
    "ends taken for the range": (_ends_only,),
    # The second is tried where the first survives: a loose bound bears the least step. The third
    # is for rules that know nothing but what single texts become.
    "edges left out": (
        _of_arguments(lambda spec: _ends(spec, _inward)),
        _of_arguments(lambda spec: _ends(spec, _far_inward)),
        _of_arguments(_replaced),
    ),
    "low bound too high": (
        _of_result(lambda spec: _ends(spec, lambda low, high: (_next(low, up=True), high))),
        _of_result(lambda spec: _ends(spec, lambda low, high: (_quarter(low, high), high))),
    ),
    "high bound too low": (
        _of_result(lambda spec: _ends(spec, lambda low, high: (low, _next(high, up=False)))),
        _of_result(lambda spec: _ends(spec, lambda low, high: (low, _quarter(high, low)))),
    ),
    "null forgotten": (_of_result(lambda spec: replace(spec, null=NO)),),
    "failure forgotten": (_of_result(lambda spec: replace(spec, fail=NO)),),
    "NaN forgotten": (_of_result(_without(nan=NO)), _of_arguments(_without(nan=NO))),
    "true forgotten": (_of_result(_without(true=NO)),),
    "false forgotten": (_of_result(_without(false=NO)),),
    "values forgotten": (_NO_VALUE,),
    "mode mistaken": (
        _option("ansi", {"ansi": "try", "legacy": "ansi", "try": "ansi"}),
        _option("ansi", {"legacy": "try", "try": "ansi"}),
    ),
    "zone ignored": (_option("zone", {}),),
}

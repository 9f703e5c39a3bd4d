"""Compare what two rules say of the same parts, for `tools/mutate.py`."""

from dataclasses import fields
from typing import Any

import numpy as np
import pyarrow as pa

from strata.expr.elements import Elements, Entries
from strata.expr.spec import Bools, Flags, Json, Numbers, Spec, Texts, occupied

_ARRAYS = (pa.Array, pa.ChunkedArray)


def same(a: Spec, b: Spec) -> bool:
    """Return whether two Specs say the same of every part."""
    if type(a.values) is not type(b.values):
        return False
    pairs = [(a.null, b.null), (a.fail, b.fail)]
    if isinstance(a.values, Elements) and isinstance(b.values, Elements):
        return all(_alike(x, y) for x, y in pairs) and _same_lists(a.values, b.values)
    if isinstance(a.values, Entries) and isinstance(b.values, Entries):
        lists = ((a.values.keys, b.values.keys), (a.values.values, b.values.values))
        pairs += [(a.values.empty, b.values.empty)]
        return all(_alike(x, y) for x, y in pairs) and all(_same_lists(x, y) for x, y in lists)
    if isinstance(a.values, Json):
        pairs += [(occupied(a.values), occupied(b.values))]
    elif isinstance(a.values, Numbers) and isinstance(b.values, Numbers):
        pairs += [(a.values.empty, b.values.empty), (a.values.nan, b.values.nan)]
        lanes = ((a.values.low, b.values.low), (a.values.high, b.values.high))
        some = ~a.values.empty  # bounds of nothing mean nothing
        pairs += [(np.where(some, x, 0), np.where(some, y, 0)) for x, y in lanes]
    elif isinstance(a.values, Texts) and isinstance(b.values, Texts):
        return (
            _alike(a.values.empty, b.values.empty)
            and all(_alike(x, y) for x, y in pairs)
            and (_bounds(a.values, a) == _bounds(b.values, a))
        )
    else:
        names = [f.name for f in fields(a.values) if f.name not in ("child", "inside")]
        pairs += [(getattr(a.values, name), getattr(b.values, name)) for name in names]
    return all(_alike(x, y) for x, y in pairs)


def _same_lists(a: Elements, b: Elements) -> bool:
    """Return whether two lists say the same of their lengths and their elements."""
    lanes = [(a.empty, b.empty), (a.shortest, b.shortest), (a.longest, b.longest)]
    x, y = a.element(), b.element()
    if x is None or y is None:
        return x is y and all(_alike(p, q) for p, q in lanes)
    return all(_alike(p, q) for p, q in lanes) and same(x, y)


def _bounds(values: Texts, of: Spec) -> list[tuple[bytes | None, bytes | None] | None]:
    """Return the bounds of texts in each part, None for a part without any."""
    count = max(len(flags) for flags in (of.null, of.fail, values.empty))
    count = max(count, *(len(b) for b in (values.low, values.high) if isinstance(b, _ARRAYS)), 1)

    def spread(bound: Any) -> list[bytes | None]:
        if not isinstance(bound, _ARRAYS):
            return [None if bound is None else bound.as_py()] * count
        found: list[bytes | None] = bound.to_pylist()
        return found if len(found) == count else found * count

    empty = np.broadcast_to(values.empty, count)
    pairs = zip(spread(values.low), spread(values.high), empty, strict=True)
    return [None if nothing else (low, high) for low, high, nothing in pairs]


def _alike(x: Any, y: Any) -> bool:
    if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
        x, y = np.broadcast_arrays(x, y)
        return bool(np.array_equal(x, y, equal_nan=x.dtype == np.float64))
    if x is None or y is None:
        return x is y
    return type(x) is type(y) and bool(x.equals(y))


def only_wider(wide: Spec, narrow: Spec) -> bool:
    """Return whether one Spec holds all that another holds, in every part.

    Errs: towards False, for values of kinds that are not compared.
    """
    if not (_within(narrow.null, wide.null) and _within(narrow.fail, wide.fail)):
        return False
    match wide.values, narrow.values:
        case Bools() as w, Bools() as n:
            return _within(n.true, w.true) and _within(n.false, w.false)
        case Numbers() as w, Numbers() as n:
            inside = (w.low <= n.low) & (n.high <= w.high) & ~w.empty
            return bool(np.all(n.empty | inside)) and _within(n.nan, w.nan)
        case Texts() as w, Texts() as n:
            return _wider_texts(w, n, wide, narrow)
        case Elements() as w, Elements() as n:
            return _wider_lists(w, n)
    return type(wide.values) is type(narrow.values) and same(wide, narrow)


def _within(some: Flags, more: Flags) -> bool:
    return bool(np.all(~some | more))


def _wider_texts(w: Texts, n: Texts, wide: Spec, narrow: Spec) -> bool:
    outer, inner = _bounds(w, wide), _bounds(n, narrow)
    count = max(len(outer), len(inner))
    outer, inner = (b * count if len(b) == 1 else b for b in (outer, inner))
    return all(
        b is None
        or (
            a is not None
            and (a[0] is None or (b[0] is not None and a[0] <= b[0]))
            and (a[1] is None or (b[1] is not None and b[1] <= a[1]))
        )
        for a, b in zip(outer, inner, strict=True)
    )


def _wider_lists(w: Elements, n: Elements) -> bool:
    lengths = (w.shortest <= n.shortest) & (n.longest <= w.longest) & ~w.empty
    x, y = w.element(), n.element()
    if x is None:
        return bool(np.all(n.empty | lengths))
    return y is not None and bool(np.all(n.empty | lengths)) and only_wider(x, y)

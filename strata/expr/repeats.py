"""Calls that occur more than once in a filter, so that each is evaluated once."""

from collections import Counter

from strata.expr.nodes import Call, Column, Expr, Literal


def with_repeats(expr: Expr) -> tuple[Expr, frozenset[int]]:
    """Return an expression whose equal calls are one object, and the ids of those that repeat.

    Ids stay valid as long as the returned expression lives. Columns repeat too, and calls without
    columns, but environments and interpreters keep those.
    """
    return _Merging().run(expr)


class _Merging:
    def __init__(self) -> None:
        self._known: dict[object, tuple[Expr, bool]] = {}
        self._seen: Counter[int] = Counter()

    def run(self, expr: Expr) -> tuple[Expr, frozenset[int]]:
        """Return the expression, and the calls of columns that occur more than once."""
        whole, _ = self._merge(expr)
        return whole, frozenset(number for number, times in self._seen.items() if times > 1)

    def _merge(self, expr: Expr) -> tuple[Expr, bool]:
        """Return the one object for an expression, and whether a column is in it."""
        if not isinstance(expr, Call):
            return expr, isinstance(expr, Column)
        found = [self._merge(arg) for arg in expr.args]
        key = (
            expr.function,
            tuple(self._key(arg) for arg, _ in found),
            expr.type,
            expr.options,
        )
        if key not in self._known:
            changed = any(a is not b for (a, _), b in zip(found, expr.args, strict=True))
            args = tuple(arg for arg, _ in found)
            one = Call(expr.function, args, expr.type, expr.options) if changed else expr
            self._known[key] = one, any(inside for _, inside in found)
        whole, inside = self._known[key]
        if inside:
            self._seen[id(whole)] += 1
        return whole, inside

    @staticmethod
    def _key(expr: Expr) -> object:
        """Return a key: calls by identity, since equal ones are one object by now."""
        match expr:
            case Literal(value=(int() | str() | bytes() | None) as value):  # and bool
                return type(value), value, expr.type
            case Column():
                return expr
            case _:
                return id(expr)

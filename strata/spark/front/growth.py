"""How large a filter can make a value, judged before Spark evaluates any part of its text.

A reader's filter that repeats a text a billion times ends the process of soft evaluation, and the
checks of all other filters with it. Spark evaluates constants while it analyses, so the parsed text
is judged: names of functions and their constants.
"""

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, Final

from py4j.java_gateway import JavaObject

from strata.errors import InvalidRequest

CONSTANT_MAX: Final = 1 << 20  # characters that the filter itself supplies
FACTOR_MAX: Final = 100  # how many times larger than a value of a row a result may be
DEPTH_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Size:
    """The most that a value takes: `constant` characters, and `factor` values of the row.

    In the body of a lambda also `element` values that the lambda is called with.
    """

    constant: float
    factor: float
    element: float = 0

    def times(self, count: float) -> "Size":
        """Return the size of `count` such values."""
        return Size(self.constant * count, self.factor * count, self.element * count)


Judged = Callable[[Sequence[Size], Sequence[float]], Size]  # sizes and numbers of the arguments
_ONE: Final = Size(1, 0)
_UNBOUNDED: Final = Size(float("inf"), float("inf"), float("inf"))


def check_growth(parsed: JavaObject, where: str) -> None:
    """Refuse a filter whose values may become far larger than those of a row.

    `parsed`: the expression as Spark's parser returns it. Errs: towards refusal, for example where
    a column says how often a text is repeated.
    Raises: InvalidRequest, naming the part.
    """
    _size(parsed, where, 0, frozenset())


def _size(node: JavaObject, where: str, depth: int, bound: Set[str]) -> Size:
    """Return the size of an expression's values; `bound`: the arguments of the lambda around it."""
    if depth > DEPTH_MAX:
        raise _too_large(where, f"more than {DEPTH_MAX} levels")
    name = node.getClass().getSimpleName()
    if name == "Literal":
        return Size(len(str(node.value())), 0)
    if name == "LambdaFunction":
        # To it, the arguments of lambdas further out are like columns.
        names = frozenset(map(_first_name, _each(node.arguments())))
        return _size(node.function(), where, depth + 1, names)
    children = _each(node.children())
    sizes = [_size(child, where, depth + 1, bound) for child in children]
    if name == "UnresolvedFunction":
        parts = node.nameParts()
        name = str(parts.apply(parts.size() - 1)).lower()
    if name == "UnresolvedAttribute":
        return Size(0, 1)
    if name == "UnresolvedNamedLambdaVariable":  # in a lambda, columns are called so, too
        return Size(0, 0, 1) if _first_name(node) in bound else Size(0, 1)
    judged = _GROWING.get(name)
    found = judged(sizes, [_number(child) for child in children]) if judged else _largest(sizes)
    if found.constant > CONSTANT_MAX or max(found.factor, found.element) > FACTOR_MAX:
        raise _too_large(where, str(node.sql())[:80])
    return found


def _each(some: JavaObject) -> list[JavaObject]:
    return [some.apply(index) for index in range(some.size())]


def _first_name(node: JavaObject) -> str:
    return str(node.nameParts().apply(0)).lower()


def _number(node: JavaObject) -> float:
    """Return a constant whole number; infinity for everything else."""
    value: Any = node.value() if node.getClass().getSimpleName() == "Literal" else None
    return value if isinstance(value, int) and not isinstance(value, bool) else float("inf")


def _largest(sizes: Sequence[Size]) -> Size:
    """Return the size of a result that is no larger than the largest argument."""
    if not sizes:
        return _ONE
    return Size(
        max(s.constant for s in sizes), max(s.factor for s in sizes), max(s.element for s in sizes)
    )


def _fixed(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    """Return the size of a truth value or a number."""
    return _ONE


def _together(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    return Size(
        sum(s.constant for s in sizes), sum(s.factor for s in sizes), sum(s.element for s in sizes)
    )


def _escaped(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    """Return the size of an encoding, at most four characters for one."""
    return _largest(sizes).times(4)


def _repeated(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    return sizes[0].times(max(0, numbers[1])) if len(sizes) > 1 else _UNBOUNDED


def _spaces(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    return Size(max([0, *numbers[:1]]), 0)


def _padded(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    if len(sizes) < 2:
        return _UNBOUNDED
    return replace(sizes[0], constant=max(sizes[0].constant, numbers[1]))


def _replaced(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    """Return the size of a text in which another one may take the place of each character."""
    if len(sizes) < 3:
        return _largest(sizes)
    text, other = sizes[0], sizes[2]
    if (other.factor or other.element) and (text.factor or text.element):
        return _UNBOUNDED
    most = max(1, other.constant)
    return Size(
        text.constant * most,
        text.factor * most + text.constant * other.factor,
        text.element * most + text.constant * other.element,
    )


def _joined(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    """Return the size of texts, or of the elements of lists, with a separator between any two."""
    whole = _together(sizes[1:], ())
    return _replaced([whole, _ONE, replace(sizes[0], constant=sizes[0].constant + 1)], ())


def _mapped(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    """Return the size of a list, or of lists, with a body for each element."""
    items, body = _together(sizes[:-1], ()), sizes[-1]
    if body.factor:  # a value of the row, as often as its list has elements
        return _UNBOUNDED
    return replace(items, constant=max(1, items.constant)).times(
        max(1, body.constant, body.element)
    )


def _accumulated(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    """Return the size of what a lambda makes from element to element, if none makes it grow."""
    if len(sizes) not in (3, 4):
        return _UNBOUNDED
    items, start, body, *last = sizes
    if body.element > 1 or (body.element and (body.constant > 1 or body.factor)):
        return _UNBOUNDED
    whole = _largest([items, start, replace(body, element=0)])
    for finish in last:
        made = whole.times(finish.element)
        whole = _together([replace(finish, element=0), made], ())
    return whole


def _anything(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    return _UNBOUNDED


# By the names of functions, and by those of the parser's own nodes.
_GROWING: Final[dict[str, Judged]] = {
    **dict.fromkeys(("repeat", "array_repeat"), _repeated),
    "space": _spaces,
    **dict.fromkeys(("lpad", "rpad"), _padded),
    **dict.fromkeys(("replace", "regexp_replace"), _replaced),
    "concat_ws": _joined,
    **dict.fromkeys(("transform", "zip_with", "map_zip_with"), _mapped),
    **dict.fromkeys(("aggregate", "reduce"), _accumulated),
    **dict.fromkeys(
        (
            "And", "Or", "Not", "EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual",
            "GreaterThan", "GreaterThanOrEqual", "IsNull", "IsNotNull", "In", "Like", "RLike",
            "Add", "Subtract", "Multiply", "Divide", "IntegralDivide", "Remainder", "UnaryMinus",
            "length", "size", "cardinality", "year", "month", "day", "hour", "abs",
        ),
        _fixed,
    ),
    **dict.fromkeys(
        (
            "concat", "Concat", "overlay", "Overlay", "CreateNamedStruct", "array",
            "struct", "named_struct", "map",
            "array_union", "arrays_zip", "map_concat", "flatten", "array_append", "array_prepend",
        ),
        _together,
    ),
    **dict.fromkeys(
        ("hex", "base64", "url_encode", "encode", "to_json", "to_csv", "quote"), _escaped
    ),
    **dict.fromkeys(
        (
            "sequence", "array_insert", "format_string", "printf",
            "format_number", "array_join", "transform_keys", "transform_values", "to_char",
            "to_varchar",
        ),
        _anything,
    ),
}  # fmt: skip


def _too_large(where: str, part: str) -> InvalidRequest:
    return InvalidRequest(
        "a part of the filter may need too much memory",
        filter=where[:200],
        part=part,
        cure="register the filter, if it is to be watched",
    )

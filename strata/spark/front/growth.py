"""How large a filter can make a value, judged before Spark evaluates any part of its text.

A reader's filter that repeats a text a billion times ends the process of soft evaluation, and the
checks of all other filters with it. Spark evaluates constants while it analyses, so the parsed text
is judged: names of functions and their constants.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import JavaObject

from strata.errors import InvalidRequest

CONSTANT_MAX: Final = 1 << 20  # characters that the filter itself supplies
FACTOR_MAX: Final = 100  # how many times larger than a value of a row a result may be
DEPTH_MAX: Final = 400


@dataclass(frozen=True, slots=True)
class Size:
    """The most that a value takes: `constant` characters, and `factor` values of the row."""

    constant: float
    factor: float

    def times(self, count: float) -> "Size":
        """Return the size of `count` such values."""
        return Size(self.constant * count, self.factor * count)


Judged = Callable[[Sequence[Size], Sequence[float]], Size]  # sizes and numbers of the arguments
_ONE: Final = Size(1, 0)
_UNBOUNDED: Final = Size(float("inf"), float("inf"))


def check_growth(parsed: JavaObject, where: str) -> None:
    """Refuse a filter whose values may become far larger than those of a row.

    `parsed`: the expression as Spark's parser returns it. Errs: towards refusal, for example where
    a column says how often a text is repeated.
    Raises: InvalidRequest, naming the part.
    """
    _size(parsed, where, 0)


def _size(node: JavaObject, where: str, depth: int) -> Size:
    if depth > DEPTH_MAX:
        raise _too_large(where, f"more than {DEPTH_MAX} levels")
    name = node.getClass().getSimpleName()
    if name == "Literal":
        return Size(len(str(node.value())), 0)
    children = [node.children().apply(index) for index in range(node.children().size())]
    sizes = [_size(child, where, depth + 1) for child in children]
    if name == "UnresolvedFunction":
        parts = node.nameParts()
        name = str(parts.apply(parts.size() - 1)).lower()
    if name in ("UnresolvedAttribute", "UnresolvedNamedLambdaVariable"):
        return Size(0, 1)
    judged = _GROWING.get(name)
    found = judged(sizes, [_number(child) for child in children]) if judged else _largest(sizes)
    if found.constant > CONSTANT_MAX or found.factor > FACTOR_MAX:
        raise _too_large(where, str(node.sql())[:80])
    return found


def _number(node: JavaObject) -> float:
    """Return a constant whole number; infinity for everything else."""
    value: Any = node.value() if node.getClass().getSimpleName() == "Literal" else None
    return value if isinstance(value, int) and not isinstance(value, bool) else float("inf")


def _largest(sizes: Sequence[Size]) -> Size:
    """Return the size of a result that is no larger than the largest argument."""
    if not sizes:
        return _ONE
    return Size(max(s.constant for s in sizes), max(s.factor for s in sizes))


def _together(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    return Size(sum(s.constant for s in sizes), sum(s.factor for s in sizes))


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
    return Size(max(sizes[0].constant, numbers[1]), sizes[0].factor)


def _replaced(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    """Return the size of a text in which another one may take the place of each character."""
    if len(sizes) < 3:
        return _largest(sizes)
    other = sizes[2]
    if other.factor and sizes[0].factor:
        return _UNBOUNDED
    return Size(
        sizes[0].constant * max(1, other.constant),
        sizes[0].factor * max(1, other.constant) + sizes[0].constant * other.factor,
    )


def _joined(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    """Return the size of texts, or of the elements of lists, with a separator between any two."""
    whole = _together(sizes[1:], ())
    return _replaced([whole, _ONE, Size(sizes[0].constant + 1, sizes[0].factor)], ())


def _mapped(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    """Return the size of a list with a body for each element."""
    items, body = sizes[0], _largest(sizes[1:])
    most = max(1, body.constant, body.factor)
    return Size(max(1, items.constant) * most, items.factor * most)


def _anything(sizes: Sequence[Size], numbers: Sequence[float]) -> Size:
    return _UNBOUNDED


# By the names of functions, and by those of the parser's own nodes.
_GROWING: Final[dict[str, Judged]] = {
    **dict.fromkeys(("repeat", "array_repeat"), _repeated),
    "space": _spaces,
    **dict.fromkeys(("lpad", "rpad"), _padded),
    **dict.fromkeys(("replace", "regexp_replace"), _replaced),
    "concat_ws": _joined,
    "transform": _mapped,
    **dict.fromkeys(
        (
            "concat", "Concat", "overlay", "Overlay", "CreateNamedStruct", "array",
            "struct", "named_struct", "map", "zip_with",
            "array_union", "arrays_zip", "map_concat", "flatten", "array_append", "array_prepend",
        ),
        _together,
    ),
    **dict.fromkeys(
        ("hex", "base64", "url_encode", "encode", "to_json", "to_csv", "quote"), _escaped
    ),
    **dict.fromkeys(
        (
            "sequence", "array_insert", "aggregate", "reduce", "format_string", "printf",
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

"""What an equality with a constant says about the arguments of the function on its other side.

`concat(city, ', ', state) = 'Honolulu, HI'` is true only of rows whose city is Honolulu and whose
state is HI. Ranges and sets of these columns rule out parts that the range of the joined text does
not: that begins with any city. What is implied narrows where the equality may be true, and nothing
else; where it is false, null or an error stays what its own rule says.
Law (tests/laws/test_implied.py): on each row on which the equality is true, what it implies is.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from strata.expr.conditions import join_conditions
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.sparktype import spark_type

EQUATED: Final = frozenset({"equal_to", "in"})
_MOST: Final = 32  # conditions of one `in` that are asked one by one, in each batch
_NEVER: Final = Literal(False, "boolean")
_INTEGERS: Final = frozenset({"byte", "short", "integer", "long"})
_MONTHS: Final = (
    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
)  # fmt: skip
_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


def implied(call: Call) -> Expr | None:
    """Return a condition that is true wherever an `equal_to` or an `in` is; None if none is known.

    >>> from strata.expr.nodes import Column
    >>> joined = Call("concat", (Column(1, "a", "string"), Literal("-", "string"),
    ...                          Column(2, "b", "string")), "string")
    >>> found = implied(Call("equal_to", (joined, Literal("x-y", "string")), "boolean"))
    >>> [condition.args[1].value for condition in found.args]
    ['x', 'y']
    """
    if call.function == "equal_to":
        left, right = call.args
        value, *items = (right, left) if isinstance(left, Literal) else (left, right)
    else:
        value, *items = call.args
    rule = _RULES.get(value.function) if isinstance(value, Call) else None
    if rule is None:
        return None
    assert isinstance(value, Call)
    rules = (rule(value, text) for item in items if (text := _text(item)) is not None)
    found = tuple(one for one in rules if one is not None)
    return _any(found) if len(found) == len(items) else None


def _any(conditions: Sequence[Expr]) -> Expr | None:
    """Return that one of some conditions is true; None if asking all of them takes too long.

    What many equalities say of one expression is an `in`, which is asked once.
    """
    if len(conditions) <= _MOST:
        return join_conditions("or", tuple(conditions))
    equal = [one.args for one in conditions if isinstance(one, Call) and one.function == "equal_to"]
    others = sum(one != _NEVER for one in conditions) - len(equal)
    if not equal:
        return None if others else _NEVER
    value = equal[0][0]
    if others or any(args[0] != value for args in equal):
        return None
    return Call("in", (value, *(args[1] for args in equal)), "boolean")


def _text(expr: Expr) -> str | None:
    if isinstance(expr, Literal) and expr.type == "string" and isinstance(expr.value, str):
        return expr.value
    return None


def _equal(expr: Expr, value: object) -> Expr:
    return Call("equal_to", (expr, Literal(value, expr.type)), "boolean")


def _concat(call: Call, text: str) -> Expr | None:
    args = _pieces(call)
    if any(arg.type != "string" for arg in args):
        return None
    found = _joined(args, text)
    return join_conditions("and", tuple(found)) if found else None


def _pieces(expr: Expr) -> list[Expr]:
    """Return the arguments of a `concat`, those of one in another included: `a || '-' || b`."""
    if isinstance(expr, Call) and expr.function == "concat":
        return [piece for arg in expr.args for piece in _pieces(arg)]
    return [expr]


def _joined(args: Sequence[Expr], text: str) -> list[Expr]:
    """Return what holds if the arguments in a row make up a text: each stands between constants.

    A constant that occurs once in the text can stand in one place only.
    """
    while args and (first := _text(args[0])) is not None:
        if not text.startswith(first):
            return [_NEVER]
        text, args = text[len(first) :], args[1:]
    while args and (last := _text(args[-1])) is not None:
        if not text.endswith(last):
            return [_NEVER]
        text, args = text[: len(text) - len(last)], args[:-1]
    if len(args) == 1:
        return [_equal(args[0], text)]
    for number, arg in enumerate(args):
        between = _text(arg)
        if not between:
            continue
        at = text.find(between)
        if at < 0:
            return [_NEVER]
        if at == text.rfind(between):
            behind = text[at + len(between) :]
            return _joined(args[:number], text[:at]) + _joined(args[number + 1 :], behind)
    return []


def _concat_ws(call: Call, text: str) -> Expr | None:
    """Return what holds if texts joined by a separator make up another: null ones are left out."""
    separator, *args = call.args
    between = _text(separator)
    if not between or any(arg.type != "string" for arg in args):
        return None
    starts = sum(text.startswith(between, at) for at in range(len(text)))
    if starts >= len(args):
        return None  # some argument has the separator in it
    nulls = tuple(Call("is_null", (arg,), "boolean") for arg in args)
    pieces = text.split(between)
    if len(pieces) < len(args):
        return join_conditions("or", nulls)
    equal = tuple(_equal(arg, piece) for arg, piece in zip(args, pieces, strict=True))
    return join_conditions("or", (join_conditions("and", equal), *nulls))


def _cast(call: Call, text: str) -> Expr | None:
    """Return the whole number, or the truth, that is written as a text."""
    source = call.args[0]
    if source.type == "boolean":
        return _equal(source, text == "true") if text in ("true", "false") else _NEVER
    if source.type not in _INTEGERS:
        return None
    kind = spark_type(source.type)
    digits = text.removeprefix("-")
    if not digits.isdecimal() or len(digits) > len(str(kind.high)):
        return _NEVER
    number = int(text)
    fits = str(number) == text and kind.low <= number <= kind.high
    return _equal(source, number) if fits else _NEVER


def _named(part: str, names: Sequence[str], first: int) -> Callable[[Call, str], Expr]:
    def rule(call: Call, text: str) -> Expr:
        if text not in names:
            return _NEVER
        return _equal(Call(part, call.args, "integer"), names.index(text) + first)

    return rule


_RULES: Final[Mapping[str, Callable[[Call, str], Expr | None]]] = MappingProxyType(
    {
        "concat": _concat,
        "concat_ws": _concat_ws,
        "cast": _cast,
        "month_name": _named("month", _MONTHS, 1),
        "day_name": _named("week_day", _DAYS, 0),
    }
)

"""How large an expression can make a value, so that what outgrows memory counts as a failure.

A rule says of one function that it cannot fail; `repeat(repeat(x, 100000), 100000)` fails for every
text but the empty one. So sizes go up the tree: what each call multiplies is multiplied.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from strata.expr.nodes import Call, Column, Expr, Literal, Opaque
from strata.expr.sparktype import spark_type

# Texts end at 2**31 bytes, and ingest takes rows of up to 64 MiB.
CONSTANT_MAX: Final = 1 << 20  # bytes that the expression itself supplies
FACTOR_MAX: Final = 31  # bytes of a result for each byte of a row's value


@dataclass(frozen=True, slots=True)
class Extent:
    """The most bytes that a value takes: `constant`, and `factor` for each of a row's value.

    `outgrown`: an argument below is too large, so that the evaluation may end before it is a value.
    """

    constant: float
    factor: float
    outgrown: bool = False

    def times(self, count: float) -> "Extent":
        """Return the size of `count` such values."""
        return Extent(self.constant * count, self.factor * count)

    @property
    def too_large(self) -> bool:
        """Return whether a value may not fit into memory."""
        return self.constant > CONSTANT_MAX or self.factor > FACTOR_MAX


_FIXED: Final = Extent(1, 0)  # a number, a date, a truth value
_SHOWN: Final = Extent(128, 0)  # one of them as a text, or the digits of a hash
_UNBOUNDED: Final = Extent(float("inf"), float("inf"))
Rule = Callable[[Call, Sequence[Extent]], Extent]


def size_of(expr: Expr, args: Sequence[Extent] = ()) -> Extent:
    """Return the size of an expression from those of its arguments.

    Errs: towards large, for example of a count that is no constant.
    """
    match expr:
        case Literal(str() as value):
            return Extent(len(value.encode("utf-8", "surrogatepass")), 0)
        case Literal(bytes() as value):
            return Extent(len(value), 0)
        case Literal():
            return _FIXED
        case Column():
            return Extent(0, 1) if _grows(expr.type) else _FIXED
        case Opaque():
            return _UNBOUNDED if _grows(expr.type) else _FIXED
    outgrown = any(arg.outgrown or arg.too_large for arg in args)
    if not _grows(expr.type):
        return Extent(1, 0, outgrown)
    found = _RULES.get(expr.function, _largest)(expr, args)
    return Extent(found.constant, found.factor, outgrown or found.too_large)


def may_outgrow(call: Call, size: Extent) -> bool:
    """Return whether making the value of a call may itself end for want of memory.

    A failure of an argument is the argument's; only `try_eval` would hide it, and it hides no want
    of memory.
    """
    return size.too_large or (call.function == "try_eval" and size.outgrown)


def _grows(type_name: str) -> bool:
    """Return whether values of a type differ in size: texts, bytes, JSON and what is nested."""
    return spark_type(type_name).family in ("text", "other")


def _largest(call: Call, args: Sequence[Extent]) -> Extent:
    """Return the size of a result that is no larger than the largest argument."""
    if not args:
        return _UNBOUNDED
    return Extent(max(s.constant for s in args), max(s.factor for s in args))


def _together(call: Call, args: Sequence[Extent]) -> Extent:
    return Extent(sum(s.constant for s in args), sum(s.factor for s in args))


def _multiplied(count: float, least: float = 0) -> Rule:
    """Return the rule of an encoding that makes `count` bytes of one, but `least` of little.

    `least` is for arguments whose size is not that of their text: numbers, moments.
    """

    def rule(call: Call, args: Sequence[Extent]) -> Extent:
        found = _largest(call, args).times(count)
        return Extent(max(found.constant, least), found.factor)

    return rule


def _cast(call: Call, args: Sequence[Extent]) -> Extent:
    """Return the size of a text as a text, and of something else as one."""
    source = getattr(call.args[0], "type", "")
    same = spark_type(source).family == "text" or spark_type(call.type).family == "other"
    return args[0] if same else _multiplied(8, _SHOWN.constant)(call, args)


def _number(call: Call, position: int) -> float:
    """Return a constant whole number, 0 for null; infinity for everything else."""
    arg = call.args[position] if position < len(call.args) else None
    if not isinstance(arg, Literal):
        return float("inf")
    if arg.value is None:
        return 0
    whole = isinstance(arg.value, int) and not isinstance(arg.value, bool)
    return max(0, arg.value) if whole else float("inf")  # type: ignore[call-overload]


def _repeated(call: Call, args: Sequence[Extent]) -> Extent:
    count = _number(call, 1)
    return args[0].times(count) if count < float("inf") else _UNBOUNDED


def _spaces(call: Call, args: Sequence[Extent]) -> Extent:
    return Extent(_number(call, 0), 0)


def _padded(call: Call, args: Sequence[Extent]) -> Extent:
    return Extent(max(args[0].constant, 4 * _number(call, 1)), args[0].factor)


def _replaced(text: Extent, other: Extent) -> Extent:
    """Return the size of a text in which `other` may stand before and instead of each byte."""
    if text.factor and other.factor:
        return _UNBOUNDED
    most = 1 + other.constant
    return Extent(
        text.constant * most + other.constant, text.factor * most + text.constant * other.factor
    )


def _replacing(call: Call, args: Sequence[Extent]) -> Extent:
    found = _replaced(args[0], args[2])
    # A replacement may name groups, each as long as the text: `$0$0`.
    groups = call.function == "reg_exp_replace"
    return found.times(max(1, args[2].constant / 2)) if groups else found


def _joined(call: Call, args: Sequence[Extent]) -> Extent:
    """Return the size of texts, or of the elements of lists, with a separator between any two."""
    whole = _together(call, args[1:])
    if all(spark_type(getattr(arg, "type", "")).family == "text" for arg in call.args[1:]):
        return _together(call, [whole, args[0].times(len(call.args))])
    return _replaced(whole, args[0])


def _mapped(call: Call, args: Sequence[Extent]) -> Extent:
    """Return the size of a list with a body for each element."""
    items, body = args
    most = max(1, body.constant, body.factor)
    if not body.factor or _of_elements(call.args[1], call.args[0]):
        return Extent(max(1, items.constant) * most, items.factor * most)
    if items.factor:
        return _UNBOUNDED  # a value of the row for each element of the row
    count = max(1, items.constant)
    return Extent(count * max(1, body.constant), count * body.factor)


def _of_elements(body: Expr, items: Expr) -> bool:
    """Return whether the body of a lambda takes nothing that differs in size but its element."""
    if isinstance(body, Literal) or not _grows(body.type):
        return True
    if not isinstance(body, Call):
        return False
    one = body.function == "element" and body.args[0] == items
    return one or all(_of_elements(arg, items) for arg in body.args)


_TOGETHER: Final = ("concat", "overlay", "create_array", "concat_lists", "array_union")
_RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    {
        **dict.fromkeys(_TOGETHER, _together),
        **dict.fromkeys(("string_replace", "reg_exp_replace"), _replacing),
        **dict.fromkeys(("string_lpad", "string_rpad"), _padded),
        **dict.fromkeys(("md5", "sha1", "sha2", "sound_ex", "chr"), lambda call, args: _SHOWN),
        **dict.fromkeys(("upper", "lower", "init_cap"), _multiplied(3)),
        "string_translate": _multiplied(4),
        "hex": _multiplied(2, _SHOWN.constant),
        **dict.fromkeys(("date_format", "from_unixtime"), _multiplied(16, _SHOWN.constant)),
        **dict.fromkeys(("cast", "variant_get"), _cast),
        "concat_ws": _joined,
        "string_repeat": _repeated,
        "string_space": _spaces,
        "transform": _mapped,
    }
)

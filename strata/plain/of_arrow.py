"""Understand a filter of PyArrow, which is also what DuckDB hands to an Arrow dataset.

An expression shows its tree only in its pickled form: a record batch whose columns are the literals
and options, and whose metadata list the nodes in order. A key stands there many times, so they are
read through Arrow's C interface; `pyarrow.Schema.metadata` keeps one of each.
"""

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.plain.conditions import (
    MIRRORED,
    Among,
    And,
    Compare,
    Condition,
    Day,
    Flag,
    IsNan,
    IsNull,
    Moment,
    Not,
    NotUnderstood,
    Only,
    Or,
    StartsWith,
    Value,
)

_UNIT_US: Final = {"s": 1_000_000, "ms": 1000, "us": 1}
_COMPARISONS: Final = {
    "equal": "=",
    "not_equal": "<>",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}


@dataclass(frozen=True, slots=True)
class _Field:
    name: str


@dataclass(frozen=True, slots=True)
class _Literal:
    scalar: pa.Scalar


@dataclass(frozen=True, slots=True)
class _Call:
    function: str
    args: tuple["_Node", ...]
    options: Mapping[str, pa.Scalar]


_Node = _Field | _Literal | _Call


def arrow_condition(expression: pc.Expression) -> Condition:
    """Return what is understood of a filter."""
    tree = _tree(expression)
    try:
        return NotUnderstood() if tree is None else _condition(tree)
    except (LookupError, ValueError, AttributeError, RecursionError):  # of another release
        return NotUnderstood()


def arrow_fields(expression: pc.Expression) -> frozenset[str] | None:
    """Return the columns that an expression reads; None if that cannot be seen."""
    tree = _tree(expression)
    return None if tree is None else frozenset(_fields(tree))


def _tree(expression: pc.Expression) -> _Node | None:
    try:
        (pickled,) = expression.__reduce__()[1]
        held = pa.ipc.open_file(pickled).get_batch(0)
        entries = iter(_metadata(held.schema))
        found = _node(entries, *next(entries), held)
        return found if next(entries, None) is None else None
    except (pa.ArrowException, ValueError, LookupError, StopIteration, RecursionError):
        return None


def _node(entries: Iterator[tuple[str, str]], key: str, value: str, held: pa.RecordBatch) -> _Node:
    """Return the node that begins with an entry.

    Raises: ValueError for a kind that is not known; StopIteration where entries are missing.
    """
    if key == "field_ref":
        return _Field(value)
    if key == "literal":
        return _Literal(held.column(int(value))[0])
    if key != "call":
        raise ValueError(key)
    args: list[_Node] = []
    options: Mapping[str, pa.Scalar] = {}
    for inner, detail in entries:
        if inner == "end":
            return _Call(value, tuple(args), options)
        if inner == "options":
            options = dict(held.column(int(detail))[0].items())
        else:
            args.append(_node(entries, inner, detail, held))
    raise ValueError("no end")


def _metadata(schema: pa.Schema) -> list[tuple[str, str]]:
    """Return all keys and values of a schema, in their order."""
    capsule = schema.__arrow_c_schema__()
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # struct ArrowSchema begins with three pointers: format, name, metadata
    *_, at = (ctypes.c_void_p * 3).from_address(pointer(capsule, b"arrow_schema"))
    if at is None:
        return []
    found: list[str] = []
    (pairs,) = struct.unpack("=i", ctypes.string_at(at, 4))
    at += 4
    for _ in range(2 * pairs):
        (length,) = struct.unpack("=i", ctypes.string_at(at, 4))
        found.append(ctypes.string_at(at + 4, length).decode())
        at += 4 + length
    return list(zip(found[::2], found[1::2], strict=True))


def _fields(node: _Node) -> Iterator[str]:
    if isinstance(node, _Field):
        yield node.name
    elif isinstance(node, _Call):
        for arg in node.args:
            yield from _fields(arg)


def _condition(node: _Node) -> Condition:
    if isinstance(node, _Field):
        return Flag(node.name)
    if not isinstance(node, _Call):
        return NotUnderstood()
    rule = _RULES.get(node.function)
    return NotUnderstood() if rule is None else rule(node)


def _compared(call: _Call) -> Condition:
    left, right = call.args
    operator = _COMPARISONS[call.function]
    if isinstance(left, _Literal):
        left, right, operator = right, left, MIRRORED[operator]
    if not isinstance(left, _Field) or not isinstance(right, _Literal):
        return NotUnderstood()
    value = constant(right.scalar)
    return NotUnderstood() if value is None else Compare(left.name, operator, value)


def _of_field(
    make: Callable[[str, Mapping[str, pa.Scalar]], Condition],
) -> Callable[[_Call], Condition]:
    """Return a rule for a function of one column."""

    def rule(call: _Call) -> Condition:
        (only,) = call.args
        return make(only.name, call.options) if isinstance(only, _Field) else NotUnderstood()

    return rule


def _listed(call: _Call) -> Condition:
    """Return IN."""
    (only,) = call.args
    listed = call.options["value_set"].values
    return among(only.name, listed) if isinstance(only, _Field) else NotUnderstood()


def _chosen(call: _Call) -> Condition:
    """Return `if_else(condition, then, null)`, as DuckDB guards a list against null."""
    condition, then, otherwise = call.args
    if not isinstance(otherwise, _Literal) or otherwise.scalar.is_valid:
        return NotUnderstood()
    return Only(_condition(condition), _condition(then))


def among(column: str, listed: pa.Array) -> Condition:
    """Return IN with the values of an array."""
    values = [constant(one) for one in listed if one.is_valid]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return NotUnderstood()
    return Among(column, known, null=listed.null_count > 0)


def constant(scalar: pa.Scalar) -> Value | None:
    """Return the exact value of a scalar; None for null and for types that are not compared."""
    if not scalar.is_valid:
        return None
    kind = scalar.type
    if pa.types.is_date32(kind):
        return Day(scalar.value)
    if pa.types.is_timestamp(kind):
        unit = _UNIT_US.get(kind.unit)
        return None if unit is None else Moment(scalar.value * unit, kind.tz is not None)
    if not any(is_one(kind) for is_one in _PLAIN):
        return None
    try:
        value: Value = scalar.as_py()
    except UnicodeDecodeError:
        return None
    return value


_PLAIN: Final = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
)
_RULES: Final[Mapping[str, Callable[[_Call], Condition]]] = MappingProxyType(
    {
        **dict.fromkeys(_COMPARISONS, _compared),
        **dict.fromkeys(("and", "and_kleene"), lambda call: And(_conditions(call.args))),
        **dict.fromkeys(("or", "or_kleene"), lambda call: Or(_conditions(call.args))),
        "invert": lambda call: Not(_condition(call.args[0])),
        "if_else": _chosen,
        "is_in": _listed,
        "is_nan": _of_field(lambda name, _: IsNan(name)),
        "is_null": _of_field(lambda name, options: IsNull(name, options["nan_is_null"].as_py())),
        "is_valid": _of_field(lambda name, _: Not(IsNull(name))),
        "starts_with": _of_field(
            lambda name, options: (
                NotUnderstood()
                if options["ignore_case"].as_py()
                else StartsWith(name, options["pattern"].as_py())
            )
        ),
    }
)


def _conditions(nodes: Sequence[_Node]) -> tuple[Condition, ...]:
    return tuple(map(_condition, nodes))

"""Builds nested values from parts that a given reader makes canonical, and checks the wholes."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import Any, Final

from strata.ingest.twin.exact import INTEGERS, NAN
from strata.ingest.twin.unreadable import Undecided, Unreadable
from strata.model.types import ColumnType, Kind

Read = Callable[[Any, ColumnType], Any]  # a part of any form, its type -> canonical form
FLAGS: Final = ("lower_inclusive", "upper_inclusive", "empty")
EMPTY: Final = {"lower": None, "upper": None, **dict.fromkeys(FLAGS, False), "empty": True}
INT2: Final = ColumnType(Kind.INT16)
ROLE_TAGS: Final = {"s": 100, "g": 200, "u": 300, "p": 400}
LAST_DAY: Final = 2**31 - 1


def element_of(column_type: ColumnType) -> ColumnType:
    """Return the type of the parts of a list, array, map or range."""
    return INT2 if column_type.element is None else column_type.element


def list_of(values: Iterable[Any], column_type: ColumnType, read: Read) -> list[Any]:
    """Return a list of parts."""
    element = element_of(column_type)
    return [None if value is None else read(value, element) for value in values]


def map_of(pairs: Sequence[tuple[Any, Any]], column_type: ColumnType, read: Read) -> dict[str, Any]:
    """Return a map. Raises: Unreadable for a key that is not a text, or is repeated."""
    element, found = element_of(column_type), {}
    for key, value in pairs:
        if not isinstance(key, str) or key in found:
            raise Unreadable("a map has texts as keys, each once")
        try:
            key.encode("utf-8")
        except UnicodeEncodeError as error:
            raise Unreadable("half of a surrogate pair") from error
        found[key] = None if value is None else read(value, element)
    return found


def record_of(parts: Mapping[str, Any], column_type: ColumnType, read: Read) -> dict[str, Any]:
    """Return a record: missing fields are null, undeclared ones are ignored.

    Raises: Unreadable if a field is missing that is there in other capital letters or with blanks.
    """
    found = {}
    check_names(parts, column_type)
    for field in column_type.fields:
        value = parts.get(field.name)
        found[field.name] = None if value is None else read(value, field.type)
    return found


def check_names(parts: Iterable[str], column_type: ColumnType) -> None:
    """Refuse parts of a record that lack a field and have it in other letters or with blanks.

    Raises: Unreadable.
    """
    own, there = {field.name for field in column_type.fields}, set(parts)
    spare = {name.strip().lower() for name in there - own}
    if any(name.strip().lower() in spare for name in own - there):
        raise Unreadable("a field of a record has other capital letters")


def array_of(
    values: Sequence[Any], dims: Sequence[tuple[int, int]], column_type: ColumnType, read: Read
) -> dict[str, Any]:
    """Return an array of dimensions (lower bound, length). Raises: Unreadable if they disagree."""
    total = 1 if dims else 0
    for low, length in dims:
        if length < 1 or not -(2**63) <= low < 2**63 or low + length - 1 >= 2**63:
            raise Unreadable("no such dimension")
        total *= length
    if total != len(values):
        raise Unreadable("an array has as many values as its dimensions multiply to")
    return {
        "dims": [{"lower_bound": low, "length": length} for low, length in dims],
        "vals": list_of(values, column_type, read),
    }


def flattened(value: Any, nested: Callable[[Any], bool]) -> tuple[list[Any], list[int]]:
    """Return the values of lists of lists in order, and the lengths, outermost first.

    `nested` returns whether a value is a further dimension. Raises: Unreadable if lengths differ.
    """
    if not value:
        return [], []
    inner = [nested(item) for item in value]
    if not any(inner):
        return list(value), [len(value)]
    if not all(inner):
        raise Unreadable("rows of an array differ in depth")
    parts = [flattened(item, nested) for item in value]
    if any(lengths != parts[0][1] for _, lengths in parts):
        raise Unreadable("rows of an array differ in length")
    if not parts[0][1]:
        raise Undecided("an array of empty arrays")
    return [item for values, _ in parts for item in values], [len(value), *parts[0][1]]


def first_bound(column_type: ColumnType) -> int:
    """Return the first bound of dimensions that do not state it."""
    return 0 if column_type.kind is Kind.INT2VECTOR else 1


def range_of(parts: Mapping[str, Any], column_type: ColumnType, read: Read) -> dict[str, Any]:
    """Return a range in its one spelling. Raises: Unreadable if its ends are the wrong way round.

    Shape: `parts` as in the canonical form, flags may be missing or null.
    """
    if not parts.keys() <= {"lower", "upper", *FLAGS}:
        raise Unreadable("a range has two ends and three flags, no other field")
    low_in, high_in, empty = (
        bool(default) if parts.get(name) is None else parts[name]
        for name, default in zip(FLAGS, (True, False, False), strict=True)
    )
    element = element_of(column_type)
    if empty:
        if parts.get("lower") is not None or parts.get("upper") is not None:
            raise Undecided("an empty range with ends")
        return dict(EMPTY)
    low, high = (
        None if parts.get(end) is None else read(parts[end], element) for end in ("lower", "upper")
    )
    low_in, high_in = low_in and low is not None, high_in and high is not None
    if _is_empty(low, high, element, both=low_in and high_in):
        return dict(EMPTY)
    if element.kind in INTEGERS or element.kind is Kind.DATE:
        low, high = (
            _next(low, element) if low is not None and not low_in else low,
            _next(high, element) if high_in else high,
        )
        low_in, high_in = low is not None, False
        if low is not None and high is not None and low >= high:
            return dict(EMPTY)
    return {
        "lower": low,
        "upper": high,
        "lower_inclusive": low_in,
        "upper_inclusive": high_in,
        "empty": False,
    }


def _is_empty(low: Any, high: Any, element: ColumnType, *, both: bool) -> bool:
    """Return whether nothing is between two ends. Raises: Unreadable if they are the wrong way."""
    if low is None or high is None:
        return False
    one, other = order(low, element), order(high, element)
    if one > other:
        raise Unreadable("the lower end is above the upper")
    return bool(one == other) and not both


def _next(value: Any, element: ColumnType) -> Any:
    if isinstance(value, date):
        if value == date.max:
            raise Undecided("the day after the last year")
        return value + timedelta(days=1)
    high = INTEGERS[element.kind][1] if element.kind in INTEGERS else LAST_DAY
    if value >= high:
        raise Unreadable("out of range")
    return value + 1


def order(value: Any, element: ColumnType) -> Any:
    """Return something that sorts like a canonical value of a simple type."""
    if element.kind in (Kind.FLOAT32, Kind.FLOAT64, Kind.NUMERIC):
        return (1, 0) if value == NAN else (0, value)
    if isinstance(value, str):
        return value.encode("utf-8")
    if element.kind is Kind.MZ_ACLITEM:
        return (*(_role(value[name]) for name in ("grantee", "grantor")), value["mode"])
    if isinstance(value, dict):
        return tuple(value.values())
    return value


def _role(text: str) -> tuple[int, int]:
    return ROLE_TAGS[text[0]], int(text[1:] or "0")

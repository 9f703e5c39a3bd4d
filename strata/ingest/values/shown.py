"""Any source value as text, for people and for the quarantine.

No value of a row may raise while it is shown, such as values nested deeper than a JSON library
writes, dates that Python does not have, or bytes that are not UTF-8. A JSON value is shown as its
JSON text with all digits of its numbers; that text is read again from the quarantine.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson
import pyarrow as pa

from strata.ingest.values.exact_json import NumberText, Twice

FAILS: Final = (  # what a foreign value raises in a library: never only a bug of ours
    pa.ArrowException,
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    TypeError,
    ValueError,
    OSError,
)

DAY: Final = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


class _Said(str):
    """A piece of JSON text."""

    __slots__ = ()


_OPEN: Final = _Said("[")
_CLOSE: Final = _Said("]")
_COMMA: Final = _Said(",")


def shown(value: object) -> str | None:
    """Return a value as people read it: texts as they are, others as JSON; None is None."""
    if value is None:
        return None
    return clean(value) if isinstance(value, str) else json_text(value)


def shown_scalar(scalar: pa.Scalar) -> str | None:
    """Return an Arrow value as people read it; None is null."""
    value = as_python(scalar)
    if value is None or isinstance(value, str):
        return shown(value)
    return bytes_text(value) if isinstance(value, bytes) else clean(_str(value))


def as_python(scalar: pa.Scalar) -> Any:
    """Return an Arrow value as a Python object, or as text if Python has no such object."""
    if not scalar.is_valid:
        return None
    try:
        if pa.types.is_time(scalar.type) and _is_odd_time(scalar):
            return scalar.cast(pa.string()).as_py()
        if pa.types.is_date64(scalar.type) and scalar.value % DAY["ms"]:
            return scalar.cast(pa.timestamp("ms")).cast(pa.string()).as_py()
        return _inside(scalar) if pa.types.is_nested(scalar.type) else scalar.as_py()
    except FAILS:
        pass
    try:
        return _without_zone(scalar).cast(pa.string()).as_py()
    except FAILS:
        return f"a {scalar.type} that cannot be shown"


def _inside(scalar: pa.Scalar) -> Any:
    """Return a nested value piece by piece, as each may be one that Python does not have."""
    kind = scalar.type
    if pa.types.is_struct(kind):
        return {kind.field(n).name: as_python(scalar[n]) for n in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return [(as_python(entry[0]), as_python(entry[1])) for entry in scalar.values]
    return scalar.as_py() if pa.types.is_union(kind) else [*map(as_python, scalar.values)]


def _is_odd_time(scalar: pa.Scalar) -> bool:
    """Return whether Python has another time of day: this one is finer, or outside of a day."""
    unit, value = scalar.type.unit, scalar.value
    return (unit == "ns" and value % 1000 > 0) or not 0 <= value < DAY[unit]


def _without_zone(scalar: pa.Scalar) -> pa.Scalar:
    """Return a time in UTC without its zone: with one, Arrow writes the year in 16 bits."""
    kind = scalar.type
    if not pa.types.is_timestamp(kind) or kind.tz is None:
        return scalar
    return pa.scalar(scalar.value, pa.timestamp(kind.unit))


def plain_row(table: pa.Table, row: int) -> dict[str, Any]:
    """Return one row of a table as Python objects."""
    return {name: as_python(table.column(name)[row]) for name in table.column_names}


def clean(text: str) -> str:
    """Return a text that can be stored as UTF-8; halves of characters are escaped."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(
            "utf-8", "surrogateescape" if _is_bytes(text) else "backslashreplace"
        ).decode(errors="backslashreplace")
    return text


def exact_bytes(text: str) -> bytes | None:
    """Return the bytes of a text, which may have bytes as halves; None: it has other halves."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return None


def _is_bytes(text: str) -> bool:
    """Return whether the halves in a text are bytes that were not UTF-8."""
    return not any(0xD800 <= ord(c) < 0xDC80 or 0xDCFF < ord(c) < 0xE000 for c in text)


def bytes_text(data: bytes) -> str:
    """Return bytes as text, with bytes that are not UTF-8 escaped."""
    return data.decode(errors="backslashreplace")


def json_text(value: object) -> str:
    """Return a value of any depth as JSON text; values that JSON lacks become texts."""
    try:
        return orjson.dumps(value, _other, orjson.OPT_PASSTHROUGH_SUBCLASS).decode()
    except (TypeError, ValueError, RecursionError):
        return _piece_by_piece(value)


def _other(value: object) -> object:
    if isinstance(value, NumberText):
        return orjson.Fragment(str(value))
    if isinstance(value, Twice):
        pairs = (f"{json_text(key)}:{json_text(item)}" for key, item in value.pairs)
        return orjson.Fragment(f"{{{','.join(pairs)}}}")
    if isinstance(value, bytes):
        return bytes_text(value)
    if isinstance(value, str | int | float | list | dict | tuple):
        raise TypeError  # a number that is too long, an invalid text: piece by piece
    return clean(_str(value))


def _piece_by_piece(value: object) -> str:
    """Return the same without recursion."""
    pieces: list[str] = []
    waiting: list[object] = [value]
    while waiting:
        one = waiting.pop()
        if type(one) is _Said:
            pieces.append(one)
        elif isinstance(one, list | tuple):
            _put_list(waiting, one)
        elif type(one) is not str and isinstance(one, Mapping):
            waiting += reversed(_object(one))
        else:
            pieces.append(_leaf(one))
    return "".join(pieces)


def _object(value: Mapping[Any, Any]) -> list[object]:
    found: list[object] = [_Said("{")]
    for number, (key, item) in enumerate(value.items()):
        found += [_Said(f"{',' if number else ''}{_leaf(clean(_str(key)))}:"), item]
    return [*found, _Said("}")]


def _put_list(waiting: list[object], value: list[Any] | tuple[Any, ...]) -> None:
    """Put a list on the stack, its first piece on top."""
    waiting.append(_CLOSE)
    for number in range(len(value) - 1, 0, -1):
        waiting += (value[number], _COMMA)
    waiting += (*value[:1], _OPEN)


def _leaf(value: object) -> str:
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int):
        return _str(value)
    if isinstance(value, bytes):
        value = bytes_text(value)
    elif isinstance(value, str):
        value = clean(value)
    try:
        return orjson.dumps(value, lambda one: clean(_str(one))).decode()
    except (TypeError, ValueError):
        return orjson.dumps(clean(_str(value))).decode()


def _str(value: object) -> str:
    """Return the `str` of a value; a number with too many digits for it becomes hexadecimal."""
    try:
        return str(value)
    except FAILS:
        return f'"{value:#x}"' if isinstance(value, int) else f"a {type(value).__name__}"

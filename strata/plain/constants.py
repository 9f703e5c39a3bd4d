"""Fit constants to the column that they are compared with, as Spark's analysis coerces them.

Where Spark would widen the column beyond what is listed here, or cast a text of an unusual form,
the constant is refused: the filter then needs Spark.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final

from strata.expr.nodes import Call, Expr, Literal
from strata.expr.sparktype import spark_type
from strata.plain.numbers import (
    CAST,
    Compared,
    Constant,
    Fitted,
    Spelling,
    as_double,
    cast_to,
    needs_spark,
    with_decimal,
    with_whole,
)
from strata.plain.types import WHOLE

CASES: Final = ("lower", "upper")  # functions that are known for texts compared with ASCII
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOMENT: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[ T](\d{2}:\d{2})(?:(:\d{2})(\.\d{1,6})?([+-]\d{2}:\d{2})?)?(Z?)", re.ASCII
)
_OFFSET_HOURS: Final = 17  # of what every reader takes
_EPOCH: Final = date(1970, 1, 1).toordinal()
_DAY_US: Final = 86_400_000_000


def coerced(
    column: Expr, constants: Sequence[Constant | Expr], how: Compared = Compared.WITHIN
) -> Fitted:
    """Return a value of a row and constants in the type in which Spark compares them.

    `constants`: as written, or times that depend on the clock.
    Raises: InvalidRequest where that is not one of the simple cases.
    """
    if column.type == "timestamp_ntz" and any(map(_is_zoned, constants)):
        column = Call("cast", (column,), "timestamp", CAST)
    written = [one for one in constants if isinstance(one, Constant)]
    if how is Compared.WITHIN and any(one.kind is Spelling.NULL for one in written):
        raise needs_spark("null")
    some = [one for one in written if one.kind is not Spelling.NULL]
    column, values = _coerced(column, some, how) if some else (column, ())
    fitted = iter(values)
    return column, tuple(
        _of_clock(one, column)
        if not isinstance(one, Constant)
        else Literal(None, column.type)
        if one.kind is Spelling.NULL
        else next(fitted)
        for one in constants
    )


def _is_zoned(constant: Constant | Expr) -> bool:
    if isinstance(constant, Constant):
        return constant.kind is Spelling.TIMESTAMP
    return constant.type == "timestamp"


def _of_clock(time: Expr, column: Expr) -> Expr:
    """Return a time of the clock in the type of a column; a day begins at midnight."""
    if time.type == "date" and column.type in ("timestamp", "timestamp_ntz"):
        return cast_to(time, column.type)
    if time.type != column.type:
        raise needs_spark(f"a comparison of {column.type} with {time.type}")
    return time


def _coerced(column: Expr, constants: Sequence[Constant], how: Compared) -> Fitted:
    if column.type in WHOLE:
        return with_whole(column, constants, how)
    if spark_type(column.type).family == "decimal":
        return with_decimal(column, constants, how)
    if column.type in ("double", "float"):
        texts = how is not Compared.WITHIN
        numbers = [as_double(one, text=texts) for one in constants]
        return cast_to(column, "double"), tuple(Literal(one, "double") for one in numbers)
    if column.type == "boolean" and how is Compared.WITHIN:
        constants = [_no_text(one) for one in constants]
    convert = _CONVERT.get(column.type)
    if convert is None:
        raise needs_spark(column.type)
    values = [convert(one, column.type) for one in constants]
    if isinstance(column, Call) and column.function in CASES:
        _check_ascii(values)
    return column, tuple(Literal(value, column.type) for value in values)


def _check_ascii(texts: Sequence[str]) -> None:
    """Refuse texts in which letters beyond ASCII would have to have Java's other case."""
    for text in texts:
        if not text.isascii():
            raise needs_spark(text)


def _no_text(constant: Constant) -> Constant:
    if constant.kind is Spelling.TEXT:
        raise needs_spark(constant.text)
    return constant


def _text(constant: Constant, _: str) -> str:
    if constant.kind is not Spelling.TEXT:
        raise needs_spark(constant.text)
    return constant.text


def _bool(constant: Constant, _: str) -> bool:
    written = constant.kind in (Spelling.BOOL, Spelling.TEXT)
    if not written or constant.text not in ("true", "false"):
        raise needs_spark(constant.text)
    return constant.text == "true"


def _date(constant: Constant, _: str) -> int:
    if constant.kind not in (Spelling.TEXT, Spelling.DATE) or not _DAY.fullmatch(constant.text):
        raise needs_spark(constant.text)
    return _days(constant.text)


def _timestamp(constant: Constant, kind: str) -> int:
    """Return microseconds since 1970 of a day or moment.

    `Z` or an offset only where the type has a zone.
    """
    zoned = kind == "timestamp"
    typed = Spelling.TIMESTAMP if zoned else Spelling.TIMESTAMP_NTZ
    text = constant.text
    if constant.kind not in (Spelling.TEXT, Spelling.DATE, typed):
        raise needs_spark(text)
    if _DAY.fullmatch(text):
        return _days(text) * _DAY_US
    found = _MOMENT.fullmatch(text)
    if constant.kind is Spelling.DATE or found is None:
        raise needs_spark(text)
    if (found[5] or found[6]) and (not zoned or (found[5] and found[6])):
        raise needs_spark(text)
    try:
        clock = datetime.strptime(found[2] + (found[3] or ":00"), "%H:%M:%S").replace(tzinfo=UTC)
    except ValueError:
        raise needs_spark(text) from None
    seconds = (clock.hour * 60 + clock.minute) * 60 + clock.second
    fraction = int((found[4] or ".").removeprefix(".").ljust(6, "0"))
    return _days(found[1]) * _DAY_US + (seconds - _offset(found[5])) * 1_000_000 + fraction


def _offset(text: str | None) -> int:
    """Return the seconds of an offset, as in +05:30."""
    if text is None:
        return 0
    hours, minutes = int(text[1:3]), int(text[4:])
    if hours > _OFFSET_HOURS or minutes > 59:
        raise needs_spark(text)
    return (hours * 60 + minutes) * (-60 if text.startswith("-") else 60)


def _days(text: str) -> int:
    """Return days since 1970; a day that no calendar has is refused."""
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        raise needs_spark(text) from None


_CONVERT: Final[Mapping[str, Callable[[Constant, str], Any]]] = {
    "string": _text,
    "boolean": _bool,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _timestamp,
}

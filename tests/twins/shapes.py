"""What texts are written like, read one by one: the twin of `strata.stats.shapes.texts_shape`."""

import datetime as dt
import re
from collections.abc import Sequence
from functools import cache

from strata.stats.shapes import LONGEST, NONE, TextShape, known_patterns


def shape_of_each(texts: Sequence[str | None]) -> TextShape | None:
    """Return what texts are written like; None if there are none."""
    found = [text for text in texts if text is not None]
    if not found:
        return None
    if any(len(text.encode()) > LONGEST for text in found):
        return NONE
    whole = number = None
    if all(_is_whole(text) for text in found) and max(map(len, found)) <= 18:
        whole = min(map(int, found)), max(map(int, found))
    if all(_is_number(text) for text in found):
        number = min(map(float, found)), max(map(float, found))
    patterns = {p for p in known_patterns() if all(_reads(p, text) for text in found)}
    return TextShape(whole, number, frozenset(patterns))


def _is_number(text: str) -> bool:
    plain = re.fullmatch(r"-?[0-9]+(\.[0-9]+)?", text, re.ASCII) is not None
    return plain and not (text[0] == "-" and float(text) == 0)


def _is_whole(text: str) -> bool:
    return _is_number(text) and "." not in text


@cache
def _expression(pattern: str) -> re.Pattern[str]:
    """Return what matches texts of a pattern, with names for the numbers in it."""
    names = {"yyyy": "y", "MM": "mo", "dd": "d", "HH": "h", "mm": "mi", "ss": "s"}
    expression = re.sub(r"'([TZ])'", r"\1", pattern)
    for field, name in names.items():
        expression = expression.replace(field, f"(?P<{name}>[0-9]{{{len(field)}}})")
    expression = expression.replace(".S", r"[.]S").replace(".(", "[.](")
    expression = re.sub("S+", lambda found: f"[0-9]{{{len(found[0])}}}", expression)
    return re.compile(expression, re.ASCII)


def _reads(pattern: str, text: str) -> bool:
    """Return whether a pattern reads a text as a moment that exists."""
    found = _expression(pattern).fullmatch(text)
    if found is None:
        return False
    parts = {name: int(value) for name, value in found.groupdict().items()}
    clock = (parts.get("h", 0), parts.get("mi", 0), parts.get("s", 0))
    try:
        dt.datetime(parts["y"], parts["mo"], parts["d"], *clock)  # noqa: DTZ001
    except ValueError:
        return False
    return True

"""Reads JSON texts exactly, including numbers that may exceed 64 bits and repeated keys.

orjson is fast, but it has no number beyond float64's largest, and it silently keeps only the last
of repeated keys. Texts that may have either are read again by the standard library.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

import orjson

from strata.ingest.values.collector import uncollected

INFINITE: Final = "number is infinity"  # how orjson says it
# A text, or what makes a number too large for a float.
TOO_LARGE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[0-9]{300,}|[eE]\+?[0-9]+', re.DOTALL)
SPACED: Final = re.compile(rb'"[ \t\r\n]+:')
KEY_ENDS: Final = b'":'  # also in strings, which orjson writes with as many as it reads, except:
ESCAPES: Final = (b"\\u0022", b"\\u003a", b"\\u003A")  # a quote or a colon in another spelling


class NumberText(str):
    """The text of a JSON number that Python's own numbers might not hold exactly."""

    __slots__ = ()


class Twice(dict[str, Any]):
    """An object with a repeated key; a look-up returns the last value.

    Only jsonb columns accept it, because that is their rule.
    """

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        """Keep all pairs in their order."""
        super().__init__(pairs)
        self.pairs = tuple(pairs)

    def repeated(self, names: Iterable[str]) -> str | None:
        """Return the first of `names` that is repeated; None: none is."""
        keys = [key for key, _ in self.pairs]
        return next((name for name in names if keys.count(name) > 1), None)


def read_plainly(texts: Sequence[bytes]) -> list[Any] | None:
    """Return the values of JSON texts as `read_value` does; None: read each by itself.

    Errs: is None for texts that are not objects, and for some objects without repeated keys.
    """
    try:
        with uncollected():
            values = list(map(orjson.loads, texts))
        if set(map(type, values)) != {dict}:
            return None
        kept = orjson.dumps(values).count(KEY_ENDS)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError, RecursionError):
        return None
    whole = b"\n".join(texts)
    if any(escape in whole for escape in ESCAPES) or SPACED.search(whole) is not None:
        return None
    # A key that comes again is lost, with all keys inside its first value.
    return values if kept == whole.count(KEY_ENDS) else None


def read_value(text: bytes, *, exact: bool = False) -> Any:
    """Return the value of a JSON text; repeated keys make an object `Twice`.

    `exact`: numbers become `NumberText`, their text.
    Raises: orjson.JSONDecodeError if it is not JSON, RecursionError if it is too deep.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if INFINITE not in error.msg:
            raise
        orjson.loads(TOO_LARGE.sub(_smaller, text))  # is it JSON except for that?
        return _slowly(text)
    if exact:
        return _slowly(text)
    if _may_repeat(text, value) and _repeats(read := _slowly(text)):
        return read
    return value


def _smaller(found: re.Match[bytes]) -> bytes:
    """Return a text unchanged, many digits as one, a large exponent as a small one."""
    first = found[0][:1]
    if first == b'"':
        return found[0]
    return b"1" if first.isdigit() else b"e0"


def _slowly(text: bytes) -> Any:
    """Return the value of a text, valid JSON except for large numbers, with numbers as text."""
    try:
        return json.loads(
            text,
            parse_int=NumberText,
            parse_float=NumberText,
            parse_constant=_refuse,
            object_pairs_hook=_object,
        )
    except json.JSONDecodeError as error:
        raise orjson.JSONDecodeError(error.msg, error.doc, error.pos) from error


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON, and was accepted before")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Twice(pairs)


def _may_repeat(text: bytes, value: Any) -> bool:
    """Return whether a text may have more keys than its value.

    Errs: is also true for a text with `":` inside a string.
    """
    named = text.count(b'":')
    return (named > 0 and named != _keys(value)) or SPACED.search(text) is not None


def _keys(value: Any) -> int:
    """Return how many keys there are in a value, at all levels."""
    count = 0
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if type(one) is dict:
            count += len(one)
            one = one.values()
        elif type(one) is not list:
            continue
        waiting += [item for item in one if type(item) in (dict, list)]
    return count


def _repeats(value: Any) -> bool:
    waiting = [value] if isinstance(value, dict | list) else []
    while waiting:
        one = waiting.pop()
        if isinstance(one, Twice):
            return True
        items = one.values() if isinstance(one, dict) else one
        waiting += [item for item in items if isinstance(item, dict | list)]
    return False

"""JSON texts as values, exactly: numbers that 64 bits might not hold, and keys that stand twice.

orjson is fast, but it has no number beyond float64's largest, and of a repeated key it keeps the
last without a word. What may hold one of these is read again by the standard library.
"""

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NoReturn

import orjson

INFINITE: Final = "number is infinity"  # how orjson says it
# A text, or what makes a number too large for a float.
TOO_LARGE: Final = re.compile(rb'"(?:[^"\\]|\\.)*"|[0-9]{300,}|[eE]\+?[0-9]+', re.DOTALL)
SPACED: Final = re.compile(rb'"[ \t\r\n]+:')


class Number(str):
    """The text of a JSON number that Python's own numbers might not hold exactly."""

    __slots__ = ()


class Twice(dict[str, Any]):
    """An object of which a key stands twice: who looks one up gets the last.

    No column takes it but jsonb, whose rule that is.
    """

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        """Keep all pairs, as they stand."""
        super().__init__(pairs)
        self.pairs = tuple(pairs)

    def repeated(self, names: Iterable[str]) -> str | None:
        """Return the first of `names` that stands twice; None: none of them does."""
        keys = [key for key, _ in self.pairs]
        return next((name for name in names if keys.count(name) > 1), None)


def read_value(text: bytes, *, exact: bool = False) -> Any:
    """Return the value of a JSON text; repeated keys make an object `Twice`.

    `exact`: numbers become `Number`, their text.
    Raises: orjson.JSONDecodeError for what is no JSON, RecursionError where it is too deep.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        if INFINITE not in error.msg:
            raise
        orjson.loads(TOO_LARGE.sub(_smaller, text))  # is it JSON but for that?
        return _slowly(text)
    if exact:
        return _slowly(text)
    if _may_repeat(text, value) and _repeats(read := _slowly(text)):
        return read
    return value


def _smaller(found: re.Match[bytes]) -> bytes:
    """Return a text as it is, many digits as one, a large exponent as a small one."""
    first = found[0][:1]
    if first == b'"':
        return found[0]
    return b"1" if first.isdigit() else b"e0"


def _slowly(text: bytes) -> Any:
    """Return a text, known to be JSON but for large numbers, with its numbers as text."""
    try:
        return json.loads(
            text, parse_int=Number, parse_float=Number, parse_constant=_refuse,
            object_pairs_hook=_object,
        )  # fmt: skip
    except json.JSONDecodeError as error:
        raise orjson.JSONDecodeError(error.msg, error.doc, error.pos) from error


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON, and was accepted before")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else Twice(pairs)


def _may_repeat(text: bytes, value: Any) -> bool:
    """Return whether more keys may stand in a text than there are in its value.

    Errs: says so of a text that has `":` within a string.
    """
    return text.count(b'":') != _keys(value) or SPACED.search(text) is not None


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

"""JSON with its numbers as written, its repeated keys, and its canonical text.

Canonical text: keys sorted by code point, only the last of repeated keys, no white space,
characters as themselves. An integer is its digits. A number with a point or an exponent is
Python's shortest text of its float64 if that is the same number, else Python's text of the exact
decimal without zeros at its end. So each number has one spelling, independent of its source text.
"""

import json
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NoReturn

from strata.ingest.twin.exact import Exact
from strata.ingest.twin.unreadable import Undecided, Unreadable

MAX_DEPTH: Final = 200
SHORT: Final = 32  # longer texts seldom repeat, and their spelling is not remembered
FARTHEST: Final = 10**12  # exponent: the limits of libraries are beyond it


class Number:
    """A number as its text."""

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        """Return the text, to be read in messages."""
        return f"Number({self.text})"

    def __eq__(self, other: object) -> bool:
        """Return whether both are spelt alike."""
        return isinstance(other, Number) and self.text == other.text

    def __hash__(self) -> int:
        """Hash the spelling."""
        return hash(self.text)


class Pairs(dict[str, Any]):
    """An object with the last value of each key; `twice` are the repeated keys."""

    twice: frozenset[str] = frozenset()

    @classmethod
    def of(cls, pairs: list[tuple[str, Any]]) -> "Pairs":
        """Return an object that remembers which keys came more than once."""
        made = cls(pairs)
        if len(made) < len(pairs):
            names = [name for name, _ in pairs]
            made.twice = frozenset(name for name in made if names.count(name) > 1)
        return made


def parse_json(text: str | bytes) -> Any:
    """Return a JSON value: None, bool, str, `Number`, list or `Pairs`. Raises: Unreadable."""
    try:
        return _READS.decode(text.decode("utf-8") if isinstance(text, bytes) else text)
    except RecursionError as error:  # a limit of this parser, not of JSON
        raise Undecided("nested too deeply for the twin") from error
    except ValueError as error:
        raise Unreadable(f"not JSON: {error}") from error


def parse_json_line(line: bytes) -> Pairs:
    """Return the object of one line. Raises: Unreadable if it is none."""
    value = parse_json(line)
    if not isinstance(value, Pairs):
        raise Unreadable("not a JSON object")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_READS: Final = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=_refuse, object_pairs_hook=Pairs.of
)
_SAYS: Final = json.JSONEncoder(ensure_ascii=False)


def check_text(text: str) -> str:
    """Return a text as it is. Raises: Unreadable if UTF-8 cannot spell it."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Unreadable("half of a surrogate pair") from error
    return text


def canonical(value: Any, depth: int = 0) -> str:
    """Return the canonical text of a parsed value. Raises: Unreadable if it has none."""
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Number):
        return canonical_number(value.text)
    if depth > MAX_DEPTH or (depth == MAX_DEPTH and isinstance(value, dict | list)):
        raise Unreadable(f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        names = sorted(value)
        inner = [f"{_quoted(name)}:{canonical(value[name], depth + 1)}" for name in names]
        return "{" + ",".join(inner) + "}"
    if isinstance(value, list):
        return "[" + ",".join(canonical(item, depth + 1) for item in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return canonical_number(repr(value))


def _quoted(text: str) -> str:
    return _short(text) if len(text) <= SHORT else _spelt(text)


def _spelt(text: str) -> str:
    return _SAYS.encode(check_text(text))


_short: Final = lru_cache(maxsize=4096)(_spelt)


def canonical_number(text: str) -> str:
    """Return the one spelling of a JSON number."""
    if text.isdigit() or not any(letter in text for letter in ".eE"):
        return "0" if text == "-0" else text
    exact = Exact.of(text)
    if not exact.digits:
        return "0.0"
    if abs(exact.exponent) > FARTHEST:
        raise Undecided("an exponent that no library holds")
    near = float(text)
    if near not in (float("inf"), float("-inf")) and Exact.of(repr(near)) == exact:
        return repr(near)
    return f"{exact.decimal()}".lower()


def same_spelling(text: str) -> bool:
    """Return whether a stored number is spelt as docs/reference/format.md says, at any exponent."""
    wanted = canonical_number(text)
    if wanted == text or _powers(wanted) == _powers(text):
        return True
    if "e" in wanted and "e" not in text.lower() and not text.endswith("0"):
        return Exact.of(text) == Exact.of(wanted)  # 0.00001 is as short as 1e-05, and plain
    near = float(text)
    shortest = Exact.of(repr(near)) == Exact.of(text) if abs(near) != float("inf") else False
    return not shortest and Decimal(text) == Decimal(wanted)


def _powers(text: str) -> tuple[str, int]:
    head, _, power = text.lower().partition("e")
    return head.removesuffix(".0"), int(power or "0")

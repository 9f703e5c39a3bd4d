"""JSON files as objects: one per line (`jsonl`), or one array of them (`json`).

Numbers keep their exact value: a text with a number that may exceed 64 bits is read again with its
numbers as text. Blank lines are skipped; values that are not objects are malformed.
"""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, read_text
from strata.ingest.readers.json_members import lines_of_array
from strata.ingest.readers.rejects import Reject, details
from strata.ingest.readers.source import WRONG_SHAPE_ROWS, Located
from strata.ingest.values.cast import Rows
from strata.ingest.values.exact_json import read_plainly, read_value
from strata.ingest.values.shown import clean, json_text

TOO_DEEP: Final = "nested too deeply"
MANY: Final = 4_096  # lines that are read together if nothing is odd about them
DIGITS: Final = re.compile(rb"[0-9.]+")
NEAR: Final = 20  # letters around what is no JSON, to be shown
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}|[\x80-\xff]+")  # or bytes of letters
_BLANKS: Final = bytes(byte if byte > ord(" ") else ord(" ") for byte in range(256))
LONG: Final = 16  # 64 bits hold a number of fewer characters exactly


@dataclass(frozen=True, slots=True)
class Objects:
    """The JSON values of one file, and the way back to their text."""

    values: list[Any]  # dicts; None where the file has null
    numbers: list[int]  # line or place of each, from 1
    text: Callable[[int], str]  # of a line or place
    malformed: list[Reject]

    def locate(self, rows: Rows) -> list[Located]:
        """Return line and text of rows by number."""
        found = [self.numbers[row] for row in rows]
        return [(number, self.text(number)) for number in found]

    def only(self, kept: Sequence[int], values: list[Any], malformed: list[Reject]) -> "Objects":
        """Return the rows `kept` with new values, and with more malformed rows."""
        numbers = [self.numbers[row] for row in kept]
        return Objects(values, numbers, self.text, [*self.malformed, *malformed])

    def without(self, source: SourceFile, reasons: Sequence[str | None]) -> "Objects":
        """Return the rows without a reason to reject them; the others are malformed."""
        if not any(reasons):
            return self
        kept = [row for row, reason in enumerate(reasons) if reason is None]
        bad = [self.reject(source, row, reason) for row, reason in enumerate(reasons) if reason]
        return self.only(kept, [self.values[row] for row in kept], bad)

    def reject(self, source: SourceFile, row: int, reason: str) -> Reject:
        """Return a row as rejected."""
        number = self.numbers[row]
        return Reject(source.name, number, None, None, reason, self.text(number))


def read_lines(source: SourceFile, data: bytes | None = None) -> Objects:
    """Return the objects of a file with one per line; `null` is a value.

    `data`: its text, if it was read already.
    Raises: InvalidRequest for a file of two or more lines without a single object.
    Cost: the whole file in memory.
    """
    values: list[Any] = []
    numbers: list[int] = []
    malformed: list[Reject] = []
    data = read_text(source) if data is None else data
    lines = data.split(b"\n")
    exact = exact_lines(data)
    first = 1 + source.before
    total = len(lines) - (not lines[-1])
    for start in range(0, total, MANY):
        some, at = lines[start : min(start + MANY, total)], first + start
        near = exact.intersection(range(start + 1, start + 1 + len(some))) if exact else exact
        plain = _read_block(some, sorted(number - start - 1 for number in near))
        if plain is None:
            found = _read_each(source, some, at, near)
            values += found.values
            numbers += found.numbers
            malformed += found.malformed
        else:
            values += plain
            numbers += range(at, at + len(plain))
    if source.is_whole and not values and len(malformed) >= WRONG_SHAPE_ROWS:
        raise InvalidRequest(
            "the file holds no JSON lines",
            **details(malformed[0]),
            cure="one JSON object a line, UTF-8; check source.format",
        )
    return Objects(values, numbers, lambda number: _show(lines[number - first]), malformed)


def _read_block(lines: Sequence[bytes], exact: Sequence[int]) -> list[Any] | None:
    """Return the objects of lines, by number if `exact`; None: a line needs a closer look."""
    apart = frozenset(exact)
    found = read_plainly([line for at, line in enumerate(lines) if at not in apart])
    if found is None:
        return None
    for at in exact:
        try:
            value = read_value(lines[at], exact=True)
        except (orjson.JSONDecodeError, RecursionError):
            return None
        if not isinstance(value, dict):
            return None
        found.insert(at, value)
    return found


def _read_each(
    source: SourceFile, lines: Sequence[bytes], first: int, exact: Collection[int]
) -> Objects:
    """Return the objects of lines from number `first` on; `exact` as `exact_lines` counts."""
    values: list[Any] = []
    numbers: list[int] = []
    malformed: list[Reject] = []
    for number, line in enumerate(lines, first):
        try:
            value = read_value(line, exact=number - source.before in exact)
        except orjson.JSONDecodeError as error:
            if line.strip():
                malformed.append(_malformed(source, number, line, f"not JSON: {error.msg}"))
            continue
        except RecursionError:
            malformed.append(_malformed(source, number, line, TOO_DEEP))
            continue
        if isinstance(value, dict) or value is None:
            values.append(value)
            numbers.append(number)
        else:
            malformed.append(_malformed(source, number, line, "not a JSON object"))
    return Objects(values, numbers, lambda number: _show(lines[number - first]), malformed)


def read_array(source: SourceFile, data: bytes | None = None) -> Objects:
    """Return the objects of a file that is one JSON array of them, or a single one.

    `data`: its text, if it was read already.
    Places replace line numbers. Raises: InvalidRequest for a file that is not JSON.
    Cost: the whole file in memory.
    """
    data = read_text(source) if data is None else data
    try:
        found = read_value(data, exact=bool(exact_lines(data))) if data.strip() else []
    except orjson.JSONDecodeError as error:
        alone = _each_alone(source, data)
        if alone is not None:
            return alone
        near = error.doc[max(0, error.pos - NEAR) : error.pos + NEAR]
        raise _no_json(source, error.lineno, error.msg, value=near) from error
    except RecursionError as error:
        raise _no_json(source, 1, TOO_DEEP) from error
    if found == [] and not source.is_whole:  # between two commas
        raise _no_json(source, 1, "an element is missing")
    items = found if isinstance(found, list) else [found]
    good = [n for n, item in enumerate(items) if isinstance(item, dict) or item is None]
    first = 1 + source.before
    text: Callable[[int], str] = lambda place: json_text(items[place - first])  # noqa: E731
    bad = sorted(set(range(len(items))).difference(good))
    malformed = [
        Reject(source.name, n + first, None, None, "not a JSON object", text(n + first))
        for n in bad
    ]
    return Objects([items[n] for n in good], [n + first for n in good], text, malformed)


def _each_alone(source: SourceFile, data: bytes) -> Objects | None:
    """Return the elements of an array, each by itself, where only letters of texts are no JSON.

    None: something else is wrong with the file, or it is no array.
    """
    try:
        found = read_value(_HALF.sub(rb"\\uFFFD", data.translate(_BLANKS)))
    except (orjson.JSONDecodeError, RecursionError):
        return None
    elements = lines_of_array(data)
    if elements is None or not isinstance(found, list) or len(found) != elements[1]:
        return None
    text, count = elements
    lines = text.split(b"\n")[:count]
    return _read_each(source, lines, 1 + source.before, exact_lines(text))


def _no_json(source: SourceFile, line: int, reason: str, **found: str) -> InvalidRequest:
    where = {} if source.is_whole else {"element": source.before + 1}
    return InvalidRequest(
        "the file is no JSON",
        file=source.name,
        **where,
        line=line,
        **{name: clean(text) for name, text in found.items()},
        reason=reason,
        cure="one array of objects; for one object a line: source.format: jsonl",
    )


def exact_lines(data: bytes) -> frozenset[int]:
    """Return the lines, from 1, with a number that only its text surely preserves.

    Such a number has LONG characters or more and is not the shortest text of its float64, has an
    exponent, or is minus zero.
    Errs: also counts strings that look like one, which costs time but changes nothing.
    """
    raw = np.frombuffer(data, np.uint8)
    digit = (raw - ord("0") < 10) | (raw == ord("."))
    run = digit  # then: where LONG digits in a row begin
    for step in (1, 2, 4, 8):
        run = run[:-step] & run[step:]
    exponents = _inside(raw, raw | 0x20 == ord("e"))
    after = raw[exponents + 1]
    signed = digit[exponents + 1] | (after == ord("+")) | (after == ord("-"))
    minus = _inside(raw, raw == ord("-"))
    zeros = minus[(raw[minus + 1] == ord("0")) & ~digit[minus - 1]] + 1
    longs = np.flatnonzero(run[1:] & ~run[:-1]) + 1  # a number's first digit
    longs = np.r_[0, longs] if run[:1].any() else longs
    positions = np.concatenate(
        [
            _odd(data, longs, _shortest),
            exponents[digit[exponents - 1] & signed],
            _odd(data, zeros, _not_zero),
        ]
    )
    if not len(positions):
        return frozenset()
    breaks = np.flatnonzero(raw == ord("\n"))
    return frozenset((np.searchsorted(breaks, positions) + 1).tolist())


def _odd(data: bytes, starts: Rows, plain: Callable[[bytes], bool]) -> Rows:
    """Return where digits begin that are not `plain`."""
    found = (DIGITS.match(data, start) for start in starts.tolist())
    odd = [match is None or not plain(match[0]) for match in found]
    return starts[np.array(odd, np.bool_)]


def _shortest(digits: bytes) -> bool:
    """Return whether a number's digits are the shortest text of its float64."""
    try:
        return b"." in digits and repr(float(digits)).encode() == digits
    except ValueError:
        return False


def _not_zero(digits: bytes) -> bool:
    """Return whether digits that begin with 0 have others behind a point."""
    return digits[1:2] == b"." and bool(digits[2:].strip(b"0."))


def _inside(raw: npt.NDArray[np.uint8], mask: npt.NDArray[np.bool_]) -> Rows:
    """Return where `mask` is true, both ends of the file left out."""
    found: Rows = np.flatnonzero(mask[1:-1]) + 1
    return found


def _malformed(source: SourceFile, number: int, line: bytes, reason: str) -> Reject:
    return Reject(source.name, number, None, None, reason, _show(line))


def _show(line: bytes) -> str:
    return line.rstrip(b"\r").decode(errors="surrogateescape")

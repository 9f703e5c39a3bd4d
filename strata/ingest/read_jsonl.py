"""Read JSON lines: one object a line, values by key.

A missing key is null; keys that nobody asked for are ignored; blank lines are skipped. A line
that is no JSON object is malformed. Numbers keep their exact value: a line that holds one which
64 bits might not hold is read again with its numbers as text.
"""

import json
from collections.abc import Collection, Sequence
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
import orjson

from strata.errors import InvalidRequest
from strata.ingest.cast import Number, Rows, from_objects
from strata.ingest.files import SourceFile, read_bytes
from strata.ingest.rejects import Reject, details
from strata.ingest.source import WRONG_SHAPE_ROWS, Located, Raw, RawFile

LONG: Final = 16  # a number of fewer characters is held exactly by 64 bits


def read_jsonl(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return the values of the keys `names`, and the lines that are no JSON objects.

    Of keys that are `optional` it is told where they are missing; null is not missing.

    Raises: InvalidRequest for a file without a single JSON object in two lines or more.
    Cost: the whole file in memory.
    """
    objects: list[dict[str, object]] = []
    numbers: list[int] = []
    malformed: list[Reject] = []
    data = read_bytes(source).removeprefix(b"\xef\xbb\xbf")
    lines = data.split(b"\n")
    exact = exact_lines(data)
    for number, line in enumerate(lines, 1):
        try:
            value = orjson.loads(line)
            if number in exact:
                value = _exact(line)
        except orjson.JSONDecodeError as error:
            if line.strip():
                malformed.append(_malformed(source, number, line, f"not JSON: {error.msg}"))
            continue
        if type(value) is dict:
            objects.append(value)
            numbers.append(number)
        else:
            malformed.append(_malformed(source, number, line, "not a JSON object"))
    if not objects and len(malformed) >= WRONG_SHAPE_ROWS:
        raise InvalidRequest(
            "the file holds no JSON lines",
            **details(malformed[0]),
            cure="one JSON object a line, UTF-8; check source.format",
        )

    def locate(rows: Rows) -> list[Located]:
        found = [numbers[row] for row in rows]
        return [(number, _show(lines[number - 1])) for number in found]

    return RawFile(
        file=source.name,
        count=len(objects),
        columns={name: [o.get(name) for o in objects] for name in names},
        convert=from_objects,
        shown=_shown,
        locate=locate,
        malformed=malformed,
        lacking={name: [name not in o for o in objects] for name in optional},
    )


def exact_lines(data: bytes) -> frozenset[int]:
    """Return the lines, from 1, with a number that only its text keeps for sure.

    That is one of LONG characters or more, with an exponent, or minus zero.
    Errs: a string that looks like one counts too, which costs time and changes nothing.
    """
    raw = np.frombuffer(data, np.uint8)
    digit = (raw - ord("0") < 10) | (raw == ord("."))
    run = digit  # then: so many digits in a row begin here
    for step in (1, 2, 4, 8):
        run = run[:-step] & run[step:]
    exponents = _inside(raw, raw | 0x20 == ord("e"))
    after = raw[exponents + 1]
    signed = digit[exponents + 1] | (after == ord("+")) | (after == ord("-"))
    minus = _inside(raw, raw == ord("-"))
    positions = np.concatenate(
        [
            np.flatnonzero(run),
            exponents[digit[exponents - 1] & signed],
            minus[(raw[minus + 1] == ord("0")) & ~digit[minus - 1]],
        ]
    )
    if not len(positions):
        return frozenset()
    breaks = np.flatnonzero(raw == ord("\n"))
    return frozenset((np.searchsorted(breaks, positions) + 1).tolist())


def _inside(raw: npt.NDArray[np.uint8], mask: npt.NDArray[np.bool_]) -> Rows:
    """Return where `mask` is true, both ends of the file left out."""
    found: Rows = np.flatnonzero(mask[1:-1]) + 1
    return found


def _exact(line: bytes) -> object:
    """Return a line, known to be JSON, with its numbers as text."""
    return json.loads(line, parse_int=Number, parse_float=Number, parse_constant=_refuse)


def _refuse(name: str) -> NoReturn:
    raise AssertionError(f"{name} is no JSON, and was accepted before")


def _shown(values: Raw, row: int) -> str | None:
    value = values[row]
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value, default=str).decode()


def _malformed(source: SourceFile, number: int, line: bytes, reason: str) -> Reject:
    return Reject(source.name, number, None, None, reason, _show(line))


def _show(line: bytes) -> str:
    return line.rstrip(b"\r").decode(errors="backslashreplace")

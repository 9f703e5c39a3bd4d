"""How a source writes its dates and timestamps: forms in Spark's letters, read when declared.

`dd/MM/yyyy HH:mm` is a form. A letter stands for a field, as often as it has digits; one letter
alone takes one digit or two. Other characters, and what stands in single quotes, are themselves. A
year of two digits needs the first year of its century: `dd/MM/yy from 1950` is 1950 to 2049.

Source: docs/reference/sources.md, "Dates that are written otherwise".
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from strata.errors import InvalidRequest
from strata.model.types import Kind

LITERAL: Final = ""
NAMES: Final = "name"  # of a month, by its first letters or whole
FRACTION: Final = "S"
ZONE: Final = "X"
HALF: Final = "a"  # of a day: AM or PM
_CENTURY: Final = re.compile(r"(.*\S) from ([0-9]{4})", re.DOTALL)
_RESERVED: Final = frozenset("[]{}#")  # Spark gives them a meaning
# How often a letter may stand.
_TIMES: Final = {
    "y": (2, 4),
    "M": (1, 2, 3, 4),
    **dict.fromkeys("dHhms", (1, 2)),
    FRACTION: tuple(range(1, 10)),
    HALF: (1,),
    ZONE: (2, 3),
}
_BEFORE: Final = {"m": "Hh", "s": "m", FRACTION: "s", HALF: "h", "h": HALF}  # what a field needs
_MOMENT: Final = frozenset({Kind.TIMESTAMP, Kind.TIMESTAMPTZ})


@dataclass(frozen=True, slots=True)
class FormPiece:
    """A field of a form, or characters that stand for themselves."""

    field: str  # the letter; LITERAL, NAMES
    least: int = 0  # digits of a number; of NAMES: letters, and 4 is the whole name
    most: int = 0
    text: str = ""  # of LITERAL; of ZONE the character between hours and minutes

    @property
    def is_number(self) -> bool:
        """Return whether digits stand here."""
        return self.field not in (LITERAL, NAMES, ZONE, HALF)


@dataclass(frozen=True, slots=True)
class WrittenForm:
    """How the texts of a column are written."""

    text: str  # as it was declared
    pieces: tuple[FormPiece, ...]
    since: int | None = None  # the first year that two digits may mean


def parse_form(text: str, kind: Kind) -> WrittenForm:
    """Return a form for texts of a date, timestamp or timestamptz.

    Raises: InvalidRequest for a form that does not say how every text is read.

    >>> [piece.field or piece.text for piece in parse_form("d.M.yyyy", Kind.DATE).pieces]
    ['d', '.', 'M', '.', 'y']
    """
    century = _CENTURY.fullmatch(text)
    body, since = (century[1], int(century[2])) if century else (text, None)
    pieces = tuple(_joined(_pieces(body, text)))
    problem = _problem(pieces, kind, since)
    if body != body.strip():
        problem = "white space around it"
    if problem is not None:
        raise _refused(text, problem)
    return WrittenForm(text, pieces, since)


def _refused(text: str, reason: str) -> InvalidRequest:
    return InvalidRequest(
        "this is no form in which dates are written",
        value=text,
        reason=reason,
        cure="yyyy M d H h m s S a XXX, other letters in single quotes: dd/MM/yyyy HH:mm:ss",
    )


def _pieces(body: str, whole: str) -> Iterator[FormPiece]:
    """Yield pieces, a literal for each character. Raises: InvalidRequest."""
    at = 0
    while at < len(body):
        letter = body[at]
        if letter == "'":
            stop = body.find("'", at + 1)
            if stop < 0:
                raise _refused(whole, "a quote is not closed")
            yield FormPiece(LITERAL, text=body[at + 1 : stop] or "'")
            at = stop + 1
        elif letter.isascii() and letter.isalpha():
            count = len(body) - at - len(body[at:].lstrip(letter))
            if count not in _TIMES.get(letter, ()):
                known = "no field" if letter not in _TIMES else f"no field of {count} letters"
                raise _refused(whole, f"{letter * count} is {known}")
            yield _field(letter, count)
            at += count
        else:
            if letter in _RESERVED:
                raise _refused(whole, f"{letter} has a meaning of its own in Spark")
            yield FormPiece(LITERAL, text=letter)
            at += 1


def _field(letter: str, count: int) -> FormPiece:
    if letter == "M" and count > 2:
        return FormPiece(NAMES, count, count)
    if letter == ZONE:
        return FormPiece(ZONE, text=":" if count == 3 else "")
    if letter == FRACTION:
        return FormPiece(FRACTION, 1, count)
    return FormPiece(letter, count, max(count, 2) if letter != HALF else 1)


def _joined(pieces: Iterator[FormPiece]) -> Iterator[FormPiece]:
    """Yield the pieces, neighbouring literals as one."""
    text = ""
    for piece in pieces:
        if piece.field == LITERAL:
            text += piece.text
            continue
        if text:
            yield FormPiece(LITERAL, text=text)
        text = ""
        yield piece
    if text:
        yield FormPiece(LITERAL, text=text)


def _problem(pieces: tuple[FormPiece, ...], kind: Kind, since: int | None) -> str | None:
    """Return why texts of this form have no one meaning; None: they have."""
    fields = [piece.field for piece in pieces if piece.field != LITERAL]
    meant = ["M" if field == NAMES else field for field in fields]
    short = any(piece.field == "y" and piece.most == 2 for piece in pieces)
    twice = next((field for field in meant if meant.count(field) > 1), None)
    lacking = next((field for field in "yMd" if field not in meant), None)
    alone = next((f for f in meant if f in _BEFORE and not set(_BEFORE[f]) & set(meant)), None)
    clock = [field for field in meant if field not in "yMd"]
    checks = (
        (twice is not None, f"{twice} stands twice"),
        (lacking is not None, f"{lacking} is missing"),
        ("H" in meant and "h" in meant, "H and h both say the hour"),
        (alone is not None, f"{alone} does not stand alone: {_BEFORE.get(alone or '')} is missing"),
        (bool(clock) and kind not in _MOMENT, "a date has no time of day"),
        (ZONE in clock and clock == [ZONE], "an offset belongs to a time of day"),
        (ZONE in meant and kind is not Kind.TIMESTAMPTZ, "only a timestamptz has an offset"),
        (short and since is None, "yy needs its century, as in: dd/MM/yy from 1950"),
        (not short and since is not None, "only a year of two digits needs its century"),
        (since is not None and not 1 <= since <= 9900, "years go from 0001 to 9999"),
        (_run_together(pieces), "a number of one digit or two needs an end before the next digit"),
    )
    return next((why for wrong, why in checks if wrong), None)


def _run_together(pieces: tuple[FormPiece, ...]) -> bool:
    """Return whether it is unknown where a number ends."""
    for piece, following in pairwise(pieces):
        if piece.is_number and piece.least < piece.most:
            begins = following.text[:1].isdigit() if following.field == LITERAL else False
            if following.is_number or begins:
                return True
    return False

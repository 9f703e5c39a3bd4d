"""Finds the marks with which CSV files write numbers: 1.234,56 shows both of them.

One file has one way of writing numbers. Marks are proposed if they read all values of some column
that has no other reading, and of each column that would be numbers without them. 1,234 alone shows
nothing: it may be a fraction, or more than a thousand. Such a column stays text, as a note says.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.readers.guess import NUMBER_TYPES, type_of_texts
from strata.ingest.values.numerals import plain_numbers
from strata.model.spec import POINT

Marks = tuple[str, str]  # before the fraction, between thousands
USUAL: Final[Marks] = (POINT, "")
_SPACES: Final = (" ", "\u00a0", "\u202f")
_QUOTES: Final = ("'", "\u2019")
# In this order: of those that read as many columns the first is proposed.
FORMS: Final[Sequence[Marks]] = (
    (",", ""),
    (",", POINT),
    *((",", mark) for mark in _SPACES),
    (POINT, ","),
    *((POINT, mark) for mark in (*_QUOTES, *_SPACES)),
    *((",", mark) for mark in _QUOTES),
)
_WORD: Final = r"[+-]?(?i:inf(?:inity)?|nan)"  # a float may be one of these
_LIKE: Final = r"^[+-]?[\d.,'\x{2019}_ \x{a0}\x{202f}]*\d[\d.,]*(?:[eE][+-]?\d+)?$"
_MARKED: Final = r"\d[.,'\x{2019}_ \x{a0}\x{202f}]+\d|[.,]\d|\d[.,]"
_GROUPED: Final = r"^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?$"  # 1,234.5 and 1,234


def marks_of(columns: Iterable[pa.Array]) -> Marks:
    """Return the marks that decide themselves, else the usual ones.

    Shape: the texts of each column, without words that are null. Cost: at most reads each column
    that looks like numbers in each form.
    """
    numbers = [texts for texts in columns if looks_like_numbers(texts)]
    plain = [_read(texts, USUAL) for texts in numbers]
    best, most = USUAL, 0
    for form in FORMS:
        read = [_read(texts, form) for texts in numbers]
        new = [t for t, a, b in zip(numbers, read, plain, strict=True) if a and not b]
        lost = any(b and not a for a, b in zip(read, plain, strict=True))
        if len(new) > most and not lost and any(_decides(texts, form) for texts in new):
            best, most = form, len(new)
    return best


def looks_like_numbers(texts: pa.Array) -> bool:
    """Return whether all texts have digits and marks only, or are infinite, and some have marks."""
    some = pc.utf8_trim_whitespace(texts.drop_null())
    if not len(some) or not pc.any(pc.match_substring_regex(some, _MARKED)).as_py():
        return False
    return bool(pc.all(pc.match_substring_regex(some, rf"{_LIKE}|^{_WORD}$")).as_py())


def _read(texts: pa.Array, form: Marks) -> bool:
    """Return whether all texts of a column are numbers in a form."""
    plain = plain_numbers(texts, *form)
    return not len(plain.bad) and type_of_texts(plain.values) in NUMBER_TYPES


def _decides(texts: pa.Array, form: Marks) -> bool:
    """Return whether some text can be nothing but a number in this form."""
    decimal, thousands = form
    if thousands in _QUOTES:
        return bool(pc.any(pc.match_substring(texts, thousands)).as_py())
    if decimal == ",":
        fractions = texts.filter(pc.match_substring(texts, ","))
        grouped = pc.match_substring_regex(pc.utf8_trim_whitespace(fractions), _GROUPED)
        return bool(pc.any(pc.invert(grouped)).as_py())
    both = rf"^[^{re.escape(POINT)}]*{re.escape(thousands)}.*\{POINT}"
    twice = rf"{re.escape(thousands)}\d+{re.escape(thousands)}"
    decisive = both if thousands in _SPACES else f"{both}|{twice}"
    return bool(pc.any(pc.match_substring_regex(texts, decisive)).as_py())


def plainly_written(texts: pa.Array, marks: Marks, words: Sequence[str]) -> pa.Array:
    """Return the texts of a column of numbers with a point, those of another column as they are.

    `words` stay as they are.
    """
    if marks == USUAL:
        return texts
    is_word = pc.is_in(texts, pa.array(words, pa.string()))
    others = pc.if_else(is_word, None, texts)
    plain = plain_numbers(others, *marks)
    if len(plain.bad) or type_of_texts(plain.values) not in NUMBER_TYPES:
        return texts
    return pc.if_else(is_word, texts, plain.values)


def doubted_marks(
    columns: Mapping[str, pa.Array], types: Mapping[str, str], marks: Marks
) -> Iterator[str]:
    """Yield a note for each column whose numbers have marks: how they are read, or that none is."""
    decimal, thousands = marks
    said = f"source.decimal: {decimal!r}" + (f", source.thousands: {thousands!r}" * bool(thousands))
    for name, texts in columns.items():
        if not looks_like_numbers(texts):
            continue
        if types[name] == "string":
            if pc.any(pc.match_substring_regex(texts, r"^[^,]*,[^,]*$")).as_py():
                first = texts.filter(pc.match_substring(texts, ","))[0].as_py()
                yield (
                    f"{name}: texts as {first} look like numbers, and nothing decides which; to "
                    "read them, declare source.decimal or source.thousands, and the type"
                )
        elif marks != USUAL:
            plain = plain_numbers(texts, *marks).values
            changed = pc.fill_null(pc.not_equal(plain, texts), False)
            if pc.any(changed).as_py():
                one, other = texts.filter(changed)[0].as_py(), plain.filter(changed)[0].as_py()
                yield f"{name}: {one} is read as {other} ({said}); correct it if that is wrong"

"""Reads numbers of CSV that are written with other marks than a point: 1.234,56 for 1234.56.

`decimal` is the mark before the fraction, `thousands` that between groups of three digits. Only the
first group may be shorter. Digits may also stand without groups, but only all of them. India's
groups of two (12,34,567) are not read. A number of another form is bad. Texts without any of these
marks stay what they are, such as `inf`. The twin of this is `strata.ingest.twin.numerals`.
"""

import re
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.values.cast import FLOATS, INTEGERS, Cast, from_text
from strata.ingest.values.column import NONE_BAD, all_or_halves, with_nulls
from strata.ingest.values.numbers import has_byte
from strata.model.spec import POINT
from strata.model.types import ColumnType, Kind

NUMBERS: Final = frozenset({*INTEGERS, *FLOATS, Kind.NUMERIC})


def from_marked(texts: pa.Array, target: ColumnType, decimal: str, thousands: str) -> Cast:
    """Return fields of CSV as `from_text` does, numbers by their marks.

    Shape: binary or string, null allowed.
    """
    if target.kind not in NUMBERS:
        return from_text(texts, target)
    strings = all_or_halves(texts, pa.string(), lambda some: some.cast(pa.string()))
    plain = plain_numbers(strings.values, decimal, thousands)
    return from_text(plain.values, target).also(plain.bad).also(strings.bad)


def plain_numbers(texts: pa.Array, decimal: str, thousands: str) -> Cast:
    """Return texts of numbers as they are written with a point and without groups.

    Shape: strings, null allowed. Cost: looks at each byte once where no text has a mark.
    """
    marks = {POINT, decimal, thousands} - {""}
    if not has_byte(texts, bytes({mark.encode()[0] for mark in marks})):
        return Cast(texts, NONE_BAD)
    bare = pc.utf8_trim_whitespace(texts)
    marked = pc.match_substring_regex(bare, "|".join(map(re.escape, sorted(marks))))
    fits = pc.match_substring_regex(bare, _form(decimal, thousands))
    wrong = pc.and_(marked, pc.invert(fits)).fill_null(False)
    if thousands:
        bare = pc.replace_substring(bare, thousands, "")
    if decimal != POINT:
        bare = pc.replace_substring(bare, decimal, POINT)
    bad = np.flatnonzero(wrong.to_numpy(zero_copy_only=False))
    return Cast(with_nulls(bare, bad), bad)


@cache
def _form(decimal: str, thousands: str) -> str:
    group = re.escape(thousands)
    whole = rf"(?:\d{{1,3}}(?:{group}\d{{3}})+|\d*)" if thousands else r"\d*"
    return rf"^[+-]?{whole}(?:{re.escape(decimal)}\d*)?(?:[eE][+-]?\d+)?$"

"""How the CSV of a source is written, told from the files that are there."""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.ingest.land.files import SourceFile, read_text
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.csv import csv_texts, header_of
from strata.ingest.values.cast import from_text
from strata.model.types import parse_type

SEPARATORS: Final = (",", ";", "\t", "|")
WORDS: Final = ("NA", "N/A", "NULL", "null", "\\N", "NaN", "nan", "None", "-")  # may mean null
TRIED: Final = (
    "bool",
    "int64",
    "float64",
    "date",
    "timestamp",
    "timestamptz",
    "uuid",
)  # of text, in this order
NOT: Final = {  # texts that are of a type, but were hardly meant so
    "bool": r"^\s*[01]\s*$",
    "int64": r"^[+-]?0\d",  # 007 is not the number 7
    "float64": r"^[+-]?0\d",
}


def delimiter_of(file: SourceFile) -> str:
    """Return the separator that cuts the header into most fields.

    Raises: InvalidRequest for a file without header.
    """
    data = read_text(file)

    def fields(delimiter: str) -> int:
        return len(header_of(replace(file, dialect=Dialect(delimiter)), data)[0])

    return max(SEPARATORS, key=fields)


def texts_of(file: SourceFile, delimiter: str, rows: int) -> pa.Table:
    """Return the first rows as text, null only where a field is empty."""
    return csv_texts(replace(file, dialect=Dialect(delimiter, ("",)))).slice(0, rows)


def null_words(table: pa.Table) -> set[str]:
    """Return the words that stand for null in some column.

    NA does wherever it stands; another word where all that a column says beside it is of one type
    that is not text.
    """
    found: set[str] = set()
    for texts in table.columns:
        told = pc.unique(texts.drop_null().cast(pa.string()))
        words = {word for word in WORDS if pc.is_in(pa.scalar(word), told).as_py()}
        if words - {"NA"} and type_of_texts(without(texts, words)) in (None, "string", "jsonb"):
            words &= {"NA"}
        found |= words
    return found


def without(texts: pa.ChunkedArray, words: Collection[str]) -> pa.Array:
    """Return texts with null where one of these words stands."""
    values = texts.combine_chunks().cast(pa.string())
    return pc.if_else(pc.is_in(values, pa.array(sorted(words), pa.string())), None, values)


def type_of_texts(values: pa.Array) -> str | None:
    """Return the first type that all texts can be read as, `string` if none, None without any."""
    some = values.drop_null()
    if not len(some):
        return None
    for name in TRIED:
        if name in NOT and pc.any(pc.match_substring_regex(some, NOT[name])).as_py():
            continue
        if not len(from_text(some, parse_type(name)).bad):
            return name
    if pc.all(pc.match_substring_regex(some, r"^\s*[\[{]")).as_py() and not len(
        from_text(some, parse_type("jsonb")).bad
    ):
        return "jsonb"
    return "string"

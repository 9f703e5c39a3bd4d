"""Words of CSV that may mean null, and texts that may mean something else than is proposed."""

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, read_text
from strata.ingest.land.plain_csv import plainly
from strata.ingest.readers.guess import type_of_texts, without_words
from strata.ingest.readers.json_table import is_utf8
from strata.kernels.csv_scan import blanks_before_fields
from strata.model.charsets import UTF_8
from strata.model.spec import ESCAPES

_MISSING: Final = ("NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", "NaN", "nan")
WORDS: Final = (*_MISSING, "\\N", "-", "--", "?", ".")  # may mean null
_ALWAYS: Final = frozenset(("NA", "\\N"))  # mean null also among texts
_NANS: Final = frozenset(("NaN", "nan"))
_NUMBERS: Final = ("float64", "numeric")
_READ: Final = "{} is read as {}, {{:,}} times in the examined rows; if it is {}, "
_DROP: Final = "leave {} out of source.nulls"
NUMBER: Final = re.compile(r"\s*[-+]?[0-9]*[.,]?[0-9]+(e[-+]?[0-9]+)?\s*", re.I)
CODE: Final = r"^[A-Z]{2}$"  # in a column of such texts NA may be Namibia, or North America


def null_words(table: pa.Table) -> set[str]:
    r"""Return the words that stand for null in some column.

    NA does, unless the others are codes of two letters, and so does \N. Another word does if all
    other values of its column have one type that is not text; NaN not among numbers.
    """
    found: set[str] = set()
    for texts in table.columns:
        distinct = pc.unique(texts.drop_null().cast(pa.string()))
        words = {word for word in WORDS if pc.is_in(pa.scalar(word), distinct).as_py()}
        if words - _ALWAYS and not _typed(texts, words):
            words &= _ALWAYS
        if words & _NANS and _typed(texts, words - _NANS):
            words -= _NANS
        if _are_codes(without_words(texts, words)):
            words -= {"NA"}
        found |= words
    return found


def _typed(texts: pa.Array, words: Collection[str]) -> bool:
    """Return whether what is left without some words is of one type that is not text."""
    return type_of_texts(without_words(texts, words)) not in (None, "string", "jsonb")


def doubted_file(file: SourceFile, names: Iterable[str]) -> Iterator[str]:
    """Yield notes of a file's bytes, blanks, backslashes and header."""
    text = read_text(file)
    yield from _doubted_bytes(file, text)
    yield from _doubted_blanks(file, text)
    yield from _doubted_escapes(file, text)
    yield from _doubted_header(file, names)


def _doubted_bytes(file: SourceFile, text: bytes) -> Iterator[str]:
    """Yield a note if some text has bytes that are none of its encoding."""
    lines = text.split(b"\n")
    first = next((n for n, line in enumerate(lines, 1) if not is_utf8(line)), None)
    if first is not None:
        encoding = file.dialect.encoding
        name = "UTF-8" if encoding == UTF_8 else encoding
        yield (
            f"{file.name}: line {first} is not {name}, and rows like it are rejected; infer with "
            "--encoding windows-1252, or what the file is written in"
        )


def _doubted_blanks(file: SourceFile, text: bytes) -> Iterator[str]:
    """Yield a note if blanks before fields are left out, or keep a quote from being one."""
    if file.dialect.skip_blanks:
        yield (
            f"{file.name}: blanks before fields are left out; if they belong to texts, take "
            "source.skip_blanks out"
        )
        return
    delimiter = ord(file.dialect.delimiter)
    _, quoted, _ = blanks_before_fields(np.frombuffer(text, np.uint8), delimiter)
    if quoted:
        yield (
            f"{file.name}: quotes behind blanks are letters, and hide no delimiter; if the blanks "
            "belong to no text, declare source.skip_blanks: true"
        )


def _doubted_escapes(file: SourceFile, text: bytes) -> Iterator[str]:
    """Yield a note if backslashes within quotes all come in pairs: each pair may be one."""
    if file.dialect.escape or b"\\\\" not in text or b'\\"' in text:
        return
    escaped = replace(file, dialect=replace(file.dialect, escape=ESCAPES[1]))
    with suppress(InvalidRequest):
        if plainly(escaped)(text) != text:
            yield (
                f"{file.name}: backslashes within quotes all come in pairs, and are read so; if "
                f"the writer doubles them, as Spark does, declare source.escape: '{ESCAPES[1]}'"
            )


def _doubted_header(file: SourceFile, names: Iterable[str]) -> Iterator[str]:
    """Yield a note if some name of a header is a number: the line may be a row."""
    number = next((name for name in names if file.has_header and NUMBER.fullmatch(name)), None)
    if number is not None:
        yield (
            f"{file.name}: line 1 is read as the names of columns, and one is {number}; if it is a "
            "row, infer with --header and the names of the fields"
        )


def doubted_rows(file: SourceFile, texts: pa.Table) -> Iterator[str]:
    """Yield a note if a row has the names of the columns: files were put behind one another."""
    if texts.num_columns < 2:  # one word may be both
        return
    alike = [pc.equal(texts[name].cast(pa.string()), name) for name in texts.column_names]
    first = pc.index(reduce(pc.and_, alike), True).as_py()
    if first >= 0:
        yield (
            f"{file.name}: row {first + 1} repeats the names of the columns, and is taken for a "
            "row; if files were put behind one another, leave such lines out"
        )


def doubted_nulls(
    texts: pa.ChunkedArray, kind: str, nulls: Collection[str]
) -> Iterator[tuple[str, int]]:
    """Yield a note for each word that may be null or a value of the type, and how often it is.

    NA mostly is null; not among codes, or where empty fields are null.
    """
    is_text = kind == "string"
    if not is_text and kind not in _NUMBERS:
        return
    alone = without_words(texts, WORDS).null_count == len(texts)  # a dash among texts is one
    words = {*nulls, *(WORDS if alone else _MISSING)} if is_text else _NANS
    value = "a text" if is_text else "a number"
    empty = texts.null_count
    doubted = empty or _are_codes(without_words(texts, nulls))
    others = 0
    for word in sorted(words - {""}):
        count = pc.sum(pc.equal(texts, word)).as_py() or 0
        if not count or (word == "NA" and not (doubted and word in nulls)):
            continue
        others += word != "NA"
        if word in nulls:
            yield _READ.format(word, "null", value) + _DROP.format("it"), count
        elif is_text or not empty:
            yield _READ.format(word, value, "null") + "add it to source.nulls", count
    if is_text and empty and (others or "\\N" in nulls):
        note = _READ.format("an empty field", "null", "the empty text")
        yield note + _DROP.format('""'), empty


def doubted_backslashes(file: SourceFile, texts: pa.Table) -> Iterator[str]:
    r"""Yield a note if backslashes seem to mean other letters, as beside \N or among tabs."""
    every = pa.chunked_array([c for column in texts.columns for c in column.chunks], pa.binary())
    some = every.filter(pc.match_substring(every, "\\"))
    rest = some.filter(pc.not_equal(some, b"\\N"))
    escaping = len(rest) < len(some) or file.dialect.delimiter == "\t"
    mark = re.escape(file.dialect.delimiter)
    whole = rf"^(?s:[^\\]|\\[\\bfnrtvN0-7x.']|\\{mark})*$"
    if len(rest) and escaping and pc.all(pc.match_substring_regex(rest, whole)).as_py():
        yield (
            f"{file.name}: backslashes are read as they are; if the writer means other letters by "
            r"\n, \t and \\, as COPY in its format text and MySQL do, have it write CSV with quotes"
        )


def _are_codes(texts: pa.Array) -> bool:
    return bool(pc.all(pc.match_substring_regex(texts, CODE), min_count=1).as_py())


def doubted_numbers(name: str, texts: pa.ChunkedArray) -> Iterator[str]:
    """Yield a note if numbers of a column may be versions: 1.1 and 1.10 are one number."""
    found = set(pc.unique(texts).drop_null().cast(pa.string()).to_pylist())
    for text in sorted(found):
        short = text.rstrip("0")
        if short != text and "." in short[:-1] and short in found:
            yield (
                f"{name}: {short} and {text} are read as one number; if they are two texts, as of "
                "versions, declare type: string"
            )
            return

"""Finds out whether CSV files to infer from escape their quotes, or have blanks around fields."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, beginning, read_text
from strata.ingest.readers.csv_checks import (
    check_escapes,
    check_quotes,
    check_swallowed,
    delimiter_of,
)
from strata.kernels.csv_scan import blanks_before_fields
from strata.model.spec import ESCAPES


def with_form(files: Sequence[SourceFile], looked_bytes: int) -> Sequence[SourceFile]:
    """Return the files with what they need to be read: blanks that are skipped, an escape.

    Cost: reads `looked_bytes` of each, up to four times.
    """
    found = {_has_blanks(file, looked_bytes) for file in files}
    if True in found and False not in found:
        delimiter = delimiter_of(files[0])
        files = [
            replace(f, dialect=replace(f.dialect, skip_blanks=True, delimiter=delimiter))
            for f in files
        ]
    return _with_escape(files, looked_bytes)


def _has_blanks(file: SourceFile, looked_bytes: int) -> bool | None:
    """Return whether each field behind a delimiter begins with blanks that are no part of it.

    They are none if names have them, too, or if quotes stand behind them. None: there is no field.
    """
    try:
        start = beginning(file, looked_bytes)
        text, delimiter = read_text(start), ord(delimiter_of(start))
    except InvalidRequest:
        return False  # for another reader to refuse
    names = text.partition(b"\n")[0] if file.has_header else b""
    rows = np.frombuffer(text, np.uint8)[len(names) :]
    begun, quoted, others = blanks_before_fields(rows, delimiter)
    named, _, bare = blanks_before_fields(np.frombuffer(names, np.uint8), delimiter)
    if not begun + others:
        return None
    return not others and (quoted > 0 or (named > 0 and not bare))


def _with_escape(files: Sequence[SourceFile], looked_bytes: int) -> Sequence[SourceFile]:
    r"""Return the files with the escape that one of them needs to be read.

    A file needs it that has `\"`, is refused as it is, and can be read with it.
    """
    for file in files:
        for escape in ESCAPES[1:]:
            if _needs(file, escape, looked_bytes):
                return [replace(f, dialect=replace(f.dialect, escape=escape)) for f in files]
    return files


def _needs(file: SourceFile, escape: str, looked_bytes: int) -> bool:
    start = beginning(file, looked_bytes)
    text = read_text(start)
    if f'{escape}"'.encode() not in text:
        return False
    whole = len(text) < looked_bytes
    dialect = replace(file.dialect, delimiter=delimiter_of(start))
    escaped = replace(file, dialect=replace(dialect, escape=escape))
    plain = replace(start, dialect=dialect)
    return not _reads(plain, looked_bytes, whole) and _reads(escaped, looked_bytes, whole)


def _reads(file: SourceFile, looked_bytes: int, whole: bool) -> bool:
    """Return whether a file can be read; the last quote of one that is `whole` is closed."""
    try:
        start = beginning(file, looked_bytes)
        text = read_text(start)
        if whole:
            check_quotes(start, text)
        check_escapes(start, text)
        check_swallowed(start, text)
    except InvalidRequest:
        return False
    return True

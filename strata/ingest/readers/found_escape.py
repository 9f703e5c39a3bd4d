"""Finds out whether CSV files to infer from escape quotes by backslashes."""

from collections.abc import Sequence
from dataclasses import replace

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, beginning, read_text
from strata.ingest.readers.csv_checks import check_escapes, check_swallowed
from strata.ingest.readers.formats.csv import delimiter_of
from strata.model.spec import ESCAPES


def with_escape(files: Sequence[SourceFile], looked_bytes: int) -> Sequence[SourceFile]:
    r"""Return the files with the escape that one of them needs to be read.

    A file needs it that has `\"`, is refused as it is, and can be read with it.
    Cost: reads `looked_bytes` of each.
    """
    for file in files:
        for escape in ESCAPES[1:]:
            if _needs(file, escape, looked_bytes):
                return [replace(f, dialect=replace(f.dialect, escape=escape)) for f in files]
    return files


def _needs(file: SourceFile, escape: str, looked_bytes: int) -> bool:
    start = beginning(file, looked_bytes)
    if f'{escape}"'.encode() not in read_text(start):
        return False
    dialect = replace(file.dialect, delimiter=delimiter_of(start))
    escaped = replace(file, dialect=replace(dialect, escape=escape))
    plain = replace(start, dialect=dialect)
    return not _reads(plain, looked_bytes) and _reads(escaped, looked_bytes)


def _reads(file: SourceFile, looked_bytes: int) -> bool:
    try:
        start = beginning(file, looked_bytes)
        text = read_text(start)
        check_escapes(start, text)
        check_swallowed(start, text)
    except InvalidRequest:
        return False
    return True

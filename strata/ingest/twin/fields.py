"""One record of CSV, letter by letter: which fields it has, and which of them are null."""

from collections.abc import Collection
from functools import lru_cache
from typing import Final

from strata.ingest.twin.unreadable import Unreadable
from strata.model.types import ColumnType

NULLS: Final = ("", "NA")
QUOTE: Final = b'"'


def csv_fields(
    row_text: str | bytes, delimiter: str = ",", nulls: Collection[str] = NULLS
) -> list[bytes | None]:
    """Return the fields of one record, without its line break; texts in `nulls` are null.

    A quoted field is not null here, see `quoted_nulls`. A doubled quote inside quotes is one quote.
    Raises: Unreadable for a quote that never ends.
    """
    row = row_text.encode() if isinstance(row_text, str) else row_text
    row = row.removesuffix(b"\n").removesuffix(b"\r")
    empty = _encoded(tuple(nulls))
    cut = delimiter.encode()
    if QUOTE in row:
        return letter_by_letter(row, cut, empty)
    return [None if field in empty else field for field in row.split(cut)]


def quoted_nulls(kind: ColumnType, nulls: Collection[str] = NULLS) -> frozenset[bytes]:
    """Return the texts that are null also in quotes, if they are no value of the type."""
    has_texts = str(kind.kind) in ("string", "char", "varchar", "bytes")
    return frozenset() if has_texts else _encoded(tuple(nulls))


@lru_cache(maxsize=64)
def _encoded(texts: tuple[str, ...]) -> frozenset[bytes]:
    return frozenset(text.encode() for text in texts)


def letter_by_letter(row: bytes, cut: bytes, empty: Collection[bytes]) -> list[bytes | None]:
    """Return the fields of one record, which may have quotes; see `csv_fields`."""
    found: list[bytes | None] = []
    field, at, inside, quoted = bytearray(), 0, False, False
    while at < len(row):
        letter = row[at : at + 1]
        if inside and letter == QUOTE and row[at + 1 : at + 2] == QUOTE:
            field += QUOTE
            at += 1
        elif letter == QUOTE and (inside or (not field and not quoted)):
            inside, quoted = not inside, True
        elif letter == cut and not inside:
            found.append(_field(field, quoted, empty))
            field, quoted = bytearray(), False
        else:
            field += letter
        at += 1
    if inside:
        raise Unreadable("a quote never ends")
    return [*found, _field(field, quoted, empty)]


def _field(field: bytearray, quoted: bool, nulls: Collection[bytes]) -> bytes | None:
    return None if not quoted and bytes(field) in nulls else bytes(field)

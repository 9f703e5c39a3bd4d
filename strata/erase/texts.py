"""Find terms in texts: rows of shards about other shards, source rows, logs, tables, JSON.

A term counts where no letter, digit or underscore touches it, in upper or lower case, and however
JSON, SQL and addresses escape it.
"""

import gzip
import io
import re
import zlib
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from strata.erase.spellings import begins_word, pattern_of
from strata.errors import Corrupt
from strata.format.pack import unpack
from strata.ingest.quarantine import AGAIN
from strata.ingest.readers.kept import KEPT
from strata.kernels.arrays import Bools
from strata.store.keys import BlobKind, parse_key

_ARROW: Final = b"ARROW1"
_KEPT: Final = KEPT.encode()
_TEXTS: Final = (
    *(pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    *(pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view),
    pa.types.is_fixed_size_binary,
)


@dataclass(frozen=True)
class Terms:
    """Terms to look for; picklable."""

    terms: tuple[str, ...]

    @cached_property
    def _pattern(self) -> re.Pattern[bytes] | None:
        return pattern_of(self.terms) if self.terms else None

    def within(self, data: bytes) -> bool:
        """Return whether a text mentions a term."""
        if self._pattern is None:
            return False
        text, start = data.lower(), 0
        while hit := self._pattern.search(text, start):
            if begins_word(text, hit.start()):
                return True
            start = hit.start() + 1  # the next one may overlap
        return False

    def lines(self, key: str, data: bytes) -> list[bool]:
        """Return which lines of a quarantine file mention a term, if only in bytes.

        Raises: Corrupt for a file that is no lines of JSON: nobody knows what it mentions.
        """
        try:
            return [self._line(line) for line in data.splitlines()]
        except (ValueError, AttributeError) as error:
            raise _unsearchable(key, error) from error

    def _line(self, line: bytes) -> bool:
        return any(map(self._says, _said_in(orjson.loads(line))))

    def _says(self, value: bytes) -> bool:
        """Return whether a value mentions a term; one that is a whole row, in some value of it."""
        kept = value.startswith(_KEPT)
        return any(map(self.within, _kept_texts(value))) if kept else self.within(value)

    def rows(self, batch: pa.RecordBatch | pa.Table) -> Bools:
        """Return which rows mention a term in a text, or in bytes, at any depth.

        Cost: looks at each distinct text once.
        """
        found: Bools = np.zeros(batch.num_rows, np.bool_)
        if self._pattern is None:
            return found
        for column in batch.columns:
            chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
            at = 0
            for chunk in chunks:
                found[at : at + len(chunk)] |= self._array(chunk)
                at += len(chunk)
        return found

    def _array(self, array: pa.Array) -> Bools:
        kind = array.type
        if pa.types.is_dictionary(kind):
            array, kind = array.dictionary_decode(), kind.value_type
        if pa.types.is_nested(kind):
            return self._each(orjson.dumps(v, default=_shown) for v in array.to_pylist())
        texts = pa.types.is_string(kind) or pa.types.is_large_string(kind)
        if texts or pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            coded = array.dictionary_encode()
            known = self._each(
                value.encode(errors="surrogatepass") if isinstance(value, str) else value or b""
                for value in coded.dictionary.to_pylist()
            )
            places = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            if not len(known):
                return np.zeros(len(array), np.bool_)
            hits: Bools = (places >= 0) & known[places]
            return hits
        return np.zeros(len(array), np.bool_)

    def _each(self, values: Iterator[bytes]) -> Bools:
        return np.fromiter(map(self._says, values), np.bool_)

    def in_blob(self, key: str, data: bytes) -> bool:
        """Return whether a blob that is no part mentions a term.

        Raises: Corrupt for a blob whose content cannot be read: nobody knows what it mentions.
        """
        try:
            return any(self._found(piece) for piece in _pieces(key, data))
        except (pa.ArrowException, OSError, ValueError, EOFError, zlib.error) as error:
            raise _unsearchable(key, error) from error

    def _found(self, piece: bytes | pa.Table) -> bool:
        return self._says(piece) if isinstance(piece, bytes) else bool(self.rows(piece).any())


def _said_in(row: dict[str, Any]) -> Iterator[bytes]:
    """Yield the texts of a rejected row; names that Strata gave say nothing of it."""
    for name, value in row.items():
        if isinstance(value, str) and not (name == "file" and value.startswith(AGAIN)):
            yield b64decode(value) if name == "raw_base64" else value.encode()


def _kept_texts(value: bytes) -> Iterator[bytes]:
    """Yield the texts and bytes of a row that is kept as a table."""
    with pa.ipc.open_stream(b64decode(value.removeprefix(_KEPT))) as reader:
        for column in reader.read_all().columns:
            for chunk in column.chunks:
                yield from _texts_in(chunk)


def _texts_in(array: pa.Array) -> Iterator[bytes]:
    """Yield the texts and bytes of an array, at any depth, also those that are not UTF-8."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        yield from _texts_in(array.dictionary)
    elif pa.types.is_map(kind):
        yield from (*_texts_in(array.keys), *_texts_in(array.items))
    elif pa.types.is_nested(kind):
        inside = array.flatten() if pa.types.is_struct(kind) else [array.flatten()]
        for part in inside:
            yield from _texts_in(part)
    elif any(test(kind) for test in _TEXTS):
        yield from array.cast(pa.large_binary()).drop_null().to_pylist()


def _pieces(key: str, data: bytes) -> Iterator[bytes | pa.Table]:
    if parse_key(key).kind is BlobKind.QUARANTINE:
        for line in data.splitlines():
            row: Any = orjson.loads(line)
            yield from _said_in(row) if isinstance(row, dict) and "raw" in row else [line]
    elif key.endswith(".gz"):
        yield gzip.decompress(data)
    elif key.endswith(".parquet"):
        yield pq.read_table(io.BytesIO(data))
    elif key.endswith((".arrow", ".zst")):
        yield from _tables(unpack(data))
    else:
        yield data


def _tables(data: bytes) -> Iterator[pa.Table]:
    if data.startswith(_ARROW):
        yield pa.ipc.open_file(pa.BufferReader(data)).read_all()
        return
    source = pa.BufferReader(data)
    while source.tell() < len(data):  # chunks of staged changes are streams one after the other
        yield pa.ipc.open_stream(source).read_all()


def _shown(value: object) -> Any:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _unsearchable(key: str, error: Exception) -> Corrupt:
    return Corrupt(
        "a blob cannot be searched",
        key=key,
        reason=str(error),
        cure="bring it back from a backup, or delete it, if nobody needs what was in it",
    )

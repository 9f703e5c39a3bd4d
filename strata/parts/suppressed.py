"""Suppressed rows: hashes of what was erased, so that no ingest brings it back.

Source files stay where they are, and a file may be taken in again. So an erasure leaves a list of
hashes, which ingest compares its rows with. There are three kinds:

    key   every row of a key that had no other rows: the person's own
    row   one row whose key has other rows, which stay welcome
    raw   a source row in the quarantine, by its text

A hash is 64 bits of the content digest (`strata.format.digest`), mixed with a secret salt of the
shard, so that lists of two shards cannot be compared. People who can read the list and guess a key
can test the guess: the list is as private as the shard. A row of somebody else is suppressed with
probability (keys in the list) / 2**64; ingest counts what it leaves out.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.errors import Corrupt
from strata.format.columns import child
from strata.format.digest import hashes_of, mix, row_hashes
from strata.kernels.arrays import Bools, Words
from strata.model.schema import Relation
from strata.store import keys
from strata.store.interface import Blob
from strata.store.named import get_named
from strata.store.retry import retry

Kind = Literal["key", "row", "raw"]
KINDS: Final[tuple[Kind, ...]] = ("key", "row", "raw")
SALT: Final = b"strata.salt"  # in the metadata of the list
SCHEMA: Final = pa.schema(
    [
        pa.field("kind", pa.dictionary(pa.int8(), pa.string()), nullable=False),
        pa.field("word", pa.uint64(), nullable=False),
        pa.field("erasure", pa.dictionary(pa.int32(), pa.string()), nullable=False),
    ]
)
NO_WORDS: Final = np.zeros(0, np.uint64)


@dataclass(frozen=True)
class Suppressed:
    """The hashes of a shard's erased rows. Shape: words are sorted, each once."""

    salt: int
    words: dict[tuple[Kind, str], Words]  # by kind and erasure

    def of(self, kind: Kind, erasure: str | None = None) -> Words:
        """Return the words of a kind, of one erasure or of all."""
        found = [w for (k, e), w in self.words.items() if k == kind and erasure in (None, e)]
        return np.unique(np.concatenate(found)) if found else NO_WORDS

    def plus(self, erasure: str, kind: Kind, words: Words) -> "Suppressed":
        """Return the list with more words of an erasure."""
        if not len(words):
            return self
        there = self.words.get((kind, erasure), NO_WORDS)
        merged = np.union1d(there, words).astype(np.uint64, copy=False)
        return Suppressed(self.salt, {**self.words, (kind, erasure): merged})

    def key_words(self, rows: pa.RecordBatch, relation: Relation) -> Words:
        """Return the word of each row's key. A relation without a key has the row as its key."""
        ids = relation.key or tuple(column.id for column in relation.columns)
        found = hashes_of(rows.num_rows, [(i, rows.column(child(i))) for i in ids])
        return self._salted(found)

    def row_words(self, rows: pa.RecordBatch, relation: Relation) -> Words:
        """Return the word of each whole row."""
        return self._salted(row_hashes(rows, relation))

    def raw_words(self, texts: Sequence[bytes]) -> Words:
        """Return the word of each source row."""
        digests = (blake2b(text, digest_size=8).digest() for text in texts)
        return self._salted(np.frombuffer(b"".join(digests), "<u8").astype(np.uint64))

    def hits(self, rows: pa.RecordBatch, relation: Relation) -> Bools:
        """Return which rows were erased."""
        found: Bools = np.isin(self.key_words(rows, relation), self.of("key"))
        if len(erased := self.of("row")):
            found |= np.isin(self.row_words(rows, relation), erased)
        return found

    def raw_hits(self, texts: Sequence[bytes]) -> Bools:
        """Return which source rows were erased."""
        found: Bools = np.isin(self.raw_words(texts), self.of("raw"))
        return found

    def _salted(self, hashes: Words) -> Words:
        return mix(hashes ^ np.uint64(self.salt))


def empty() -> Suppressed:
    """Return a list without words, with a salt of its own."""
    return Suppressed(secrets.randbits(64), {})


def store_suppressed(blob: Blob, shard: str, found: Suppressed, generation: int) -> str:
    """Store a list and return its key; equal lists have equal keys."""
    tables = []
    for (kind, erasure), words in sorted(found.words.items()):
        texts = [pa.array([text] * len(words)).dictionary_encode() for text in (kind, erasure)]
        columns = [texts[0].cast(SCHEMA.field(0).type), pa.array(words), texts[1]]
        tables.append(pa.Table.from_arrays(columns, schema=SCHEMA))
    table = pa.concat_tables(tables) if tables else SCHEMA.empty_table()
    table = table.unify_dictionaries().combine_chunks()
    sink = pa.BufferOutputStream()
    schema = SCHEMA.with_metadata({SALT: str(found.salt).encode()})
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_table(table.replace_schema_metadata(schema.metadata))
    data: bytes = sink.getvalue().to_pybytes()
    key = keys.suppressed_key(shard, keys.content_hash(data), generation)
    retry(partial(blob.set, key, data))
    return key


def load_suppressed(blob: Blob, key: str) -> Suppressed:
    """Return the list under a key. Raises: Corrupt when it is missing or damaged."""
    return _decoded(get_named(blob, key, "the list of suppressed rows"), key)


@lru_cache(maxsize=8)
def _decoded(data: bytes, key: str) -> Suppressed:
    try:
        table = pa.ipc.open_stream(data).read_all()
        salt = int(table.schema.metadata[SALT])
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise Corrupt(
            "the list of suppressed rows is damaged", key=key, reason=str(error)
        ) from error
    words: dict[tuple[Kind, str], Words] = {}
    kinds, erasures = (table[name].cast(pa.string()) for name in ("kind", "erasure"))
    numbers: npt.NDArray[np.uint64] = table["word"].to_numpy()
    pairs = set(zip(kinds.to_pylist(), erasures.to_pylist(), strict=True))
    for kind, erasure in sorted(pairs):
        if kind not in KINDS:
            raise Corrupt("the list of suppressed rows has an unknown kind", key=key, kind=kind)
        mine = (kinds.to_numpy() == kind) & (erasures.to_numpy() == erasure)
        words[kind, erasure] = np.unique(numbers[mine])
    return Suppressed(salt, words)

"""Erase texts about a person beside the parts: rejected rows, logs of filters, verdicts, names.

source rows that could not be read    the lines that mention a term; ingest leaves them out too
tables of verdicts, notes, receipts   whole, where they mention a term or a value of erased rows
the log of filters                    the entries, and the summaries of days, that mention a term
the catalog of collections            the names that mention a term
"""

import io
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strata.erase.notes import Cleared, remove_blob
from strata.erase.remove import add_suppressed, known_suppressed
from strata.erase.texts import Terms
from strata.ingest.quarantine import MOVED, moved_key, raw_of
from strata.machine.machine import Machine
from strata.read.collections import load_catalog
from strata.state.catalog import encode_catalog, set_catalog
from strata.state.erasing import forget_verdicts
from strata.state.state import Erasure
from strata.store import keys
from strata.store.keys import BlobKind, blob_kind
from strata.store.open import Stores
from strata.store.retry import retry

LOGS: Final = frozenset({BlobKind.VERDICT, BlobKind.USAGE})


@dataclass(frozen=True)
class History:
    """What is written about a shard beside its parts."""

    stores: Stores
    shard: str
    terms: Terms

    def rejected_files(self) -> Iterator[tuple[str, bytes, list[bool]]]:
        """Yield each file of rejected rows that mentions a term, and which of its lines do."""
        for key, data in self._blobs(frozenset({BlobKind.QUARANTINE})):
            if not _holds_rows(key):
                continue
            lines = self.terms.lines(key, data)
            if any(lines):
                yield key, data, lines

    def logs(self, parts: Collection[str]) -> Iterator[tuple[str, int]]:
        """Yield the verdicts, receipts and logged filters that mention a term, with their size.

        Also tables with a value of one of these parts.
        """
        for key, data in self._blobs(LOGS):
            if self.terms.in_blob(key, data) or _shows(key, data, parts):
                yield key, len(data)

    def _blobs(self, kinds: Collection[BlobKind]) -> Iterator[tuple[str, bytes]]:
        for kind in sorted(kinds):
            prefix = f"{keys.shard_prefix(self.shard)}{kind}/"
            for info in retry(lambda prefix=prefix: [*self.stores.blob.list(prefix)]):  # type: ignore[misc]
                data = retry(partial(self.stores.blob.get, info.key))
                if data is not None:
                    yield info.key, data

    def suppress_rejected(self, erasure: Erasure) -> None:
        """Have ingest leave out the rejected rows that mention a term."""
        machine = Machine(self.stores)
        state = machine.load(self.shard)
        known = known_suppressed(self.stores, state)
        texts = [
            raw_of(orjson.loads(line))
            for _, data, lines in self.rejected_files()
            for line, hit in zip(data.splitlines(), lines, strict=True)
            if hit
        ]
        words = np.unique(known.raw_words(texts)) if texts else np.zeros(0, np.uint64)
        if len(np.setdiff1d(words, known.of("raw", erasure.id))):
            new = known.plus(erasure.id, "raw", words)
            add_suppressed(machine, self.shard, state.suppressed, new)

    def erase_rejected(self, cleared: Cleared) -> None:
        """Replace each file of rejected rows by one without the lines; the rest stays readable."""
        blob, files = self.stores.blob, [*self.rejected_files()]
        cleared.note("rejected rows", {key: len(data) for key, data, _ in files})
        for key, data, lines in files:
            left = b"".join(
                line + b"\n" for line, hit in zip(data.splitlines(), lines, strict=True) if not hit
            )
            instead = None
            if left:
                token = keys.parse_key(key).name.partition("/")[0]
                instead = keys.quarantine_key(self.shard, f"{token}/{keys.content_hash(left)}")
                retry(partial(blob.set, instead, left))
            note = orjson.dumps({key: instead})
            retry(partial(blob.set, moved_key(key, keys.content_hash(note)), note))
            remove_blob(self.stores, key)

    def erase_logs(self, parts: Collection[str], cleared: Cleared) -> None:
        """Remove the verdicts, receipts and logged filters that `logs` yields."""
        machine = Machine(self.stores)
        found = [*self.logs(parts)]
        named = [key for key, _ in found if blob_kind(key) is BlobKind.VERDICT]
        machine.apply(self.shard, partial(forget_verdicts, keys=frozenset(named)))
        for what, kind in (("logged filters", BlobKind.USAGE), ("verdicts", BlobKind.VERDICT)):
            cleared.note(what, {key: size for key, size in found if blob_kind(key) is kind})
        for key, _ in found:
            remove_blob(self.stores, key)

    def erase_collections(self, cleared: Cleared) -> None:
        """Forget the collections whose name or note mentions a term."""
        machine = Machine(self.stores)
        state = machine.load(self.shard)
        catalog = load_catalog(self.stores, state)
        if catalog is None or state.catalog is None:
            return
        gone = [c.name for c in catalog.collections if self._named(c.name) or self._named(c.note)]
        if not gone:
            return
        left = tuple(c for c in catalog.collections if c.name not in gone)
        data = encode_catalog(type(catalog)(catalog.column, state.seqno + 1, left))
        key = keys.catalog_key(self.shard, keys.content_hash(data), state.generation)
        retry(partial(self.stores.blob.set, key, data))
        move = partial(set_catalog, expected=state.catalog, key=key, generation=state.generation)
        cleared.note_collections(state.catalog, len(gone))
        machine.apply(self.shard, move)

    def _named(self, text: str) -> bool:
        return self.terms.within(text.encode())


def _holds_rows(key: str) -> bool:
    name = key.rpartition("/")[2]
    return not name.startswith(("index-", MOVED))


def _shows(key: str, data: bytes, parts: Collection[str]) -> bool:
    """Return whether a table of verdicts, or a note, shows a value of one of the parts."""
    if not parts or blob_kind(key) is not BlobKind.VERDICT:
        return False
    if key.endswith(".json"):
        return any(part.encode() in data for part in parts)
    if not key.endswith(".parquet") or f"/{keys.SEEN}" in key:
        return False
    table = pq.read_table(io.BytesIO(data))
    if not {"part", "bound", "error"} <= {*table.column_names}:
        return False
    rows: Any = table.filter(pc.is_in(table["part"], value_set=pa.array([*parts], pa.string())))
    return any(row["bound"] or row["error"] for row in rows.to_pylist())

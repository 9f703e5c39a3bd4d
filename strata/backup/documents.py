"""What is wrong with a blob, by its own bytes, and the cure.

Most blobs are named by their content. Certificates of erasures have a digest inside. Entries of the
log of filters, and what old versions wrote, have at least a form in which they can be read.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from itertools import chain
from typing import Final

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from strata.store.interface import Blob
from strata.store.keys import BlobKey, BlobKind, named_hash, names_content, parse_key
from strata.store.named import fields_digest
from strata.store.retry import retry

# Kinds that no state names, or not for ever, and that people want to keep.
HISTORY: Final = frozenset(
    {BlobKind.QUARANTINE, BlobKind.VERDICT, BlobKind.USAGE, BlobKind.BACKFILL, BlobKind.ERASURE}
)
OTHER_BYTES: Final = "its bytes are not those that its name was made from"
MISSING: Final = "it is missing"
_HASH: Final = re.compile(r"[0-9a-f]{40}")
_COPY: Final = "copy it from a backup, TARGET/KEY, to the same key"
_CURES: Final = {
    BlobKind.QUARANTINE: f"{_COPY}; without one, the source files still have its rows",
    BlobKind.VERDICT: f"{_COPY}, or delete it: the next validation looks again",
    BlobKind.USAGE: f"{_COPY}, or delete it: advice then knows nothing of these reads",
    BlobKind.BACKFILL: "delete it: it only helps to estimate the next backfill",
    BlobKind.ERASURE: f"{_COPY}; nothing else proves this erasure",
}


@dataclass(frozen=True, slots=True)
class Wrong:
    """A blob that is missing or damaged."""

    key: str
    what: str
    cure: str


def wrong_with(key: str, data: bytes) -> str:
    """Return what is wrong with the bytes of a blob: "" if nothing is found."""
    found = parse_key(key)
    if _by_content(found):
        return "" if names_content(key, data) else OTHER_BYTES
    try:
        return _FORMS[found.kind](found, data)
    except (ValueError, TypeError, KeyError, AttributeError, OSError, pa.ArrowException) as error:
        return f"it cannot be read: {type(error).__name__}"


def _by_content(key: BlobKey) -> bool:
    """Return whether a key ends with the hash of its blob's bytes."""
    match key.kind:
        case BlobKind.USAGE:
            return False
        case BlobKind.ERASURE | BlobKind.QUARANTINE if "/" not in key.name:
            return False  # a certificate; the rejected rows of a run of long ago, by its token
        case kind:
            return kind not in HISTORY or _HASH.fullmatch(named_hash(str(key))) is not None


def _certificate(key: BlobKey, data: bytes) -> str:
    document = orjson.loads(data)
    if document["digest"] != fields_digest(document):
        return "its digest is another one"
    mine = document["shard"], document["id"]
    return "" if mine == (key.shard, key.name.removesuffix(".json")) else "it is of another erasure"


def _lines(_key: BlobKey, data: bytes) -> str:
    for line in data.splitlines():
        orjson.loads(line)
    return ""


def _log(_key: BlobKey, data: bytes) -> str:
    found = json.loads(data)  # entries, or the texts of some by their slots
    lists = [found] if isinstance(found, list) else map(json.loads, found.values())
    entries = chain.from_iterable(lists)
    return "" if all("filter" in entry for entry in entries) else "it holds no filters"


def _table(_key: BlobKey, data: bytes) -> str:
    if data.startswith((b"{", b"[")):  # a note
        return _lines(_key, data)
    pq.read_table(BytesIO(data))
    return ""


_FORMS: Final[dict[BlobKind, Callable[[BlobKey, bytes], str]]] = {
    BlobKind.ERASURE: _certificate,
    BlobKind.QUARANTINE: _lines,
    BlobKind.USAGE: _log,
    BlobKind.BACKFILL: _lines,
    BlobKind.VERDICT: _table,
}


def cure_of(key: str) -> str:
    """Return the cure for a damaged blob of a store."""
    return _CURES.get(parse_key(key).kind, _COPY)


def lost_rejects(blob: Blob, named: Collection[str], there: Collection[str]) -> Iterator[str]:
    """Yield the files of rejected rows that a list in `named` has and that are not `there`.

    A file that an erasure replaced or removed is not lost: a note says so.
    Damaged lists are passed over. Cost: reads each list, and the notes about erased rows.
    """
    for key in sorted(named):
        if f"/{BlobKind.QUARANTINE}/" not in key:
            continue
        folder, _, name = key.rpartition("/")
        if not name.startswith("index-"):
            continue
        gone = {*_json(blob, key, [])} - {*there}
        for note in there if gone else ():
            if note.startswith(f"{folder}/erased-"):
                gone -= {*_json(blob, note, {})}
        yield from sorted(gone)


def _json(blob: Blob, key: str, nothing: Collection[str]) -> Collection[str]:
    """Return the texts in a document, or the names of its fields; `nothing` if it is not whole."""
    data = retry(partial(blob.get, key))
    if data is None or not names_content(key, data):
        return nothing
    found: Collection[str] = orjson.loads(data)
    return found

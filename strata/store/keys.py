"""The names of blobs and of consensus keys, all of which are made and parsed here.

    shards/{shard}/parts/g{n}/{hash}.parquet   one part, named by its generation and content
    shards/{shard}/parts/r{n}/{hash}.parquet   one part whose rows lie in a file outside, likewise
    shards/{shard}/manifests/g{n}/{hash}.arrow one manifest, likewise; no folder: generation 0
    shards/{shard}/pages/g{n}/{hash}.arrow     one page of a large manifest, or an index of pages
    shards/{shard}/unions/g{n}/{hash}.arrow.zst    the union of a batch's statistics, likewise
    shards/{shard}/blooms/g{n}/{hash}.bloom    which values a part may hold at a place, likewise
    shards/{shard}/catalogs/g{n}/{hash}.json   the names of its collections, likewise
    shards/{shard}/quarantine/{token}.jsonl    source rows that could not be read
    shards/{shard}/verdicts/{run}.parquet      findings of soft evaluation
    shards/{shard}/verdicts/{run}/{hash}.json  findings of an unfinished validation
    shards/{shard}/verdicts/receipts/{hash}.json.gz  what a filter would skip at its validation
    shards/{shard}/verdicts/seen/{hash}.parquet  pairs of audited part and filter
    shards/{shard}/ledger/{low}_{high}_{hash}.json   commits spilled from the state
    shards/{shard}/ledger/n{level}_{low}_{high}_{hash}.json   names of such blobs, or of such names
    shards/{shard}/usage/{day}/{slot}.json     the filter of a read; summary.json: those of a day;
                                               rolled-{n}.json: its first n together
    shards/{shard}/backfills/{time}_{hash}.json      speed of a backfill
    shards/{shard}/staged/g{n}/{hash}.arrow    changes of an ingest under way
    shards/{shard}/consumed/g{n}/{hash}.parquet      ingested source files
    shards/{shard}/suppressed/g{n}/{hash}.arrow      hashes of erased rows, which ingest leaves out
    shards/{shard}/erasures/{id}.json          certificate of an erasure; {id}/{hash}.json its steps

The consensus key of a shard is `shards/{shard}`. Content names make a repeated write harmless:
the same bytes get the same key, and a blob is write-once.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final

from blake3 import blake3

from strata.errors import InvalidRequest
from strata.model.spec import check_name

MAX_KEY_BYTES: Final = 1024  # S3's limit
# A file name has at most 255 bytes, and temporary names need some of them
MAX_SEGMENT_BYTES: Final = 200
SEEN: Final = "seen/"  # folder of the lists of audited pairs, below the verdicts
_HASH_BYTES: Final = 20
_ROOT: Final = "shards"
_SEGMENT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.=@+-]*")
_GENERATION: Final = re.compile(
    r"/(?:parts/[gr]|(?:manifests|pages|unions|blooms|catalogs|consumed|staged|suppressed)/g)(\d+)"
    r"/[^/]+$"
)
_REFERENCE: Final = re.compile(rf"{_ROOT}/[^/]+/parts/r\d+/")
_LEDGER: Final = re.compile(r"(?:n(\d+)_)?(-?\d+)_(-?\d+)_([0-9a-f]+)\.json")


class BlobKind(StrEnum):
    """The kind of a shard's blob; the value is its folder."""

    PART = "parts"
    MANIFEST = "manifests"
    PAGE = "pages"
    UNION = "unions"
    BLOOM = "blooms"
    QUARANTINE = "quarantine"
    VERDICT = "verdicts"
    LEDGER = "ledger"
    USAGE = "usage"
    BACKFILL = "backfills"
    CATALOG = "catalogs"
    CONSUMED = "consumed"
    STAGED = "staged"
    SUPPRESSED = "suppressed"
    ERASURE = "erasures"


_KINDS: Final = frozenset(BlobKind)


@dataclass(frozen=True, slots=True)
class BlobKey:
    """A parsed blob key; `str()` gives the key back."""

    shard: str
    kind: BlobKind
    name: str  # the rest of the key; may contain "/"

    def __str__(self) -> str:
        """Return the key in the blob store."""
        return f"{_ROOT}/{self.shard}/{self.kind}/{self.name}"


def check_key(key: str) -> str:
    """Return `key` if every store can hold it and it cannot lead out of a store's root.

    Raises: InvalidRequest.

    >>> check_key("shards/flights/parts/00ff.parquet")
    'shards/flights/parts/00ff.parquet'
    """
    segments = key.split("/")
    if len(key.encode("utf-8", "replace")) > MAX_KEY_BYTES or not all(
        _SEGMENT.fullmatch(s) and len(s) <= MAX_SEGMENT_BYTES for s in segments
    ):
        raise InvalidRequest(
            "not a usable blob key",
            key=key,
            cure="segments of letters, digits, _ . = @ + -, not starting with a dot, joined by /",
        )
    return key


def check_prefix(prefix: str) -> str:
    """Return `prefix` if some usable key starts with it; the empty prefix names all keys.

    Raises: InvalidRequest.
    """
    if prefix:
        check_key(prefix + ("x" if prefix.endswith("/") else ""))
    return prefix


def check_range(start: int, length: int | None) -> None:
    """Refuse a negative range.

    Raises: InvalidRequest.
    """
    if start < 0 or (length is not None and length < 0):
        raise InvalidRequest("not a byte range", start=start, length=length)


def content_hash(data: bytes) -> str:
    """Return the content hash of bytes: 160 bits of BLAKE3 as 40 hex digits."""
    return content_hash_of([data])


def content_hash_of(pieces: Iterable[bytes]) -> str:
    """Return `content_hash` of bytes that come in pieces."""
    running = ContentHash()
    for piece in pieces:
        running.add(piece)
    return running.so_far()


class ContentHash:
    """The content hash of bytes that come one after the other."""

    def __init__(self) -> None:
        """Begin without bytes."""
        self._hasher = blake3()

    def add(self, piece: bytes) -> None:
        """Add the next bytes."""
        self._hasher.update(piece)

    def so_far(self) -> str:
        """Return the hash of all bytes up to now; more may follow."""
        return self._hasher.hexdigest(length=_HASH_BYTES)


def names_content(key: str, data: bytes) -> bool:
    """Return whether `data` are the bytes that a content-named key was made for.

    Older names are BLAKE2b hashes, which are equally valid.
    """
    name = named_hash(key)
    return name == content_hash(data) or name == blake2b(data, digest_size=_HASH_BYTES).hexdigest()


def named_hash(key: str) -> str:
    """Return the hash that a content-named key ends with; of another key, some text.

    >>> named_hash("shards/flights/ledger/n1_0_9_00ff.json")
    '00ff'
    """
    # The hash may have a prefix: `index-`, or the range of a ledger.
    return re.split("[/_-]", key)[-1].partition(".")[0]


def shard_prefix(shard: str) -> str:
    """Return the prefix of all blob keys of a shard."""
    return f"{_ROOT}/{check_name(shard)}/"


def part_prefix(shard: str, generation: int = 0) -> str:
    """Return the prefix under which a shard's parts are stored; see `part_key`."""
    return f"{shard_prefix(shard)}{BlobKind.PART}/{_folder(generation)}"


def reference_prefix(shard: str, generation: int | None = None) -> str:
    """Return the prefix of a shard's parts that refer to files; None: of any generation."""
    folder = "r" if generation is None else f"r{generation}/"
    return f"{shard_prefix(shard)}{BlobKind.PART}/{folder}"


def is_reference(key: str) -> bool:
    """Return whether a key is that of a part that may refer to a file outside the store.

    >>> is_reference("shards/flights/parts/r12/00ff.parquet")
    True
    """
    return _REFERENCE.match(key) is not None


def generation_of(key: str) -> int:
    """Return the generation that the key of a part or manifest carries; 0 if it carries none.

    >>> generation_of("shards/flights/parts/g12/00ff.parquet")
    12
    """
    match = _GENERATION.search(key)
    return int(match[1]) if match else 0


def _folder(generation: int) -> str:
    return f"g{generation}/" if generation else ""


def part_key(prefix: str, digest: str) -> str:
    """Return the key of the part with this content hash under a `part_prefix`."""
    return check_key(f"{prefix}{digest}.parquet")


def manifest_key(shard: str, digest: str, generation: int = 0) -> str:
    """Return the key of the manifest with this content hash."""
    name = f"{_folder(generation)}{digest}.arrow"
    return check_key(str(BlobKey(check_name(shard), BlobKind.MANIFEST, name)))


def page_key(shard: str, digest: str, generation: int = 0) -> str:
    """Return the key of the page of a manifest, or index of pages, with this content hash."""
    name = f"{_folder(generation)}{digest}.arrow"
    return check_key(str(BlobKey(check_name(shard), BlobKind.PAGE, name)))


def union_key(shard: str, digest: str, generation: int = 0) -> str:
    """Return the key of the union of statistics with this content hash."""
    name = f"{_folder(generation)}{digest}.arrow.zst"
    return check_key(str(BlobKey(check_name(shard), BlobKind.UNION, name)))


def bloom_key_of(prefix: str, digest: str) -> str:
    """Return the key of the bloom filter with this content hash, for a part under a `part_prefix`.

    >>> bloom_key_of(part_prefix("flights", 12), "00ff")
    'shards/flights/blooms/g12/00ff.bloom'
    """
    found = parse_key(f"{prefix}{digest}.bloom")
    return check_key(str(BlobKey(found.shard, BlobKind.BLOOM, found.name)))


def catalog_key(shard: str, digest: str, generation: int = 0) -> str:
    """Return the key of the catalog of collections with this content hash."""
    return check_key(
        str(BlobKey(check_name(shard), BlobKind.CATALOG, f"{_folder(generation)}{digest}.json"))
    )


def consumed_key(shard: str, digest: str, generation: int = 0) -> str:
    """Return the key of the list of source files with this content hash."""
    return check_key(
        str(BlobKey(check_name(shard), BlobKind.CONSUMED, f"{_folder(generation)}{digest}.parquet"))
    )


def staged_key(shard: str, digest: str, generation: int = 0) -> str:
    """Return the key of changes that are in no batch yet."""
    return check_key(
        str(BlobKey(check_name(shard), BlobKind.STAGED, f"{_folder(generation)}{digest}.arrow"))
    )


def suppressed_key(shard: str, digest: str, generation: int = 0) -> str:
    """Return the key of the hashes of erased rows with this content hash."""
    name = f"{_folder(generation)}{digest}.arrow"
    return check_key(str(BlobKey(check_name(shard), BlobKind.SUPPRESSED, name)))


def erasure_key(shard: str, name: str) -> str:
    """Return the key of the certificate of an erasure, or of one of its steps: `ID/HASH`."""
    return check_key(str(BlobKey(check_name(shard), BlobKind.ERASURE, f"{name}.json")))


def erasure_prefix(shard: str) -> str:
    """Return the prefix of the certificates of a shard, and of the steps of its erasures."""
    return f"{shard_prefix(shard)}{BlobKind.ERASURE}/"


def quarantine_key(shard: str, name: str) -> str:
    """Return the key of a file of rejected rows; `name` is usually the commit token."""
    return check_key(str(BlobKey(check_name(shard), BlobKind.QUARANTINE, f"{name}.jsonl")))


def verdict_key(shard: str, name: str) -> str:
    """Return the key of one run's verdict table."""
    return check_key(str(BlobKey(check_name(shard), BlobKind.VERDICT, f"{name}.parquet")))


def seen_key(shard: str, digest: str) -> str:
    """Return the key of the list of audited pairs with this content hash."""
    return check_key(str(BlobKey(check_name(shard), BlobKind.VERDICT, f"{SEEN}{digest}.parquet")))


def check_notes_prefix(shard: str, run: str) -> str:
    """Return the prefix of the notes of one unfinished validation."""
    return check_prefix(f"{shard_prefix(shard)}{BlobKind.VERDICT}/{run}/")


def receipt_prefix(shard: str) -> str:
    """Return the prefix of the receipts of a shard's validations."""
    return f"{shard_prefix(shard)}{BlobKind.VERDICT}/receipts/"


def receipt_key(shard: str, digest: str) -> str:
    """Return the key of the receipt with this content hash."""
    return check_key(f"{receipt_prefix(shard)}{digest}.json.gz")


def usage_prefix(shard: str) -> str:
    """Return the prefix of a shard's log of filters; days follow, in order."""
    return f"{shard_prefix(shard)}{BlobKind.USAGE}/"


def usage_key(shard: str, day: str, name: str) -> str:
    """Return the key of an entry, or of the summary, of one day of the log of filters."""
    return check_key(str(BlobKey(check_name(shard), BlobKind.USAGE, f"{day}/{name}.json")))


def backfill_prefix(shard: str) -> str:
    """Return the prefix of the records of a shard's backfills, which sort oldest first."""
    return f"{shard_prefix(shard)}{BlobKind.BACKFILL}/"


def backfill_key(shard: str, at_ms: int, digest: str) -> str:
    """Return the key of the record of a backfill that ended at this time."""
    return check_key(
        str(BlobKey(check_name(shard), BlobKind.BACKFILL, f"{at_ms:015}_{digest}.json"))
    )


def ledger_key(shard: str, low: int, high: int, digest: str, level: int = 0) -> str:
    """Return the key of spilled commits whose intervals end in [low, high].

    Level 0 holds commits, every other level the keys of the level below it.
    """
    name = f"{f'n{level}_' if level else ''}{_t(low)}_{_t(high)}_{digest}.json"
    return check_key(str(BlobKey(check_name(shard), BlobKind.LEDGER, name)))


def ledger_range(key: str) -> tuple[int, int]:
    """Return the [low, high] of interval ends that a ledger key promises.

    Raises: InvalidRequest for any other key.
    """
    match = _ledger(key)
    return int(match[2]), int(match[3])


def ledger_level(key: str) -> int:
    """Return the level of a ledger key: 0 if it holds commits. Raises: as `ledger_range`."""
    return int(_ledger(key)[1] or 0)


def _ledger(key: str) -> re.Match[str]:
    match = _LEDGER.fullmatch(parse_key(key).name.replace("m", "-"))
    if match is None:
        raise InvalidRequest("not a ledger key", key=key)
    return match


def _t(value: int) -> str:
    # A segment may not start with "-", so "m" stands for minus.
    return str(value).replace("-", "m")


def parse_key(key: str) -> BlobKey:
    """Return the parts of a blob key made by this module.

    Raises: InvalidRequest for any other key.
    """
    root, _, rest = key.partition("/")
    shard, _, rest = rest.partition("/")
    kind, _, name = rest.partition("/")
    if root != _ROOT or kind not in _KINDS or not name:
        raise InvalidRequest("not a blob key of a shard", key=key)
    return BlobKey(check_name(shard), BlobKind(kind), name)


def blob_kind(key: str) -> BlobKind | None:
    """Return the kind of a blob; None for a key that is not ours."""
    try:
        return parse_key(key).kind
    except InvalidRequest:
        return None


def state_key(shard: str) -> str:
    """Return the consensus key of a shard's state."""
    return f"{_ROOT}/{check_name(shard)}"


def parse_state_key(key: str) -> str | None:
    """Return the shard whose state a consensus key holds, or None for other keys."""
    root, _, name = key.partition("/")
    return name if root == _ROOT and name and "/" not in name else None

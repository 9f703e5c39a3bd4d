"""A backup and its points: how they are stored, in a folder or a bucket of their own.

    shards/...                       blobs, under the keys that they have in the store
    backups/{point}/{shard}.json     the state of the shard, as a whole document
    backups/{point}/{shard}.blobs    its blobs, packed: a line with the size and the key of each
    backups/{point}/point.json       written last: only now the point exists; of a shard `point`
                                     the state is point@.json

Blobs never change, so all points share them, and a new point adds only what is new. A point names
the digests of its documents, and most blobs are named by theirs, so nothing damaged is restored.
"""

import gzip
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Final

import orjson

from strata import __version__
from strata.backup.documents import MISSING, wrong_with
from strata.errors import Corrupt, InvalidRequest
from strata.model.near import one_of
from strata.state.codec import decode_state
from strata.state.seal import is_sealed, sealed
from strata.state.state import State
from strata.store.interface import Blob
from strata.store.keys import check_key, content_hash
from strata.store.retry import retry

FOLDER: Final = "backups/"
BEGUN: Final = "begun"  # the mark of a point that is being added
FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class SavedShard:
    """A shard in a point. Units: bytes."""

    name: str
    seqno: int
    upper: int
    blobs: int
    size_bytes: int
    state_digest: str  # content hash of the state's document
    blobs_digest: str  # content hash of the list of blobs


@dataclass(frozen=True, slots=True)
class Point:
    """One point of a backup."""

    name: str
    at_ms: int
    by: str  # the version of Strata that wrote it
    shards: tuple[SavedShard, ...]

    @property
    def names(self) -> list[str]:
        """Return the names of its shards."""
        return [one.name for one in self.shards]

    def shard(self, name: str) -> SavedShard:
        """Return a shard of the point. Raises: InvalidRequest, naming those that there are."""
        found = next((one for one in self.shards if one.name == name), None)
        if found is None:
            cure = one_of(name, (one.name for one in self.shards), none="there is none")
            raise InvalidRequest(
                "this point has no such shard", shard=name, point=self.name, cure=cure
            )
        return found


class Backup:
    """The points in a blob store, which is another one than that of the shards."""

    def __init__(self, blob: Blob) -> None:
        """Use a store; nothing is read yet."""
        self.blob = blob

    def names(self) -> list[str]:
        """Return the names of all points, oldest first."""
        listed = retry(lambda: [info.key for info in self.blob.list(FOLDER)])
        ends = "/point.json"
        return sorted(key[len(FOLDER) : -len(ends)] for key in listed if key.endswith(ends))

    def point(self, name: str = "") -> Point:
        """Return a point, by default the newest.

        Raises: InvalidRequest, naming the last ones, when there is none; Corrupt.
        """
        known = self.names()
        if not known or (name and name not in known):
            raise InvalidRequest(
                "the backup has no such point" if known else "there is no backup here",
                point=name or None,
                cure=f"one of: {', '.join(known[-5:])}" if known else None,
            )
        name = name or known[-1]
        data = self._read(f"{FOLDER}{name}/point.json")
        try:
            if not is_sealed(data, "point"):
                raise Corrupt("it has no digest")
            raw: dict[str, Any] = orjson.loads(data)
            if raw["format"] > FORMAT:
                raise InvalidRequest(
                    "this point was written by a newer version of Strata",
                    point=name,
                    written_by=raw["by"],
                    this=__version__,
                    cure="use that version",
                )
            shards = tuple(SavedShard(**one) for one in raw["shards"])
            return Point(name, raw["at_ms"], raw["by"], shards)
        except (Corrupt, orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise Corrupt(
                "a point of a backup is damaged",
                point=name,
                reason=str(error),
                cure="use another point with --point, and remove this one: strata backups --drop",
            ) from error

    def put_shard(
        self, point: str, state: State, data: bytes, sizes: Mapping[str, int]
    ) -> SavedShard:
        """Store the documents of a shard and return how the point names them.

        `data` is the state's document, `sizes` has the bytes of each of its blobs.
        """
        lines = "".join(f"{size} {key}\n" for key, size in sorted(sizes.items()))
        listed = gzip.compress(lines.encode(), mtime=0)
        for ending, content in (("json", data), ("blobs", listed)):
            retry(partial(self.blob.set, _document(point, state.name, ending), content))
        return SavedShard(
            state.name,
            state.seqno,
            state.upper,
            len(sizes),
            sum(sizes.values()),
            content_hash(data),
            content_hash(listed),
        )

    def only_before(self, point: Point) -> dict[str, str]:
        """Return the shards that a point lacks and earlier ones have, with the newest of those.

        A point may be of some shards only. Damaged points are passed over. Cost: reads each point.
        """
        found: dict[str, str] = {}
        for name in self.names():
            if name < point.name:
                with suppress(Corrupt, InvalidRequest):
                    found |= {saved.name: name for saved in self.point(name).shards}
        return {shard: name for shard, name in found.items() if shard not in point.names}

    def put_point(self, name: str, at_ms: int, shards: Sequence[SavedShard]) -> Point:
        """Make a point whose shards are stored exist."""
        document = {
            "at_ms": at_ms,
            "by": __version__,
            "format": FORMAT,
            "shards": [asdict(one) for one in shards],
        }
        data = sealed(orjson.dumps(document, option=orjson.OPT_SORT_KEYS))
        retry(partial(self.blob.set, f"{FOLDER}{name}/point.json", data))
        return Point(name, at_ms, __version__, tuple(shards))

    def state(self, point: Point, saved: SavedShard) -> State:
        """Return the state of a shard in a point. Raises: Corrupt."""
        state = decode_state(self._checked(point, saved.name, "json", saved.state_digest))
        if (state.name, state.seqno) != (saved.name, saved.seqno):
            raise Corrupt(
                "a state in the backup is of another shard", point=point.name, shard=saved.name
            )
        return state

    def sizes(self, point: Point, saved: SavedShard) -> dict[str, int]:
        """Return the bytes of each blob of a shard in a point, by key. Raises: Corrupt."""
        data = self._checked(point, saved.name, "blobs", saved.blobs_digest)
        lines = gzip.decompress(data).decode().splitlines()
        return {key: int(size) for size, _, key in (line.partition(" ") for line in lines)}

    def _checked(self, point: Point, shard: str, ending: str, digest: str) -> bytes:
        key = _document(point.name, shard, ending)
        data = self._read(key)
        if content_hash(data) != digest:
            raise Corrupt(
                "a document of the backup is damaged",
                key=key,
                cure="use another point; `strata verify --backup` says which are whole",
            )
        return data

    def _read(self, key: str) -> bytes:
        data = retry(partial(self.blob.get, key))
        if data is None:
            raise Corrupt("a document of the backup is missing", key=key, cure="use another point")
        return data


def _document(point: str, shard: str, ending: str) -> str:
    """Return the key of a document of a shard; no shard's name has the mark @.

    >>> _document("p", "s", "json"), _document("p", "point", "json")
    ('backups/p/s.json', 'backups/p/point@.json')
    """
    mark = "@" * (shard == "point")  # point.json is that of the point
    return check_key(f"{FOLDER}{point}/{shard}{mark}.{ending}")


def shards_among(keys: Iterable[str]) -> set[str]:
    """Return the names of the shards that have states among the documents of a point."""
    names = (key.rpartition("/")[2] for key in keys)
    found = {name.removesuffix(".json") for name in names if name.endswith(".json")}
    return {name.removesuffix("@") for name in found - {"point"}}


def checked_blob(blob: Blob, key: str, size: int | None = None) -> tuple[bytes | None, str]:
    """Return the bytes of a blob, and what is wrong with it: "" if nothing.

    `size` is the number of bytes that it should have; None: unknown.
    """
    try:
        data = retry(partial(blob.get, key))
    except Corrupt as error:  # it refers to a file that is gone or has changed
        return None, f"{error.message}: {error.details.get('file', key)}"
    if data is None:
        return None, MISSING
    if size is not None and len(data) != size:
        return data, f"it has {len(data):,} bytes, not {size:,}"
    return data, wrong_with(key, data)


def put_whole(blob: Blob, key: str, data: bytes, *, damaged: bool) -> None:
    """Store a blob whose bytes were compared with its name; `damaged`: in place of other bytes."""
    if damaged:
        retry(partial(blob.delete, key))
    retry(partial(blob.set, key, data))

"""Blobs whose first bytes lie in a file of somebody else, outside the store.

    shards/{shard}/parts/r{n}/{hash}.parquet     strata.reference.1 NEWLINE json NEWLINE tail

Such a blob reads as the bytes of that file with the tail behind them, and its name is the hash of
all these. A file that changed is noticed: its size, and its time or ETag, are looked at each time;
if only the latter differ, its bytes are hashed once. The same key may hold all bytes instead, once
the store has taken them in; then the file is not looked at any more.
"""

import os
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote, urlsplit

import orjson

from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.store.cures import outside_cure
from strata.store.keys import ContentHash, check_range, content_hash_of, is_reference
from strata.store.s3_read import by_url

MARK: Final = b"strata.reference.1\n"
HEAD_BYTES: Final = 64 * 1024  # read first: most references are no longer
STEP_BYTES: Final = 16 << 20  # hashed at a time
KNOWN: Final = 1024  # references that a process remembers
GONE: Final = "bring it back: Delta RESTORE, the bucket's versions, a backup; else adopt --replace"
AWAY: Final = f"mount its disk, or bring the folder back; if its owner removed it: {GONE}"


@dataclass(frozen=True, slots=True)
class OutsideFile:
    """A file of somebody else, as it was when it was looked at."""

    address: str  # file:///folder/name or s3://bucket/key
    size_bytes: int
    version: str  # its time in nanoseconds, or its ETag


@dataclass(frozen=True, slots=True)
class Reference:
    """What a blob consists of."""

    file: OutsideFile
    digest: str  # content hash of the file's bytes
    tail: bytes

    @property
    def size_bytes(self) -> int:
        """Return the size of the blob."""
        return self.file.size_bytes + len(self.tail)

    def encoded(self) -> bytes:
        """Return the bytes that are stored."""
        said = {"file": asdict(self.file), "digest": self.digest}
        return MARK + orjson.dumps(said) + b"\n" + self.tail


def decoded_reference(data: bytes, key: str) -> Reference:
    """Return a stored reference. Raises: Corrupt."""
    try:
        said, _, tail = data.removeprefix(MARK).partition(b"\n")
        found = orjson.loads(said)
        return Reference(OutsideFile(**found["file"]), found["digest"], tail)
    except (ValueError, TypeError, KeyError) as error:
        raise Corrupt("a reference to a file is damaged", key=key) from error


class ReferringBlob(ABC):
    """What stores of blobs share: `get` follows references."""

    _references: "OrderedDict[str, Reference | None]"  # None: all bytes are in the store

    @abstractmethod
    def _stored(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Return stored bytes as they are."""

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """See `Blob.get`.

        Raises also: Corrupt when a referred file is gone or changed.
        """
        if not is_reference(key):
            return self._stored(key, start, length)
        check_range(start, length)
        found = self._known(key)
        if found is None:
            return self._stored(key, start, length)
        try:
            return _read(found, key, start, length)
        except Corrupt:
            self._references.pop(key, None)
            if self._known(key) is not None:
                raise
            return self._stored(key, start, length)  # meanwhile the store has taken its bytes in

    def referred(self, key: str) -> Reference | None:
        """Return what a blob refers to; None if the store has all its bytes, or no such blob."""
        self._references.pop(key, None)
        return self._known(key)

    def _known(self, key: str) -> Reference | None:
        with suppress(KeyError):
            return self._references[key]
        data = self._stored(key, 0, HEAD_BYTES)
        if data is not None and len(data) == HEAD_BYTES and data.startswith(MARK):
            data = self._stored(key)
        if data is None:
            return None
        found = decoded_reference(data, key) if data.startswith(MARK) else None
        self._references[key] = found
        with suppress(KeyError):  # other threads forget, too
            while len(self._references) > KNOWN:
                self._references.popitem(last=False)
        return found


def _read(reference: Reference, key: str, start: int, length: int | None) -> bytes:
    size = reference.file.size_bytes
    end = reference.size_bytes if length is None else min(start + length, reference.size_bytes)
    data = b""
    if start < min(end, size):
        data = read_outside(reference.file, start, min(end, size) - start, reference.digest, key)
    return data + reference.tail[max(0, start - size) : max(0, end - size)]


def outside_address(path: str) -> str:
    """Return the address of a file by its path or address, in the form that references have.

    >>> outside_address("/lake/a=b c/1.parquet"), outside_address("s3a://lake/x.parquet")
    ('file:///lake/a%3Db%20c/1.parquet', 's3://lake/x.parquet')
    """
    if path.startswith("/"):
        return f"file://{quote(path)}"
    if path.startswith("file:"):
        return f"file://{quote(unquote(urlsplit(path).path))}"
    scheme, found, rest = path.partition("://")
    if not found or scheme not in {"s3", "s3a", "s3n"}:
        return path
    bucket, _, key = rest.partition("/")
    return f"s3://{bucket}/{quote(key)}"


def look_outside(address: str) -> OutsideFile:
    """Return a file as it is now.

    Raises: InvalidRequest if it is missing or cannot be referred to; Unavailable.
    """
    if not address.startswith(("file:///", "s3://")):
        raise InvalidRequest("such files cannot be referred to", file=address)
    if address.startswith("file:"):
        try:
            found = os.stat(_path(address))
        except OSError as error:
            raise _failed(address, error) from error
        return OutsideFile(address, found.st_size, str(found.st_mtime_ns))
    bucket, key = by_url(address)
    listed = bucket.at(key)
    if listed is None:
        raise InvalidRequest("a file is missing", file=address)
    return OutsideFile(bucket.url(key), listed.size_bytes, listed.version)


def read_outside(
    file: OutsideFile, start: int, length: int, digest: str = "", key: str = ""
) -> bytes:
    """Return a range of a file of somebody else.

    `digest`: of the bytes that it had, for a file that has them under another version. `key` names
    the part in errors.
    Raises: Corrupt if it is gone or has changed; Unavailable, also if its whole folder is away.
    """
    read = _read_local if file.address.startswith("file:") else _read_s3
    data, now = read(file, start, length)
    if now == file.size_bytes and digest:
        there = look_outside(file.address)
        if _hash_of(there) == digest:
            data, now = read(there, start, length)
    if now is not None or len(data) != length:
        raise Corrupt(
            "a file that a part refers to was changed or removed by its owner",
            file=file.address,
            part=key or None,
            recorded_bytes=file.size_bytes,
            cure=GONE,
        )
    return data


@lru_cache(maxsize=KNOWN)
def _hash_of(file: OutsideFile) -> str:
    """Return the content hash of a file; a version of it has the same for ever."""
    return content_hash_of(_steps(file))


def refer_to(file: OutsideFile, tail: bytes) -> tuple[Reference, str]:
    """Return a reference to a file with a tail behind it, and the content hash of both together.

    Raises: Corrupt if the file changes meanwhile; Unavailable. Cost: reads the file once.
    """
    running = ContentHash()
    for piece in _steps(file):
        running.add(piece)
    digest = running.so_far()
    running.add(tail)
    return Reference(file, digest, tail), running.so_far()


def _steps(file: OutsideFile) -> Iterator[bytes]:
    for at in range(0, file.size_bytes, STEP_BYTES):
        yield read_outside(file, at, min(STEP_BYTES, file.size_bytes - at))


def _read_local(file: OutsideFile, start: int, length: int) -> tuple[bytes, int | None]:
    """Return bytes; and None, or the size of a file that has another size or time, -1 if gone."""
    try:
        with open(_path(file.address), "rb") as opened:
            found = os.fstat(opened.fileno())
            if found.st_size != file.size_bytes or file.version != str(found.st_mtime_ns):
                return b"", found.st_size
            opened.seek(start)
            return opened.read(length), None
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        _check_mounted(file.address)
        return b"", -1
    except OSError as error:
        raise _failed(file.address, error) from error


def _check_mounted(address: str) -> None:
    """Refuse to call a file lost whose whole table is away. Raises: Unavailable.

    The table's folder is the nearest one that names no partition (`day=2024-01-01`).
    """
    folder = next(one for one in Path(_path(address)).parents if "=" not in one.name)
    if folder.exists():
        return
    raise Unavailable(
        "the folder of files that parts refer to is not there",
        certain=True,
        path=str(folder),
        file=address,
        cure=AWAY,
    )


def _read_s3(file: OutsideFile, start: int, length: int) -> tuple[bytes, int | None]:
    """See `_read_local`."""
    bucket, key = by_url(file.address)
    data = bucket.range_of(key, start, length, file.version)
    if data is not None:
        return data, None
    found = bucket.at(key)
    return b"", -1 if found is None else found.size_bytes


def _path(address: str) -> str:
    return unquote(urlsplit(address).path)


def _failed(address: str, error: OSError) -> Unavailable | InvalidRequest:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return InvalidRequest("a file is missing", file=address)
    return Unavailable(
        f"a file outside the store cannot be read: {os.strerror(error.errno or 0)}",
        certain=True,
        file=address,
        cure=outside_cure(error),
    )

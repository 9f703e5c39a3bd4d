"""List the objects of a foreign bucket, and read them as seekable files.

Nothing is written here. An object is read as it was listed (`If-Match` with its ETag): if it is
replaced meanwhile, that is an error, never a mixture.
"""

import io
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final
from urllib.parse import parse_qsl, quote, unquote, urlencode

from strata.errors import Unavailable
from strata.store.retry import Patience
from strata.store.s3_client import (
    BEYOND,
    MISSING,
    S3Address,
    boto_errors,
    client_error,
    client_of,
    outside,
    piece_of,
    refusal_code,
    said,
)

AHEAD_BYTES: Final = 8 << 20  # of one request, unless more is requested at once
SECOND: Final = 1_000_000_000
PATIENCE: Final = Patience(attempts=4, first_ms=100)  # with replies that end early
# Some servers look at the range first, or at nothing else: the object is shorter than it was.
CHANGED: Final = frozenset({"PreconditionFailed", "412"}) | BEYOND


@dataclass(frozen=True, slots=True)
class ListedObject:
    """One object as the server lists it."""

    key: str  # below the prefix of the address
    size_bytes: int
    changed_ns: int  # to the second; the milliseconds are made from the version
    version: str  # its ETag


@dataclass(frozen=True, slots=True)
class Bucket:
    """A prefix of a bucket, for reading."""

    address: S3Address

    @classmethod
    def parse(cls, url: str) -> "Bucket":
        """Return the bucket at `s3://bucket/prefix?endpoint=…&region=…`. Raises: InvalidRequest."""
        return cls(S3Address.parse(url))

    def other(self, bucket: str) -> "Bucket":
        """Return another whole bucket of the same server."""
        return Bucket(replace(self.address, bucket=bucket, prefix=""))

    def below(self, prefix: str) -> Iterator[ListedObject]:
        """Yield the objects whose key begins with `prefix`, in the order of their keys.

        Raises: Unavailable. Cost: a request for each thousand.
        """
        with outside(self.address, prefix):
            for item in client_of(self.address).listed(self.address.prefix + prefix):
                key = item["Key"].removeprefix(self.address.prefix)
                yield _found(key, item["Size"], item["LastModified"], item["ETag"])

    def at(self, key: str) -> ListedObject | None:
        """Return one object as the server describes it; None if it is missing.

        Raises: Unavailable.
        """
        with outside(self.address, key):
            try:
                reply = client_of(self.address).ask("head_object", Key=self.address.prefix + key)
            except client_error() as error:
                if refusal_code(error) in MISSING:
                    return None
                raise
            size, modified = said(reply, "ContentLength"), said(reply, "LastModified")
            return _found(key, size, modified, said(reply, "ETag"))

    def range_of(self, key: str, start: int, length: int, version: str = "") -> bytes | None:
        """Return a range of an object, as far as it goes; None if this version of it is gone.

        Raises: Unavailable.
        """
        if not length:
            return b""
        span = f"bytes={start}-{start + length - 1}"
        how = {"IfMatch": version} if version else {}
        with outside(self.address, key):
            try:
                where = self.address.prefix + key
                reply = client_of(self.address).ask("get_object", Key=where, Range=span, **how)
                return piece_of(reply, start, length)[0]
            except client_error() as error:
                if refusal_code(error) in CHANGED | MISSING:
                    return None
                raise

    def url(self, key: str) -> str:
        """Return the address of one object, from which `by_url` finds it again anywhere."""
        options = {"endpoint": self.address.endpoint, "region": self.address.region}
        asked = urlencode({name: value for name, value in options.items() if value})
        path = quote(self.address.prefix + key)
        return f"s3://{self.address.bucket}/{path}" + (f"?{asked}" if asked else "")


def by_url(url: str) -> tuple[Bucket, str]:
    """Return the bucket and the key of an object's address."""
    path, _, asked = url.removeprefix("s3://").partition("?")
    bucket, _, key = path.partition("/")
    options = dict(parse_qsl(asked))
    address = S3Address(bucket, "", options.get("endpoint"), options.get("region"))
    return Bucket(address), unquote(key)


def _found(key: str, size_bytes: int, modified: Any, version: str) -> ListedObject:
    # Servers keep seconds: the version reveals an object that is replaced within one.
    digest = int.from_bytes(blake2b(version.encode(), digest_size=8).digest(), "big")
    seconds = int(modified.timestamp())
    return ListedObject(key, size_bytes, seconds * SECOND + digest % SECOND, version)


class ObjectStream(io.RawIOBase):
    """An object as a readable file that fetches AHEAD_BYTES ahead of each request."""

    def __init__(self, url: str, size_bytes: int, version: str) -> None:
        """Nothing is asked of the server yet."""
        super().__init__()
        bucket, self._key = by_url(url)
        self._address = bucket.address
        self._size, self._version = size_bytes, version
        self._position = self._start = 0
        self._held = b""

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the position of the next byte."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position relative to the beginning, the current position or the end."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def read(self, size: int = -1, /) -> bytes:
        """Return the requested number of next bytes, or as many as remain.

        Raises: Unavailable, also when the object has been replaced since it was listed.
        """
        left = max(0, self._size - self._position)
        wanted = left if size < 0 else min(size, left)
        start = self._position - self._start
        if not 0 <= start <= len(self._held) or start + wanted > len(self._held):
            self._fetch(max(wanted, min(AHEAD_BYTES, left)))
            start = 0
        self._position += wanted
        return self._held[start : start + wanted]

    def readinto(self, buffer: Any, /) -> int:
        """Fill a buffer as far as bytes remain."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _fetch(self, length: int) -> None:
        if not length:
            self._start, self._held = self._position, b""
            return
        span = f"bytes={self._position}-{self._position + length - 1}"
        how = {"IfMatch": self._version} if self._version else {}
        with outside(self._address, self._key):
            try:
                self._held = self._body(length, Range=span, **how)
            except client_error() as error:
                if refusal_code(error) in CHANGED | MISSING:
                    raise _changed(self._key) from error
                raise
        self._start = self._position
        if len(self._held) < length:
            raise _changed(self._key)

    def _body(self, length: int, **how: str) -> bytes:
        """Return the bytes of a range, asked for again while a reply ends early.

        boto3 itself asks again only until a reply begins.
        """
        early: tuple[type[Exception], ...] = (Unavailable, *boto_errors())
        for attempt in range(PATIENCE.attempts - 1):
            reply = self._reply(how)
            try:
                return piece_of(reply, self._position, length)[0]
            except early:
                time.sleep(PATIENCE.pause_s(attempt))
        return piece_of(self._reply(how), self._position, length)[0]

    def _reply(self, how: dict[str, str]) -> Any:
        key = self._address.prefix + self._key
        return client_of(self._address).ask("get_object", Key=key, **how)


def _changed(key: str) -> Unavailable:
    return Unavailable(
        "a source file changed while it was read, nothing was committed",
        certain=True,
        file=key,
        cure="run again when it is whole; write objects once",
    )

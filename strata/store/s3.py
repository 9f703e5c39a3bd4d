"""Blob on S3, or on a server that speaks its protocol.

    s3://bucket/prefix[?endpoint=http://127.0.0.1:8333&region=eu-central-1&parallel=8]

    prefix/shards/flights/parts/00ff.parquet     live blobs, at their key
    prefix/.deleted/shards/...                   deleted, can be restored until purged

The server guarantees write-once by the header `If-None-Match: *` on PUT and on the completion of a
multipart upload. A writer that gets 412 (the object exists) compares the bytes, so a repetition
after a lost reply succeeds and other bytes are refused. Bodies carry checksums both ways.

An object cannot be moved: `delete` copies it aside and then removes it, so that at every moment one
of the two exists.
"""

import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from strata.errors import InvalidRequest, Unavailable
from strata.store import bill
from strata.store.draft import ABANDONED_MS
from strata.store.interface import BlobInfo
from strata.store.keys import check_key, check_prefix, check_range, content_hash
from strata.store.named import other_bytes
from strata.store.reference import ReferringBlob
from strata.store.retry import Patience
from strata.store.s3_client import (
    BEYOND,
    CONFLICT,
    LISTED,
    MISSING,
    THERE,
    TOKEN,
    S3Address,
    S3Client,
    body_of,
    boto_errors,
    client_error,
    has_next_page,
    outside,
    piece_of,
    refusal_code,
    said,
)

T = TypeVar("T")

ASIDE: Final = ".deleted/"
PIECE: Final = 16 * 1024 * 1024  # bytes of a ranged read or of a part of an upload
SINGLE: Final = 64 * 1024 * 1024  # most bytes written in one request
PAGE: Final = 1_000  # keys in one listing, and in one DeleteObjects
_CONFLICTS: Final = Patience(attempts=8, first_ms=50, ceiling_ms=3_000)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class S3Blob(ReferringBlob):
    """Write-once bytes as objects below a prefix of a bucket. Safe to share between threads."""

    def __init__(self, address: S3Address) -> None:
        """Keep the address; nothing is requested yet."""
        self.address = address
        # The bill: requests by operation, bytes_in, bytes_out
        self.requests: Counter[str] = Counter()
        self.client = S3Client(address)
        self._references = OrderedDict()
        self._lock = threading.Lock()

    def _stored(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        """Return stored bytes. Long ranges come in pieces, several at once."""
        check_range(start, length)
        name = self._live(key)
        if length == 0:
            return None if self._size(name) is None else b""
        first = PIECE if length is None else min(length, PIECE)
        with outside(self.address, key):
            try:
                reply = self._call("get_object", Key=name, Range=_span(start, first))
                data, whole = self._piece(reply, start, first)
            except client_error() as error:
                if refusal_code(error) in MISSING:
                    return None
                if refusal_code(error) in BEYOND:  # the blob exists and ends before `start`
                    return b""
                raise
            end = whole if length is None else min(whole, start + length)
            if start + len(data) >= end:
                return data
            return b"".join([data, *self._rest(name, said(reply, "ETag"), start + len(data), end)])

    def set(self, key: str, data: bytes) -> None:
        """See `Blob.set`."""
        name = self._live(key)
        with outside(self.address, key, certain=False):
            there = not self._settled(lambda: self._write(name, data))
        if there:
            self._check_same(key, name, data)

    def overwrite(self, key: str, data: bytes) -> None:
        """See `Overwriting.overwrite`."""
        name = self._live(key)
        with outside(self.address, key, certain=False):
            self._call("put_object", Key=name, Body=data)

    def list(self, prefix: str) -> Iterator[BlobInfo]:
        """See `Blob.list`."""
        check_prefix(prefix)
        with outside(self.address, prefix):
            for info in self._list(self.address.prefix + prefix):
                key = info.key.removeprefix(self.address.prefix)
                if not key.startswith(ASIDE) and not key.endswith("/"):  # "a/": an empty folder
                    yield BlobInfo(key, info.size_bytes, info.modified_ms)

    def delete(self, key: str) -> int | None:
        """See `Blob.delete`. The bytes are copied aside until `purge`."""
        name = self._live(key)
        with outside(self.address, key, certain=False):
            size = self._size(name)
            if size is None:
                return None
            try:
                self._copy(name, self._aside(key))
            except client_error() as error:
                if refusal_code(error) in MISSING:  # another process was faster
                    return None
                raise
            self._call("delete_object", Key=name)
        return size

    def restore(self, key: str) -> None:
        """See `Blob.restore`."""
        name = self._live(key)
        with outside(self.address, key, certain=False):
            if self._size(name) is not None:
                return
            data = self._whole(self._aside(key))
            if data is None:
                if self._size(name) is not None:
                    return
                raise InvalidRequest("nothing is left to restore", key=key)
            self._settled(lambda: self._write(name, data))  # if it exists again meanwhile, it stays
            self._call("delete_object", Key=self._aside(key))

    def purge(self, before_ms: int) -> int:
        """Remove blobs deleted before `before_ms` permanently; return the freed bytes.

        Also removes uploads that were begun at least a day ago and never completed. A younger one
        may be what another process writes, so `before_ms` says nothing about it.
        """
        freed, names = 0, []
        with outside(self.address, ASIDE, certain=False):
            for info in self._list(self.address.prefix + ASIDE):
                if info.modified_ms < before_ms:
                    names.append(info.key)
                    freed += info.size_bytes
            for at in range(0, len(names), PAGE):
                self._delete_batch(names[at : at + PAGE])
            self._abort_uploads(time.time_ns() // 1_000_000 - ABANDONED_MS)
        return freed

    def expunge(self, key: str) -> int:
        """See `Expunging.expunge`. A bucket that keeps versions keeps these bytes."""
        name = self._aside(key)
        with outside(self.address, key, certain=False):
            size = self._size(name)
            if size is not None:
                self._call("delete_object", Key=name)
        return size or 0

    def set_aside(self, prefix: str) -> Iterator[BlobInfo]:
        """See `Expunging.set_aside`."""
        check_prefix(prefix)
        start = self.address.prefix + ASIDE
        with outside(self.address, prefix):
            for info in self._list(start + prefix):
                key = info.key.removeprefix(start)
                if not key.endswith("/"):  # as in `list`
                    yield BlobInfo(key, info.size_bytes, info.modified_ms)

    def keeps_versions(self) -> bool:
        """Return whether the bucket keeps old versions of objects, or does not say."""
        try:
            with outside(self.address, "versioning"):
                return bool(self._call("get_bucket_versioning").get("Status"))
        except Unavailable:
            return True

    # ------------------------------------------------------------------ inside

    def _live(self, key: str) -> str:
        return self.address.prefix + check_key(key)

    def _aside(self, key: str) -> str:
        return self.address.prefix + ASIDE + check_key(key)

    def _call(self, operation: str, **arguments: Any) -> Any:
        self._count(operation, 1)
        return self.client.ask(operation, **arguments)

    def _count(self, what: str, number: int) -> None:
        with self._lock:
            self.requests[what] += number
        bill.charge({what: number})

    def _body(self, reply: Any) -> bytes:
        data = body_of(reply)
        self._count("bytes_in", len(data))
        return data

    def _piece(self, reply: Any, start: int, length: int) -> tuple[bytes, int]:
        data, size = piece_of(reply, start, length)
        self._count("bytes_in", len(data))
        return data, size

    def _rest(self, name: str, etag: str, start: int, end: int) -> Sequence[bytes]:
        """Return bytes [start, end) of the object with this tag, read in pieces."""

        def piece(at: int) -> bytes:
            length = min(PIECE, end - at)
            span = _span(at, length)
            reply = self._call("get_object", Key=name, Range=span, IfMatch=etag)
            return self._piece(reply, at, length)[0]

        return self._together(piece, range(start, end, PIECE))

    def _together(self, work: Callable[[int], T], numbers: Sequence[int]) -> Sequence[T]:
        """Return `work` of each number, `parallel` at a time; the first error ends the work."""
        with ThreadPoolExecutor(min(self.address.parallel, len(numbers))) as pool:
            futures = [pool.submit(work, number) for number in numbers]
            try:
                return [future.result() for future in futures]
            finally:
                for future in futures:
                    future.cancel()

    def _write(self, name: str, data: bytes) -> bool:
        """Store data under a free name; False if the name is taken."""
        try:
            if len(data) <= SINGLE:
                self._call("put_object", Key=name, Body=data, IfNoneMatch="*")
                self._count("bytes_out", len(data))
            else:
                self._upload(name, data)
        except client_error() as error:
            if refusal_code(error) in THERE:
                return False
            raise
        return True

    def _upload(self, name: str, data: bytes) -> None:
        """Store data in parts, which become visible together at the end."""
        upload = self._call("create_multipart_upload", Key=name, ChecksumAlgorithm="CRC32")
        which = {"Key": name, "UploadId": said(upload, "UploadId")}
        view = memoryview(data)

        def part(number: int) -> dict[str, Any]:
            body = bytes(view[(number - 1) * PIECE : number * PIECE])
            reply = self._call(
                "upload_part", **which, PartNumber=number, Body=body, ChecksumAlgorithm="CRC32"
            )
            self._count("bytes_out", len(body))
            tags = {k: reply[k] for k in ("ETag", "ChecksumCRC32") if k in reply}
            return {"PartNumber": number, **tags}

        try:
            count = -(-len(data) // PIECE)
            parts = self._together(part, range(1, count + 1))
            self._call(
                "complete_multipart_upload",
                **which,
                IfNoneMatch="*",
                MultipartUpload={"Parts": parts},
            )
        except BaseException:
            self._abort(which)
            raise

    def _abort(self, which: dict[str, str]) -> None:
        """Abort an upload; if that fails now, `purge` removes it later."""
        with suppress(client_error(), *boto_errors()):
            self._call("abort_multipart_upload", **which)

    def _settled(self, write: Callable[[], bool]) -> bool:
        """Return `write()`, retried after a conflict (409): writers met, with unknown outcome."""
        for attempt in range(_CONFLICTS.attempts - 1):
            try:
                return write()
            except client_error() as error:
                if refusal_code(error) not in CONFLICT:
                    raise
            time.sleep(_CONFLICTS.pause_s(attempt))
        return write()

    def _check_same(self, key: str, name: str, data: bytes) -> None:
        with outside(self.address, key):
            size = self._size(name)
            found = self._whole(name) if size == len(data) else b""
        if size is None or found is None:
            raise Unavailable(
                "the blob vanished while it was written", certain=True, key=key, cure="try again"
            )
        if size != len(data) or found != data:
            raise other_bytes(key, content_hash(data), key=key)

    def _whole(self, name: str) -> bytes | None:
        key = name.removeprefix(self.address.prefix)
        if not key.startswith(ASIDE):
            return self.get(key)
        try:
            return self._body(self._call("get_object", Key=name))
        except client_error() as error:
            if refusal_code(error) in MISSING:
                return None
            raise

    def _size(self, name: str) -> int | None:
        try:
            return int(said(self._call("head_object", Key=name), "ContentLength"))
        except client_error() as error:
            if refusal_code(error) in MISSING:
                return None
            raise

    def _copy(self, source: str, target: str) -> None:
        where = {"Bucket": self.address.bucket, "Key": source}
        self._call("copy_object", Key=target, CopySource=where)

    def _delete_batch(self, names: Sequence[str]) -> None:
        wanted = {"Objects": [{"Key": name} for name in names], "Quiet": True}
        failed = self._call("delete_objects", Delete=wanted).get("Errors", [])
        if failed:
            raise Unavailable(
                "the server did not remove some objects",
                certain=False,
                count=len(failed),
                first=failed[0].get("Key"),
                reason=failed[0].get("Code"),
            )

    def _abort_uploads(self, before_ms: int) -> None:
        before = _EPOCH + timedelta(milliseconds=before_ms)
        arguments: dict[str, Any] = {"Prefix": self.address.prefix}
        markers = {name: f"Next{name}" for name in ("KeyMarker", "UploadIdMarker")}
        more = True
        while more:
            page = self._call("list_multipart_uploads", **arguments)
            for upload in page.get("Uploads", []):
                if upload["Initiated"] < before:
                    self._abort({"Key": upload["Key"], "UploadId": upload["UploadId"]})
            more = has_next_page(page, arguments, **markers)

    def _list(self, name: str) -> Iterator[BlobInfo]:
        """Yield the objects whose names have a prefix, in key order.

        AWS guarantees that order. Other servers list folder by folder ("a/b" before "a-b/c"), so
        each folder is sorted here. Our folders are few and flat, so this takes no more requests.
        """
        if self.address.endpoint is None:
            for page in self._pages(name):
                yield from map(_info, page.get("Contents", []))
            return
        found: dict[str, BlobInfo | None] = {}
        for page in self._pages(name, Delimiter="/"):
            found |= {one["Prefix"]: None for one in page.get("CommonPrefixes", [])}
            found |= {one["Key"]: _info(one) for one in page.get("Contents", [])}
        for key, info in sorted(found.items()):
            if info is not None:
                yield info
            else:
                yield from self._list(key)

    def _pages(self, name: str, **arguments: Any) -> Iterator[Any]:
        arguments |= {"Prefix": name, "MaxKeys": PAGE}
        more = True
        while more:
            page = self._call("list_objects_v2", **arguments)
            said(page, LISTED)
            yield page
            more = has_next_page(page, arguments, **TOKEN)


def _info(found: Any) -> BlobInfo:
    modified_ms = (found["LastModified"] - _EPOCH) // timedelta(milliseconds=1)
    return BlobInfo(found["Key"], int(found["Size"]), modified_ms)


def _span(start: int, length: int) -> str:
    return f"bytes={start}-{start + length - 1}"

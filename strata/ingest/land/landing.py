"""The places of source files, a folder or a bucket's prefix: lists them and opens their files.

Files and folders whose name begins with `_` or `.` are markers of other tools and are skipped, and
so are the objects without bytes that stand for folders on S3 (`a/`, `a_$folder$`).
`strata.ingest.land.folder` walks local folders.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from strata.errors import InvalidRequest, Unavailable
from strata.ingest.land.folder import (
    HIDDEN,
    Folder,
    Straight,
    check_file_name,
    file_gone,
    local_bytes,
    open_local,
    seen_local,
)
from strata.ingest.land.source_file import SourceFile
from strata.store.s3_read import Bucket, ListedObject, ObjectStream, by_url

S3: Final = "s3://"
FOLDER: Final = "_$folder$"  # ends the key of an object without bytes, beside those of the folder

Below = Iterator[tuple[str, SourceFile]]  # the path below what was asked for, and the file


class Landing(Protocol):
    """A place that relative paths start from."""

    def below(self, path: str) -> Below | None:
        """Return the file at a path, or the files below it; None: the path does not exist."""


def landing(root: str, path: str = "", *, follow_links: bool = False) -> tuple[Landing, str]:
    """Return the place that a path starts from, and the path from there.

    `root`: `/folder`, `file:///folder` or `s3://bucket/prefix?endpoint=…&region=…`. A path may be
    an address on S3 itself (`s3://bucket/key`), on the root's server if that is on S3.
    `follow_links`: links may lead out of a local root.
    Raises: InvalidRequest for any other address.
    """
    known = Bucket.parse(root) if root.startswith(S3) else None
    if path.startswith(S3):
        bucket, _, key = path.removeprefix(S3).partition("/")
        if known is not None:
            address = known.address
            if bucket == address.bucket and key.startswith(address.prefix):
                return _Prefix(known), key.removeprefix(address.prefix)
            known = known.other(bucket)
        return _Prefix(known or Bucket.parse(f"{S3}{bucket}"), f"{S3}{bucket}/"), key
    if known is not None:
        return _Prefix(known), path
    return Folder(local_root(root), follow_links=follow_links), path


def local_root(root: str) -> Path:
    """Return the folder that a root is, without links. Raises: InvalidRequest for an address."""
    scheme, has_scheme, rest = root.partition("://")
    if has_scheme and scheme != "file":
        raise InvalidRequest(
            "no landing root has such an address",
            root=root,
            cure="file:///folder, /folder or s3://bucket/prefix",
        )
    return Path(rest if has_scheme else root).expanduser().resolve()


class _Prefix:
    """A prefix of a bucket."""

    def __init__(self, bucket: Bucket, shown: str = "") -> None:
        self._bucket = bucket
        self._shown = shown  # before the key, in the names of files

    def below(self, path: str) -> Below | None:
        """See `Landing`. A prefix without objects is empty: buckets have no folders."""
        key = path.strip("/")
        if key and not path.endswith("/"):
            found = self._bucket.at(key)
            if found is not None and not self._is_folder(found):
                check_file_name(found.key)
                return iter([(key.rsplit("/", 1)[-1], self._file(found))])
        return self._walk(f"{key}/" if key else "")

    def _walk(self, prefix: str) -> Below:
        for found in self._bucket.below(prefix):
            names = found.key.removeprefix(prefix).split("/")
            if names[-1] and not (_marks_folder(found) or any(map(_is_hidden, names))):
                check_file_name(found.key)
                # A key may have two slashes in a row, which say nothing; one at its end is a mark.
                yield "/".join(filter(None, names)), self._file(found)

    def _is_folder(self, found: ListedObject) -> bool:
        """Return whether an object without bytes stands for the objects below it."""
        below = () if found.size_bytes else self._bucket.below(f"{found.key}/")
        return next(iter(below), None) is not None

    def _file(self, found: ListedObject) -> SourceFile:
        return SourceFile(
            self._bucket.url(found.key),
            f"{self._shown}{found.key}",
            found.size_bytes,
            changed_ns=found.changed_ns,
            version=found.version,
        )


def _is_hidden(name: str) -> bool:
    return name.startswith(tuple(HIDDEN))


def _marks_folder(found: ListedObject) -> bool:
    """Return whether an object is the mark of a folder by Hadoop or EMR."""
    return not found.size_bytes and found.key.endswith(FOLDER)


def open_file(file: SourceFile) -> pa.NativeFile:
    """Return the file's stored bytes as a stream that can seek.

    Raises: InvalidRequest when it cannot be opened, or its path leads elsewhere than when it was
    found; Unavailable, also while it is read, when it is gone, the disk fails, or a server does not
    answer or has another object than the one that was found.
    """
    if file.path.startswith(S3):
        stream = ObjectStream(file.path, file.size_bytes, file.version)
        return pa.PythonFile(stream, mode="r")
    return open_local(file)


def stored_bytes(file: SourceFile) -> bytes:
    """Return all of a file's stored bytes, which should be few; of one that has grown, not all.

    Raises: as `open_file`.
    """
    if not file.path.startswith(S3):
        return local_bytes(file)
    with open_file(file) as stream:
        data: bytes = stream.read()
    return data


def check_unchanged(file: SourceFile, straight: Straight | None = None) -> None:
    """Refuse a file that changed since it was found: somebody is still writing it.

    `straight`: what is known of the folders of files that are looked at one after another.
    Raises: Unavailable, so that callers retry; InvalidRequest if its path leads elsewhere.
    """
    if not file.changed_ns:
        return
    seen = _seen(file, straight or Straight())
    if seen != (file.size_bytes, file.changed_ns):
        raise Unavailable(
            "a source file changed while it was read, nothing was committed",
            certain=True,
            file=file.name,
            size_bytes=file.size_bytes,
            size_now=seen[0],
            cure="run again when it is whole; put files down under a name that begins with _",
        )


@contextmanager
def unless_changed(files: Sequence[SourceFile]) -> Iterator[None]:
    """Look at a file again that was refused: half of a file is no file of its format.

    Raises: as `check_unchanged`, if somebody was still writing it; else the refusal.
    """
    try:
        yield
    except InvalidRequest as error:
        refused = error.details.get("file")
        for file in files:
            if file.name == refused:
                check_unchanged(file)
        raise


def _seen(file: SourceFile, straight: Straight) -> tuple[int, int]:
    if not file.path.startswith(S3):
        return seen_local(file, straight)
    bucket, key = by_url(file.path)
    found = bucket.at(key)
    if found is None:
        raise file_gone(file.name)
    return found.size_bytes, found.changed_ns

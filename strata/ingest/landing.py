"""Where source files lie: a folder, or a prefix of a bucket. What is there, and its bytes.

Names that begin with `_` or `.` are markers of other tools and are passed over, and so are folders
called so.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from strata.errors import InvalidRequest, Unavailable
from strata.ingest.source_file import SourceFile
from strata.store.s3_read import Bucket, Found, ObjectStream, by_url

HIDDEN: Final = "._"
S3: Final = "s3://"

Below = Iterator[tuple[str, SourceFile]]  # the path below what was asked for, and the file


class Landing(Protocol):
    """A place that relative paths start from."""

    def below(self, path: str) -> Below | None:
        """Return the file at a path, or those below it; None: there is nothing."""


def landing(root: str, path: str = "") -> tuple[Landing, str]:
    """Return the place that a path starts from, and the path from there.

    `root`: `/folder`, `file:///folder` or `s3://bucket/prefix?endpoint=…&region=…`. A path may be
    an address on S3 itself (`s3://bucket/key`), on the root's server if that is on S3.
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
    return (_Folder(_local(root)) if known is None else _Prefix(known)), path


def _local(root: str) -> Path:
    scheme, has_scheme, rest = root.partition("://")
    if has_scheme and scheme != "file":
        raise InvalidRequest(
            "no landing root has such an address",
            root=root, cure="file:///folder, /folder or s3://bucket/prefix",
        )  # fmt: skip
    return Path(rest if has_scheme else root).expanduser().resolve()


class _Folder:
    """A local folder."""

    def __init__(self, base: Path) -> None:
        self._base = base
        self._root = f"{base}{os.sep}"

    def below(self, path: str) -> Below | None:
        """See `Landing`."""
        start = self._base / path
        if start.is_file():
            return iter([(start.name, self._linked(str(start)))])
        return self._walk(os.path.realpath(start)) if start.is_dir() else None

    def _walk(self, start: str) -> Below:
        waiting = [(start, "")]
        while waiting:
            folder, relative = waiting.pop()
            with os.scandir(folder) as entries:
                for entry in entries:
                    if entry.name[0] in HIDDEN:
                        continue
                    if entry.is_dir():
                        if not entry.is_symlink():
                            waiting.append((entry.path, f"{relative}{entry.name}/"))
                    elif entry.is_symlink():
                        yield f"{relative}{entry.name}", self._linked(entry.path)
                    else:  # the folder's path is a true one, so the file's is
                        file = self._file(entry.path, entry.stat(follow_symlinks=False))
                        yield f"{relative}{entry.name}", file

    def _linked(self, path: str) -> SourceFile:
        absolute = os.path.realpath(path)
        return self._file(absolute, os.stat(absolute))

    def _file(self, path: str, seen: os.stat_result) -> SourceFile:
        name = path.removeprefix(self._root)
        return SourceFile(path, name, seen.st_size, changed_ns=seen.st_mtime_ns)


class _Prefix:
    """A prefix of a bucket."""

    def __init__(self, bucket: Bucket, shown: str = "") -> None:
        self._bucket = bucket
        self._shown = shown  # before the key, in the names of files

    def below(self, path: str) -> Below | None:
        """See `Landing`. A prefix with nothing below it is empty: there are no folders."""
        key = path.strip("/")
        if key and not path.endswith("/"):
            found = self._bucket.at(key)
            if found is not None:
                return iter([(key.rsplit("/", 1)[-1], self._file(found))])
        return self._walk(f"{key}/" if key else "")

    def _walk(self, prefix: str) -> Below:
        for found in self._bucket.below(prefix):
            relative = found.key.removeprefix(prefix)
            names = relative.split("/")
            if all(names) and not any(name[0] in HIDDEN for name in names):
                yield relative, self._file(found)

    def _file(self, found: Found) -> SourceFile:
        return SourceFile(
            self._bucket.url(found.key), f"{self._shown}{found.key}", found.size_bytes,
            changed_ns=found.changed_ns, version=found.version,
        )  # fmt: skip


def open_file(file: SourceFile) -> pa.NativeFile:
    """Return the file's stored bytes as a stream that can seek.

    Raises: InvalidRequest when it cannot be opened; Unavailable, also while it is read, where a
    server does not answer or has another object than was found.
    """
    if file.path.startswith(S3):
        stream = ObjectStream(file.path, file.size_bytes, file.version)
        return pa.PythonFile(stream, mode="r")
    try:
        return pa.OSFile(file.path, "rb")
    except OSError as error:
        raise InvalidRequest(
            "the source file cannot be opened", file=file.name, reason=str(error)
        ) from error


def check_unchanged(file: SourceFile) -> None:
    """Refuse a file that is not what it was when it was found: somebody still writes it.

    Raises: Unavailable, so that it is tried again.
    """
    if not file.changed_ns:
        return
    seen = _seen(file)
    if seen != (file.size_bytes, file.changed_ns):
        raise Unavailable(
            "a source file changed while it was read, nothing was committed",
            certain=True, file=file.name, size_bytes=file.size_bytes, size_now=seen[0],
            cure="run again when it is whole; put files down under a name that begins with _",
        )  # fmt: skip


def _seen(file: SourceFile) -> tuple[int, int]:
    if file.path.startswith(S3):
        bucket, key = by_url(file.path)
        found = bucket.at(key)
        if found is not None:
            return found.size_bytes, found.changed_ns
    elif os.path.exists(file.path):
        seen = os.stat(file.path)
        return seen.st_size, seen.st_mtime_ns
    raise InvalidRequest("the source file is gone", file=file.name)

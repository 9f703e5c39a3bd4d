"""The landing folder: which files there are, what time each is of, and their bytes.

A file belongs to the time that its path carries, as `path_time` finds it or as the declared path
says with strftime directives (`landing/%Y/%m/%d/*.csv`).

Files whose name begins with `_` or `.` are markers of other tools and are passed over, and so
are folders called so.
"""

import lzma
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

import pyarrow as pa

from strata.errors import InvalidRequest, Unavailable
from strata.ingest.path_time import milliseconds, path_time, split_pattern

PACKINGS: Final = {
    ".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd", ".lz4": "lz4",
}  # fmt: skip
BOM: Final = b"\xef\xbb\xbf"  # the mark of UTF-8
CHUNK_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Piece:
    """Some records of a file, which are read without the others."""

    start: int  # first byte; row group of Parquet, stripe of ORC
    stop: int
    size_bytes: int
    before: int = 0  # to be added to the number of a line, an element or a row
    header: bytes = b""  # of the file: what its records cannot be read without
    fingerprint: str = ""  # of the whole file, in its first piece
    data: bytes | None = None  # header and records; None: not read yet
    whole: bool = False  # it is all of the file


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to ingest."""

    path: str  # absolute
    name: str  # as people know it: relative to the landing root where it lies below it
    size_bytes: int  # as stored, possibly compressed
    time_ms: int | None = None  # the time its path carries; None: not asked or none found
    changed_ns: int = 0  # when the store last changed it; 0: not known
    piece: Piece | None = None  # None: all of it
    number: int = 0  # of the file in its batch

    @property
    def before(self) -> int:
        """Return what is to be added to the number of a line, an element or a row."""
        return 0 if self.piece is None else self.piece.before

    @property
    def is_whole(self) -> bool:
        """Return whether it is judged as a file, and not as some of its rows."""
        return self.piece is None or self.piece.whole

    @property
    def load_bytes(self) -> int:
        """Return how many stored bytes there are to read."""
        return self.size_bytes if self.piece is None else self.piece.size_bytes


def files_at(root: str, paths: Sequence[str]) -> list[SourceFile]:
    """Return the files that `paths` name, folders searched, each once, sorted by path.

    A relative path starts at the current folder if something is there, else at `root`.
    Raises: InvalidRequest for a path with nothing behind it.
    """
    base = landing_root(root)
    found: dict[str, SourceFile] = {}
    for path in paths:
        here = Path(path).expanduser()
        start = here if here.exists() else base / here
        if not start.exists():
            raise InvalidRequest(
                "there is no such file or folder", path=path, root=str(base), cure="check --from"
            )
        for file in _walk(start):
            absolute = str(file.resolve())
            found[absolute] = _source_file(absolute, base)
    return [found[path] for path in sorted(found)]


def files_by_time(root: str, paths: Sequence[str]) -> list[SourceFile]:
    """Return the files of a shard's declared source paths with the times they are of, by time.

    Raises: InvalidRequest for a folder that is missing, or a file whose path carries no time.
    Cost: lists the folders; opens nothing.
    """
    base = landing_root(root)
    found: dict[str, SourceFile] = {}
    for declared in paths:
        for file, time_ms in _timed(base, declared):
            absolute = str(file.resolve())
            found[absolute] = _source_file(absolute, base, time_ms)
    return sorted(found.values(), key=lambda file: (file.time_ms or 0, file.path))


def _source_file(absolute: str, base: Path, time_ms: int | None = None) -> SourceFile:
    seen = os.stat(absolute)
    return SourceFile(absolute, _name(absolute, base), seen.st_size, time_ms, seen.st_mtime_ns)


def landing_root(root: str) -> Path:
    """Return the folder that relative paths start from.

    Raises: InvalidRequest for an address that is no local folder.
    """
    scheme, has_scheme, rest = root.partition("://")
    if has_scheme and scheme != "file":
        raise InvalidRequest(
            "the landing root must be a local folder", root=root, cure="file:///folder or /folder"
        )
    return Path(rest if has_scheme else root).expanduser().resolve()


def fingerprint(file: SourceFile) -> str:
    """Return a hash of the file's bytes as they are stored.

    Raises: InvalidRequest when the file is gone.
    """
    digest = blake2b(digest_size=16)
    with open_file(file) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def check_unchanged(file: SourceFile) -> None:
    """Refuse a file that is not what it was when it was found: somebody still writes it.

    Raises: Unavailable, so that it is tried again.
    """
    if not file.changed_ns:
        return
    try:
        seen = os.stat(file.path)
    except OSError as error:
        raise InvalidRequest("the source file is gone", file=file.name) from error
    if (seen.st_size, seen.st_mtime_ns) != (file.size_bytes, file.changed_ns):
        raise Unavailable(
            "a source file changed while it was read, nothing was committed",
            certain=True, file=file.name, size_bytes=file.size_bytes, size_now=seen.st_size,
            cure="run again when it is whole; put files down under a name that begins with _",
        )  # fmt: skip


def open_file(file: SourceFile) -> pa.NativeFile:
    """Return the file's stored bytes as a stream that can seek.

    Raises: InvalidRequest when it cannot be opened.
    """
    try:
        return pa.OSFile(file.path, "rb")
    except OSError as error:
        raise InvalidRequest(
            "the source file cannot be opened", file=file.name, reason=str(error)
        ) from error


def read_bytes(file: SourceFile) -> bytes:
    """Return the bytes of a file or piece, unpacked as its suffix says (.gz .bz2 .zst .lz4 .xz).

    Raises: InvalidRequest when it cannot be opened or unpacked.
    """
    if file.piece is not None and file.piece.data is not None:
        return file.piece.data
    with unpacked(file) as stream:
        return stream.read()


def read_text(file: SourceFile) -> bytes:
    """Return the same without the mark of UTF-8 that a file may begin with."""
    data = read_bytes(file)
    begins = file.piece is None or file.piece.start == 0
    return data.removeprefix(BOM) if begins else data


def is_packed(file: SourceFile) -> bool:
    """Return whether the file has to be unpacked from its beginning."""
    return PurePosixPath(file.path).suffix.lower() in {*PACKINGS, ".xz"}


@contextmanager
def unpacked(file: SourceFile) -> Iterator["Reading"]:
    """Open a file's unpacked bytes, from the first to the last.

    Raises: InvalidRequest when it cannot be opened or unpacked, also while it is read.
    """
    try:
        with open_file(file) as stored:
            if PurePosixPath(file.path).suffix.lower() == ".xz":
                with lzma.open(stored) as data:
                    yield data
            else:
                with pa.input_stream(stored, compression=_packing(file)) as data:
                    yield data
    except (OSError, EOFError, lzma.LZMAError, pa.ArrowException) as error:
        raise InvalidRequest(
            "the source file cannot be read",
            file=file.name, reason=str(error), cure="check that it is whole and its suffix is true",
        ) from error  # fmt: skip


class Reading(Protocol):
    """A stream of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to so many bytes; none: the end."""


def _packing(file: SourceFile) -> str | None:
    return PACKINGS.get(PurePosixPath(file.path).suffix.lower())


def _timed(base: Path, declared: str) -> Iterator[tuple[Path, int]]:
    """Yield the files of one declared path with their times."""
    plain, pattern = split_pattern(declared)
    start = base / plain
    if not start.exists():
        raise InvalidRequest(
            "a declared source folder is missing",
            path=declared, root=str(base), cure="create it, or correct source.paths",
        )  # fmt: skip
    for file in _walk(start):
        relative = file.relative_to(start if start.is_dir() else start.parent).as_posix()
        if pattern is None:
            time_ms = path_time(relative)
        elif (match := pattern.fullmatch(relative)) is None:
            continue
        else:
            named = match.groupdict()
            time_ms = milliseconds(named) if named else path_time(relative)
        if time_ms is None:
            raise InvalidRequest(
                "no time in the path of a source file",
                file=_name(str(file.resolve()), base),
                cure="a date in the name, as in 2013-01-31.csv, or name the files with --from",
            )
        yield file, time_ms


def _walk(start: Path) -> Iterator[Path]:
    """Yield the files at or below `start` that are not hidden."""
    if start.is_file():
        yield start
        return
    for folder, folders, names in os.walk(start):
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        yield from (Path(folder, name) for name in sorted(names) if name[0] not in "._")


def _name(absolute: str, base: Path) -> str:
    path = Path(absolute)
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else absolute

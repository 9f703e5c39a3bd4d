"""The landing folder: which files exist, what time each belongs to, and their bytes.

A file belongs to the time that its path carries, as `path_time` finds it or as the declared path
says with strftime directives (`landing/%Y/%m/%d/*.csv`).

Files and folders whose name begins with `_` or `.` are markers of other tools and are skipped. So
are files in a folder that are not whole by their names, or lie beside others: see `beside`.
"""

import io
import lzma
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.ingest.land.beside import is_beside, is_named
from strata.ingest.land.folder import Folder, Straight, is_there, shown_name
from strata.ingest.land.landing import (
    S3,
    check_unchanged,
    landing,
    local_root,
    open_file,
    stored_bytes,
    unless_changed,
)
from strata.ingest.land.path_time import milliseconds, path_time, split_pattern
from strata.ingest.land.plain_csv import plainly
from strata.ingest.land.recode import (
    NEED_A_MARK,
    Converted,
    check_mark,
    encoding_by_mark,
    recoded,
    utf8_of,
)
from strata.ingest.land.source_file import FileRange, SourceFile
from strata.ingest.land.xz import XzStream
from strata.model.charsets import UTF_8
from strata.model.runner import Runner, serial

__all__ = [
    "FileRange",
    "Reading",
    "SourceFile",
    "Straight",
    "bytes_fingerprint",
    "check_is_text",
    "check_unchanged",
    "files_at",
    "files_by_time",
    "fingerprint",
    "fingerprints",
    "is_packed",
    "open_file",
    "read_bytes",
    "read_text",
    "stored_bytes",
    "text_stream",
    "unless_changed",
    "unpacked",
    "wide_encoding",
]

PACKINGS: Final = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".lz4": "lz4",
}
_PACKED: Final = frozenset((*PACKINGS, ".xz"))
BOM: Final = b"\xef\xbb\xbf"  # the mark of UTF-8
WIDE: Final[dict[tuple[bool, ...], str]] = {  # by which of the first four bytes are zero
    (False, True, False, True): "utf-16-le",
    (True, False, True, False): "utf-16-be",
    (False, True, True, True): "utf-32-le",
    (True, True, True, False): "utf-32-be",
}
OTHERWISE: Final = {  # how files begin that are no text
    b"\x1f\x8b": "gzip",
    b"\x28\xb5\x2f\xfd": "zstd",
    **{b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)},
    b"\xfd7zXZ": "xz",
    b"\x04\x22\x4d\x18": "lz4",
    b"PK\x03\x04": "zip, as files of Excel are",
    b"PAR1": "parquet",
    b"ORC": "orc",
    b"Obj\x01": "avro",
    b"SQLite format 3\0": "sqlite",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "an old file of Excel",
    b"7z\xbc\xaf\x27\x1c": "7z",
    b"ARROW1\0\0": "arrow",
}
TAR: Final = (257, b"ustar")  # what stands where in its first header
NO_TEXT_BYTES: Final = 256  # the first ones, among which a file that is no text has a NUL
CHUNK_BYTES: Final = 1 << 20
HASHED_TOGETHER: Final = 1000  # files that one task of a runner hashes


def files_at(root: str, paths: Sequence[str], *, follow_links: bool = False) -> list[SourceFile]:
    """Return the files that `paths` name, each once, sorted by path; folders are searched.

    A file that is not whole by its name (`beside`) is found if its own path is named.

    A relative path starts at the current folder if it exists there, else at `root`. A path may
    itself be a link. A link below it that leads out of it and of `root` is refused, unless
    `follow_links`.
    Raises: InvalidRequest for a path that leads to nothing, or to something other than a file.
    """
    found: dict[str, SourceFile] = {}
    for path in paths:
        here = Path(path).expanduser()
        there = is_there(here)
        if there or not (root.startswith(S3) or path.startswith(S3)):
            base = local_root("/" if root.startswith(S3) else root)
            named = here.absolute() if there else base / path
            files = list(Folder(base, follow_links=follow_links).named(str(named)) or ())
        else:
            place, below = landing(root, path)
            files = list(place.below(below) or ())
        if not files and not there:
            raise InvalidRequest(
                "there is no such file or folder",
                path=shown_name(path),
                root=root,
                cure="check --from",
            )
        alone = len(files) == 1 and files[0][0] == path.rpartition("/")[2]  # it may be the file
        found.update((file.path, file) for below, file in files if alone or not is_beside(below))
    return [found[path] for path in sorted(found)]


def files_by_time(
    root: str, paths: Sequence[str], *, follow_links: bool = False
) -> list[SourceFile]:
    """Return the files of a shard's declared source paths with their times, sorted by time.

    A file that links also lead to has the time that its own path carries.
    Raises: InvalidRequest for a folder that is missing, or a file whose path carries no time.
    Cost: lists the folders; opens nothing.
    """
    found: dict[str, SourceFile] = {}
    for declared in paths:
        for file in _timed(root, declared, follow_links=follow_links):
            found.setdefault(file.path, file)
    return sorted(found.values(), key=lambda file: (file.time_ms or 0, file.path))


def fingerprint(file: SourceFile) -> str:
    """Return a hash of the file's bytes as they are stored.

    Raises: Unavailable when the file is gone.
    """
    if file.size_bytes <= CHUNK_BYTES:
        return bytes_fingerprint(stored_bytes(file))
    digest = _digest()
    with open_file(file) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def bytes_fingerprint(data: bytes) -> str:
    """Return the same hash of a file whose stored bytes are all in memory."""
    digest = _digest()
    digest.update(data)
    return digest.hexdigest()


_digest = partial(blake2b, digest_size=16)


def fingerprints(files: Sequence[SourceFile], runner: Runner = serial) -> list[str]:
    """Return the hashes of many files, read in parallel as far as the runner allows.

    Raises: as `fingerprint`.
    """
    chunks = [files[i : i + HASHED_TOGETHER] for i in range(0, len(files), HASHED_TOGETHER)]
    if len(chunks) <= 1:
        return _fingerprints(files)
    return [digest for some in runner(_fingerprints, chunks) for digest in some]


def _fingerprints(files: Sequence[SourceFile]) -> list[str]:
    return [fingerprint(file) for file in files]


def read_bytes(file: SourceFile) -> bytes:
    """Return the bytes of a file or piece, unpacked as its suffix says (.gz .bz2 .zst .lz4 .xz).

    Raises: InvalidRequest when it cannot be opened or unpacked.
    """
    if file.piece is not None and file.piece.data is not None:
        return file.piece.data
    with unpacked(file) as stream:
        return stream.read()


def beginning(file: SourceFile, size_bytes: int) -> SourceFile:
    """Return a file that has at most the first bytes of another, unpacked, in memory.

    Raises: InvalidRequest when it cannot be opened or unpacked.
    """
    if file.piece is not None and file.piece.data is not None:
        return file
    with unpacked(file) as stream:
        data = text_stream(file, stream).read(size_bytes)
    return replace(file, piece=FileRange(0, len(data), len(data), data=data))


def read_text(file: SourceFile) -> bytes:
    """Return the same bytes as UTF-8, without a byte order mark; CSV is plain (`plain_csv`).

    A piece that was read is such a text already.
    Raises: InvalidRequest, too, for a file that begins as UTF-16 or UTF-32 does, or is no text.
    """
    data = read_bytes(file)
    if file.piece is not None and file.piece.start > 0:
        return data
    if file.dialect.encoding == UTF_8:
        _check_utf8(file, data)
    if file.piece is None or file.piece.data is None:
        data = text_in(file, data)
    return data.removeprefix(BOM)


def _check_utf8(file: SourceFile, data: bytes) -> None:
    wide = wide_encoding(data)
    if wide is not None:
        raise InvalidRequest(
            "the file is not UTF-8: it begins as UTF-16 or UTF-32 does",
            file=file.name,
            line=1,
            value=data[:16].decode(errors="backslashreplace"),
            cure=f"CSV: source.encoding: {wide}; else convert it, for example by "
            "iconv -f UTF-16 -t UTF-8",
        )
    check_is_text(file, data)


def text_in(file: SourceFile, data: bytes) -> bytes:
    """Return all bytes of a file as UTF-8; CSV is plain (`plain_csv`). Raises: InvalidRequest."""
    if file.dialect.encoding != UTF_8:
        _check_text(file, data)
        data = recoded(data, file.dialect.encoding)
    return data if file.dialect.is_plain else plainly(file)(data)


def text_stream(file: SourceFile, stream: "Reading", *, begins: bool = True) -> "Reading":
    """Return a stream of a file's bytes as `text_in`; `begins`: it is at the file's beginning.

    The reader of the stream raises InvalidRequest, too, for a file in another encoding.
    """
    if file.dialect.encoding != UTF_8:
        check = partial(_check_text, file) if begins else None
        stream = Converted(stream, utf8_of(file.dialect.encoding), check)
    return stream if file.dialect.is_plain else Converted(stream, plainly(file))


def _check_text(file: SourceFile, start: bytes) -> None:
    check_mark(file, file.dialect.encoding, start)
    check_is_text(file, start)


def check_is_text(file: SourceFile, data: bytes) -> None:
    """Refuse a file that begins as one that is no text does. Raises: InvalidRequest."""
    kind = next((kind for begin, kind in OTHERWISE.items() if data.startswith(begin)), None)
    kind = "tar" if data.startswith(TAR[1], TAR[0]) else kind
    if kind is not None and (b"\0" in data[:NO_TEXT_BYTES] or kind == "bzip2"):
        raise InvalidRequest(
            "the file is no text, and its name does not say so",
            file=file.name,
            line=1,
            begins_as=kind,
            cure=f"name it by what it is: {', '.join(sorted(PACKINGS))} and .xz are unpacked, "
            "source.format says what is inside; unpack others",
        )


def wide_encoding(data: bytes) -> str | None:
    """Return the encoding of letters of two or four bytes that a text begins in; None: another."""
    mark = encoding_by_mark(data)
    nul = tuple(byte == 0 for byte in data[:4])
    return mark if mark in NEED_A_MARK else WIDE.get(nul)


def is_packed(file: SourceFile) -> bool:
    """Return whether the file has to be unpacked from its beginning."""
    return file.suffix in _PACKED


@contextmanager
def unpacked(file: SourceFile) -> Iterator["Reading"]:
    """Open a file's unpacked bytes, from the first to the last.

    Raises: InvalidRequest when it cannot be opened or unpacked, also while it is read.
    """
    try:
        if is_packed(file) and not file.size_bytes:  # what is packed has a head, even if of nothing
            raise EOFError("the file is empty")
        with open_file(file) as stored:
            if file.suffix == ".xz":
                with io.BufferedReader(XzStream(stored), CHUNK_BYTES) as data:
                    yield data
            else:
                with pa.input_stream(stored, compression=_packing(file)) as data:
                    yield data
    except (OSError, EOFError, lzma.LZMAError, pa.ArrowException) as error:
        raise InvalidRequest(
            "the source file cannot be read",
            file=file.name,
            reason=str(error),
            cure="check that it is whole and its suffix is true",
        ) from error


class Reading(Protocol):
    """A stream of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; none: the end."""


def _packing(file: SourceFile) -> str | None:
    return PACKINGS.get(file.suffix)


def _timed(root: str, declared: str, *, follow_links: bool) -> Iterator[SourceFile]:
    """Yield the files of one declared path with their times."""
    place, path = landing(root, declared, follow_links=follow_links)
    plain, pattern = split_pattern(path)
    files = place.below(plain)
    if files is None:
        raise InvalidRequest(
            "a declared source folder is missing",
            path=declared,
            root=root,
            cure="create it, or correct source.paths",
        )
    for relative, file in files:
        if is_beside(relative) and not is_named(relative, declared, pattern=pattern is not None):
            continue
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
                file=file.name,
                cure="a date in the name, as in 2013-01-31.csv, or name the files with --from",
            )
        yield file.of_time(time_ms)

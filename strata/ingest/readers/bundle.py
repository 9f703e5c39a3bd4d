"""Reads many small files as one text, if that gives the same as reading each by itself.

Opening a reader costs a thousand times as much as reading the rows of a tiny file. Records of JSON
lines and of CSV end with their line, so whole files can be concatenated. Unusual files (a packed
file, a quote that is open at the end, another header, a byte order mark) are not joined. Callers
use the rows of a joined text only if none is rejected. Otherwise each file must be read by itself,
to find the file of a bad row and files of the wrong shape.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

from strata.errors import InvalidRequest
from strata.ingest.land.files import (
    SourceFile,
    bytes_fingerprint,
    is_packed,
    stored_bytes,
    text_in,
)
from strata.ingest.land.source_file import Dialect, FileRange
from strata.ingest.readers.formats.interface import format_of
from strata.model.spec import ORDERED, ShardSpec

TINY_BYTES: Final = 1 << 16  # smaller files are verified as one
SMALL_BYTES: Final = 1 << 20  # larger files are read by themselves
TOGETHER_BYTES: Final = 4 << 20


def bundles(
    files: Sequence[SourceFile], spec: ShardSpec, odd: Collection[object] = ()
) -> Iterator[tuple[SourceFile, ...]]:
    """Yield the files in order, in groups that may be read as one text.

    Once there are `odd` groups, which had to be read twice, files that are not tiny stay alone.
    """
    waiting: list[SourceFile] = []
    size = 0
    joins = format_of(spec.source.format).joins and spec.source.envelope not in ORDERED
    for file in files:
        small = joins and file.piece is None
        small = small and file.size_bytes <= (TINY_BYTES if odd else SMALL_BYTES)
        small = small and not is_packed(file)
        if waiting and not (small and size + file.size_bytes <= TOGETHER_BYTES):
            yield tuple(waiting)
            waiting, size = [], 0
        if small:
            waiting.append(file)
            size += file.size_bytes
        else:
            yield (file,)
    if waiting:
        yield tuple(waiting)


def verified_as(files: Sequence[SourceFile]) -> int:
    """Return as how many files a group is verified: the tiny ones together count as one."""
    larger = sum(file.size_bytes > TINY_BYTES for file in files)
    return larger + (larger < len(files))


def joined(
    files: Sequence[SourceFile],
    format: str,
    read: dict[str, str] | None = None,
    dialect: Dialect = Dialect(),  # noqa: B008 - frozen
) -> SourceFile | None:
    """Return files joined as one loaded file; None: they must be read one by one.

    `read`: is given the hash of each file's stored bytes, by path, if they are joined.
    """
    try:
        stored = [stored_bytes(file) for file in files]
        texts = [
            text_in(replace(file, dialect=dialect), data)
            for file, data in zip(files, stored, strict=True)
        ]
    except (InvalidRequest, OSError):  # reading that file by itself reports what is wrong
        return None
    data = format_of(format).joined(texts, dialect)
    if data is None:
        return None
    if read is not None:
        hashes = map(bytes_fingerprint, stored)
        read.update((file.path, digest) for file, digest in zip(files, hashes, strict=True))
    return replace(files[0], piece=FileRange(0, len(data), len(data), data=data, whole=True))

"""Many small files read as one text, where that finds what reading each by itself finds.

Opening a reader costs a thousand times what the rows of a tiny file do. Records of JSON lines and
of plain CSV end with their line, so whole files can stand behind one another. Whatever is unusual
(a packed file, a quote, another header, a mark of UTF-8) is not joined; and who reads a joined
text takes what it gives only if no row of it is rejected: which file a bad row stands in, and
whether a file has the wrong shape, only that file can tell.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, is_packed, open_file
from strata.ingest.land.source_file import FileRange
from strata.ingest.readers.formats.interface import format_of
from strata.model.spec import ORDERED, ShardSpec

SMALL_BYTES: Final = 1 << 16  # larger files are read by themselves
TOGETHER_BYTES: Final = 4 << 20


def bundles(files: Sequence[SourceFile], spec: ShardSpec) -> Iterator[tuple[SourceFile, ...]]:
    """Yield the files in order, those together that may be read as one text."""
    waiting: list[SourceFile] = []
    size = 0
    joins = format_of(spec.source.format).joins and spec.source.envelope not in ORDERED
    for file in files:
        small = joins and file.piece is None and file.size_bytes <= SMALL_BYTES
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


def joined(files: Sequence[SourceFile], format: str) -> SourceFile | None:
    """Return files as one that is read already; None: they have to be read one by one."""
    try:
        texts = [_bytes(file) for file in files]
    except (InvalidRequest, OSError):  # whoever reads that file by itself says what is wrong
        return None
    data = format_of(format).joined(texts)
    if data is None:
        return None
    return replace(files[0], piece=FileRange(0, len(data), len(data), data=data, whole=True))


def _bytes(file: SourceFile) -> bytes:
    with open_file(file) as stream:
        data: bytes = stream.read()
    return data

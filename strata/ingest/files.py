"""The landing folder: which files there are, what time each is of, and their bytes.

A file belongs to the time that its path carries, which is the first one found below the source
folder: `2013-01-31.csv`, `20130131T05.jsonl`, `date=2013-01-31/hour=05/x.parquet`,
`year=2013/month=01/day=31/x.csv`, `2013/01/31/05/x.csv`. A declared path may also hold strftime
directives (`landing/%Y/%m/%d/*.csv`), which then say where the time stands.

Files whose name begins with `_` or `.` are markers of other tools and are passed over, and so
are folders called so.
"""

import lzma
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Final

import pyarrow as pa

from strata.errors import InvalidRequest, Unavailable

PACKINGS: Final = {
    ".gz": "gzip", ".gzip": "gzip", ".bz2": "bz2", ".zst": "zstd", ".zstd": "zstd", ".lz4": "lz4",
}  # fmt: skip
CHUNK_BYTES: Final = 1 << 20
GLOB: Final = "*?["

_CLOCK: Final = r"(?:(?:[T_ /-]|[/_-]?hour=)(?P<hour>\d{2})(?:[:-]?(?P<minute>\d{2}))?(?!\d))?"
_DATES: Final = (
    r"(?P<year>\d{4})-(?P<month>\d{2})-(?P<day>\d{2})",
    r"year=(?P<year>\d{4})/month=(?P<month>\d{1,2})/day=(?P<day>\d{1,2})",
    r"(?P<year>\d{4})/(?P<month>\d{2})/(?P<day>\d{2})",
)
_COMPACT: Final = (
    r"(?<!\d)(?P<year>\d{4})(?P<month>\d{2})(?P<day>\d{2})"
    r"(?:[T_-]?(?P<hour>\d{2})(?P<minute>\d{2})?(?:\d{2})?|/hour=(?P<hours>\d{2}))?(?!\d)"
)
PATH_TIMES: Final = (
    *(re.compile(rf"(?<!\d){date}(?!\d){_CLOCK}") for date in _DATES),
    re.compile(_COMPACT),
)
DIRECTIVES: Final = {
    "%Y": r"(?P<year>\d{4})",
    "%m": r"(?P<month>\d{2})",
    "%d": r"(?P<day>\d{2})",
    "%H": r"(?P<hour>\d{2})",
    "%M": r"(?P<minute>\d{2})",
    "%%": "%",
}


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file to ingest."""

    path: str  # absolute
    name: str  # as people know it: relative to the landing root where it lies below it
    size_bytes: int  # as stored, possibly compressed
    time_ms: int | None = None  # the time its path carries; None: not asked or none found
    changed_ns: int = 0  # when the store last changed it; 0: not known


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


def path_time(relative: str) -> int | None:
    """Return the first time that a path carries, in milliseconds; None if there is none.

    >>> path_time("date=2013-01-31/hour=05/x.csv") == path_time("20130131T05.csv")
    True
    >>> path_time("part-00000.csv") is None
    True
    """
    for pattern in PATH_TIMES:
        for match in pattern.finditer(relative):
            if (time_ms := _milliseconds(match.groupdict())) is not None:
                return time_ms
    return None


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
    """Return the file's bytes, unpacked as its suffix says (.gz, .bz2, .zst, .lz4, .xz).

    Raises: InvalidRequest when it cannot be opened or unpacked.
    """
    try:
        if PurePosixPath(file.path).suffix.lower() == ".xz":
            with open_file(file) as stored:
                return lzma.decompress(stored.read())
        with open_file(file) as stored, pa.input_stream(stored, compression=_packing(file)) as data:
            content: bytes = data.read()
            return content
    except (OSError, lzma.LZMAError, pa.ArrowException) as error:
        raise InvalidRequest(
            "the source file cannot be read",
            file=file.name, reason=str(error), cure="check that it is whole and its suffix is true",
        ) from error  # fmt: skip


def _packing(file: SourceFile) -> str | None:
    return PACKINGS.get(PurePosixPath(file.path).suffix.lower())


def _timed(base: Path, declared: str) -> Iterator[tuple[Path, int]]:
    """Yield the files of one declared path with their times."""
    plain, pattern = _split_pattern(declared)
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
            time_ms = _milliseconds(named) if named else path_time(relative)
        if time_ms is None:
            raise InvalidRequest(
                "no time in the path of a source file",
                file=_name(str(file.resolve()), base),
                cure="a date in the name, as in 2013-01-31.csv, or name the files with --from",
            )
        yield file, time_ms


def _split_pattern(declared: str) -> tuple[str, re.Pattern[str] | None]:
    """Return the plain folder in front of a pattern, and the pattern for what is below it."""
    parts = PurePosixPath(declared).parts
    special = [n for n, part in enumerate(parts) if "%" in part or any(c in part for c in GLOB)]
    if not special:
        return declared, None
    below = "/".join(parts[special[0] :])
    tokens = re.split(r"(%.|\*\*/|\*|\?)", below)
    text = "".join(_pattern_token(token, declared, n) for n, token in enumerate(tokens))
    return "/".join(parts[: special[0]]), re.compile(_once(text))


def _pattern_token(token: str, declared: str, number: int) -> str:
    if number % 2 == 0:
        return re.escape(token)
    wild = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    if token in wild:
        return wild[token]
    if token not in DIRECTIVES:
        raise InvalidRequest(
            "unknown directive in a source path",
            path=declared, directive=token, cure=f"one of {' '.join(DIRECTIVES)}",
        )  # fmt: skip
    return DIRECTIVES[token]


def _once(pattern: str) -> str:
    """Make a directive that comes again repeat what it was the first time (`%Y/%Y-%m`)."""
    seen: set[str] = set()

    def replace(match: re.Match[str]) -> str:
        name = match[1]
        if name in seen:
            return f"(?P={name})"
        seen.add(name)
        return match[0]

    return re.sub(r"\(\?P<(\w+)>\\d\{\d\}\)", replace, pattern)


def _milliseconds(named: dict[str, str | None]) -> int | None:
    fields = {name: int(text) for name, text in named.items() if text is not None}
    hour = fields.get("hour", fields.get("hours", 0))
    try:
        moment = datetime(
            fields["year"], fields.get("month", 1), fields.get("day", 1),
            hour, fields.get("minute", 0), tzinfo=UTC,
        )  # fmt: skip
    except ValueError:  # digits that are no date: a number that only looks like one
        return None
    return int(moment.timestamp()) * 1000


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

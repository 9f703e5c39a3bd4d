"""A local landing folder: which files it holds, and a check that each is the file that was found.

People who deliver files are not trusted with the rest of the machine. Links below a root are
followed if they stay below it and refused if they lead out. Anything that is neither a file nor a
folder is refused as well: reading a pipe could wait for ever. A file may be swapped for a link
between listing and opening. Therefore the opened file's own path must be the listed path.

The time of change is the inode's (ctime). A person who replaces a file by one of equal size can set
its time of modification as well. Only the kernel sets the inode's.
"""

import errno
import io
import os
import stat
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from strata.errors import InvalidRequest, StrataError, Unavailable
from strata.ingest.land.source_file import SourceFile
from strata.store.cures import AGAIN, PASSING, outside_cure, unreadable

HIDDEN: Final = "._"
OPENED: Final = "/proc/self/fd"  # where Linux says which file is open under a number
LINKS: Final = "[ingest] follow_links = true"

Below = Iterator[tuple[str, SourceFile]]  # the path below what was asked for, and the file


class Folder:
    """A local folder, and what lies below it."""

    def __init__(self, base: Path, *, follow_links: bool = False) -> None:
        """Begin at `base`, a path without links."""
        self._base = base
        self._root = f"{str(base).rstrip(os.sep)}{os.sep}"
        self._follow_links = follow_links

    def below(self, path: str) -> Below | None:
        """See `Landing`. A relative path that leads out of the folder by a link is refused.

        A path that begins with / or leads out with .. does so openly: it is a root of its own.
        """
        start = self._base / path
        if self._inside(os.path.normpath(start), [self._root]) and is_there(start):
            self._check_inside(start, self._true(start), [self._root])
        return self.named(str(start))

    def named(self, path: str) -> Below | None:
        """Return the file at a path, or those below it; the path may have links in it.

        Raises: InvalidRequest for what is neither a file nor a folder.
        """
        if not is_there(path):
            return None
        absolute = self._true(path)
        mode = self._stat(absolute).st_mode
        if stat.S_ISDIR(mode):
            return self._walk(absolute)
        return iter([(os.path.basename(path), self._regular(absolute))])

    def _walk(self, start: str) -> Below:
        """Yield the files in a folder, then those its links lead to; each folder once."""
        allowed = [f"{start.rstrip(os.sep)}{os.sep}"]
        if self._root != os.sep and self._inside(start, [self._root]):
            allowed.append(self._root)
        waiting, links = [(start, "")], list[tuple[str, str]]()
        seen = set[str]()
        while waiting or links:
            if not waiting:
                path, relative = links.pop()
                absolute = self._true(path)
                self._check_inside(path, absolute, allowed)
                if stat.S_ISDIR(self._stat(absolute).st_mode):
                    waiting.append((absolute, f"{relative}/"))
                else:
                    yield relative, self._regular(absolute)
                continue
            folder, relative = waiting.pop()
            if folder in seen:
                continue
            seen.add(folder)
            for entry in self._entries(folder):
                below = f"{relative}{entry.name}"
                if entry.is_symlink():
                    links.append((entry.path, below))
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, f"{below}/"))
                elif (facts := self._facts(entry)) is not None:
                    # The folder's path has no links, so the file's has none.
                    yield below, self._file(entry.path, facts)

    def _entries(self, folder: str) -> list[os.DirEntry[str]]:
        """Return what is in a folder, but for markers of other tools."""
        try:
            with os.scandir(folder) as entries:
                return [entry for entry in entries if entry.name[0] not in HIDDEN]
        except FileNotFoundError as error:
            raise file_gone(shown_name(self._name(folder)), "folder") from error
        except OSError as error:
            raise unreadable(
                "a source folder",
                error,
                folder=shown_name(self._name(folder)),
                cure="give the ingest the right to read it, or move it away",
            ) from error

    def _true(self, path: str | Path) -> str:
        """Return a path without links."""
        try:
            return os.path.realpath(path, strict=True)
        except OSError as error:
            raise InvalidRequest(
                "a path below the landing root leads nowhere",
                file=shown_name(self._name(str(path))),
                reason=error.strerror,
                cure="remove the link, or bring back what it leads to",
            ) from error

    def _stat(self, path: str) -> os.stat_result:
        try:
            return os.stat(path, follow_symlinks=False)
        except OSError as error:
            raise _lost(shown_name(self._name(path)), error) from error

    def _facts(self, entry: os.DirEntry[str]) -> os.stat_result | None:
        """Return what is known of an entry; None: it was renamed or removed since it was listed."""
        try:
            return entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _lost(shown_name(self._name(entry.path)), error) from error

    def _check_inside(self, path: str | Path, absolute: str, allowed: Sequence[str]) -> None:
        if self._follow_links or self._inside(absolute, allowed):
            return
        raise InvalidRequest(
            "a link leads out of the landing folder",
            file=shown_name(self._name(str(path))),
            leads_to=shown_name(absolute),
            cure=f"put the file itself there, name it with --from, or set {LINKS}",
        )

    @staticmethod
    def _inside(path: str, allowed: Sequence[str]) -> bool:
        return any(f"{path}{os.sep}".startswith(root) for root in allowed)

    def _regular(self, path: str) -> SourceFile:
        return self._file(path, self._stat(path))

    def _file(self, path: str, seen: os.stat_result) -> SourceFile:
        name = self._name(path)
        check_file_name(name)
        if not stat.S_ISREG(seen.st_mode):
            raise InvalidRequest(
                "this is no file: a pipe, a socket or a device",
                file=name,
                cure="move it out of the source folder",
            )
        return SourceFile(path, name, seen.st_size, changed_ns=seen.st_ctime_ns)

    def _name(self, path: str) -> str:
        return path.removeprefix(self._root)


def is_there(path: str | Path) -> bool:
    """Return whether something is at a path, a link that leads nowhere too.

    Raises: InvalidRequest if a folder on the way keeps it from sight, else as `unreadable`.
    """
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError, ValueError):  # no path has a NUL
        return False
    except OSError as error:
        raise _lost(shown_name(str(path)), error) from error
    return True


def check_file_name(name: str) -> None:
    """Refuse a name that cannot be shown or stored: control characters, or not UTF-8.

    Two escaped names may look alike, and the name identifies a file.
    """
    if name.isprintable() or not any(ord(c) < 32 or 127 <= ord(c) < 160 or _half(c) for c in name):
        return
    raise InvalidRequest(
        "the name of a source file holds a character that cannot be shown",
        file=shown_name(name),
        cure="rename it: UTF-8 without control characters",
    )


def shown_name(name: str) -> str:
    r"""Return a name for messages; characters that cannot be shown are escaped.

    >>> shown_name(chr(10) + "a" + chr(0xDCFF))
    '\\x0aa\\xff'
    """
    return "".join(
        f"\\x{ord(c) & 0xFF:02x}" if ord(c) < 32 or 127 <= ord(c) < 160 or _half(c) else c
        for c in name
    )


def _half(character: str) -> bool:
    """Return whether this stands for a byte of a name that is not UTF-8."""
    return 0xD800 <= ord(character) < 0xE000


def open_local(file: SourceFile) -> pa.NativeFile:
    """Open a file on this machine.

    Raises: InvalidRequest when it cannot be opened, is no longer a file, or its path leads
    elsewhere than when it was found; Unavailable when it is gone, or the disk fails.
    """
    return pa.PythonFile(LocalFile(_opened(file), file.name), mode="r")


def local_bytes(file: SourceFile) -> bytes:
    """Return the bytes of a file on this machine, of a longer one than was found at least one more.

    Raises: as `open_local`; Unavailable.
    """
    with LocalFile(_opened(file), file.name) as stream:
        data = stream.read(file.size_bytes + 1)  # in one call of the system
        return data if len(data) >= file.size_bytes else data + stream.read()


def _opened(file: SourceFile) -> int:
    """Return the number of an open file that is the one that was found."""
    number = -1
    try:
        number = os.open(file.path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        regular = stat.S_ISREG(os.fstat(number).st_mode)
        stays = _lies_at(number, file.path)
    except OSError as error:
        if number >= 0:
            os.close(number)
        if isinstance(error, FileNotFoundError):
            raise file_gone(file.name) from error
        if error.errno == errno.ELOOP:  # a link is there now
            raise _swapped(file) from error
        said = {"file": file.name, "reason": error.strerror or str(error)}
        if error.errno in PASSING:
            cure = outside_cure(error)
            raise Unavailable(
                "the source file cannot be opened now", certain=True, **said, cure=cure
            ) from error
        raise InvalidRequest(
            "the source file cannot be opened", **said, cure="give the ingest the right to read it"
        ) from error
    if not regular or not stays:
        names = os.fstat(number).st_nlink
        os.close(number)
        gone = not names or not is_there(file.path)  # removed, replaced or moved, just now
        raise file_gone(file.name) if gone else _swapped(file)
    return number


class LocalFile(io.FileIO):
    """An open file; an error of its disk is not taken for damage of the file."""

    def __init__(self, number: int, shown: str) -> None:
        """Take over an open file by its number; `shown` is its name for people."""
        super().__init__(number)
        self._shown = shown

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes. Raises: Unavailable."""
        try:
            return super().read(size)
        except OSError as error:
            raise Unavailable(
                "the disk of a source file fails",
                certain=True,
                file=self._shown,
                reason=error.strerror,
                cure=AGAIN,
            ) from error


def file_gone(name: str, what: str = "file") -> Unavailable:
    """Return the error for a file, or a folder, that was there when its folder was listed."""
    return Unavailable(
        f"the source {what} is gone",
        certain=True,
        file=name,
        cure="run again: the folder is listed anew; leave files there until they are in",
    )


def _lost(name: str, error: OSError) -> StrataError:
    """Return the error for a file that the system does not let be looked at."""
    if isinstance(error, FileNotFoundError):
        return file_gone(name)
    cure = "give the ingest the right to enter its folder (x) and to read it (r)"
    return unreadable("a source file", error, file=name, cure=cure)


class Straight:
    """Which folders have no link on their way; each is looked at once, a file's costs much."""

    def __init__(self) -> None:
        """Know no folder yet."""
        self._known: dict[str, bool] = {}

    def has(self, folder: str) -> bool:
        """Return whether a folder's path has no links. Raises: OSError."""
        known = self._known.get(folder)
        if known is None:
            known = self._known[folder] = os.path.realpath(folder) == folder
        return known


def seen_local(file: SourceFile, straight: Straight) -> tuple[int, int]:
    """Return a file's current size, and when it was changed.

    Raises: Unavailable when it is gone; InvalidRequest when its path leads elsewhere than it did,
    or its folder may not be entered.
    """
    try:
        seen = os.stat(file.path, follow_symlinks=False)
        stays = stat.S_ISREG(seen.st_mode) and straight.has(os.path.dirname(file.path))
    except OSError as error:
        raise _lost(file.name, error) from error
    if not stays:
        raise _swapped(file)
    return seen.st_size, seen.st_ctime_ns


def _lies_at(number: int, path: str) -> bool:
    """Return whether the open file is at a path that has no links."""
    if _is_folder(OPENED):
        there = os.readlink(f"{OPENED}/{number}")
        return there == path or there == os.path.abspath(path)
    here: Any = os.stat(path, follow_symlinks=False)
    opened = os.fstat(number)
    same = (here.st_dev, here.st_ino) == (opened.st_dev, opened.st_ino)
    return same and os.path.realpath(path) == os.path.abspath(path)


@cache  # the system's own does not come and go
def _is_folder(path: str) -> bool:
    return os.path.isdir(path)


def _swapped(file: SourceFile) -> InvalidRequest:
    return InvalidRequest(
        "the path of a source file leads elsewhere than when it was found",
        file=file.name,
        cure="somebody put a link or a pipe in its place: look who, then run again",
    )

"""Files of this machine: why one cannot be used and who can help, whose new ones are, and bytes."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

STEP_BYTES: Final = 1024 * 1024  # read at a time from files to compare or hash
_EFFECTIVE: Final = os.access in os.supports_effective_ids


def may(path: Path, rights: int) -> bool:
    """Return whether this user has rights on a path, as in `os.access`; False if it is missing."""
    return os.access(path, rights, effective_ids=_EFFECTIVE)


def is_absent(path: Path) -> bool:
    """Return whether there is surely no such file; False where this user may not look."""
    try:
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False
    return False


def obstacle(file: Path, *, writes: bool = True) -> tuple[str, str]:
    """Return why a file cannot be opened or made, and the cure; empty texts if nothing is seen.

    `writes`: the file is written, and other files beside it.
    """
    for folder in reversed(file.parents):
        found = _of_folder(folder)
        if found[0]:
            return found
    folder, needed = file.parent, os.R_OK | (os.W_OK if writes else 0)
    if file.is_dir():
        return f"{file} is a folder", "name a file in it, as in sqlite:////folder/consensus.db"
    if file.exists() and not may(file, needed):
        return _refused(file, "read and write" if writes else "read")
    if (writes or not file.exists()) and not may(folder, os.W_OK | os.X_OK):
        return _refused(folder, "write")
    return "", ""


def _of_folder(folder: Path) -> tuple[str, str]:
    """Return what is wrong with a folder on the way to a file; those above it are in order."""
    if not folder.exists():
        reason, cure = f"the folder {folder} is missing", "mount its disk, make it, or name another"
        if may(folder.parent, os.W_OK | os.X_OK):
            return reason, cure
        return f"{reason}, and {_refused(folder.parent, 'write')[0]}", cure
    if not folder.is_dir():
        return f"{folder} is no folder", "name a file in a folder"
    if not may(folder, os.X_OK):
        return _refused(folder, "enter")
    return "", ""


def _refused(path: Path, what: str) -> tuple[str, str]:
    found = path.stat()
    owner, mode = user_name(found.st_uid), stat.filemode(found.st_mode)
    return (
        f"user {user_name(os.geteuid())} may not {what} {path}, which is {owner}'s: {mode}",
        f"run as {owner}, or let {owner} give the right to this user",
    )


def open_itself(path: Path, flags: int = os.O_RDONLY, mode: int = 0) -> int:
    """Open a file or folder that Strata makes for itself, and nothing that a link leads to.

    Whom a folder belongs to could put a link in its place: to a file that the superuser would write
    into, and give away.
    Raises: OSError, for links too.
    """
    opened = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    found = os.fstat(opened)
    if stat.S_ISDIR(found.st_mode) or (stat.S_ISREG(found.st_mode) and found.st_nlink <= 1):
        return opened
    os.close(opened)
    raise OSError(errno.EMLINK, "it is a link, or no file: remove it", str(path))


def give_to(made: int, like: Path) -> None:
    """Give an open file or folder, which is new, to those whom another path belongs to.

    The superuser gives it to that path's owner. Everybody gives it to its group, as far as they are
    in it and the group has rights.
    """
    with suppress(OSError):  # not in this group, a file system without owners, or no such path
        wanted, found = like.stat(), os.fstat(made)
        above = os.geteuid() == 0
        owner = wanted.st_uid if above else found.st_uid
        group = wanted.st_gid if above or wanted.st_mode & stat.S_IRWXG else found.st_gid
        if (owner, group) != (found.st_uid, found.st_gid):
            os.fchown(made, owner, group)


def user_name(number: int) -> str:
    """Return the name of a user of this machine; their number if nobody has it.

    >>> user_name(2**31 - 7)
    '2147483641'
    """
    try:
        import pwd  # not on every system

        return pwd.getpwuid(number).pw_name
    except (ImportError, KeyError):
        return str(number)


def pieces(content: bytes | Path) -> Iterator[bytes]:
    """Yield the content of bytes or of a file, a step at a time."""
    if isinstance(content, Path):
        with content.open("rb") as file:
            while piece := file.read(STEP_BYTES):
                yield piece
    else:
        for at in range(0, len(content), STEP_BYTES):
            yield content[at : at + STEP_BYTES]


def sync(path: Path) -> None:
    """Sync a file's bytes, or a folder's names, so that they survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

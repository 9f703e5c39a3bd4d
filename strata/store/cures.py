"""What errors of a file system mean, and what people can do about them."""

import errno
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from strata.errors import InvalidRequest, StrataError, Unavailable

CURES: Final = {  # by the number of the operating system's error
    errno.ENOSPC: "make room on this disk",
    errno.EDQUOT: "raise the quota or make room",
    errno.EACCES: "give this user the right to read and write the folder",
    errno.EPERM: "give this user the right to write; the file system must support hard links",
    errno.EROFS: "mount the file system for writing",
    errno.EMFILE: "raise the limit of open files",
}
# Errors that say nothing of the file: this process, this machine, a disk, a network.
PASSING: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT}
)
AGAIN: Final = "check the disk or its network, then run again"


def outside_cure(error: OSError) -> str | None:
    """Return what people can do about an error; None where its words say it."""
    number = error.errno or 0
    return CURES.get(number, AGAIN if number in PASSING else None)


def unreadable(what: str, error: OSError, *, cure: str | None = None, **where: str) -> StrataError:
    """Return the error of a file that cannot be read: `what` cannot be read.

    What may pass is Unavailable; of the rest the file or its rights are the reason.
    """
    said = {**where, "reason": error.strerror or str(error)}
    if error.errno in PASSING:
        return Unavailable(
            f"{what} cannot be read now", certain=True, **said, cure=outside_cure(error)
        )
    return InvalidRequest(f"{what} cannot be read", **said, cure=cure)


def unwritable(what: str, error: OSError, *, cure: str | None = None, **where: str) -> StrataError:
    """Return the error of a file that cannot be written: `what` cannot be written.

    What may pass, such as a full disk, is Unavailable; of the rest the place is the reason.
    `cure`: what helps in any case.
    """
    said = {**where, "reason": str(error)}
    helps = "; ".join(one for one in (outside_cure(error), cure) if one) or None
    if error.errno in PASSING | {errno.ENOSPC, errno.EDQUOT}:
        return Unavailable(f"{what} cannot be written now", certain=True, **said, cure=helps)
    return InvalidRequest(f"{what} cannot be written here", **said, cure=helps)


@contextmanager
def temporary_room() -> Iterator[None]:
    """Say of a temporary file that cannot be written where it is. Raises: as `unwritable`."""
    try:
        yield
    except OSError as error:
        cure = "set TMPDIR to a folder with room"
        where = {"folder": str(tempfile.tempdir)} if tempfile.tempdir else {}  # as it was found
        raise unwritable("a temporary file", error, cure=cure, **where) from error


def folder_gone(path: str) -> Unavailable:
    """Return the error for a folder of blobs that was there before."""
    return Unavailable(
        "the folder of blobs is gone",
        certain=True,
        path=path,
        cure="mount its disk or bring the folder back, and run again; nothing is made in its place",
    )

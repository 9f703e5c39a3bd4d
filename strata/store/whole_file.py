"""Files that are written for people and other programs: whole or not at all, through no link."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from strata.errors import InvalidRequest
from strata.store.cures import unwritable


@contextmanager
def written_whole(out: Path, what: str, cure: str | None = None) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of `out` when the block ends well; make its folder.

    Raises: as `unwritable`, for `what`; then no file is there that was not there before.
    InvalidRequest for a device or a pipe, whose place no file may take.
    """
    if out.exists() and not out.is_file():
        raise InvalidRequest(
            f"{what} cannot be written here: this is a folder, a device or a pipe",
            file=str(out),
            cure=cure or "name a file",
        )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with replacing(out) as file:
            yield file
    except OSError as error:
        raise unwritable(what, error, cure=cure, file=str(out)) from error


@contextmanager
def replacing(out: Path) -> Iterator[IO[bytes]]:
    """Yield a file that takes the place of `out` when the block ends well. Raises: OSError."""
    part = out.with_name(f".{out.name}.part"[-255:])
    try:
        part.unlink(missing_ok=True)
        with part.open("xb") as file:  # never through a link that somebody has laid there
            yield file
        part.replace(out)
    finally:
        with suppress(OSError):  # the reason is said already
            part.unlink(missing_ok=True)

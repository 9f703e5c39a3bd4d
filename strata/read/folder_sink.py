"""A folder of Parquet files that has each update of a consumer exactly once.

    changes.1785974400000.1785974460000.parquet   the updates lower <= t < upper
    bookmark                                      of the last delivery, empty ones included

A file has its bookmark in its metadata, and appears whole under its name. So a program that dies
before it has written the other finds the file, and goes on behind it. One program at a time fills a
folder, under a lock that ends with it; a session that another has overtaken finds the folder ahead
of it, and stops.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.read.bookmark import BOOKMARK_KEY, Bookmark
from strata.read.subscription import Delivery
from strata.store.cures import outside_cure
from strata.store.local_file import open_itself

_FILE: Final = re.compile(r"changes\.(-?\d+)\.(-?\d+)\.parquet")
_BOOKMARK: Final = "bookmark"
_PART: Final = ".part"
_LOCK: Final = ".lock"
_LEFT: Final = re.compile(r"(changes\.-?\d+\.-?\d+\.parquet|bookmark)\.part")
_FOR_GOOD: Final = (
    PermissionError,
    IsADirectoryError,
    NotADirectoryError,
    UnicodeDecodeError,
)


class ParquetFolder:
    """The sink."""

    def __init__(self, folder: Path) -> None:
        """Make the folder if it is not there. Raises: InvalidRequest when that fails."""
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidRequest(
                "cannot make this folder", folder=str(folder), reason=str(error)
            ) from error

    def bookmark(self) -> str | None:
        """Return the bookmark of the last delivery; None: the folder has none yet.

        Raises: Corrupt for files whose stretches overlap, or that have no bookmark; InvalidRequest
        when the folder cannot be read.
        """
        with self._usable():
            newest, noted = self._newest(), self.folder / _BOOKMARK
            found = [] if newest is None else [self._of_file(newest)]
            if noted.exists():
                found.append(noted.read_text(encoding="utf-8"))
        return max(found, key=lambda text: Bookmark.of(text).position, default=None)

    def take(self, delivery: Delivery) -> int:
        """Store a delivery as one file, none if it is empty; return how many rows it had.

        Raises: as `Delivery.check_follows`; InvalidRequest, or Unavailable on a full disk, when the
        file cannot be written; then none is there.
        """
        with self._alone():
            delivery.check_follows(self.bookmark())
            return self._write(delivery)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other programs from filling the folder until the block ends."""
        with self._usable():
            lock = open_itself(self.folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o666)
        with open(lock, "r+b", buffering=0) as file:
            with self._usable():
                fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextmanager
    def _usable(self) -> Iterator[None]:
        """Name the folder in what goes wrong with it.

        Raises: InvalidRequest where another try cannot help, otherwise Unavailable: a full disk.
        """
        try:
            yield
        except (OSError, UnicodeDecodeError) as error:
            cure = outside_cure(error) if isinstance(error, OSError) else None
            shown = {"folder": str(self.folder), "reason": str(error), "cure": cure}
            if isinstance(error, _FOR_GOOD):
                raise InvalidRequest("cannot use this folder", **shown) from error
            raise Unavailable("this folder fails", certain=False, **shown) from error

    def _of_file(self, name: str) -> str:
        """Return the bookmark of a file. Raises: Corrupt."""
        try:
            return str((pq.read_schema(self.folder / name).metadata or {})[BOOKMARK_KEY], "utf-8")
        except (KeyError, pa.ArrowInvalid, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # of the disk, not of Arrow
            raise Corrupt(
                "this file is not one of a delivery", file=str(self.folder / name)
            ) from error

    def _write(self, delivery: Delivery) -> int:
        name = f"changes.{delivery.lower}.{delivery.upper}.parquet"
        part, rows, writer = self.folder / f"{name}{_PART}", 0, None
        schema = delivery.schema.with_metadata({BOOKMARK_KEY: delivery.bookmark.encode()})
        with self._usable():
            for left in self.folder.iterdir():
                if _LEFT.fullmatch(left.name):  # of a program that died
                    left.unlink()
        try:
            with self._usable():
                for batch in delivery.rows:
                    writer = writer or pq.ParquetWriter(part, schema)
                    writer.write_batch(batch)
                    rows += batch.num_rows
                if writer is not None:
                    writer.close()
                    self._publish(part, name)
                noted = self.folder / f"{_BOOKMARK}{_PART}"
                noted.write_text(delivery.bookmark, encoding="utf-8")
                self._publish(noted, _BOOKMARK)
        except pa.ArrowInvalid as error:
            raise InvalidRequest(
                "cannot write changes", file=str(self.folder / name), reason=str(error)
            ) from error
        finally:
            with suppress(OSError):  # the next run removes it
                part.unlink(missing_ok=True)  # a full disk needs its place
        return rows

    def _newest(self) -> str | None:
        """Return the name of the file with the last stretch; None: there is no file."""
        found = sorted(
            (int(match[1]), int(match[2]), match[0])
            for path in self.folder.iterdir()
            if (match := _FILE.fullmatch(path.name))
        )
        for (_, before, one), (after, _, other) in pairwise(found):
            if after < before:
                raise Corrupt(
                    "two files hold the same stretch of time",
                    folder=str(self.folder),
                    files=[one, other],
                    cure="give each consumer a folder of its own",
                )
        return found[-1][2] if found else None

    def _publish(self, part: Path, name: str) -> None:
        """Give a written file its name, so that it survives a loss of power."""
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(self.folder / name)
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

"""A folder of Parquet files that has each update of a consumer exactly once.

    changes.1785974400000.1785974460000.parquet   the updates lower <= t < upper
    position                                      the last upper, empty deliveries included

A file appears whole under its name, before the position does. So a program that dies in between
finds the file, and goes on behind it. One program at a time fills a folder, under a lock that ends
with it; a session that another has overtaken finds the folder ahead of it, and stops.
"""

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from strata.errors import Corrupt, Fenced, InvalidRequest
from strata.read.subscription import Delivery

_FILE: Final = re.compile(r"changes\.(-?\d+)\.(-?\d+)\.parquet")
_POSITION: Final = "position"
_PART: Final = ".part"
_LOCK: Final = ".lock"


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

    def position(self) -> int | None:
        """Return the time before which the folder has everything; None: it has nothing yet.

        Raises: Corrupt for files whose stretches overlap.
        """
        ends = [upper for _, upper in self._stretches()]
        noted = self.folder / _POSITION
        if noted.exists():
            try:
                ends.append(int(noted.read_text()))
            except ValueError as error:
                raise Corrupt("this file holds no position", file=str(noted)) from error
        return max(ends, default=None)

    def take(self, delivery: Delivery) -> int:
        """Store a delivery as one file, none if it is empty; return how many rows it had.

        Raises: Fenced when another program has filled the folder meanwhile; InvalidRequest when the
        file cannot be written; then none is there.
        """
        with self._alone():
            there = self.position()
            if there is not None and there > delivery.lower:
                raise Fenced(
                    "another program has filled this folder meanwhile",
                    folder=str(self.folder),
                    position=there,
                    lower=delivery.lower,
                )
            return self._write(delivery)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Keep other programs from filling the folder until the block ends."""
        with (self.folder / _LOCK).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _write(self, delivery: Delivery) -> int:
        name = f"changes.{delivery.lower}.{delivery.upper}.parquet"
        part, rows, writer = self.folder / f"{name}{_PART}", 0, None
        try:
            for batch in delivery.rows:
                writer = writer or pq.ParquetWriter(part, delivery.schema)
                writer.write_batch(batch)
                rows += batch.num_rows
            if writer is not None:
                writer.close()
                self._publish(part, name)
            noted = self.folder / f"{_POSITION}{_PART}"
            noted.write_text(str(delivery.upper))
            self._publish(noted, _POSITION)
        except (OSError, pa.ArrowInvalid) as error:
            raise InvalidRequest(
                "cannot write changes", file=str(self.folder / name), reason=str(error)
            ) from error
        return rows

    def _stretches(self) -> list[tuple[int, int]]:
        """Return the stretches of the files, oldest first."""
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
        return [(lower, upper) for lower, upper, _ in found]

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

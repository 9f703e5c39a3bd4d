"""A whole run on a disk that is full now and then: `-m tests.faults.full_disk FOLDER SEED N`.

A small file system in memory, mounted where nobody else sees it, holds blobs and states; a file
beside them takes what room there is, but some bytes. Where nothing may be mounted, files may not
grow beyond some bytes instead (`RLIMIT_FSIZE`). A process of its own, for both. It prints a line
of JSON: what was done, and how the disk was filled.
"""

import ctypes
import json
import os
import resource
import sys
from collections import Counter
from pathlib import Path
from typing import Final, Protocol

from tests.faults.world import World, whole_run
from tests.support.failing_stores import Outcome

SIZE: Final = 32 << 20
LEFT: Final = (0, 0, 4_096, 20_000, 100_000)  # bytes that are left on a full disk
_NEW_MOUNTS, _NEW_USER, _PRIVATE = 0x20000, 0x10000000, 0x40000 | 0x4000


class Disk(Protocol):
    """A disk that can be filled."""

    def fill(self, left: int) -> None:
        """Leave so many bytes."""

    def free(self) -> None:
        """Make room."""


class Mounted:
    """A file system of our own, gone with the process. Raises: OSError where that is forbidden."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)

        def check(result: int) -> None:
            if result:
                raise OSError(ctypes.get_errno(), "no file system of our own")

        user, group = os.getuid(), os.getgid()
        check(libc.unshare(_NEW_MOUNTS | (0 if user == 0 else _NEW_USER)))
        if user:
            Path("/proc/self/setgroups").write_text("deny")
            Path("/proc/self/uid_map").write_text(f"0 {user} 1")
            Path("/proc/self/gid_map").write_text(f"0 {group} 1")
        check(libc.mount(b"none", b"/", None, _PRIVATE, None))
        folder.mkdir()
        check(libc.mount(b"tmpfs", bytes(folder), b"tmpfs", 0, f"size={SIZE}".encode()))
        self._folder, self._ballast = folder, folder / "ballast"

    def fill(self, left: int) -> None:
        room = os.statvfs(self._folder)
        grown = room.f_bavail * room.f_frsize - left
        with self._ballast.open("ab") as file:
            if grown > 0:
                os.posix_fallocate(file.fileno(), file.tell(), grown)

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)


class Limited:
    """No file may grow beyond what is left."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        self._limit = resource.getrlimit(resource.RLIMIT_FSIZE)

    def fill(self, left: int) -> None:
        # The sources of the run are files as well.
        resource.setrlimit(resource.RLIMIT_FSIZE, (max(left, 8_192), self._limit[1]))

    def free(self) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, self._limit)


class Full(World):
    """The disk is full at some step of an operation, and has room again after some."""

    disk: Disk

    def interlude(self) -> None:
        self.done["filled"] += 1
        self.disk.fill(self.draw.choice(LEFT))

    def one(self) -> None:
        super().one()
        if self.draw.random() < 0.7:
            self.disk.free()

    def verify(self) -> None:
        self.disk.free()
        super().verify()


def main(folder: str, first: str, runs: str, limited: str = "") -> None:
    """Run with so many seeds, check the laws, and print what was done."""
    place, done, failed = Path(folder) / "disk", Counter[str](), Counter[str]()
    try:
        disk: Disk = Limited(place) if limited else Mounted(place)
    except OSError:
        disk = Limited(place)
    Full.disk = disk
    for seed in range(int(first), int(first) + int(runs)):
        world = whole_run(
            Path(folder) / "sources",
            seed,
            operations=40,
            world=Full,
            blob=f"file://{place}/{seed}",
            consensus=f"sqlite:///{place}/{seed}.db",
            shares={Outcome.INTERRUPTED: 0.03},
        )
        done, failed = done + world.done, failed + world.failed
    told = {"by": type(disk).__name__, "done": done, "failed": failed}
    sys.stdout.write(json.dumps(told) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

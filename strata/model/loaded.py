"""Whether the deciding files on disk are still those that this process has loaded.

A process that lives on while its code is upgraded in place decides with the code from before, and
what it loads later is the code of after. A fingerprint of the files says nothing of either. So
their sizes and times are noted before any of them is loaded, and compared whenever the fingerprint
is asked for: `import strata` loads this module first.

Errs: files that are only touched count as replaced. Files in an archive are not watched.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, TypeAlias

ROOMS: Final = (
    "expr",
    "plain",
    "decide",
    "stats",
    "spark",
    "format",
    "model",
    "parts",
    "session",
    "updates",
    "kernels",
)
EVERY_SECONDS: Final = 1.0  # a look at a few hundred files takes a millisecond

Stamp: TypeAlias = tuple[str, int, int, int]  # path, bytes, times of content and of inode in ns


class Loaded:
    """The files of the deciding rooms below a folder, as they are now."""

    def __init__(self, root: str) -> None:
        """Note the files."""
        self._root = root
        self._stamps = frozenset(_stamps(root))
        self._replaced = False
        self._due = 0.0

    def replaced(self, *, at_once: bool = False) -> bool:
        """Return whether any file has changed, come or gone; once it has, it stays so.

        Looks at most once in `EVERY_SECONDS`, or `at_once`.
        """
        now = time.monotonic()
        if not self._replaced and (at_once or now >= self._due):
            self._replaced = frozenset(_stamps(self._root)) != self._stamps
            self._due = now + EVERY_SECONDS
        return self._replaced


def _stamps(root: str) -> Iterator[Stamp]:
    for room in ROOMS:
        yield from _below(os.path.join(root, room))


def _below(folder: str) -> Iterator[Stamp]:
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            if one.is_dir() and one.name != "__pycache__":
                yield from _below(one.path)
            elif one.name.endswith(".py"):
                seen = one.stat()
                yield one.path, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns


OURS: Final = Loaded(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

"""Whether the deciding files on disk are still those that this process has loaded.

A process that lives on while its code is upgraded in place decides with the code from before, and
what it loads later is the code of after. A fingerprint of the files says nothing of either. So
their sizes and times are noted before any of them is loaded, and compared whenever the fingerprint
is asked for: `import strata` loads this module first.

Errs: a file that is only touched counts as replaced; one that another of its size and time is
written into does not, as `cp -p` does it. Files in an archive are not watched.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

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


class Loaded:
    """The files of the deciding rooms below a folder, as they are now."""

    def __init__(self, root: str) -> None:
        """Note the files."""
        self._root = root
        self._noted = dict(_files(root))
        self._replaced = False
        self._due = 0.0

    def replaced(self, *, at_once: bool = False) -> bool:
        """Return whether any file has changed, come or gone; once it has, it stays so.

        Looks at most once in `EVERY_SECONDS`, or `at_once`.
        """
        now = time.monotonic()
        if not self._replaced and (at_once or now >= self._due):
            found = dict(_files(self._root))
            self._replaced = found.keys() != self._noted.keys() or any(
                _is_other(self._noted[path], seen) for path, seen in found.items()
            )
            self._due = now + EVERY_SECONDS
        return self._replaced


def _is_other(old: os.stat_result, new: os.stat_result) -> bool:
    """Return whether a file was written since, or another one stands in its place.

    Its time of change alone says nothing: a link to it changes that, as installers make them. Nor
    does its number, which some file systems give out anew.
    """
    written = (old.st_size, old.st_mtime_ns) != (new.st_size, new.st_mtime_ns)
    return written or (old.st_ino != new.st_ino and old.st_ctime_ns != new.st_ctime_ns)


def _files(root: str) -> Iterator[tuple[str, os.stat_result]]:
    for room in ROOMS:
        yield from _below(os.path.join(root, room))


def _below(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            if one.is_dir() and one.name != "__pycache__":
                yield from _below(one.path)
            elif one.name.endswith(".py"):
                with suppress(OSError):  # a link to nothing
                    yield one.path, one.stat()


OURS: Final = Loaded(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

"""Which code of Strata a process has: the driver decides by it, and executors read and write by it.

Stored statistics and evidence for skipping are bound to the driver's code. Executors have an
environment of their own, which may be of another day.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from strata.errors import InvalidRequest


@cache
def own_code() -> str:
    """Return a digest of all Python files of the package, also of one in an archive.

    Cost: reads some six hundred files, once.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name, file in _below(files("strata"), ""):
        digest.update(f"{name}\0{hashlib.blake2b(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def require_same_code(theirs: str) -> None:
    """Compare the digest of who sent work. Raises: InvalidRequest where it is another one."""
    if theirs != own_code():
        raise InvalidRequest(
            "a worker of Spark runs another Strata than the driver",
            python=sys.executable,
            theirs=own_code(),
            ours=theirs,
            cure="make the executors' environment anew from the driver's release "
            "(docs/how-to/deploy.md); after an upgrade in place: start the driver again",
        )


class SameCode:
    """An object that no process of other code unpickles: it travels ahead of a task's input."""

    def __reduce__(self) -> "tuple[Callable[[str], SameCode], tuple[str]]":
        """See `pickle`."""
        return _arrived, (own_code(),)


def _arrived(theirs: str) -> SameCode:
    require_same_code(theirs)
    return SameCode()


def _below(folder: Traversable, within: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the Python files below a folder with their names, in order."""
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_dir():
            yield from _below(one, f"{within}{one.name}/")
        elif one.name.endswith(".py"):
            yield f"{within}{one.name}", one

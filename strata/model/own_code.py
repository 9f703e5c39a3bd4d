"""Which code of Strata a process has: the driver decides by it, and executors read and write by it.

Stored statistics and evidence for skipping are bound to the driver's code. Executors have an
environment of their own, which may be of another day.
"""

import hashlib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable


@cache
def own_code() -> str:
    """Return a digest of all Python files of the package, also of one in an archive.

    Cost: reads some six hundred files, once.
    """
    digest = hashlib.blake2b(digest_size=8)
    for name, file in _below(files("strata"), ""):
        digest.update(f"{name}\0{hashlib.blake2b(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def _below(folder: Traversable, within: str) -> Iterator[tuple[str, Traversable]]:
    """Yield the Python files below a folder with their names, in order."""
    for one in sorted(folder.iterdir(), key=lambda one: one.name):
        if one.is_dir():
            yield from _below(one, f"{within}{one.name}/")
        elif one.name.endswith(".py"):
            yield f"{within}{one.name}", one

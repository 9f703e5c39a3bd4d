"""Where PySpark is imported from: its files, instead of the archive of the same installation.

Spark puts `python/lib/pyspark.zip` and `py4j-*-src.zip` of its own folder in front of everything
else that a driver or a worker imports from. Python keeps no bytecode of what it imports from an
archive: each process compiles PySpark anew, 1.5 s of CPU in a driver and 2.4 s in its daemons. If
Spark's folder is that of the package `pyspark`, the same modules lie beside it as files.
"""

import sys
from pathlib import Path
from typing import Final

_INSIDE: Final = ("python", "lib")  # where the archives lie within Spark's folder


def import_from_files(path: list[str] | None = None) -> list[str]:
    """Take archives off `path` (default: `sys.path`) whose files can be imported from it as well.

    An archive stays if its Spark is not an installed package, as on a cluster, or if the path does
    not lead to that package, since a PySpark of another version could be found instead.
    Returns: what was taken off.
    """
    where = sys.path if path is None else path
    taken = [entry for entry in where if _is_double(Path(entry), where)]
    where[:] = [entry for entry in where if entry not in taken]
    return taken


def _is_double(entry: Path, path: list[str]) -> bool:
    """Return whether the first files that the path leads to are those of this archive."""
    if entry.suffix != ".zip" or entry.parent.parts[-2:] != _INSIDE:
        return False
    home = entry.parents[2]  # Spark's folder
    if home.name != "pyspark" or _first(home.name, path) != home.resolve():
        return False
    if entry.name == "pyspark.zip":
        return True
    name, _, rest = entry.name.partition("-")
    record = home.parent / f"{name}-{rest.removesuffix('-src.zip')}.dist-info"
    return record.is_dir() and _first(name, path) == (home.parent / name).resolve()


def _first(package: str, path: list[str]) -> Path | None:
    """Return the folder of a package that files on the path are imported from."""
    folders = (Path(entry, package) for entry in path)
    found = next((folder for folder in folders if (folder / "__init__.py").is_file()), None)
    return found and found.resolve()

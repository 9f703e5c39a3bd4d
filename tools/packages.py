"""What a release consists of, looked at: packages that hold what the commit holds, and digests.

`tools.release` is the command. Nothing here builds: `looked_into` compares the files of wheels and
source archives with those of the commit, `archived` makes one archive of a folder whose bytes
depend on the folder's content alone, `digests` and `unlike` say whether two releases are the same.
"""

import gzip
import io
import subprocess
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from email.parser import BytesParser
from hashlib import sha256
from pathlib import Path
from typing import Final

SUMS: Final = "SHA256SUMS"
# Made for the release; no commit holds them: compiled kernels, and what the deciding code means.
READY: Final = ("strata/kernels/ready/", "strata/rollout/basis.txt")
# Distribution, the folder of its project, and the packages that it brings.
PACKAGES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("strata_shards", "", ("strata", "pyspark_strata")),
    ("airflow_provider_strata", "plugins/", ("strata_airflow",)),
)


def committed(root: Path) -> dict[str, bytes]:
    """Return the files of the commit that is checked out, by name."""
    packed = subprocess.run(
        ["git", "archive", "--format=tar", "HEAD"], cwd=root, check=True, capture_output=True
    )
    return _unpacked(packed.stdout)


def archives(name: str, version: str) -> tuple[str, str]:
    """Return what the wheel and the source archive of a distribution are called."""
    return f"{name}-{version}-py3-none-any.whl", f"{name}-{version}.tar.gz"


def looked_into(folder: Path, version: str, commit: Mapping[str, bytes]) -> Iterator[str]:
    """Yield what a package lacks, has beside the files of its commit, or has otherwise."""
    for name, place, packages in PACKAGES:
        ours = {
            file.removeprefix(place): data
            for file, data in commit.items()
            if file.startswith(place)
        }
        wanted = {file for file in ours if file.partition("/")[0] in packages}
        wheel, sources = (folder / file for file in archives(name, version))
        for archive in (wheel, sources):
            if not archive.exists():
                yield f"{archive.name} is missing"
                continue
            inside = _inside(archive, f"{name}-{version}")
            about = BytesParser().parsebytes(inside.pop("METADATA", b""), headersonly=True)
            if about["Version"] != version:
                yield f"{archive.name} says that its version is {about['Version']}"
            brought = {file: data for file, data in inside.items() if file.startswith(READY)}
            for made in READY if archive is wheel and "strata" in packages else ():
                if not any(file.startswith(made) for file in brought):
                    yield f"{archive.name} lacks {made}"
            for file in sorted(wanted - inside.keys()):
                yield f"{archive.name} lacks {file}"
            for file, data in sorted(inside.items() - brought.items()):
                # A source archive brings the list of ignored files that lies above its project.
                if data not in (ours.get(file), commit.get(file)):
                    yield f"{archive.name} has {file} otherwise than the commit"


def archived(folder: Path, file: Path, top: str, at_s: int) -> None:
    """Write a folder as one compressed archive, its files in order, all of one time and owner."""
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for one in sorted(one for one in folder.rglob("*") if one.is_file()):
            entry = tarfile.TarInfo(f"{top}/{one.relative_to(folder).as_posix()}")
            data = one.read_bytes()
            entry.size, entry.mtime, entry.mode = len(data), at_s, 0o644
            archive.addfile(entry, io.BytesIO(data))
    with gzip.GzipFile(file, "wb", mtime=at_s) as packed:
        packed.write(made.getvalue())


def digests(folder: Path) -> str:
    """Return the digest of each file of a folder, as `sha256sum --check` reads it."""
    files = sorted(one for one in folder.iterdir() if one.is_file() and one.name != SUMS)
    return "".join(f"{sha256(one.read_bytes()).hexdigest()}  {one.name}\n" for one in files)


def unlike(before: str, now: str) -> Iterator[str]:
    """Yield each file that two lists of digests do not have alike.

    >>> list(unlike("01  a\\n02  b\\n", "01  a\\n03  b\\n04  c\\n"))
    ['b differs', 'c is new']
    """
    one, other = (
        {line.split("  ", 1)[1]: line for line in text.splitlines()} for text in (before, now)
    )
    for name in sorted(one.keys() | other.keys()):
        if name not in other:
            yield f"{name} is missing"
        elif name not in one:
            yield f"{name} is new"
        elif one[name] != other[name]:
            yield f"{name} differs"


def _inside(archive: Path, top: str) -> dict[str, bytes]:
    """Return the files of a package without its own records, its metadata as `METADATA`."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            every = {name: opened.read(name) for name in opened.namelist()}
        own = f"{top}.dist-info/"
        found = {name: data for name, data in every.items() if not name.startswith(own)}
        return found | {"METADATA": every.get(f"{own}METADATA", b"")}
    every = _unpacked(gzip.decompress(archive.read_bytes()))
    found = {name.removeprefix(f"{top}/"): data for name, data in every.items()}
    return found | {"METADATA": found.pop("PKG-INFO", b"")}


def _unpacked(data: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as archive:
        files = [one for one in archive if one.isfile()]
        return {one.name: opened.read() for one in files if (opened := archive.extractfile(one))}

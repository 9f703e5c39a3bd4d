"""Pack what a cluster's executors need beside Spark (`make pack`).

dist/strata-environment.tar.gz is a virtual environment with the wheel, its compiled kernels, and
the distributions that it needs, as they are installed here: neither Airflow nor pyspark is in it.
Spark unpacks it in each executor's folder (docs/how-to/deploy.md):

    --archives dist/strata-environment.tar.gz#environment
    --conf spark.pyspark.python=./environment/bin/python

`bin/python` is a link to this machine's interpreter: the hosts need the same one at the same
place, and processors of this kind (else the kernels are compiled again there).
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from email import message_from_bytes
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
EXTRAS: Final = ("s3", "postgres")  # of strata itself; `spark` is the cluster's own
LEFT_OUT: Final = ("__pycache__", "tests")
COMPRESSION: Final = 1  # llvmlite and pyarrow are most of it: more takes minutes and saves little


def main(argv: Sequence[str] | None = None) -> int:
    """Pack and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=PROJECT / "dist/strata-environment.tar.gz")
    parser.add_argument("--wheel", type=Path, help="default: the newest in dist/")
    asked = parser.parse_args(argv)
    wheel = asked.wheel or _newest_wheel()
    if wheel is None:
        sys.stderr.write("no wheel in dist/: run `make wheel`\n")
        return 2
    with tempfile.TemporaryDirectory(prefix="strata-pack-") as folder:
        root = Path(folder)
        packages = _environment(root)
        names = sorted(needed(asked_by(wheel)))
        for name in names:
            _copy(distribution(name), packages)
        zipfile.ZipFile(wheel).extractall(packages)
        _compile(root, packages)
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        _pack(root, asked.out)
    size = asked.out.stat().st_size / 2**20
    sys.stdout.write(f"{asked.out}: {size:.0f} MiB, {wheel.name} and {', '.join(names)}\n")
    return 0


def asked_by(wheel: Path) -> list[str]:
    """Return what a wheel requires; the installed project may be older, and require less."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(metadata)).get_all("Requires-Dist") or []


def needed(asked: Iterable[str]) -> set[str]:
    """Return the names of the installed distributions that an executor needs for what is asked."""
    found: set[str] = set()
    waiting = _here(asked, EXTRAS)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += _here(distribution(name).requires or (), ())
    return found


def _here(lines: Iterable[str], extras: Sequence[str]) -> list[str]:
    """Return the distributions that are asked for here and now, those installed."""
    from packaging.requirements import Requirement

    wanted = []
    for line in lines:
        requirement = Requirement(line)
        marker = requirement.marker
        environments = [{"extra": extra} for extra in ("", *extras)]
        if marker is not None and not any(marker.evaluate(e) for e in environments):
            continue
        wanted += [requirement.name, *(f"{requirement.name}-{e}" for e in requirement.extras)]
    return [_spelt(name) for name in wanted if _installed(name)]


def _spelt(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _installed(name: str) -> bool:
    try:
        distribution(name)
    except PackageNotFoundError:
        return False
    return True


def _environment(root: Path) -> Path:
    """Make an empty virtual environment that finds itself wherever it is unpacked."""
    packages = root / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    packages.mkdir(parents=True)
    (root / "bin").mkdir()
    base = Path(sys.base_prefix) / f"bin/python{sys.version_info[0]}.{sys.version_info[1]}"
    (root / "bin/python").symlink_to(base)
    (root / "pyvenv.cfg").write_text(
        f"home = {base.parent}\ninclude-system-site-packages = false\n", encoding="utf-8"
    )
    return packages


def _copy(source: Distribution, packages: Path) -> None:
    for file in source.files or ():
        inside = not file.is_absolute() and ".." not in file.parts
        found = Path(str(source.locate_file(file)))
        if inside and not any(part in LEFT_OUT for part in file.parts) and found.is_file():
            target = packages / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(found, target)


def _compile(root: Path, packages: Path) -> None:
    """Compile the kernels; those that this checkout has compiled from the same source are taken."""
    made = packages / "strata/kernels/__pycache__"
    made.mkdir(exist_ok=True)
    for file in (PROJECT / "strata/kernels/__pycache__").glob("*.nb[ic]"):
        shutil.copy2(file, made)
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": str(root)}
    subprocess.run(
        [str(root / "bin/python"), "-m", "strata.kernels"],
        env=environment,
        cwd=root,
        check=True,
        stdout=subprocess.DEVNULL,
    )


def _pack(root: Path, out: Path) -> None:
    partial = out.with_suffix(".partial")
    with tarfile.open(partial, "w:gz", compresslevel=COMPRESSION) as archive:
        for entry in sorted(root.iterdir()):
            archive.add(entry, arcname=entry.name)
    partial.replace(out)


def _newest_wheel() -> Path | None:
    found = sorted((PROJECT / "dist").glob("strata_shards-*.whl"), key=lambda f: f.stat().st_mtime)
    return found[-1] if found else None


if __name__ == "__main__":
    sys.exit(main())

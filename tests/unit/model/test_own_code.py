"""The digest of the package's code: one for a folder and an archive, another for each edit."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import strata
from strata.model.own_code import own_code

SAY = "from strata.model.own_code import own_code; print(own_code())"
ROOT = Path(strata.__file__).parent


def said(path: Path) -> str:
    """Return what a process says that has its package from a folder or an archive."""
    environment = {**os.environ, "PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SAY],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        cwd=path.parent,  # else the package in this folder comes first
    )
    return done.stdout.strip()


def packed(archive: Path, changed: str = "") -> Path:
    """Write the package as an archive, with a line more in one file."""
    with zipfile.ZipFile(archive, "w") as target:
        for file in ROOT.rglob("*.py"):
            name = file.relative_to(ROOT.parent).as_posix()
            target.writestr(name, file.read_bytes() + (b"# more\n" if name == changed else b""))
    return archive


def test_an_archive_has_the_digest_of_the_folder(tmp_path: Path) -> None:
    assert said(packed(tmp_path / "same.zip")) == own_code()


def test_one_line_in_one_file_makes_another_digest(tmp_path: Path) -> None:
    assert said(packed(tmp_path / "other.zip", "strata/ingest/counts.py")) != own_code()

"""A project to release that is small: a repository whose Makefile has the targets of a release.

They make packages of a few files with the standard library, as the real ones would: every file of
the packages, with metadata, at the time of the commit.
"""

import os
import subprocess
import sys
from pathlib import Path

from tools.release import main

DAY_S = 1_764_201_600  # 2025-11-27
CHANGELOG = "# Changelog\n\n## Unreleased\n\n* More.\n\n## 0.1.0 — 2025-01-01\n\n* The first.\n"
MAKEFILE = """\
.PHONY: lint types arch audit docs dist
lint types arch audit docs dist:
\t@echo $@ >> build/done
\t@{python} build.py $@
"""
BUILD = """\
import gzip, io, os, pathlib, sys, tarfile, zipfile
from strata import __version__ as version

at, target, here = int(os.environ["SOURCE_DATE_EPOCH"]), sys.argv[1], pathlib.Path(".")
def put(name, text):
    (here / name).parent.mkdir(parents=True, exist_ok=True)
    (here / name).write_text(text)
if target == "audit":
    put("dist/sbom.json", '{"metadata": {"component": {"version": "%s"}}}' % version)
    put("dist/licences.txt", "")
if target == "docs":
    put("build/site/index.html", "a"); put("build/site/b/index.html", "b")
if target == "dist":
    put("strata/kernels/ready/made-of.txt", "compilers")
    put("strata/rollout/basis.txt", "meaning")
    pathlib.Path("dist").mkdir(exist_ok=True)
    for name, place, packages in (
        ("strata_shards", "", ("strata", "pyspark_strata")),
        ("airflow_provider_strata", "plugins/", ("strata_airflow",)),
    ):
        top = f"{name}-{version}"
        files = {}
        for package in packages:
            for file in sorted((here / place / package).rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    files[str(file)[len(place):]] = file.read_bytes()
        about = f"Metadata-Version: 2.4\\nName: {name}\\nVersion: {version}\\n\\n".encode()
        with zipfile.ZipFile(f"dist/{top}-py3-none-any.whl", "w") as wheel:
            for file, data in [*files.items(), (f"{top}.dist-info/METADATA", about)]:
                wheel.writestr(zipfile.ZipInfo(file), data)
        packed = gzip.GzipFile(f"dist/{top}.tar.gz", "w", mtime=at)
        with packed, tarfile.open(fileobj=packed, mode="w") as sources:
            for file, data in [*files.items(), ("PKG-INFO", about)]:
                if "ready" not in file:
                    entry = tarfile.TarInfo(f"{top}/{file}")
                    entry.size, entry.mtime = len(data), at
                    sources.addfile(entry, io.BytesIO(data))
"""


class Small:
    """A project with a version in every place, in a repository of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "build").mkdir(parents=True)
        self.put("strata/__init__.py", '__version__ = "0.1.0"\n')
        self.put("strata/data.json", "{}\n")
        self.put("pyspark_strata/__init__.py", "")
        self.put("plugins/strata_airflow/__init__.py", '__version__ = "0.1.0"  # the same\n')
        self.put("plugins/pyproject.toml", 'dependencies = ["strata-shards[ui]~=0.1.0"]\n')
        self.put(
            "docs/how-to/install.md", "pip install dist/strata_shards-0.1.0-py3-none-any.whl\n"
        )
        self.put("CHANGELOG.md", CHANGELOG)
        self.put("Makefile", MAKEFILE.format(python=sys.executable))
        self.put("build.py", BUILD)
        self.put(
            ".gitignore",
            "build/\ndist/\nstrata/kernels/ready/\nstrata/rollout/basis.txt\n__pycache__/\n",
        )
        self.git("init", "--quiet")
        self.commit()

    def put(self, name: str, text: str) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text("utf-8")
        assert old in text
        self.put(name, text.replace(old, new, 1))

    def git(self, *words: str) -> str:
        at = {
            f"GIT_{who}_{what}": "a"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        }
        times = {f"GIT_{who}_DATE": f"{DAY_S} +0000" for who in ("AUTHOR", "COMMITTER")}
        done = subprocess.run(
            ["git", "-c", "commit.gpgsign=false", "-c", "core.hooksPath=/dev/null", *words],
            cwd=self.root,
            env={**os.environ, **at, **times},
            check=True,
            text=True,
            capture_output=True,
        )
        return done.stdout

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "It is so")

    def write(self, version: str = "0.2.0") -> int:
        return main([version, "--write"], self.root, lambda: DAY_S)

    def release(self, version: str = "0.2.0", *words: str) -> int:
        return main([version, *words], self.root)

    def sums(self) -> str:
        return (self.root / "dist/0.2.0/SHA256SUMS").read_text("utf-8")

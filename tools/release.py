"""A release by one command: checked, built to the byte, ready to be tagged by a person.

    python -m tools.release 0.2.0 --write    set the version, open its section in CHANGELOG.md
    make release VERSION=0.2.0               check everything, and build dist/0.2.0
    make release VERSION=0.2.0 AGAINST=SHA256SUMS    the same, and compare with another build

Nothing is committed, tagged or sent anywhere. What is built depends on the commit and the pinned
tools alone: its time is that of the commit, and so a second build elsewhere has the same digests.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from tools.packages import (
    PACKAGES,
    READY,
    SUMS,
    archived,
    archives,
    committed,
    digests,
    looked_into,
    unlike,
)
from tools.version import (
    CHANGELOG,
    disagreements,
    is_version,
    open_section,
    set_version,
    unready,
)

PROJECT: Final = Path(__file__).resolve().parents[1]
CHECKS: Final = ("lint", "types", "arch")
BUILDS: Final = ("dist", "docs", "audit")
SITE: Final = "build/site"
BILL: Final = "sbom.json"  # of materials

Clock = Callable[[], float]


def main(argv: Sequence[str] | None = None, root: Path = PROJECT, clock: Clock = time.time) -> int:
    """Prepare or make a release; return 1 where something is found that keeps it back."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("version", help="as 0.2.0, or 0.2.0rc1")
    parser.add_argument("--write", action="store_true", help="set it in the files, build nothing")
    parser.add_argument("--against", type=Path, help=f"a {SUMS} that this build has to have, too")
    asked = parser.parse_args(argv)
    if not is_version(asked.version):
        return _refused([f"{asked.version} is no version: 0.2.0 is one, or 0.2.0rc1"])
    if asked.write:
        return prepare(root, asked.version, clock)
    if found := [*refusals(root, asked.version)]:
        return _refused(found)
    return build(root, asked.version, asked.against)


def prepare(root: Path, version: str, clock: Clock) -> int:
    """Set the version and open its section; print what a person does next."""
    if _git(root, "tag", "--list", f"v{version}"):
        return _refused([f"v{version} is a tag already"])
    day = datetime.fromtimestamp(clock(), UTC).date().isoformat()
    file = root / CHANGELOG
    try:
        text = open_section(file.read_text("utf-8"), version, day)
    except ValueError as error:
        return _refused([str(error)])
    changed = set_version(root, version)
    if found := [*disagreements(root, version)]:
        return _refused(found)
    if text != file.read_text("utf-8"):
        file.write_text(text, "utf-8")
        changed.append(CHANGELOG)
    _say(f"{version} is set in: {', '.join(changed) or 'nothing, it was already'}")
    _say(f'then:  git commit --all --message "Version {version}"')
    _say(f"       make release VERSION={version}")
    _say(f"       {_tag(version)}")
    return 0


def refusals(root: Path, version: str) -> Iterator[str]:
    """Yield what keeps the commit that is checked out from being this release."""
    if changes := _git(root, "status", "--porcelain"):
        first = changes.splitlines()[0].strip()
        yield f"{len(changes.splitlines())} files are not as committed, the first: {first}"
    head, tag = _git(root, "rev-parse", "HEAD"), f"v{version}"
    if _git(root, "tag", "--list", tag) and _git(root, "rev-list", "-1", tag) != head:
        yield f"{tag} is a tag of another commit"  # of this one: somebody builds it once more
    yield from disagreements(root, version)
    yield from unready((root / CHANGELOG).read_text("utf-8"), version)


def build(root: Path, version: str, against: Path | None) -> int:
    """Run the checks and all builds; gather what is released in dist/VERSION with its digests."""
    before = None if against is None else against.read_text("utf-8")
    at_s = int(_git(root, "log", "-1", "--format=%ct"))
    out = root / "dist" / version
    shutil.rmtree(out, ignore_errors=True)
    for made in (*READY, SITE, *(f"dist/{file}" for file in released(version))):
        if (root / made).is_dir():
            shutil.rmtree(root / made)
        else:
            (root / made).unlink(missing_ok=True)
    # What depends on the time, on hashes or on the language of the machine no longer does.
    environment = {
        **os.environ,
        "SOURCE_DATE_EPOCH": str(at_s),
        "PYTHONHASHSEED": "0",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
    }
    for target in (*CHECKS, *BUILDS):
        began = time.monotonic()
        done = subprocess.run(
            ["make", "--no-print-directory", target], cwd=root, env=environment, check=False
        )
        if done.returncode:
            return _refused([f"make {target} failed"])
        _say(f"== make {target}: {time.monotonic() - began:.0f} s")
    out.mkdir(parents=True)
    found = [
        *gathered(root, out, version, at_s),
        *looked_into(out, version, committed(root)),
        *unnamed(out / BILL, version),
    ]
    sums = digests(out)
    found += unlike(before, sums) if before is not None else ()
    if changes := _git(root, "status", "--porcelain"):
        found.append(f"the build changed what is committed: {changes.splitlines()[0].strip()}")
    if found:
        return _refused(found)
    (out / SUMS).write_text(sums, "utf-8")
    _say(f"{sums}dist/{version}/{SUMS}" + ("" if before is None else f", the same as {against}"))
    _say(f"then:  {_tag(version)}")
    return 0


def gathered(root: Path, out: Path, version: str, at_s: int) -> Iterator[str]:
    """Put what is released into one folder: packages, bill of materials, licences, documents.

    What was not built is not there, and found missing afterwards.
    """
    for file in released(version):
        if (root / "dist" / file).exists():
            shutil.copyfile(root / "dist" / file, out / file)
    if (root / SITE / "index.html").exists():
        archived(root / SITE, out / f"strata-docs-{version}.tar.gz", f"strata-docs-{version}", at_s)
    else:
        yield f"{SITE} is missing"


def released(version: str) -> list[str]:
    """Return what `make dist` and `make audit` leave in the folder dist for a release."""
    packages = [file for name, _, _ in PACKAGES for file in archives(name, version)]
    return [*packages, BILL, "licences.txt"]


def unnamed(bill: Path, version: str) -> Iterator[str]:
    """Yield what keeps the bill of materials from being one of this version."""
    said = json.loads(bill.read_text("utf-8")) if bill.exists() else {}
    if said.get("metadata", {}).get("component", {}).get("version") != version:
        yield f"{bill.name} is not of {version}"


def _tag(version: str) -> str:
    return f'git tag --annotate v{version} --message "Version {version}"'


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _refused(found: Sequence[str]) -> int:
    for line in found:
        _say(f"no release: {line}")
    return 1


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

"""The version of a release: the files that name it, and its section in CHANGELOG.md.

`tools.release` is the command. Engine and provider have one version; CHANGELOG.md has the entries
of the next one under `## Unreleased`, and each release turns them into a section of its own.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

# A file, and what surrounds the version in it. `tests/unit/tools/test_release.py` looks for others.
PLACES: Final[tuple[tuple[str, str], ...]] = (
    ("strata/__init__.py", r'^(__version__ = ")([^"]+)(")'),
    ("plugins/strata_airflow/__init__.py", r'^(__version__ = ")([^"]+)(")'),
    ("plugins/pyproject.toml", r'("strata-shards\[ui\]~=)([^"]+)(")'),
    ("docs/how-to/install.md", r"((?:strata_shards|airflow_provider_strata)-)([\w.]+)(-py3-)"),
)
CHANGELOG: Final = "CHANGELOG.md"
COMING: Final = "Unreleased"
_FORM: Final = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(rc[1-9]\d*)?")
_HEADING: Final = re.compile(r"^## (\S+)(?: — \d{4}-\d\d-\d\d)?$", re.MULTILINE)


def is_version(text: str) -> bool:
    """Return whether a text is a version as releases have it.

    >>> [is_version(one) for one in ("0.2.0", "1.0.0rc1", "v0.2.0", "0.2", "0.02.0")]
    [True, True, False, False, False]
    """
    return _FORM.fullmatch(text) is not None


def disagreements(root: Path, version: str) -> Iterator[str]:
    """Yield each file that names another version, or none at all."""
    for name, pattern in PLACES:
        named = {found[2] for found in _named(root, name, pattern)}
        if not named:
            yield f"{name} names no version"
        for other in sorted(named - {version}):
            yield f"{name} names {other}"


def set_version(root: Path, version: str) -> list[str]:
    """Write a version into every file that names one; return the files that changed."""
    changed = []
    for name, pattern in PLACES:
        text = (root / name).read_text("utf-8")
        new = re.sub(pattern, rf"\g<1>{version}\g<3>", text, flags=re.MULTILINE)
        if new != text:
            (root / name).write_text(new, "utf-8")
            changed.append(name)
    return changed


def sections(text: str) -> dict[str, str]:
    """Return what CHANGELOG.md has under each heading of a version, the newest first.

    >>> sections("# Changelog\\n\\n## Unreleased\\n\\n## 0.1.0 — 2026-11-21\\n\\n* The first.\\n")
    {'Unreleased': '', '0.1.0': '* The first.'}
    """
    found = [*_HEADING.finditer(text)]
    ends = [one.start() for one in found[1:]] + [len(text)]
    return {one[1]: text[one.end() : end].strip() for one, end in zip(found, ends, strict=True)}


def unready(text: str, version: str) -> Iterator[str]:
    """Yield what keeps CHANGELOG.md from describing the release of a version."""
    found = sections(text)
    newest = [name for name in found if name != COMING][:1]
    if not found.get(version):
        yield f"{CHANGELOG} has no section {version}, or an empty one"
    elif newest != [version]:
        yield f"{CHANGELOG} has the section {newest[0]} above {version}"
    if found.get(COMING):
        yield f"{CHANGELOG} has entries under {COMING}, which no release would have"


def open_section(text: str, version: str, day: str) -> str:
    """Return CHANGELOG.md with the entries of the coming version under the heading of this one.

    Raises: ValueError where there is nothing to release, or the section is there with others.
    """
    found = sections(text)
    if found.get(version) and not found.get(COMING):
        return text  # done before
    if version in found:
        raise ValueError(f"{CHANGELOG} has a section {version}, and entries under {COMING}")
    if not found.get(COMING):
        raise ValueError(f"{CHANGELOG} has nothing under {COMING} to release")
    heading = f"## {COMING}\n"
    return text.replace(heading, f"{heading}\n## {version} — {day}\n", 1)


def _named(root: Path, name: str, pattern: str) -> Iterator[re.Match[str]]:
    file = root / name
    return re.finditer(pattern, file.read_text("utf-8") if file.exists() else "", re.MULTILINE)

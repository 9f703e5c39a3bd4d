"""A release is refused for each fault that others would find; a sound one is the same twice."""

import os
import re
import subprocess
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

import strata
from tests.support.small_release import Small
from tools.release import main
from tools.version import PLACES, disagreements, open_section, sections, set_version

PROJECT = Path(__file__).resolve().parents[3]


@pytest.fixture
def small(tmp_path: Path) -> Small:
    return Small(tmp_path / "small")


@pytest.fixture
def ready(small: Small) -> Small:
    """A project whose next version is committed."""
    assert small.write() == 0
    small.commit()
    return small


def test_writing_sets_every_place_and_names_what_a_person_runs(
    small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    assert small.write() == 0

    said = capsys.readouterr().out
    assert 'git commit --all --message "Version 0.2.0"' in said
    assert 'git tag --annotate v0.2.0 --message "Version 0.2.0"' in said
    changed = small.git("diff", "--name-only").split()
    assert sorted(changed) == sorted(["CHANGELOG.md", *(name for name, _ in PLACES)])
    assert "## Unreleased\n\n## 0.2.0 — 2025-11-27\n\n* More.\n" in (
        small.root / "CHANGELOG.md"
    ).read_text("utf-8")
    assert small.git("log", "--oneline").count("\n") == 1, "it commits nothing"
    assert small.git("tag") == ""

    once = small.git("diff")
    assert small.write() == 0
    assert small.git("diff") == once, "a second time changes nothing"


def test_no_other_file_that_people_follow_names_the_version() -> None:
    """One that does would go on naming the last release: give it a place in `PLACES`."""
    folders = ("deploy", "docs/how-to", "docs/tutorial", "plugins", "dags", "jobs", "config")
    files = ("README.md", "Makefile", "strata/__init__.py")
    listed = subprocess.run(
        ["git", "grep", "-lwF", strata.__version__, "--", *folders, *files],
        cwd=PROJECT,
        text=True,
        capture_output=True,
        check=True,
    )
    assert sorted(listed.stdout.split()) == sorted(name for name, _ in PLACES)


def test_every_place_of_the_project_names_its_version_and_can_name_the_next(tmp_path: Path) -> None:
    assert [*disagreements(PROJECT, strata.__version__)] == []
    for name, _ in PLACES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((PROJECT / name).read_bytes())
    assert set_version(tmp_path, "99.0.0rc1") == [name for name, _ in PLACES]
    assert [*disagreements(tmp_path, "99.0.0rc1")] == []


def test_the_changelog_of_the_project_can_be_opened() -> None:
    text = (PROJECT / "CHANGELOG.md").read_text("utf-8")
    if sections(text)["Unreleased"]:
        opened = sections(open_section(text, "99.0.0", "2025-11-27"))
        assert opened["99.0.0"] == sections(text)["Unreleased"]
        assert opened["Unreleased"] == ""


def test_two_builds_in_other_folders_have_the_same_digests(ready: Small, tmp_path: Path) -> None:
    assert ready.release() == 0
    lines = ready.sums().splitlines()
    assert [line.split("  ")[1] for line in lines] == [
        "airflow_provider_strata-0.2.0-py3-none-any.whl",
        "airflow_provider_strata-0.2.0.tar.gz",
        "licences.txt",
        "sbom.json",
        "strata-docs-0.2.0.tar.gz",
        "strata_shards-0.2.0-py3-none-any.whl",
        "strata_shards-0.2.0.tar.gz",
    ]
    out = ready.root / "dist/0.2.0"
    for digest, name in (line.split("  ") for line in lines):
        assert sha256((out / name).read_bytes()).hexdigest() == digest
    assert (ready.root / "build/done").read_text().split() == [
        "lint",
        "types",
        "arch",
        "dist",
        "docs",
        "audit",
    ]

    other = tmp_path / "elsewhere"
    subprocess.run(["git", "clone", "--quiet", ready.root, other], check=True)
    (other / "build").mkdir()
    for file in other.rglob("*.py"):
        os.utime(file, (1, 1))
    kept = tmp_path / "SHA256SUMS"
    kept.write_text(ready.sums())
    assert main(["0.2.0", "--against", str(kept)], other) == 0


def not_committed(small: Small) -> None:
    small.put("strata/new.py", "")


def changed_tree(small: Small) -> None:
    small.edit("strata/data.json", "{}", "[]")


def used(small: Small) -> None:
    small.git("tag", "v0.2.0", "HEAD~1")


def without_a_section(small: Small) -> None:
    small.edit("CHANGELOG.md", "## 0.2.0", "## 0.2.1")
    small.commit()


def with_an_empty_section(small: Small) -> None:
    small.edit("CHANGELOG.md", "* More.\n", "")
    small.commit()


def with_later_entries(small: Small) -> None:
    small.edit("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n* Later.\n")
    small.commit()


def two_versions(small: Small) -> None:
    small.edit("plugins/pyproject.toml", "~=0.2.0", "~=0.1.0")
    small.commit()


def no_version(small: Small) -> None:
    small.edit("docs/how-to/install.md", "strata_shards-0.2.0", "strata_shards-*")
    small.commit()


def lint_fails(small: Small) -> None:
    small.edit("build.py", "at, target", "assert sys.argv[1] != 'types'\nat, target")
    small.commit()


def data_left_out(small: Small) -> None:
    small.edit("build.py", "if file.is_file()", "if file.is_file() and file.suffix != '.json'")
    small.commit()


def another_wheel(small: Small) -> None:
    small.edit(
        "build.py",
        "wheel.writestr(zipfile.ZipInfo(file), data)",
        "wheel.writestr(zipfile.ZipInfo(file), data.replace(b'{}', b'[]'))",
    )
    small.commit()


def no_kernels(small: Small) -> None:
    small.edit("build.py", '    put("strata/kernels/ready/made-of.txt", "compilers")\n', "")
    small.commit()


def no_basis(small: Small) -> None:
    small.edit("build.py", '    put("strata/rollout/basis.txt", "meaning")\n', "")
    small.commit()


def a_stray_file(small: Small) -> None:
    small.edit("build.py", "for name, place", "put('strata/own.pyc', '')\n    for name, place")
    small.put(
        ".gitignore",
        "build/\ndist/\nstrata/kernels/ready/\nstrata/rollout/basis.txt\n__pycache__/\n*.pyc\n",
    )
    small.commit()


def a_bill_of_another(small: Small) -> None:
    small.edit("build.py", "}}}' % version", "}}}' % '0.1.0'")
    small.commit()


def no_wheel(small: Small) -> None:
    small.edit("build.py", "-py3-none-any.whl", "-py2-none-any.whl")
    small.commit()


def another_name(small: Small) -> None:
    small.edit("build.py", "Version: {version}", "Version: 0.1.9")
    small.commit()


def a_build_that_edits(small: Small) -> None:
    small.edit(
        "build.py", 'if target == "docs":', 'if target == "docs":\n    put("CHANGELOG.md", "")'
    )
    small.commit()


@pytest.mark.parametrize(
    ("plant", "said"),
    [
        (not_committed, "1 files are not as committed, the first: ?? strata/new.py"),
        (changed_tree, "1 files are not as committed, the first: M strata/data.json"),
        (used, "v0.2.0 is a tag of another commit"),
        (without_a_section, "CHANGELOG.md has no section 0.2.0, or an empty one"),
        (with_an_empty_section, "CHANGELOG.md has no section 0.2.0, or an empty one"),
        (with_later_entries, "CHANGELOG.md has entries under Unreleased"),
        (two_versions, "plugins/pyproject.toml names 0.1.0"),
        (no_version, "docs/how-to/install.md names no version"),
        (lint_fails, "make types failed"),
        (data_left_out, "strata_shards-0.2.0-py3-none-any.whl lacks strata/data.json"),
        (another_wheel, "py3-none-any.whl has strata/data.json otherwise than the commit"),
        (no_kernels, "strata_shards-0.2.0-py3-none-any.whl lacks strata/kernels/ready/"),
        (no_basis, "strata_shards-0.2.0-py3-none-any.whl lacks strata/rollout/basis.txt"),
        (a_stray_file, "strata_shards-0.2.0.tar.gz has strata/own.pyc otherwise than the commit"),
        (a_bill_of_another, "sbom.json is not of 0.2.0"),
        (no_wheel, "strata_shards-0.2.0-py3-none-any.whl is missing"),
        (another_name, "says that its version is 0.1.9"),
        (a_build_that_edits, "the build changed what is committed: M CHANGELOG.md"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_a_fault_keeps_the_release_back(
    plant: Callable[[Small], None],
    said: str,
    ready: Small,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plant(ready)

    assert ready.release() == 1
    assert f"{said}" in capsys.readouterr().out
    assert not (ready.root / "dist/0.2.0/SHA256SUMS").exists()


def test_a_tag_of_this_very_commit_is_built_once_more(ready: Small) -> None:
    ready.git("tag", "--annotate", "v0.2.0", "--message", "Version 0.2.0")
    assert ready.release() == 0


def test_a_build_that_differs_from_another_is_named_by_its_file(
    ready: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ready.release() == 0
    wheel = "strata_shards-0.2.0-py3-none-any.whl"
    kept = tmp_path / "SHA256SUMS"
    kept.write_text(re.sub(rf"\w+(?=  {wheel})", "0" * 64, ready.sums()))

    assert ready.release("0.2.0", "--against", str(kept)) == 1
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("no release")]
    assert found == [f"no release: {wheel} differs"]


def test_writing_is_refused_without_entries_for_a_used_version_or_none(
    small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    assert small.write("v2") == 1
    small.git("tag", "v0.2.0")
    assert small.write() == 1
    small.git("tag", "--delete", "v0.2.0")
    small.edit("CHANGELOG.md", "* More.\n", "")
    assert small.write() == 1

    said = capsys.readouterr().out
    assert "v2 is no version" in said
    assert "v0.2.0 is a tag already" in said
    assert "CHANGELOG.md has nothing under Unreleased to release" in said
    small.commit()
    assert small.git("diff") == ""


def test_what_was_built_before_is_not_released(
    ready: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    """A package of another day lies in dist, and kernels of another compiler."""
    ready.put("dist/strata_shards-0.2.0-1-py3-none-any.whl", "old")
    ready.put("strata/kernels/ready/old.nbc", "old")
    assert ready.release() == 0
    with zipfile.ZipFile(ready.root / "dist/0.2.0/strata_shards-0.2.0-py3-none-any.whl") as wheel:
        assert "strata/kernels/ready/old.nbc" not in wheel.namelist()
    assert not (ready.root / "dist/0.2.0/strata_shards-0.2.0-1-py3-none-any.whl").exists()
    ready.edit("build.py", 'if target == "docs":', 'if target == "never":')
    ready.commit()
    assert ready.release() == 1
    assert "build/site is missing" in capsys.readouterr().out

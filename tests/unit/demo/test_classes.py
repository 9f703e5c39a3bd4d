"""The first job of a demo writes the archive of Spark's classes, and all later ones use it."""

import subprocess
from pathlib import Path

import pytest

from demo.classes import ClassArchive


def flags(archive: ClassArchive) -> str:
    return (archive.folder / "java.flags").read_text("utf-8")


def test_the_first_job_writes_an_archive_and_all_others_use_it(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    archive.make_ready(write=True)
    name, _, unfinished = flags(archive).strip().partition("=")
    assert name == "ArchiveClassesAtExit"

    Path(unfinished).write_bytes(b"classes")
    archive.take()

    used, _, file = flags(archive).strip().partition("=")
    assert used == "SharedArchiveFile"
    assert Path(file).read_bytes() == b"classes"
    assert not Path(unfinished).exists()
    archive.make_ready(write=True)
    assert flags(archive).strip() == f"{used}={file}"


def test_without_an_archive_nothing_is_asked_of_java(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)

    archive.make_ready(write=False)
    assert flags(archive) == ""
    archive.take()
    assert flags(archive) == ""


def test_a_folder_with_a_space_has_no_archive(tmp_path: Path) -> None:
    assert ClassArchive(tmp_path / "two words").options == ""
    assert "two_words" in ClassArchive(tmp_path / "two_words").options


@pytest.mark.spark
def test_java_writes_and_uses_an_archive_and_ignores_a_broken_one(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    java = ["java", *archive.options.split(), "-Xshare:auto", "-version"]
    archive.make_ready(write=True)
    subprocess.run(java, check=True, capture_output=True)
    unfinished = Path(flags(archive).strip().partition("=")[2])
    written = unfinished.exists()
    archive.take()

    assert written
    again = subprocess.run(java, check=True, capture_output=True)
    assert b"warning" not in again.stdout.lower()
    file = Path(flags(archive).strip().partition("=")[2])
    file.chmod(0o600)
    file.write_bytes(b"broken")
    subprocess.run(java, check=True, capture_output=True)

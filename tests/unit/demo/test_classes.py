"""The Airflow that stays writes an archive of Spark's classes; later jobs use it."""

import subprocess
from pathlib import Path

import pytest

from demo.classes import QUICK_START, ClassArchive
from tests.support.containers import PROJECT


def flags(archive: ClassArchive) -> str:
    return (archive.folder / "java.flags").read_text("utf-8")


def test_without_an_archive_nothing_is_asked_of_java(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "new")

    archive.make_ready()

    assert flags(archive) == ""


def test_a_folder_with_a_space_has_no_archive(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "two words")
    assert archive.options == QUICK_START
    assert archive.writing() == []
    assert "two_words" in ClassArchive(tmp_path / "two_words").options


def test_an_archive_that_is_there_is_used_and_not_written_again(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    Path(archive.writing()[-1]).write_bytes(b"an archive")

    archive.make_ready()

    assert flags(archive).startswith("SharedArchiveFile=")
    assert archive.writing() == []


def test_java_takes_the_options_without_a_word(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    archive.make_ready()
    java = ["java", *archive.options.split(), "-version"]
    done = subprocess.run(java, check=True, capture_output=True, text=True)
    assert "warning" not in (done.stdout + done.stderr).lower()


@pytest.mark.spark
@pytest.mark.long  # half a minute of a processor
def test_java_writes_and_uses_an_archive_and_ignores_a_broken_one(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    archive.make_ready()
    subprocess.run(archive.writing(), check=True, capture_output=True, cwd=PROJECT)
    name, _, file = flags(archive).strip().partition("=")
    assert name == "SharedArchiveFile"
    assert Path(file).stat().st_size > 10_000_000

    java = ["java", *archive.options.split(), "-Xshare:auto", "-version"]
    assert b"warning" not in subprocess.run(java, check=True, capture_output=True).stdout.lower()
    Path(file).chmod(0o600)
    Path(file).write_bytes(b"broken")
    subprocess.run(java, check=True, capture_output=True)

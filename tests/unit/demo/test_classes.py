"""The first demo writes an archive of Spark's classes beside its start; later ones use it."""

import subprocess
import time
from pathlib import Path

import pytest

from demo.classes import QUICK_START, ClassArchive


def flags(archive: ClassArchive) -> str:
    return (archive.folder / "java.flags").read_text("utf-8")


def test_without_an_archive_nothing_is_asked_of_java(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "new")

    archive.make_ready()

    assert flags(archive) == ""


def test_a_folder_with_a_space_has_no_archive(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path / "two words")
    assert archive.options == QUICK_START
    with archive.being_written() as take:
        take()
    assert [path.name for path in archive.folder.iterdir()] == ["java.flags"]
    assert "two_words" in ClassArchive(tmp_path / "two_words").options


@pytest.mark.parametrize("script", ["raise SystemExit(1)", "import time; time.sleep(600)"])
def test_a_demo_goes_on_if_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    started, whole = [], subprocess.Popen

    def popen(words: list[str], **how: object) -> subprocess.Popen[bytes]:
        started.append(whole([words[0], "-c", script]))
        return started[0]

    archive = ClassArchive(tmp_path)
    monkeypatch.setattr(ClassArchive, "_file", lambda self: self.folder / "x.jsa")
    monkeypatch.setattr(subprocess, "Popen", popen)

    with archive.being_written() as take:
        take()

    assert flags(archive) == ""
    assert started[0].returncode is not None


@pytest.mark.spark
@pytest.mark.long  # each demo of CI does the same
def test_java_writes_and_uses_an_archive_and_ignores_a_broken_one(tmp_path: Path) -> None:
    archive = ClassArchive(tmp_path)
    java = ["java", *archive.options.split(), "-Xshare:auto", "-version"]
    with archive.being_written() as take:
        take()
        while not flags(archive):
            time.sleep(0.2)
            take()
    name, _, file = flags(archive).strip().partition("=")
    assert name == "SharedArchiveFile"
    assert Path(file).stat().st_size > 10_000_000

    assert b"warning" not in subprocess.run(java, check=True, capture_output=True).stdout.lower()
    Path(file).chmod(0o600)
    Path(file).write_bytes(b"broken")
    subprocess.run(java, check=True, capture_output=True)

"""`strata demo` makes a shard to try everything on, without Java and without a checkout."""

import json
import shlex
from pathlib import Path

import pytest

from strata.cli.app import main
from strata.cli.demo import TRY

NEEDS_MORE = ("ui", "validate")  # a browser, Java


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRATA_CONFIG", raising=False)
    return tmp_path


def run(*words: str) -> int:
    try:
        main(words)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def test_what_it_says_to_try_works_in_the_folder(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run("demo", "--days", "90", "--rows", "40", "--json") == 0
    made = json.loads(capsys.readouterr().out)
    assert (made["rows"], made["batches"], made["files"]) == (3600, 3, 90)
    assert made["try"] == ["cd strata-demo", *TRY]

    monkeypatch.chdir(home / "strata-demo")
    for line in TRY:
        _, *words = shlex.split(line, comments=True)
        if words[0] not in NEEDS_MORE:
            assert run(*words) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert "orders" in shown
    assert "2026-05-2" in shown, "the reading shows rows of the last days"
    assert shown.count("\tingest\t") == 3, "the history has the operations as well"


def test_a_folder_with_something_in_it_is_left_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "mine").mkdir()
    (home / "mine" / "thesis.txt").write_text("years of work")

    assert run("demo", "mine") == 2
    assert "the folder has something in it" in capsys.readouterr().err
    assert [file.name for file in (home / "mine").iterdir()] == ["thesis.txt"]


def test_nothing_stays_of_a_demo_that_fails(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("strata.cli.demo.ingest_files", full)

    assert run("demo", "made", "--days", "2", "--rows", "3") == 1
    assert "make room on this disk" in capsys.readouterr().err
    assert not (home / "made").exists()


def test_the_tutorial_begins_with_the_files_alone(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("demo", "first", "--files-only", "--days", "2", "--rows", "3") == 0
    assert capsys.readouterr().out == "2 files of 3 orders in first/landing/orders\n"
    files = sorted((home / "first").rglob("*"))
    assert [file.name for file in files if file.is_file()] == ["2026-03-01.csv", "2026-03-02.csv"]

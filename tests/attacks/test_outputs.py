"""An output that cannot be written is one clear error, and takes the place of nothing else."""

import errno
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from strata.audit.receipts import write_receipt
from strata.cli.app import main
from strata.cli.output import Output
from strata.errors import InvalidRequest, StrataError, Unavailable
from strata.jobs.entry import run_job
from strata.store.whole_file import written_whole


def rows_to(out: Path) -> None:
    rows = pa.record_batch({"id": [1]})
    Output(out=out).write(iter([rows]), rows.schema)


def receipt_to(out: Path) -> None:
    write_receipt(out, {"rows": 1})


def text_to(out: Path) -> None:
    with written_whole(out, "the report") as file:
        file.write(b"text")


WRITERS = pytest.mark.parametrize("write", [rows_to, receipt_to, text_to])


@WRITERS
def test_a_device_or_a_pipe_keeps_its_place(tmp_path: Path, write: Callable[[Path], None]) -> None:
    """The superuser could put a file in the place of /dev/null."""
    pipe, link = tmp_path / "null.csv", tmp_path / "stdout.csv"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for out in (pipe, link, tmp_path):
        with pytest.raises(InvalidRequest, match="a folder, a device or a pipe"):
            write(out)
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["null.csv", "stdout.csv"]


@WRITERS
def test_a_full_disk_passes_and_a_wrong_place_does_not(
    tmp_path: Path, write: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("kept")
    with pytest.raises(InvalidRequest, match="cannot be written here"):
        write(tmp_path / "file" / "out.csv")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(Unavailable, match="make room"):
        write(tmp_path / "out.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_declaration_and_a_demo_say_so_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STRATA_CONFIG", raising=False)
    (tmp_path / "a.csv").write_text("id\n1\n")
    for words in (
        ("create", "s", "--infer", "a.csv", "--key", "id", "--out", "a.csv/s.yaml"),
        ("demo", "a.csv/demo"),
    ):
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code == InvalidRequest.exit_code
        assert "cannot be written here" in capsys.readouterr().err


def test_a_job_without_room_for_its_result_is_told_apart(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The work is done: it is in the history, and the exit code says that something is missing."""
    (tmp_path / "file").write_text("kept")
    assert run_job(str(tmp_path / "file" / "result.json"), lambda: ({"rows": 1}, 0)) == 2
    assert "whose work is done" in capsys.readouterr().err
    assert run_job(str(tmp_path / "result.json"), lambda: ({"rows": 1}, 0)) == 0
    assert json.loads((tmp_path / "result.json").read_text()) == {"rows": 1}

    def fails() -> tuple[dict[str, int], int]:
        raise StrataError("no")

    assert run_job(str(tmp_path / "file" / "result.json"), fails) == 1

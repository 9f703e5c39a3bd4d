"""`strata own` lists the files that parts refer to, and takes them in."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.test_commands import Cli

SPEC = """
name: rows
columns: [{name: id, type: int64}]
key: [id]
source: {paths: [rows], format: parquet, in_place: true}
"""


def test_files_are_listed_and_taken_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli = Cli(tmp_path, capsys)
    (tmp_path / "rows.yaml").write_text(SPEC)
    cli.json("create", "rows", "--spec", str(tmp_path / "rows.yaml"))
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": range(9_000)}), file)
    cli.json("ingest", "rows", "--from", str(file), "--lower", "0", "--upper", "1000")

    listed = cli.json("own", "rows", "--dry-run")
    assert [one["file"] for one in listed["files"]] == [f"file://{file}"]
    assert listed["bytes"] == file.stat().st_size

    assert cli.json("own", "rows", "--reason", "the folder goes")["files"] == listed["files"]
    file.unlink()
    assert cli.json("read", "rows")["rows"] == 9_000
    assert cli.json("own", "rows")["files"] == []
    what = [one["what"] for one in cli.json("history", "rows")["operations"]]
    assert what.count("own") == 2

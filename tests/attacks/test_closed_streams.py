"""A command whose streams are closed, full or cut, or whose folder is gone, ends with words."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMAND = f'"{sys.executable}" -m strata.cli.app'
CLOSED = ("<&-", ">&-", "2>&-", "<&- >&- 2>&-")
SPEC = """\
name: s
columns: [{name: id, type: int64}]
source: {paths: [.], format: csv, envelope: append}
time: {from: interval}
"""
# Opens a file while a command runs; a low number ends the process with 7
OPENING = """
import os, sys
from strata.cli.app import main

def look(event, given):
    if event == "sqlite3.connect":
        os._exit(0 if os.open("low", os.O_CREAT | os.O_WRONLY) > 2 else 7)

sys.addaudithook(look)
sys.argv = ["strata", "shards"]
main()
"""
FULL = Path("/dev/full")


def shell(line: str, folder: Path) -> tuple[int, str]:
    """Run a line of shell; return its exit code and what it wrote to standard error."""
    root = Path(__file__).parents[2]
    env = {name: value for name, value in os.environ.items() if name != "STRATA_CONFIG"}
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={**env, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.returncode, done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a shard of 5,000 rows."""
    made = tmp_path_factory.mktemp("streams")
    (made / "s.yaml").write_text(SPEC, "utf-8")
    (made / "a.csv").write_text("id\n" + "\n".join(map(str, range(5_000))), "utf-8")
    for words in ("create s --spec s.yaml", "ingest s --from a.csv --lower 1 --upper 2"):
        code, said = shell(f"{COMMAND} {words}", made)
        assert code == 0, said
    return made


@pytest.mark.parametrize("closed", CLOSED)
@pytest.mark.parametrize("words", ["read s", "count s --json", "tag s now"])
def test_a_closed_stream_leads_nowhere(folder: Path, words: str, closed: str) -> None:
    code, said = shell(f"{COMMAND} {words} {closed}", folder)
    assert (code, "Traceback" in said) == (0, False), said


def test_no_file_takes_the_place_of_a_closed_stream(folder: Path) -> None:
    """What a library prints would be written into a file of the store."""
    program = folder / "opening.py"
    program.write_text(OPENING, "utf-8")
    assert shell(f'"{sys.executable}" {program.name} >&- 2>&-', folder) == (0, "")


@pytest.mark.skipif(not FULL.exists(), reason="no device that is full")
@pytest.mark.parametrize("words", ["shards", "read s --limit 0 --format csv", "read s --json"])
def test_an_output_that_is_full_is_said(folder: Path, words: str) -> None:
    code, said = shell(f"{COMMAND} {words} > /dev/full", folder)
    assert code == 1
    assert said.splitlines()[-1].startswith("Unavailable: the answer cannot be written")
    assert "Traceback" not in said
    assert "Exception ignored" not in said


@pytest.mark.parametrize("words", ["shards", "read s --limit 0 --format csv", "inspect s"])
def test_a_reader_that_goes_away_is_no_error_in_words(folder: Path, words: str) -> None:
    _, said = shell(f"{COMMAND} {words} | head -c 1 > /dev/null", folder)
    assert "Traceback" not in said
    assert "Exception ignored" not in said


def test_a_folder_that_is_gone_is_named(folder: Path) -> None:
    (folder / "gone").mkdir()
    code, said = shell(f"cd gone && rmdir ../gone && {COMMAND} shards", folder)
    assert code == 2
    assert said.splitlines()[-1].startswith("InvalidRequest: the current folder is gone")
    assert "Traceback" not in said

"""A command loads neither pandas nor what it does not need; Arrow still makes frames later."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

WATCHED = ("pandas", "numba", "sqlglot", "pyspark", "strata.decide.decision", "strata.shard")
SCRIPT = """
import json, sys
from strata.cli.app import main
sys.argv = ["strata", *{argv!r}]
try:
    main()
except SystemExit:
    pass
import pyarrow as pa
loaded = [name for name in {watched!r} if name in sys.modules]
frame = pa.table({{"x": [1, None]}}).to_pandas() if {frame} else None
sys.stderr.write("\\n" + json.dumps([loaded, None if frame is None else len(frame)]))
"""


def loaded(folder: Path, *argv: str, frame: bool = False) -> tuple[set[str], object]:
    """Return what of the watched modules a command loads, and the rows of a frame made later."""
    script = SCRIPT.format(argv=argv, watched=WATCHED, frame=frame)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=folder, check=True
    )
    names, rows = json.loads(done.stderr.splitlines()[-1])
    return set(names), rows


def test_listing_shards_loads_nothing_that_plans_or_reads(tmp_path: Path) -> None:
    assert loaded(tmp_path, "shards") == (set(), None)


@pytest.mark.parametrize("argv", [["read", "nothing"], ["explain", "nothing", "--where", "a = 1"]])
def test_no_command_loads_pandas_and_frames_are_made_later(tmp_path: Path, argv: list[str]) -> None:
    names, rows = loaded(tmp_path, *argv, frame=True)

    assert not {"pandas", "pyspark"} & names
    assert rows == 2

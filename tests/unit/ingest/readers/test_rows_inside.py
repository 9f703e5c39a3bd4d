"""A JSON file that is one object with rows inside is noticed, and how to take them out."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from strata.ingest.readers.infer import infer
from strata.ingest.readers.rows_inside import note_of_rows
from tests.unit.ingest.test_engine import World

ROWS = [{"n": 1, "x": "a"}, {"n": 2}]


@pytest.mark.parametrize(
    ("value", "rows"),
    [
        ({"a": ROWS[0], "b c": ROWS[1]}, [{"key": "a", **ROWS[0]}, {"key": "b c", **ROWS[1]}]),
        ({"3166-1": ROWS}, ROWS),
        ({"type": "all", "short": ROWS[:1], "it's": [*ROWS, {"n": 3}]}, [*ROWS, {"n": 3}]),
    ],
)
def test_the_cure_gives_the_rows(tmp_path: Path, value: Any, rows: list[Any]) -> None:
    world = World(tmp_path)
    file = world.put("a b.json", json.dumps(value))

    found = infer(world.settings, "new", file)

    [note] = [one for one in found.notes if "one object" in one]
    command = note[note.index("jq -c") :]
    if shutil.which("jq"):
        subprocess.run(["/bin/sh", "-c", command], cwd=tmp_path, check=True)
        lines = (tmp_path / "rows.jsonl").read_text().splitlines()
        assert [json.loads(line) for line in lines] == rows


@pytest.mark.parametrize(
    "values",
    [
        [],
        [None],
        [{"a": 1}],
        [{"a": {"n": 1}}],
        [{"a": {"n": 1}, "b": {"m": 2}}],
        [{"a": {"n": 1}, "b": 2}],
        [{"a": [{"n": 1}]}],
        [{"a": [1, 2]}],
        [ROWS[0], ROWS[1]],
    ],
)
def test_rows_with_objects_in_them_are_rows(values: list[Any]) -> None:
    assert note_of_rows(values, "a.json") is None

"""Collections, another sort order and the history of merges, from the command line."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.cli.test_commands import Cli

SPEC = """
name: events
columns:
  - {name: id, type: int64, nullable: false}
  - {name: tenant, type: string, nullable: false}
key: [id]
source: {format: jsonl}
"""


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = Cli(tmp_path, capsys)
    (tmp_path / "events.yaml").write_text(SPEC)
    cli.create()
    cli.ingest(0, *(f'{{"id": {i}, "tenant": "t{i % 3}"}}' for i in range(30)))
    cli.ingest(1000, *(f'{{"id": {i}, "tenant": "t{i % 3}"}}' for i in range(30, 60)))
    return cli


def test_a_shard_is_sorted_otherwise_migrated_and_read_by_collection(cli: Cli) -> None:
    code, _, err = cli.run("collection", "create", "events", "t0")
    assert (code, "strata schema sort" in err or "never null" in err) == (2, True)
    sorted_by = cli.json("schema", "sort", "events", "tenant")
    assert sorted_by["order"] == ["tenant", "id"]
    made = cli.json("collection", "create", "events", "t0", "t1", "--note", "first two")
    assert (made["column"], made["collections"]) == ("tenant", 2)
    plan = cli.json("compact", "events", "--plan", "--migrate")
    assert {r["outcome"] for r in plan["requests"]} == {"planned"}

    done = cli.json("compact", "events", "--migrate")

    assert done["applied"] == len(plan["requests"]) > 0
    told = cli.json("merges", "events")
    assert [m["reason"] for m in reversed(told["merges"])] == [
        r["reason"] for r in done["requests"]
    ]
    assert told["under_way"] == []
    assert told["updates_out"] == 60
    listed = cli.json("collection", "list", "events")
    assert [(c["name"], c["note"]) for c in listed["collections"]] == [
        ("t0", "first two"),
        ("t1", "first two"),
    ]
    out = cli.root / "t1.parquet"
    read = cli.json("collection", "read", "events", "t1", "--columns", "id", "--out", str(out))
    assert read["rows"] == 20
    assert sorted(pq.read_table(out)["id"].to_pylist()) == list(range(1, 60, 3))
    assert cli.run("collection", "read", "events", "t2")[0] == 2
    for words in (("merges",), ("collection", "list"), ("compact", "--plan")):
        assert cli.run(words[0], *words[1:], "events")[0] == 0

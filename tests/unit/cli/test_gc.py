"""The commands about garbage: a plan that changes nothing, a run, leaks with their exit code."""

from pathlib import Path

import pytest

from tests.unit.cli.test_commands import Cli

AT_ONCE = ("--grace-ms", "0")


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    found = Cli(tmp_path, capsys)
    found.create()
    found.ingest(0, '{"id": 1}', '{"id": 3}')
    found.ingest(1000, '{"id": 2}', '{"id": 4}')
    found.json("compact", "events", "--full")
    return found


def blobs(cli: Cli) -> set[str]:
    root = cli.root / "blob"
    return {str(f.relative_to(root)) for f in (root / "shards/events").rglob("*") if f.is_file()}


def test_what_a_merge_left_is_planned_deleted_and_restored(cli: Cli) -> None:
    before = blobs(cli)
    assert cli.json("gc", "run", "events", *AT_ONCE)["deleted"] == 0  # it closes a generation

    planned = cli.json("gc", "plan", "events", "--every", *AT_ONCE)
    assert blobs(cli) == before
    done = cli.json("gc", "run", "events", *AT_ONCE)

    [shard] = planned["shards"]
    assert planned["dead"] == done["deleted"] == len(shard["dead_blobs"]) == 5
    kinds = sorted(b["kind"] for b in shard["dead_blobs"])
    assert kinds == ["consumed", "manifests", "manifests", "parts", "parts"]
    assert {b["fate"] for b in shard["other_blobs"]} == {"live"}
    assert all(b["reason"] for b in (*shard["dead_blobs"], *shard["other_blobs"]))
    gone = {b["key"] for b in shard["dead_blobs"]}
    assert blobs(cli) == before - gone
    assert cli.json("read", "events")["rows"] == 4
    cli.json("gc", "restore", *sorted(gone))
    assert blobs(cli) == before


def test_leaks_end_with_one(cli: Cli) -> None:
    assert cli.json("gc", "leaks")["clean"]
    (cli.root / "blob/shards/nobody").mkdir()
    (cli.root / "blob/shards/nobody/x").write_text("?")

    code, out, _ = cli.run("gc", "leaks")

    assert code == 1
    assert "nobody" in out
    assert cli.run("gc", "plan", "nothing")[0] == 2

"""The commands about backups, on a disk: a point, a loss, a way back, and damage that is named."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit.cli.test_commands import Cli


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    found = Cli(tmp_path, capsys)
    found.create()
    found.ingest(0, '{"id": 1}', '{"id": 3}', "{half")
    found.ingest(1000, '{"id": 2}', '{"id": 4}')
    return found


@pytest.fixture
def target(tmp_path: Path) -> str:
    return f"file://{tmp_path}/backup"


def test_everything_is_lost_and_comes_back(cli: Cli, target: str) -> None:
    before = cli.json("read", "events")
    made = cli.json("backup", target)
    assert {"events"} <= {one["shard"] for one in made["shards"]}
    assert made["copied"] == sum(one["blobs"] for one in made["shards"])
    cli.ingest(2000, '{"id": 5}')
    cli.json("backup", target, "events")
    first, _ = cli.json("backups", target)["points"]
    assert first["point"] == made["point"]
    assert cli.json("verify", "--backup", target)["clean"]
    shutil.rmtree(cli.root / "blob")
    for file in cli.root.glob("*.db*"):
        file.unlink()

    code, _, error = cli.run("restore", target, "--point", made["point"])
    assert (code, "reason" in error) == (2, True)
    back = cli.json("restore", target, "--point", made["point"], "--reason", "the disk is gone")

    # The refusal above is in the history already.
    assert back["left_alone"] == ["strata_operations"]
    assert {one["shard"] for one in back["shards"]} == {
        one["shard"] for one in made["shards"] if one["shard"] != "strata_operations"
    }
    assert cli.json("read", "events")["rows"] == before["rows"] == 4
    assert len(cli.json("quarantine", "show", "events")["rejected"]) == 1
    assert cli.json("verify")["clean"]
    assert cli.json("gc", "leaks")["clean"]
    history = cli.json("history", "events")
    assert "the disk is gone" in str(history)
    cli.ingest(1000, '{"id": 2}', '{"id": 4}')  # a repetition of what the point has
    assert cli.json("read", "events")["rows"] == 4
    code, _, error = cli.run("restore", target, "--reason", "again")
    assert (code, "is not replaced" in error) == (2, True)


def test_a_restore_says_what_only_an_earlier_point_has(cli: Cli, target: str) -> None:
    whole = cli.json("backup", target)["point"]
    cli.json("backup", target, "strata_operations")
    cli.json("drop", "events", "--yes", "events", "--reason", "a bad load", "--by", "ann")

    code, _, error = cli.run("restore", target, "--reason", "back")

    assert code == 0, error
    assert f"events: only earlier points have it, the last one is {whole}" in error


def test_a_restore_from_before_an_erasure_ends_with_one(cli: Cli, target: str) -> None:
    cli.json("backup", target)
    certificate = cli.root / "blob/shards/events/erasures/20260101T000000-00ff.json"
    certificate.parent.mkdir(parents=True)
    certificate.write_text("{}")
    cli.json("drop", "events", "--yes", "events", "--reason", "a bad load", "--by", "ann")

    code, out, error = cli.run("restore", target, "events", "--reason", "back", "--json")

    assert code == 1, error
    assert json.loads(out)["shards"][0]["erased_since"] == ["20260101T000000-00ff"]
    assert "run `strata erase events` again" in error
    assert "this store has no policy of its own" in error


def test_damage_is_named_and_ends_with_one(cli: Cli, target: str) -> None:
    cli.json("backup", target)
    [part, *_] = (cli.root / "blob/shards/events/parts").rglob("*.parquet")
    data = bytearray(part.read_bytes())
    data[len(data) // 2] ^= 1
    part.chmod(0o600)
    part.write_bytes(data)

    code, out, _ = cli.run("verify", "events")

    assert code == 1
    assert "its bytes are not those" in out.replace("\n", " ") or part.stem[:8] in out
    assert cli.run("backup", f"{target}-2")[0] == 1
    assert cli.json("backups", f"{target}-2")["points"] == []
    assert cli.json("verify", "--backup", target)["clean"], "the backup is whole"
    assert cli.run("verify", "nothing")[0] == 2
    assert cli.run("verify", "nothing", "--backup", target)[0] == 2
    assert cli.run("backup", f"file://{cli.root}/blob")[0] == 2


def test_a_damaged_point_is_named_beside_the_others(cli: Cli, target: str, tmp_path: Path) -> None:
    first, second = (cli.json("backup", target, "events")["point"] for _ in "ab")
    file = tmp_path / "backup" / "backups" / first / "point.json"
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:-9])

    code, out, error = cli.run("backups", target)

    assert (code, second in out, first in out) == (1, True, False)
    assert f"point={first!r}" in error
    assert "strata backups --drop" in error
    left = cli.json("backups", target, "--drop", first)
    assert [point["point"] for point in left["points"]] == [second]
    assert left["damaged"] == []


def test_a_target_that_is_no_address_is_named_as_the_backup(cli: Cli) -> None:
    for words in (
        ("backup", "/a/folder"),
        ("backups", "/a/folder"),
        ("verify", "--backup", "/a/folder"),
    ):
        code, _, error = cli.run(*words)
        assert code == 2
        assert "backup='/a/folder' (cure: file:///folder" in error
        assert "store.blob" not in error


WAITING = """
import sys, time
import strata.cli.backup
from strata.backup import save
from strata.cli.app import main

def wait(*_):
    print("at work", flush=True)
    time.sleep(60)

save._copy = wait
sys.argv = ["strata", *sys.argv[1:]]
main()
"""


def test_a_backup_that_is_asked_to_end_gives_back_what_it_took(cli: Cli, target: str) -> None:
    """Its mark would keep points from being dropped for a day, and its hold old parts."""
    point = cli.json("backup", target)["point"]
    words = ("backup", target, "--config", str(cli.config))
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, *words], stdout=subprocess.PIPE, text=True
    ) as begun:
        assert begun.stdout is not None
        assert begun.stdout.readline() == "at work\n"
        begun.send_signal(signal.SIGTERM)
        assert begun.wait(60) == 128 + signal.SIGTERM
    assert not [one for one in cli.json("holds")["holds"] if "backup" in one["name"]]
    cli.json("backup", target, "events")
    cli.json("backups", target, "--drop", point)

"""A command that only says what it would do changes nothing: no state, no blob, no other file.

Each is found by walking the tree of commands, so that a new one has to be named here. And each is
tried where it has something to do: the same command in earnest changes the store.
"""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.main import get_command
from typer.testing import CliRunner

from strata.cli.app import whole
from strata.history.operations import SHARD

CONFIG = """
shards_dir = "{0}/shards"
filters_dir = "{0}/filters"
[store]
blob = "file://{0}/blob"
consensus = "sqlite:///{0}/c.db"
landing = "{0}"
[gc]
grace_ms = 0
"""
SPEC = """
name: s
columns: [{name: id, type: int32}, {name: note, type: string}]
key: [id]
source: {paths: [in], format: jsonl}
"""
MIRROR = "name: m\ncolumns: [{name: id, type: int64}]\n"
BACKUP = "file://{0}/backup"
WHY = ("--reason", "due", "--by", "ann")
# Name of the command, its words when it is idle, and the same in earnest.
FORMS: list[tuple[str, Sequence[str], Sequence[str]]] = [
    ("create", ["create", "n", "--infer", "in"], ["create", "n", "--infer", "in", "--yes"]),
    ("drop", ["drop", "s", "--dry-run"], ["drop", "s", "--yes", "s", "--force", *WHY]),
    ("apply", ["apply"], ["apply", "--yes"]),
    ("apply", ["apply", "--check"], ["apply", "--yes"]),
    ("compact", ["compact", "s", "--plan", "--full"], ["compact", "s", "--full"]),
    ("compact", ["compact", "s", "--dry-run", "--full"], ["compact", "s", "--full"]),
    ("advise", ["advise", "s", "--where", "id = 2"], []),  # in earnest: tests/unit/advise
    ("adopt", ["adopt", "m", "--from", "{0}/t", "--dry-run"], ["adopt", "m", "--from", "{0}/t"]),
    ("own", ["own", "m", "--dry-run"], []),  # in earnest: tests/unit/cli/test_own.py
    ("publish", ["publish", "s"], []),  # in earnest it needs a library: tests/unit/publish
    ("backups", ["backups", BACKUP], ["backups", BACKUP, "--drop", "{1}"]),
    ("erase", [], []),  # needs Spark: tests/spark/test_erase_command.py
    (
        "consumers",
        ["consumers"],
        ["consumers", "s", "--remove", "c", "--reason", "due"],
    ),
    # Its check holds what it reads, as any read does: tests/unit/cli/test_sums.py
    ("sums", ["sums"], ["sums", "s", "--into", "kept", "--by", "note", "--sum", "id"]),
    ("tag", ["tag", "s", "new", "--dry-run"], ["tag", "s", "new"]),
    ("untag", ["untag", "s", "kept", "--dry-run"], ["untag", "s", "kept"]),
    ("revert", ["revert", "s", "3000", "4000", "--dry-run"], ["revert", "s", "3000", "4000"]),
    ("holds", ["holds"], ["holds", "s", "--release", "h", "--owner", "x", "--reason", "due"]),
    (
        "stats backfill",
        ["stats", "backfill", "s", "--again", "--dry-run"],
        ["stats", "backfill", "s", "--again"],
    ),
    (
        "stats trim",
        ["stats", "trim", "s", "--budget", "1", "--dry-run", "--no-registered"],
        ["stats", "trim", "s", "--budget", "1", "--no-registered"],
    ),
    (
        "schema add",
        ["schema", "add", "s", "x", "int32", "--dry-run"],
        ["schema", "add", "s", "x", "int32"],
    ),
    ("schema drop", ["schema", "drop", "s", "note", "--dry-run"], ["schema", "drop", "s", "note"]),
    (
        "schema rename",
        ["schema", "rename", "s", "note", "x", "--dry-run"],
        ["schema", "rename", "s", "note", "x"],
    ),
    (
        "schema widen",
        ["schema", "widen", "s", "id", "int64", "--dry-run"],
        ["schema", "widen", "s", "id", "int64"],
    ),
    ("schema sort", ["schema", "sort", "s", "note", "--dry-run"], ["schema", "sort", "s", "note"]),
    ("gc run", ["gc", "run", "--dry-run"], ["gc", "run"]),
    ("rollout kill", ["rollout", "kill"], ["rollout", "kill", *WHY]),
]


class World:
    """A store and what lies beside it."""

    def __init__(self, root: Path) -> None:
        self.root, self.config = root, root / "strata.toml"
        self.config.write_text(CONFIG.format(root))

    def build(self) -> "World":
        """Give each command something to do, and return it."""
        for folder in ("shards", "filters", "in"):
            (self.root / folder).mkdir()
        declared = self.root / "shards/s.yaml"
        declared.write_text(SPEC)
        (self.root / "shards/m.yaml").write_text(MIRROR)
        write_deltalake(self.root / "t", pa.table({"id": [1, 2]}))
        self.run("apply", "--yes")
        for n in (1, 2, 3):
            self.take_in(n)
        self.run("compact", "s", "--full")
        self.run("backup", BACKUP)
        self.run("holds", "s", "--take", "h", "--owner", "x")
        self.run("deliver", "s", "c", "--into", str(self.root / "out"))
        self.run("tag", "s", "kept")
        self.run("sums", "s", "--into", "kept", "--by", "note", "--sum", "id")
        self.take_in(4)
        declared.write_text(SPEC + "part_bytes: 4194304\n")
        return self

    def copy(self, root: Path) -> "World":
        """Return the same at another place."""
        shutil.copytree(self.root, root, dirs_exist_ok=True)
        return World(root)

    def take_in(self, n: int) -> None:
        (self.root / f"in/{n}.jsonl").write_text(f'{{"id": {n}, "note": "x"}}\n{{"id": "?"}}\n')
        times = ("--lower", f"{n}000", "--upper", f"{n + 1}000")
        self.run("ingest", "s", *times, "--from", f"in/{n}.jsonl")

    def run(self, *words: str) -> str:
        """Run a command and return what it says; `{0}` is the folder, `{1}` the backup's point."""
        filled = [word.format(self.root, self.point()) for word in words]
        done = CliRunner().invoke(whole(), [*filled, "--json", "--config", str(self.config)])
        due = 2 if "--check" in words else 0  # as something is to be done
        assert done.exit_code == due, f"{filled} {done.output} {done.exception!r}"
        return str(done.stdout)

    def point(self) -> str:
        """Return the name of the backup's point."""
        return next((file.parent.name for file in self.root.glob("backup/*/*/point.json")), "")

    def everything(self) -> dict[str, Any]:
        """Return each row of the database and the bytes of each other file."""
        return dict(self._rows()) | {
            str(file.relative_to(self.root)): file.read_bytes() if file.is_file() else None
            for file in self.root.rglob("*")
            if not file.name.startswith("c.db")
        }

    def _rows(self) -> Iterator[tuple[str, Any]]:
        base = sqlite3.connect(self.root / "c.db")
        for (table,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
            for row in base.execute(f"SELECT * FROM {table}"):
                yield f"{table} {row[:2]}", row
        base.close()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("idle")).build()


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", one.callback


def test_no_command_that_can_be_idle_is_forgotten() -> None:
    found = {n for n, run in commands(get_command(whole())) if getattr(run, "may_idle", False)}
    assert found == {name for name, _, _ in FORMS}


@pytest.mark.parametrize("idle", [idle for _, idle, _ in FORMS if idle], ids=" ".join)
def test_what_only_says_what_it_would_do_changes_nothing(built: World, idle: list[str]) -> None:
    before = built.everything()
    assert any(key.startswith("strata_consensus") for key in before)
    assert any(key.startswith("blob/") for key in before)

    assert built.run(*idle)

    assert built.everything() == before


@pytest.mark.parametrize("words", [words for _, _, words in FORMS if words], ids=" ".join)
def test_the_same_in_earnest_changes_something(
    built: World, tmp_path: Path, words: list[str]
) -> None:
    """Beside the row of history: else it would prove nothing that it changes nothing when idle."""
    world = built.copy(tmp_path)
    before = world.everything()

    world.run(*words)

    after = world.everything()
    both = before.keys() | after.keys()
    assert [key for key in both if before.get(key) != after.get(key) and SHARD not in key]

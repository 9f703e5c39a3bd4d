"""Every command that changes something leaves one row of history, whether it ends well or badly."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from strata.cli.app import main, whole
from strata.config.settings import load_settings
from strata.history.operations import SHARD, Operation, recent
from strata.store.open import Stores, open_stores

CONFIG = """
[store]
blob = "file://{0}/blob"
consensus = "sqlite:///{0}/c.db"
landing = "{0}"
"""
SPEC = """
columns: [{name: id, type: int64}, {name: note, type: string}]
key: [id]
source: {paths: [in], format: jsonl}
"""


class Cli:
    def __init__(self, root: Path) -> None:
        self.root, self.config = root, root / "strata.toml"
        self.config.write_text(CONFIG.format(root))
        (root / "s.yaml").write_text(SPEC)
        (root / "in").mkdir()
        (root / "in/a.jsonl").write_text('{"id": 1, "note": "x"}\n{"id": 2}\n')

    @property
    def stores(self) -> Stores:
        return open_stores(load_settings(str(self.config), {}).store)

    def run(self, *words: str) -> int:
        try:
            main([*words, "--json", "--config", str(self.config)])
        except SystemExit as end:
            return int(end.code or 0)
        return 0

    def rows(self, shard: str = "s") -> list[tuple[str, str]]:
        """Return what was noted and how it ended, oldest first."""
        return [(one.what, one.outcome) for one in reversed(self.all(shard))]

    def all(self, shard: str = "s") -> list[Operation]:
        found = recent(self.stores, shard, 1000)
        return sorted(found, key=lambda one: -one.at_ms)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_each_change_leaves_one_row_and_what_changes_nothing_leaves_none(cli: Cli) -> None:
    spec = str(cli.root / "s.yaml")
    changes = [
        (("create", "s", "--spec", spec), ("create", "done")),
        (("ingest", "s", "--lower", "1000", "--upper", "2000", "--from", "in"), ("ingest", "done")),
        (("schema", "add", "s", "more", "int32"), ("schema add", "done")),
        (("schema", "drop", "s", "nothing"), ("schema drop", "bad request")),
        (("compact", "s"), ("compact", "done")),
        (("stats", "backfill", "s"), ("backfill", "done")),
        (("stats", "trim", "s", "--no-registered"), ("trim", "done")),
        (("quarantine", "retry", "s"), ("quarantine retry", "done")),
        (("rollout", "request", "s", "--reason", "x", "--by", "ann"), ("rollout request", "done")),
        (
            ("rollout", "approve", "s", "--reason", "x", "--by", "ann", "--request", "0"),
            ("rollout approve", "bad request"),
        ),
        (("rollout", "reject", "s", "--reason", "no"), ("rollout reject", "done")),
        (("gc", "run", "s"), ("sweep", "done")),
        (("drop", "s"), ("drop", "bad request")),
        (("drop", "s", "--yes", "s", "--reason", "old"), ("drop", "done")),
    ]
    idle = [
        ("compact", "s", "--plan"),
        ("stats", "trim", "s", "--dry-run"),
        ("gc", "plan"),
        ("schema", "add", "s", "even", "int32", "--dry-run"),
        ("inspect", "s"),
        ("history", "s"),
        ("rollout", "show", "s"),
        ("rollout", "kill"),
        ("gc", "run", "--dry-run"),
    ]
    for words, (_, outcome) in changes[:-1]:
        assert (cli.run(*words) == 0) == (outcome == "done"), words
    for words in idle:
        assert cli.run(*words) == 0, words
    assert cli.run(*changes[-1][0]) == 0

    assert cli.rows() == [row for _, row in changes]


def test_a_row_tells_who_how_much_and_why(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRATA_USER", "carl")
    cli.run("create", "s", "--spec", str(cli.root / "s.yaml"))
    cli.run("ingest", "s", "--lower", "1000", "--upper", "2000", "--from", "in")
    cli.run("rollout", "request", "s", "--reason", "it is time", "--by", "ann")
    cli.run("rollout", "approve", "s", "--reason", "x", "--by", "ann", "--request", "0")

    approve, request, ingest, _ = cli.all()
    assert (ingest.who, ingest.rows) == ("carl", 2)
    assert ingest.bytes > 0
    assert (request.who, json.loads(request.details)["reason"]) == ("ann", "it is time")
    assert "another request is open" in json.loads(approve.details)["error"]


def test_what_concerns_all_shards_is_in_the_history_of_each(cli: Cli) -> None:
    cli.run("create", "s", "--spec", str(cli.root / "s.yaml"))
    assert cli.run("rollout", "kill", "--reason", "smoke", "--by", "ann") == 0
    assert ("rollout kill", "done") in cli.rows()
    assert ("rollout kill", "done") in cli.rows("other")


def test_an_error_of_any_kind_is_noted(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.run("create", "s", "--spec", str(cli.root / "s.yaml"))

    def breaks(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("a value of a row")

    monkeypatch.setattr("strata.cli.maintain.compact_shard", breaks)
    with pytest.raises(ZeroDivisionError):
        cli.run("compact", "s")

    row = cli.all()[0]
    assert (row.what, row.outcome) == ("compact", "failed")
    assert json.loads(row.details)["error"] == "ZeroDivisionError"


def test_an_empty_store_and_a_bad_request_make_no_more_trouble(cli: Cli) -> None:
    assert cli.run("compact", "nothing") == 2
    cli.config.write_text("[store]\nmoon = 1\n")
    assert cli.run("compact", "nothing") == 2


ONLY_TELL = {
    "doctor", "settings", "shards", "catalog", "inspect", "history", "explain", "replay", "merges",
    "read", "changes", "count", "min", "max", "distinct", "exists", "stats show", "schema show",
    "collection list", "collection read", "gc plan",
    "gc leaks", "rollout show", "rollout status", "rollout gates show", "quarantine show",
    "source show", "erasures", "verify", "ui", "report", "demo", "tags", "diff", "together",
}  # fmt: skip


def _commands(group: Any, prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, one in group.commands.items():
        path = f"{prefix}{name}"
        found |= _commands(one, f"{path} ") if hasattr(one, "commands") else {path: one}
    return found


def test_no_command_that_changes_something_is_forgotten() -> None:
    """A new command either leaves rows, or is named here as one that only tells."""
    silent = {
        name
        for name, command in _commands(get_command(whole())).items()
        if not hasattr(command.callback, "leaves_row")
    }
    assert silent == ONLY_TELL


def test_no_command_takes_a_limit_below_0(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    """`strata history` showed that nothing had happened."""
    found = [
        name
        for name, command in _commands(get_command(whole())).items()
        if any(option.name == "limit" for option in command.params)
    ]
    assert {"history", "merges", "read"} <= {*found}
    for name in found:
        assert cli.run(*name.split(), "s", "--limit", "-1") == 2
        assert "'--limit'" in capsys.readouterr().err


def test_journals_are_listed_when_asked_for(cli: Cli, capsys: pytest.CaptureFixture[str]) -> None:
    cli.run("create", "s", "--spec", str(cli.root / "s.yaml"))
    capsys.readouterr()
    cli.run("shards")
    assert [s["shard"] for s in json.loads(capsys.readouterr().out)["shards"]] == ["s"]
    cli.run("shards", "--journals")
    assert [s["shard"] for s in json.loads(capsys.readouterr().out)["shards"]] == ["s", SHARD]

"""The command about holds tells who keeps what, and gives up what may be, with a reason."""

from functools import partial
from pathlib import Path

import pytest

from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state
from strata.model.settings import ReadSettings, StoreSettings
from strata.state.holds import hold, hold_critical
from strata.store.open import open_stores
from tests.unit.cli.test_commands import Cli


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    consensus = f"sqlite:///{tmp_path}/consensus.db"
    return Machine(open_stores(StoreSettings(f"file://{tmp_path}/blob", consensus)))


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    found = Cli(tmp_path, capsys)
    found.create()
    found.ingest(0, '{"id": 1}')
    return found


def names(cli: Cli, *words: str) -> list[str]:
    return [one["name"] for one in cli.json("holds", *words)["holds"]]


def test_holds_are_listed_with_what_they_are(cli: Cli, machine: Machine) -> None:
    assert cli.json("holds") == {"holds": []}
    cli.json("read", "events")
    assert names(cli) == []  # a command gives back what it took
    held_state(machine.stores, "events", ReadSettings())
    machine.apply("events", partial(hold, name="mine", since=7, lease_ms=1, owner="me"))
    machine.apply(
        "events", partial(hold_critical, name="year end", since=9, expected="", opaque="o")
    )

    listed = cli.json("holds", "events")["holds"]
    shared = next(one["name"] for one in listed if one["name"].startswith("readers-"))
    assert [(h["name"], h["kind"], h["alive"], h["since"]) for h in listed] == [
        ("mine", "leased", False, 7),
        (shared, "shared", True, 1000),
        ("year end", "critical", True, 9),
    ]
    assert [h["expires"] is None for h in listed] == [False, False, True]
    assert [h["taken"] is None for h in listed] == [False, False, True]
    assert names(cli) == [h["name"] for h in listed]
    code, out, _ = cli.run("holds")
    assert code == 0
    assert "year end" in out


def test_one_that_expired_goes_with_a_reason_that_history_tells(cli: Cli, machine: Machine) -> None:
    machine.apply("events", partial(hold, name="gone", since=7, lease_ms=1, owner="killed"))

    assert cli.run("holds", "events", "--release", "gone")[0] == 2  # why?
    assert cli.run("holds", "--release", "gone", "--reason", "x")[0] == 2  # of which shard?
    assert cli.run("holds", "events", "--release", "gnoe", "--reason", "x")[0] == 2
    done = cli.json("holds", "events", "--release", "gone", "--reason", "its host is off")

    assert (done["released"], done["holds"]) == ("gone", [])
    told = cli.json("history", "events")["operations"][0]
    assert told["what"] == "release a hold"
    assert "its host is off" in told["details"]


def test_one_that_lives_is_its_owners(cli: Cli, machine: Machine) -> None:
    long = 3_600_000
    machine.apply("events", partial(hold, name="mine", since=7, lease_ms=long, owner="me"))
    machine.apply("events", partial(hold_critical, name="c", since=9, expected="", opaque="o"))
    release = ("holds", "events", "--reason", "done", "--release")

    assert cli.run(*release, "mine")[0] == 2
    assert cli.run(*release, "mine", "--owner", "you")[0] == 4
    assert cli.run(*release, "c", "--owner", "me")[0] == 4
    assert names(cli) == ["c", "mine"]
    cli.json(*release, "mine", "--owner", "me")
    cli.json(*release, "c", "--owner", "o")
    assert names(cli) == []


def test_one_owner_takes_on_all_shards_and_gives_back_wherever_it_is(
    cli: Cli, machine: Machine
) -> None:
    spec = (cli.root / "events.yaml").read_text().replace("name: events", "name: more")
    cli.json("create", "more", "--spec", cli.file("more.yaml", spec))
    take = ("holds", "--take", "run 1", "--hours", "2")
    assert cli.run(*take)[0] == 2  # whose?
    assert cli.json(*take, "--owner", "o")["taken"] == "run 1"
    first = machine.load("events").holds[0].expires_ms
    cli.json(*take, "--owner", "o")  # tried again: no error, and for longer
    assert (machine.load("events").holds[0].expires_ms or 0) >= (first or 0)
    assert [(h["shard"], h["name"]) for h in cli.json("holds")["holds"]] == [
        ("events", "run 1"),
        ("more", "run 1"),
    ]
    assert cli.run(*take, "--owner", "another")[0] == 2

    assert cli.run("holds", "--release", "run 1", "--owner", "another")[0] == 4
    assert cli.json("holds", "--release", "run 1", "--owner", "o")["holds"] == []
    assert cli.json("holds", "--release", "run 1", "--owner", "o")["released"] == "run 1"


def test_the_hold_that_readers_share_is_nobodys_to_take_or_release(
    cli: Cli, machine: Machine
) -> None:
    """Its token is no secret, and readers of others rely on it."""
    held_state(machine.stores, "events", ReadSettings())
    [shared] = names(cli)
    for words in (("--take", shared), ("--release", shared, "--reason", "tidy")):
        code, _, err = cli.run("holds", "events", *words, "--owner", "readers-")
        assert (code, "readers share" in err) == (2, True)
    assert names(cli) == [shared]

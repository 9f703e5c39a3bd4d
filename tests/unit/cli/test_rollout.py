"""`strata rollout`: the ladder from the command line, with two people, and the kill switch."""

import json
from pathlib import Path
from typing import Any

import pytest

from strata.cli.app import main


class Cli:
    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys, self.config = capsys, root / "strata.toml"
        self.config.write_text(
            f'[store]\nblob = "file://{root}/blob"\nconsensus = "sqlite:///{root}/c.db"\n'
        )
        spec = root / "s.yaml"
        spec.write_text("columns: [{name: id, type: int64}]\n")
        self.run("create", "s", "--spec", str(spec))

    def run(self, *words: str, code: int = 0) -> Any:
        self.capsys.readouterr()
        ended = 0
        try:
            main([*words, "--json", "--config", str(self.config)])
        except SystemExit as end:
            ended = int(end.code or 0)
        out, err = self.capsys.readouterr()
        assert ended == code, err
        return json.loads(out) if code == 0 else err


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path, capsys)


def test_two_people_take_a_step_and_one_takes_it_back(cli: Cli) -> None:
    asked = cli.run("rollout", "request", "s", "--by", "ann", "--reason", "it is time")
    assert (asked["mode"], asked["request"]["to"], asked["request"]["by"]) == ("off", "soft", "ann")
    named = ("--request", asked["request"]["id"])
    said = cli.run("rollout", "approve", "s", "--by", "ann", "--reason", "me too", *named, code=2)
    assert "cannot approve it" in said

    taken = cli.run("rollout", "approve", "s", "--by", "bob", "--reason", "I looked", *named)

    assert (taken["mode"], taken["changed_by"], taken["request"]) == ("soft", "bob", None)
    assert [gate["passed"] for gate in taken["gates"]].count(False) > 0
    said = cli.run("rollout", "request", "s", "--by", "ann", "--reason", "more", code=2)
    assert "audited parts: 0, wanted at least 3000" in said
    back = cli.run("rollout", "step-down", "s", "--by", "ann", "--reason", "not now")
    assert (back["mode"], back["next"]) == ("off", "soft")
    assert [line["what"] for line in back["history"]] == ["stepped down", "approved", "requested"]
    assert cli.run("rollout", "status", "s") == back


def test_a_request_is_rejected_with_a_reason(cli: Cli) -> None:
    cli.run("rollout", "request", "s", "--by", "ann", "--reason", "it is time")
    done = cli.run("rollout", "reject", "s", "--by", "bob", "--reason", "the disk is being moved")
    assert (done["mode"], done["request"]) == ("off", None)
    assert done["history"][0]["reason"] == "the disk is being moved"


def test_the_kill_switch_is_shown_thrown_and_released(cli: Cli) -> None:
    assert cli.run("rollout", "kill")["thrown"] is False
    assert cli.run("rollout", "kill", "--by", "ann", "--reason", "smoke")["thrown"] is True
    assert cli.run("rollout", "show", "s")["obeyed"] == "off"
    assert cli.run("rollout", "kill", "--off", "--by", "ann", "--reason", "fine")["by"] == "ann"

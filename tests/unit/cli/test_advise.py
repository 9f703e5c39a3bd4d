"""`strata advise` measures, changes nothing by itself, and carries out what it has shown."""

from pathlib import Path

import pytest

from tests.unit.cli.test_commands import Cli

ROWS = [f'{{"id": {n}, "kind": "k{n * 7 % 40:02}"}}' for n in range(400)]


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    found = Cli(tmp_path, capsys)
    text = (tmp_path / "events.yaml").read_text()
    (tmp_path / "events.yaml").write_text(f"{text}part_bytes: 2048\nrow_group_bytes: 1024\n")
    found.create()
    found.ingest(0, *ROWS)
    return found


def test_advice_is_measured_then_carried_out_and_then_there_is_none_of_it(cli: Cli) -> None:
    asked = ("advise", "events", "--where", "kind = 'k07'")
    before = cli.json("inspect", "events")
    found = cli.json(*asked)
    assert (found["exact"], found["applied"]) == (True, "")
    assert cli.json("inspect", "events") == before
    [order] = [one for one in found["advice"] if one["kind"] == "sort order"]
    assert order["declare"] == "order: [kind]"
    assert order["commands"] == ["strata compact events --migrate"]
    assert order["written_bytes"] == order["read_bytes"] > 0
    assert order["parts_saved"] > 0

    done = cli.json(*asked, "--apply", order["id"])

    assert done["applied"] == order["id"]
    [effect] = order["filters"]
    explained = cli.json("explain", "events", "--where", "kind = 'k07'", "--advise")
    assert explained["parts_kept"] == effect["parts_after"] < effect["parts_before"]
    assert "sort order" not in [one["kind"] for one in explained["advised"]["advice"]]
    history = [one["what"] for one in cli.json("history", "events")["operations"]]
    assert history.count("advise") == 1
    code, _, err = cli.run(*asked, "--apply", order["id"])
    assert (code, "no such advice today" in err) == (2, True)


def test_without_filters_in_the_log_there_is_nothing_to_measure(cli: Cli) -> None:
    code, _, err = cli.run("advise", "events")
    assert (code, "--where" in err) == (2, True)
    cli.run("read", "events", "--where", "kind = 'k07'", "--count")
    code, out, _ = cli.run("advise", "events")
    assert code == 0
    assert "kind = 'k07'" in out
    assert "order: [kind]" in out
    assert "Measured on the whole shard" in out
    assert "Nothing was changed" in out


def test_a_filter_whose_column_has_another_name_by_now_is_not_measured(cli: Cli) -> None:
    cli.run("read", "events", "--where", "kind = 'k07'", "--count")
    cli.json("schema", "add", "events", "more", "int32")
    assert [one["filter"] for one in cli.json("advise", "events")["filters"]] == ["kind = 'k07'"]
    cli.json("schema", "rename", "events", "kind", "sort")
    code, _, err = cli.run("advise", "events")
    assert (code, "no filter of readers" in err) == (2, True)

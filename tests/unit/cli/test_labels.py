"""Commands that name times: a label is taken wherever a time is, and stays readable."""

from pathlib import Path

import pytest

from tests.unit.cli.test_commands import Cli


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = Cli(tmp_path, capsys)
    cli.create()
    cli.ingest(0, '{"id": 1, "kind": "a"}')
    cli.ingest(1000, '{"id": 2, "kind": "b"}')
    return cli


def test_a_label_is_set_listed_read_and_taken_away(cli: Cli) -> None:
    done = cli.json("tag", "events", "first", "--at", "999", "--reason", "year end")
    assert (done["label"], done["time"], done["dry_run"]) == ("first", 999, False)
    assert cli.json("tag", "events", "newest")["time"] == 1999
    cli.ingest(2000, '{"id": 3, "kind": "c"}')

    listed = cli.json("tags", "events")["labels"]
    assert [(one["label"], one["time"]) for one in listed] == [("first", 999), ("newest", 1999)]
    assert [
        cli.json("read", "events", "--as-of", at)["rows"] for at in ("first", "newest", "2999")
    ] == [1, 2, 3]
    assert cli.json("count", "events", "--as-of", "first")["count"] == 1
    assert cli.json("max", "events", "id", "--as-of", "newest")["value"] == 2
    assert cli.json("exists", "events", "--where", "id = 2", "--as-of", "first")["exists"] is False
    explained = cli.json("explain", "events", "--where", "id = 1", "--as-of", "first")
    assert explained["as_of"] == 999
    assert [h["kind"] for h in cli.json("holds", "events")["holds"]] == ["label", "label"]

    cli.json("untag", "events", "first", "--reason", "done")
    assert [one["label"] for one in cli.json("tags", "events")["labels"]] == ["newest"]
    told = [one["what"] for one in cli.json("history", "events")["operations"]]
    assert told.count("tag") == 2
    assert told.count("untag") == 1


def test_what_is_wrong_is_refused_with_a_cure(cli: Cli) -> None:
    cli.json("tag", "events", "first", "--at", "999")

    for words, said in (
        (("read", "events", "--as-of", "frist"), "did you mean 'first'"),
        (("tag", "events", "first"), "strata untag events first"),
        (("tag", "events", "1st"), "begin with a letter"),
        (("tag", "events", "x", "--at", "5000"), "no read is possible"),
        (("untag", "events", "last"), "one of: first"),
        (("read", "events", "--as-of", "clock:2001-01-01"), "nothing was committed"),
        (
            ("holds", "events", "--release", "label-first", "--owner", "label", "--reason", "x"),
            "strata untag",
        ),
        (("drop", "events", "--yes", "events", "--reason", "x"), "label-first"),
    ):
        code, _, err = cli.run(*words)
        assert code in (2, 4), words
        assert said in err
    assert cli.json("read", "events", "--as-of", "clock:2999-01-01")["as_of"] == 1999


def test_a_dry_run_changes_nothing(cli: Cli) -> None:
    assert cli.json("tag", "events", "a", "--dry-run")["dry_run"] is True
    cli.json("tag", "events", "b")
    cli.json("untag", "events", "b", "--dry-run")
    assert [one["label"] for one in cli.json("tags", "events")["labels"]] == ["b"]


def test_several_shards_have_one_time(cli: Cli) -> None:
    file = cli.root / "other.yaml"
    file.write_text((cli.root / "events.yaml").read_text().replace("name: events", "name: other"))
    cli.json("create", "other", "--spec", str(file))
    code, _, err = cli.run("together", "events", "other")
    assert code == 2
    assert "behind='other'" in err
    lines = cli.file("other.jsonl", '{"id": 1}')
    cli.json("ingest", "other", "--from", lines, "--lower", "0", "--upper", "1500")

    found = cli.json("together", "events", "other")
    assert (found["as_of"], [one["upper"] for one in found["shards"]]) == (1499, [2000, 1500])
    assert cli.run("together", "events", "other")[1] == f"{found['at']}\n"
    assert cli.json("read", "other", "--as-of", found["at"])["as_of"] == 1499


def test_a_shard_without_labels_says_so(cli: Cli) -> None:
    _, _, error = cli.run("read", "events", "--as-of", "tomorrow")
    assert "(cure: labels: this shard has none; times: " in error

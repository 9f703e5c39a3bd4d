"""`strata diff` says what came and went between two times."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.unit.cli.test_commands import Cli


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = Cli(tmp_path, capsys)
    cli.create()
    cli.ingest(0, '{"id": 1, "kind": "a"}')
    cli.ingest(1000, '{"id": 2, "kind": "b"}', '{"id": 2, "kind": "b"}', '{"id": 3}')
    return cli


def test_rows_come_with_their_difference(cli: Cli) -> None:
    cli.json("tag", "events", "first", "--at", "999")
    out = cli.root / "out.parquet"

    found = cli.json("diff", "events", "first", "--out", str(out))

    assert {name: found[name] for name in ("rows", "first", "second", "parts_read")} == {
        "rows": 2,
        "first": 999,
        "second": 1999,
        "parts_read": 1,
    }
    assert found["parts_total"] == 2
    rows = pq.read_table(out).to_pylist()
    assert [(row["id"], row["kind"], row["d"]) for row in rows] == [(2, "b", 2), (3, None, 1)]
    assert "t" not in rows[0]
    code, text, err = cli.run("diff", "events", "first", "1999", "--where", "id > 2")
    assert code == 0
    assert "3" in text
    assert "1 of 2 parts read" in err
    assert cli.json("diff", "events", "1999")["rows"] == 0
    csv = cli.run("diff", "events", "999", "--columns", "kind", "--format", "csv")[1]
    assert csv.splitlines()[0] == "kind,d"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("1999", "999"), "the first time is after the second"),
        (("2000",), "no read is possible"),
        (("x",), "neither a time nor a label"),
        (("0", "--where", "id + 1 = 2"), "needs Spark"),
    ],
)
def test_what_cannot_be_compared_is_refused(cli: Cli, words: tuple[str, ...], said: str) -> None:
    code, _, err = cli.run("diff", "events", *words)
    assert code == 2
    assert said in err, err


def test_an_interval_is_taken_back_once_and_its_files_do_not_come_again(cli: Cli) -> None:
    would = cli.json("revert", "events", "1000", "2000", "--dry-run")
    assert (would["rows"], would["dry_run"], cli.json("read", "events")["rows"]) == (2, True, 3)

    done = cli.json("revert", "events", "1000", "2000", "--reason", "a wrong file")
    assert (done["rows"], done["at"], done["already_reverted"]) == (2, 2000, False)
    assert cli.json("revert", "events", "1000", "2000")["already_reverted"] is True

    assert cli.json("count", "events")["count"] == 1
    lost = cli.run("diff", "events", "1999", "--format", "csv")[1].splitlines()
    assert lost == ["id,kind,payload,d", "2,b,,-2", "3,,,-1"]
    told = cli.json("history", "events")["operations"]
    assert [one["what"] for one in told].count("revert") == 2
    # A run of the same interval again: its token and its file are known
    lines = ('{"id": 2, "kind": "b"}', '{"id": 2, "kind": "b"}', '{"id": 3}')
    assert cli.ingest(1000, *lines)["already_committed"] is True
    again = cli.json("ingest", "events", "--from", str(cli.root / "in-1000.jsonl"))
    assert again["already_committed"] is True
    assert cli.json("count", "events")["count"] == 1
    # Unless a person says so
    back = cli.json("ingest", "events", "--from", str(cli.root / "in-1000.jsonl"), "--again")
    assert (back["already_committed"], back["updates"]) == (False, 2)
    assert cli.json("count", "events")["count"] == 4


def test_a_revert_is_refused_with_a_cure(cli: Cli) -> None:
    for words, said in (
        (("0", "5000"), "choose lower < upper <= 2000"),
        (("0", "1000", "--where", "id + 1 = 2"), "needs Spark"),
        (("x", "1000"), "not a time"),
    ):
        code, _, err = cli.run("revert", "events", *words)
        assert code == 2
        assert said in err, err

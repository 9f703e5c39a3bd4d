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

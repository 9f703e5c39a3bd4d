"""`strata count` on the command line."""

import json
from pathlib import Path

import pytest

from strata.config.settings import load_settings
from strata.store.open import open_stores
from tests.support.shards import let_skip
from tests.unit.cli.test_commands import Cli


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = Cli(tmp_path, capsys)
    cli.create()
    for lower in (0, 86_400_000):
        rows = ({"id": lower + n, "kind": "ab"[n % 2], "payload": {}} for n in range(10))
        cli.ingest(lower, *map(json.dumps, rows))
    return cli


def test_a_count_is_a_number_on_a_line_of_its_own(cli: Cli) -> None:
    code, out, err = cli.run("count", "events")

    assert (code, out) == (0, "20\n")
    assert "2 parts" in err
    assert "0 read" in err


def test_counts_by_day_are_a_table(cli: Cli) -> None:
    assert cli.run("count", "events", "--by", "day")[1].splitlines() == [
        "day\trows",
        "1970-01-01T00:00:00Z\t10",
        "1970-01-02T00:00:00Z\t10",
    ]


def test_the_document_says_what_was_read(cli: Cli) -> None:
    found = cli.json("count", "events", "--where", "id < 5")
    let_skip(open_stores(load_settings(str(cli.config), {}).store), "events")
    skipping = cli.json("count", "events", "--where", "id < 5")
    counting = cli.json("count", "events", "--where", "id < 100")

    assert (found["count"], found["mode"], found["parts_read"]) == (5, "off", 2)
    assert (skipping["count"], skipping["parts_read"], skipping["parts_skipped"]) == (5, 1, 1)
    assert counting["count"] == 10
    assert (counting["parts_read"], counting["parts_counted"]) == (0, 1)
    assert cli.json("count", "events", "--where", "id < 100", "--pushdown", "off")["count"] == 10


def test_mistakes_are_explained(cli: Cli) -> None:
    code, _, err = cli.run("count", "events", "--by", "week")
    assert code == 2
    assert "one of hour, day, month, year" in err
    assert cli.run("count", "nobody")[0] == 2

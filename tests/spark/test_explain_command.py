"""The commands about decisions, through Spark: explain, a receipt of a read, its replay on rows."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from strata.cli.app import main
from tests.support.shards import NAME, Events, copied, let_skip

pytestmark = pytest.mark.spark
WHERE = "id >= 250 and get_json_object(payload, '$.n') is not null"


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    events = copied(tmp_path_factory.mktemp("events"))
    let_skip(events.stores)
    return events


def run(events: Events, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    """Run a command with --json; return its exit code and answer."""
    store = events.settings.store
    config = Path(store.blob.removeprefix("file://")).parent / "strata.toml"
    config.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    capsys.readouterr()
    code = 0
    try:
        main([*words, "--config", str(config), "--json"])
    except SystemExit as end:
        code = int(end.code or 0)
    out = capsys.readouterr().out
    return code, json.loads(out) if out else None


def test_explain_tells_levels_causes_and_cures(
    spark: SparkSession, events: Events, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = run(events, capsys, "explain", NAME, "--where", WHERE, "--parts")

    assert code == 0
    verdicts = [part["verdict"] for part in found["parts"]]
    assert (len(verdicts), verdicts.count("keep")) == (found["parts_total"], found["parts_kept"])
    assert 0 < found["parts_kept"] < found["parts_total"]
    assert sum(group["parts"] for group in found["kept_because"]) == found["parts_kept"]
    helps = {group["cause"]: group["help"] for group in found["kept_because"]}
    assert f"strata stats backfill {NAME}" in helps["no statistics"]
    assert "parts" not in run(events, capsys, "explain", NAME, "--where", WHERE)[1]


def test_explain_says_what_can_never_skip(
    spark: SparkSession, events: Events, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("explain", NAME, "--static", "--where")
    _, hopeless = run(events, capsys, *words, "rand() < 0.5 and id >= 250")
    _, good = run(events, capsys, *words, "id >= 250 and rand() < 0.5")

    assert (hopeless["could_skip"], good["could_skip"]) == (False, True)
    assert hopeless["help"] == "write `id >= 250` in front of `" + hopeless["help"].split("`")[
        3
    ] + ("`, which may fail")


def test_a_read_is_replayed_and_a_changed_receipt_is_found(
    spark: SparkSession, events: Events, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = tmp_path / "receipt.json"
    words = ("--where", WHERE, "--pushdown", "on", "--receipt", str(path))
    code, read = run(events, capsys, "read", NAME, *words)
    assert code == 0
    assert read["parts_skipped"] > 0

    code, found = run(events, capsys, "replay", str(path), "--rows")
    assert (code, found["reproduced"], found["matching"]) == (0, True, [])
    assert found["looked_into"] == found["skipped"] == read["parts_skipped"]

    receipt = json.loads(path.read_text())
    last = receipt["batches"][-1]
    last["skipped"], last["fetched"] = last["fetched"], last["skipped"]
    path.write_text(json.dumps(receipt))
    code, found = run(events, capsys, "replay", str(path), "--rows")
    assert (code, found["altered"]) == (3, True)
    assert any("rows match" in line for line in found["matching"])


def test_a_validation_keeps_receipts_that_are_checked_again(
    spark: SparkSession, events: Events, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(events, capsys, "replay", "--shard", NAME)[1]["receipts"] == []
    words = ("--filter", WHERE, "--filter", "id is null")
    assert run(events, capsys, "validate", NAME, *words)[0] == 0
    code, found = run(events, capsys, "replay", "--shard", NAME)

    assert code == 0
    assert {one["filter"] for one in found["receipts"]} == {WHERE, "id is null"}
    assert all(one["reproduced"] and one["skipped"] for one in found["receipts"])
    assert run(events, capsys, "replay")[0] == 2


@pytest.mark.parametrize("words", [("read", NAME), ("count", NAME), ("max", NAME, "carrier")])
@pytest.mark.parametrize("where", ["id > 'abc'", "upper(carrier) = 'x' or 1 / (id - id) > 0"])
def test_a_filter_that_fails_on_a_row_is_said_in_a_line(
    spark: SparkSession,
    events: Events,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    where: str,
) -> None:
    """It ended in a traceback of PySpark."""
    store = events.settings.store
    config = Path(store.blob.removeprefix("file://")).parent / "strata.toml"
    config.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    with pytest.raises(SystemExit) as end:
        main([*words, "--where", where, "--config", str(config)])
    assert end.value.code == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith("InvalidRequest: the filter fails on a row")
    assert "CAST_INVALID_INPUT" in said or "DIVIDE_BY_ZERO" in said
    assert "try_cast" in said

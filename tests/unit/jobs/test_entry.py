"""One shard that cannot be worked on keeps no other of the run from being served."""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Barrier, Event, get_ident
from typing import Any

import pytest

from strata import gc
from strata.config.settings import load_settings
from strata.errors import Conflict, Corrupt, InvalidRequest, Unavailable
from strata.history import operations
from strata.jobs.compact import main as compact
from strata.jobs.compact import preview, sweep
from strata.jobs.entry import Noted, each_shard, run_job
from strata.machine.machine import Machine
from strata.model.spec import parse_spec
from strata.store import bill
from strata.store.open import Stores, open_stores

BROKEN = {
    "wrong": InvalidRequest("no such column", column="x"),
    "raced": Conflict("another writer was faster"),
    "bad": Corrupt("digest", part="p"),
}


@pytest.fixture
def config(tmp_path: Path) -> str:
    bill.settle()  # what tests before this one asked of S3 would have a row of its own
    file = tmp_path / "strata.toml"
    file.write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
    )
    return str(file)


def stores(config: str) -> Stores:
    return open_stores(load_settings(config, os.environ).store)


def run(names: list[str], config: str, file: Path, code: int = 0) -> tuple[int, dict[str, Any]]:
    """Run a job over shards of which some are broken; return its exit code and document."""

    def work(name: str) -> Mapping[str, Any]:
        if name in BROKEN:
            raise BROKEN[name]
        return {"shard": name, "rows": 7}

    ended = run_job(
        str(file),
        lambda: ({"shards": each_shard(names, work)}, code),
        Noted("compact", config, names),
    )
    return ended, json.loads(file.read_text())


def test_a_shard_that_is_dropped_while_all_are_worked_on_is_passed_over(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Nobody asked for it by name. The run ended as a bad request, which is never tried again."""
    there = ["a", "bad", "gone"]

    def work(name: str) -> Mapping[str, Any]:
        if name == "gone":
            there.remove(name)
            raise InvalidRequest("the shard was dropped", shard=name)
        return {"shard": name} | ({} if name == "a" else _raised(BROKEN[name]))

    found = each_shard([*there], work, still=lambda: there)
    assert ["error" in one for one in found] == [False, True, False]
    assert [one["shard"] for one in found] == ["a", "bad", "gone"]
    said = capsys.readouterr()
    assert said.out == "gone: passed over, because it was dropped meanwhile\n"
    assert said.err == "Corrupt: digest part='p' [bad]\n"

    assert "error" in each_shard(["gone"], lambda _: _raised(BROKEN["wrong"]))[0]


def _raised(error: Exception) -> dict[str, Any]:
    raise error


def test_a_job_over_all_shards_goes_on_without_one_that_is_dropped(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only who names it hears that it was dropped."""
    machine = Machine(stores(config))
    for name in ("a", "b"):
        machine.create(parse_spec({"name": name, "columns": [{"name": "k", "type": "int64"}]}))
    file, plan = tmp_path / "result.json", preview.preview

    def dropping(*given: Any, **options: Any) -> Any:
        if given[1] == "b":
            machine.drop("b", by="ann", reason="test", force=True)
        return plan(*given, **options)

    monkeypatch.setattr(preview, "preview", dropping)
    words = ["--plan", "--config", config, "--result", str(file)]
    assert compact.main(words) == 0
    assert [one["shard"] for one in json.loads(file.read_text())["shards"]] == ["a", "b"]
    assert compact.main([*words, "--shard", "b"]) == 2
    assert compact.main([*words, "--shard", "b", "--shard", "a", "--found"]) == 0
    assert [one["shard"] for one in json.loads(file.read_text())["shards"]] == ["b", "a"]


def test_the_others_are_served_and_each_has_its_own_row_of_history(
    config: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = run(["bad", "fine", "wrong"], config, tmp_path / "result.json")
    first, second = capsys.readouterr().err.splitlines()
    assert first == "Corrupt: digest part='p' [bad]"
    assert second.startswith("InvalidRequest: no such column")
    assert [one.get("rows") for one in document["shards"]] == [None, 7, None]
    assert code == document["error"]["exit_code"] == 1
    assert document["error"]["kind"] == "Corrupt"
    assert document["error"]["message"].startswith("2 of 3 shards failed; bad: digest")
    rows = {
        name: operations.recent(stores(config), name, 9)[0] for name in ("bad", "fine", "wrong")
    }
    assert {name: one.outcome for name, one in rows.items()} == {
        "bad": "failed",
        "fine": "done",
        "wrong": "bad request",
    }
    assert json.loads(rows["bad"].details)["error"].startswith("Corrupt: digest")
    assert "exit_code" not in json.loads(rows["bad"].details)
    assert all(0 <= one.seconds < 60 for one in rows.values())
    assert all(abs(one.at_ms / 1000 - time.time()) < 60 for one in rows.values())


@pytest.mark.parametrize(
    ("names", "kind", "code"),
    [
        (["wrong", "raced", "bad"], "Conflict", 4),  # another try may cure something
        (["wrong", "bad"], "Corrupt", 1),
        (["wrong", "fine"], "InvalidRequest", 2),
    ],
)
def test_a_run_is_tried_again_if_that_may_cure_one_of_its_shards(
    config: str, tmp_path: Path, names: list[str], kind: str, code: int
) -> None:
    ended, document = run(names, config, tmp_path / "result.json")
    assert (ended, document["error"]["kind"]) == (code, kind)


def test_the_error_of_the_only_shard_is_the_error_of_the_run(config: str, tmp_path: Path) -> None:
    _, document = run(["bad"], config, tmp_path / "result.json")
    assert document["error"]["message"] == str(BROKEN["bad"])


@pytest.mark.parametrize(("code", "ended"), [(0, 2), (3, 3)])
def test_a_result_that_cannot_be_written_is_said_and_ends_the_job(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], code: int, ended: int
) -> None:
    """A mismatch stays one: nobody may take the run for one that only wrote no file."""
    (tmp_path / "file").touch()
    result = tmp_path / "file" / "result.json"
    assert run_job(str(result), lambda: ({}, code)) == ended
    assert str(result) in capsys.readouterr().err


def test_a_mismatch_is_not_hidden_by_a_shard_that_failed(config: str, tmp_path: Path) -> None:
    code, document = run(["raced", "fine"], config, tmp_path / "result.json", code=3)
    assert code == 3
    assert "error" not in document
    assert "error" in document["shards"][0]


def test_a_store_that_is_away_ends_the_run() -> None:
    seen = []

    def work(name: str) -> Mapping[str, Any]:
        seen.append(name)
        raise Unavailable("no answer", certain=True)

    with pytest.raises(Unavailable):
        each_shard(["a", "b"], work)
    assert seen == ["a"]


def test_shards_are_worked_on_one_by_one_unless_a_setting_says_otherwise() -> None:
    found = each_shard(["a", "b", "c"], lambda name: {"shard": name, "by": get_ident()})
    assert {one["by"] for one in found} == {get_ident()}


def test_shards_are_worked_on_side_by_side_and_listed_in_order() -> None:
    both, begun = Barrier(2, timeout=20), []

    def work(name: str) -> Mapping[str, Any]:
        if name in "ab":
            both.wait()
        if name == "bad":
            raise BROKEN[name]
        return {"shard": name}

    found = each_shard(["a", "b", "bad", "c", "a"], work, 2, lambda: begun.append(get_ident()))
    assert [one["shard"] for one in found] == ["a", "b", "bad", "c"]  # each once
    assert ["error" in one for one in found] == [False, False, True, False]
    assert len(set(begun)) == len(begun) == 2


def test_a_store_that_is_away_ends_a_run_of_many_shards() -> None:
    seen, away = [], Event()

    def work(name: str) -> Mapping[str, Any]:
        seen.append(name)
        if name == "a":
            away.set()
            raise Unavailable("no answer", certain=True)
        away.wait(20)
        time.sleep(0.2)
        return {"shard": name}

    with pytest.raises(Unavailable):
        each_shard(map(str, ["a", "b", *range(90)]), work, 2)
    assert len(seen) < 9  # what was under way ended; nothing else began


def test_a_sweep_goes_on_after_a_shard_whose_manifest_is_damaged(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        raw = {"name": name, "columns": [{"name": "id", "type": "int64"}], "key": ["id"]}
        Machine(stores(config)).create(parse_spec(raw))
    collect = gc.collect

    def collected(stores: Stores, name: str, *rest: Any) -> Any:
        if name == "a":
            raise Corrupt("the manifest is damaged", shard="a")
        return collect(stores, name, *rest)

    monkeypatch.setattr(sweep.gc, "collect", collected)
    result = tmp_path / "result.json"
    assert compact.main(["--sweep", "--config", config, "--result", str(result)]) == 1
    document = json.loads(result.read_text())
    assert [one["shard"] for one in document["shards"]] == ["a", "b"]
    assert "blobs" in "".join(document["shards"][1])

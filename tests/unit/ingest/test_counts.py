"""Counts add up, and none is forgotten on the way to those who read them."""

import json
import sys
from contextlib import nullcontext
from dataclasses import field, fields, make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.cli.app import main
from strata.config.settings import load_settings
from strata.history.operations import recent
from strata.ingest import updates
from strata.ingest.counts import Counts, total
from strata.jobs.ingest import main as job
from strata.model.runner import serial
from strata.store.open import open_stores

NUMBERS = st.integers(0, 9)
NAMES = st.frozensets(st.sampled_from("abc"))
COLUMNS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 9))
COUNTS = st.builds(
    Counts,
    **{one.name: NUMBERS for one in fields(Counts)}
    | {"undeclared": NAMES, "tables": NAMES, "defaulted": COLUMNS},
)
SHARD = """
name: s
columns: [{name: id, type: int64}, {name: note, type: string}]
source: {paths: [in], format: jsonl}
"""


@given(COUNTS, COUNTS, COUNTS)
def test_counts_add_up_in_any_order(a: Counts, b: Counts, c: Counts) -> None:
    assert a + b == b + a
    assert (a + b) + c == a + (b + c) == total([a, b, c])
    assert a + Counts() == a == total([a])
    assert (a + b).late == a.late + b.late
    assert (a + b).undeclared == a.undeclared | b.undeclared
    assert sum((a + b).defaulted.values()) == sum(a.defaulted.values()) + sum(b.defaulted.values())


@given(COUNTS)
def test_all_counts_but_those_of_tasks_are_shown(counts: Counts) -> None:
    shown = counts.to_json()

    assert {one.name for one in fields(Counts)} - shown.keys() == {"rows", "tables"}
    assert json.loads(json.dumps(shown)) == shown


def test_remarks_leave_out_what_is_zero() -> None:
    found = Counts(late=2, rejected=1_000, passed=5, undeclared=frozenset("ab")).remarks()

    assert found == ["1,000 rows rejected", "2 rows late", "2 undeclared columns"]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add one line to `Counts`, and count 3 of each file."""
    line = ("planted", int, field(default=0, metadata={"remark": "rows planted", "shown": True}))
    more: Any = make_dataclass("Counts", [line], bases=(Counts,), frozen=True)
    for name, module in list(sys.modules.items()):
        if name.startswith("strata.ingest") and vars(module).get("Counts") is Counts:
            monkeypatch.setattr(module, "Counts", more)
    judge = updates.judged_rows

    def judged(*facts: Any) -> Any:
        found = judge(*facts)
        return replace(found, counts=replace(found.counts, planted=3))

    monkeypatch.setattr(updates, "judged_rows", judged)


@pytest.mark.usefixtures("planted")
def test_a_new_counter_is_seen_by_all_who_read_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, result = tmp_path / "strata.toml", tmp_path / "result.json"
    config.write_text(
        f'shards_dir = "{tmp_path}/shards"\n[store]\nblob = "file://{tmp_path}/blob"\n'
        f'consensus = "sqlite:///{tmp_path}/c.db"\nlanding = "{tmp_path}"\n'
    )
    for folder, text in (("shards/s.yaml", SHARD), ("in/1970-01-01.jsonl", '{"id":1}')):
        (tmp_path / folder).parent.mkdir()
        (tmp_path / folder).write_text(text)
    (tmp_path / "more.jsonl").write_text('{"id":2}')
    found = nullcontext((None, load_settings(str(config), {})))
    monkeypatch.setattr(job, "job_session", lambda *_: found)
    monkeypatch.setattr("strata.jobs.ingest.work.job_runner", lambda _: serial)
    interval = ["--from-time", "1970-01-01", "--to-time", "1970-01-02", "--config", str(config)]

    assert job.main([*interval, "--result", str(result)]) == 0
    said = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["ingest", "s", "--from", f"{tmp_path}/more.jsonl", "--json", "--config", str(config)])
    printed = json.loads(capsys.readouterr().out)

    assert "3 rows planted" in said
    assert json.loads(result.read_text())["shards"][0]["planted"] == 3
    assert printed["planted"] == 3
    rows = recent(open_stores(load_settings(str(config), {}).store), "s", 10)
    assert [json.loads(row.details)["planted"] for row in rows] == [3, 3]

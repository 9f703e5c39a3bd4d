"""`strata apply` shows a plan, changes what was seen, refuses the rest, and is empty afterwards."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from strata.config.settings import load_settings
from strata.errors import Unavailable
from strata.maintain.exchange import manifest_of
from strata.state.state import State
from strata.store.open import open_stores
from tests.unit.cli.test_commands import Cli

SPEC = """
name: events
columns:
  - {name: id, type: int64, nullable: false}
  - {name: kind, type: string}
  - {name: payload, type: jsonb}
key: [id]
source: {format: jsonl}
"""
ROWS = [f'{{"id": {n}, "kind": "k{n % 7}", "payload": {{"n": {n}}}}}' for n in range(50)]


class Declared(Cli):
    """A user whose shards are declared in files."""

    def __init__(self, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(root, capsys)
        (root / "shards").mkdir()
        self.config.write_text(f'shards_dir = "{root}/shards"\n{self.config.read_text()}')
        self.declare(SPEC)

    def declare(self, text: str, name: str = "events") -> None:
        (self.root / "shards" / f"{name}.yaml").write_text(text)

    def plan(self, *words: str) -> Any:
        code, out, err = self.run("apply", *words, "--json")
        assert out, err
        return {**json.loads(out), "exit": code}

    def state(self) -> State:
        from strata.machine.machine import Machine

        return Machine(open_stores(load_settings(str(self.config), {}).store)).load("events")

    def statistics(self) -> list[str]:
        """Return the names of the statistics that every part has."""
        stores, state = open_stores(load_settings(str(self.config), {}).store), self.state()
        tables = [manifest_of(stores, "events", batch) for batch in state.batches]
        return sorted(
            name
            for name in set.intersection(*(set(t.column_names) for t in tables if t is not None))
            if all(t[name].null_count == 0 for t in tables if t is not None)
        )


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Declared:
    return Declared(tmp_path, capsys)


def test_a_folder_is_planned_then_created_and_then_there_is_nothing_to_do(cli: Declared) -> None:
    cli.declare(SPEC.replace("events", "others"), "others")
    planned = cli.plan()
    assert [(s["shard"], s["action"]) for s in planned["shards"]] == [
        ("events", "create"),
        ("others", "create"),
    ]
    assert (planned["applied"], planned["exit"]) == (False, 0)
    assert cli.plan("--check")["exit"] == 2
    assert cli.json("shards")["shards"] == []

    assert cli.plan("--shard", "events", "--yes")["applied"]
    assert [s["shard"] for s in cli.json("shards")["shards"]] == ["events"]
    assert cli.plan("--yes")["to_do"] == 1
    again = cli.plan("--check")
    assert (again["to_do"], again["exit"]) == (0, 0)
    assert "Nothing to do" in cli.run("apply", "--yes")[1]


def test_an_edited_file_is_named_by_ingest_and_changes_nothing_before_it_is_applied(
    cli: Declared,
) -> None:
    cli.ingest(0, *ROWS)
    cli.declare(SPEC + "part_bytes: 4096\nstats: {keep: [kind]}\n")

    file = cli.file("b.jsonl", '{"id": 99}')
    code, _, err = cli.run("ingest", "events", "--from", file, "--lower", "1000", "--upper", "2000")

    assert code == 0
    assert "events.yaml declares part_bytes, stats.keep otherwise than the shard" in err
    assert "strata apply" in err
    assert cli.state().spec.part_bytes != 4096
    cli.plan("--yes")
    assert cli.state().spec.part_bytes == 4096
    assert cli.state().spec.stats.keep == ("kind",)
    code, _, err = cli.run("ingest", "events", "--from", file, "--lower", "2000", "--upper", "3000")
    assert (code, "otherwise" in err) == (0, False)


def test_a_broken_file_stops_no_shard_that_exists_and_is_named(cli: Declared) -> None:
    cli.ingest(0, *ROWS)
    cli.declare("{", "broken")
    cli.declare(SPEC + "part_bites: 4\n")
    file = cli.file("b.jsonl", '{"id": 99}')
    code, _, err = cli.run("ingest", "events", "--from", file, "--lower", "1000", "--upper", "2000")
    assert code == 0
    assert "broken.yaml declares nothing" in err
    assert "part_bites" in err
    code, _, err = cli.run("apply")
    assert (code, "broken.yaml" in err) == (2, True)


def test_a_plan_says_what_follows_and_stored_parts_are_brought_along(cli: Declared) -> None:
    cli.ingest(0, *ROWS)
    cli.ingest(1000, *[row.replace('"id": ', '"id": 1') for row in ROWS])
    cli.declare(SPEC + "stats: {sets: [kind], budget_bytes: 4000}\n")

    [plan] = cli.plan()["shards"]

    changes = {x["setting"]: x for x in plan["lines"] if x["effect"] != "kept"}
    assert changes.keys() == {"stats.sets", "stats.budget_bytes"}
    assert changes["stats.sets"]["after"] == ["kind"]
    assert "at most soft" in changes["stats.budget_bytes"]["note"]
    [then] = plan["then"]
    assert then["command"] == "strata stats backfill events --again"
    assert (then["parts"], then["bytes"] > 0) == (2, True)
    assert "s.set.2" not in cli.statistics()
    before = cli.json("read", "events")["rows"]

    assert cli.plan("--yes", "--stored")["applied"]

    assert "s.set.2" in cli.statistics()
    assert cli.json("read", "events")["rows"] == before


def test_another_order_is_migrated(cli: Declared) -> None:
    cli.ingest(0, *ROWS)
    cli.declare(SPEC + "order: [kind]\n")
    [plan] = cli.plan()["shards"]
    assert [then["command"] for then in plan["then"]] == ["strata compact events --migrate"]

    cli.plan("--yes", "--stored")

    assert {run.order for b in cli.state().batches for run in b.runs} == {(2, 1, 3)}
    assert cli.json("read", "events")["rows"] == 50
    assert cli.plan("--check")["exit"] == 0


def test_a_failure_behind_the_declaration_names_the_commands_that_are_left(
    cli: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shard is what its file declares by then: the same command again has nothing to do."""
    cli.ingest(0, *ROWS)
    cli.declare(SPEC + "order: [kind]\n")

    def fails(*_: object, **__: object) -> None:
        raise Unavailable("the store is away", certain=True)

    monkeypatch.setattr("strata.advise.follow.compact_shard", fails)
    code, _, err = cli.run("apply", "--yes", "--stored")
    assert code == Unavailable.exit_code
    assert "left_to_run='strata compact events --migrate'" in err
    monkeypatch.undo()
    assert cli.run("compact", "events", "--migrate")[0] == 0
    assert {run.order for b in cli.state().batches for run in b.runs} == {(2, 1, 3)}


def test_only_the_plan_that_was_seen_takes_a_column_away(cli: Declared) -> None:
    cli.ingest(0, *ROWS)
    less = "\n".join(line for line in SPEC.splitlines() if "payload" not in line) + "\n"
    cli.declare(less)
    code = cli.plan()["code"]
    exit, _, err = cli.run("apply", "--yes")
    assert (exit, "events.payload" in err, code in err) == (2, True, False)
    cli.declare(less + "part_bytes: 4096\n")
    exit, _, err = cli.run("apply", "--confirm", code)
    assert (exit, "another plan" in err) == (2, True)
    cli.declare(less)

    assert cli.plan("--confirm", code)["takes_away"] == ["events.payload"]

    assert [c["name"] for c in cli.json("schema", "show", "events")["columns"]] == ["id", "kind"]


def test_a_column_that_a_registered_filter_uses_does_not_go(cli: Declared) -> None:
    cli.ingest(0, *ROWS)
    (cli.root / "filters").mkdir()
    (cli.root / "filters/one.yaml").write_text("shard: events\nname: one\nwhere: kind = 'a'\n")
    cli.declare("\n".join(line for line in SPEC.splitlines() if "kind" not in line))
    planned = cli.plan()
    [line] = [x for x in planned["shards"][0]["lines"] if x["effect"] == "may not change"]
    assert (line["setting"], line["note"]) == (
        "columns.kind",
        "registered filters use it: one",
    )
    assert planned["exit"] == 2


def test_one_refused_line_changes_no_shard_at_all(cli: Declared) -> None:
    cli.ingest(0, *ROWS)
    cli.declare(SPEC.replace("key: [id]", "key: [id, kind]") + "part_bytes: 4096\n")
    cli.declare(SPEC.replace("events", "others"), "others")
    planned = cli.plan("--check")
    assert [s["action"] for s in planned["shards"]] == ["refused", "create"]
    assert planned["exit"] == 2

    exit, _, err = cli.run("apply", "--yes")

    assert exit == 2
    assert "setting='key'" in err
    assert "create a shard with this key" in err
    assert [s["shard"] for s in cli.json("shards")["shards"]] == ["events"]
    assert cli.state().spec.part_bytes != 4096


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("stats: {budget_bytes: 3}\n", "may exceed the budget"),
        ("stats: {sets: [nothing]}\n", "nothing"),
        ("source: {envelope: diff, diff_column: kind}\n", "the diff column is not stored"),
        ("rollout: {mode: soft}\n", "only an approved request leads higher"),
    ],
)
def test_what_does_not_fit_is_refused_in_the_plan_with_a_cure(
    cli: Declared, more: str, said: str
) -> None:
    cli.ingest(0, *ROWS)
    text = SPEC.replace("source: {format: jsonl}\n", "") if more.startswith("source") else SPEC
    cli.declare(text + more)
    planned = cli.plan()
    refused = [x for x in planned["shards"][0]["lines"] if x["effect"] == "may not change"]
    assert any(said in x["note"] for x in refused), refused
    assert all(x["cure"] for x in refused)
    assert planned["exit"] == 2


def test_a_dropped_shard_and_an_unknown_one_are_named(cli: Declared) -> None:
    cli.plan("--yes")
    cli.run("drop", "events", "--yes", "events", "--reason", "old")
    [plan] = cli.plan()["shards"]
    assert (plan["action"], "--revive" in plan["lines"][0]["cure"]) == ("refused", True)
    code, _, err = cli.run("apply", "--shard", "evnts")
    assert (code, "did you mean 'events'?" in err) == (2, True)
    code, _, err = cli.run("apply", str(cli.root / "nowhere"))
    assert (code, "no declaration" in err) == (2, True)
    assert cli.run("apply", "--check", "--yes")[0] == 2


def test_people_see_each_difference_and_the_way_to_apply_it(cli: Declared) -> None:
    cli.ingest(0, *ROWS)
    cli.declare(SPEC + "stats: {keep: [kind]}\n")
    _, out, _ = cli.run("apply")
    assert "stats.keep" in out
    assert "Nothing was changed. To apply, add: --yes" in out
    assert "part_bytes" not in out
    assert "part_bytes" in cli.run("apply", "--all")[1]
    applied = cli.run("apply", "--yes")[1]
    assert "bring stored parts along" in applied
    assert "strata stats backfill events --again --columns kind" in applied


def test_an_interval_without_a_file_stays_open_unless_it_is_empty_on_purpose(
    cli: Declared,
) -> None:
    (cli.root / "in").mkdir()
    cli.declare(SPEC.replace("format: jsonl", "format: jsonl, paths: [in]"))
    cli.plan("--yes")
    bounds = ("--lower", "1970-01-01", "--upper", "1970-01-02")
    for words in (bounds, (*bounds, "--from", str(cli.root / "in"))):
        code, _, err = cli.run("ingest", "events", *words)
        assert (code, "no file came" in err, "--empty" in err) == (2, True, True)
    assert cli.state().batches == ()
    assert cli.json("ingest", "events", *bounds, "--empty")["updates"] == 0
    assert cli.json("ingest", "events", *bounds)["already_committed"]
    (cli.root / "in/1970-01-02.jsonl").write_text('{"id": 1}\n')
    late = ("--lower", "1970-01-02", "--upper", "1970-01-03")
    assert cli.json("ingest", "events", *late)["updates"] == 1
    code, _, err = cli.run("ingest", "events", "--lower", "1970-01-03", "--upper", "1970-01-04")
    assert (code, "no file came" in err) == (2, True), "there are files, and none is of this day"


def test_forms_of_dates_are_shown_and_hold_from_the_next_ingest_on(cli: Declared) -> None:
    spec = SPEC.replace("{name: kind, type: string}", "{name: kind, type: date}")
    cli.declare(spec)
    cli.ingest(0, '{"id": 1, "kind": "2024-02-01"}')
    cli.declare(spec.replace("{format: jsonl}", "{format: jsonl, dates: {kind: dd/MM/yyyy}}"))

    [plan] = cli.plan()["shards"]

    [line] = [x for x in plan["lines"] if x["effect"] != "kept"]
    assert (line["setting"], line["before"]) == ("source.dates", [])
    assert (line["after"], line["effect"]) == ({"kind": "dd/MM/yyyy"}, "changes at once")
    assert "from the next ingest on" in line["note"]
    assert plan["then"] == []
    shown = cli.run("apply")[1]
    assert "source.dates" in shown
    assert "dd/MM/yyyy" in shown
    assert cli.plan("--yes")["applied"]
    assert cli.plan("--check")["to_do"] == 0
    cli.ingest(1000, '{"id": 2, "kind": "01/02/2024"}', '{"id": 3, "kind": "2024-02-01"}')
    out = cli.root / "out.parquet"
    cli.json("read", "events", "--out", str(out))
    days = pq.read_table(out)["kind"].to_pylist()
    assert list(map(str, days)) == ["2024-02-01"] * 2
    [bad] = cli.json("quarantine", "show", "events")["rejected"]
    assert (bad["column_name"], bad["value"]) == ("kind", "2024-02-01")
    assert bad["reason"] == "not readable as date, written dd/MM/yyyy"
    cli.declare(spec.replace("{format: jsonl}", "{format: jsonl, dates: dd/MM/uuuu}"))
    code, _, err = cli.run("apply")
    assert (code, "uuuu is no field" in err) == (2, True)


def test_forms_that_no_value_decides_are_a_comment_of_the_proposal(cli: Declared) -> None:
    file = cli.file(
        "days.csv", "id,day,due", *(f"{n},0{n + 1}/02/2024,31/12/2024" for n in range(3))
    )
    out = cli.root / "proposals" / "days.yaml"  # the folder is made with it
    found = cli.json("create", "days", "--infer", file, "--out", str(out))
    text = out.read_text()
    assert "dates: {due: dd/MM/yyyy}" in text
    assert "# day: dd/MM/yyyy or MM/dd/yyyy, no value decides" in text
    assert len(found["notes"]) == 1
    cli.json("create", "days", "--spec", str(out))


def test_csv_of_an_office_is_proposed_taken_in_and_retried(cli: Declared) -> None:
    file = cli.root / "amt.csv"
    text = "nr;größe\n" + "".join(f"{n};1.234,{n}\n" for n in range(10, 40))
    file.write_bytes(text.encode("cp1252") + b"50;5\x81\n")
    code, _, err = cli.run("create", "amt", "--infer", str(file))
    assert (code, "--encoding windows-1252" in err, "0xf6" in err) == (2, True, True)
    out = cli.root / "amt.yaml"
    asked = ("--encoding", "windows-1252", "--key", "nr", "--out", str(out))
    found = cli.json("create", "amt", "--infer", str(file), *asked)
    assert found["declaration"]["source"]["encoding"] == "cp1252"
    assert "amt.csv: line 32 is not cp1252, and rows like it are rejected" in out.read_text()
    declared = out.read_text().replace("type: string", "type: float64")
    marks = "encoding: cp1252\n  decimal: ','\n  thousands: '.'"
    out.write_text(declared.replace("encoding: cp1252", marks))
    cli.json("create", "amt", "--spec", str(out))

    report = cli.json("ingest", "amt", "--from", str(file))

    assert (report["updates"], report["rejected"]) == (30, 1)
    [bad] = cli.json("quarantine", "show", "amt")["rejected"]
    assert (bad["line"], bad["value"], bad["raw"]) == (32, "5\\x81", "50;5\\x81")
    assert bad["header"] == "nr;größe"
    assert "the byte 0x81 is none of cp1252" in bad["reason"]
    assert cli.json("quarantine", "retry", "amt")["taken"] == 0


def test_a_column_and_its_name_in_the_source_are_added_together(cli: Declared) -> None:
    cli.create()
    assert "source" not in cli.json("schema", "show", "events")["columns"][0]
    spec = SPEC.replace("key: [id]", "  - {name: t_, type: int64}\nkey: [id]")
    cli.declare(spec.replace("{format: jsonl}", "{format: jsonl, names: {t: t_, Kind: kind}}"))

    lines = cli.plan()["shards"][0]["lines"]
    assert [(one["setting"], one["after"]) for one in lines if one["effect"] != "kept"] == [
        ("columns.t_", "int64"),
        ("source.names", {"t": "t_", "Kind": "kind"}),
    ]
    cli.json("apply", "--yes")
    cli.ingest(1000, '{"id": 1, "Kind": "a", "t": 5}')

    shown = cli.json("schema", "show", "events")["columns"]
    assert {one["name"]: one["source"] for one in shown}.items() >= {("kind", "Kind"), ("t_", "t")}
    assert "source" in cli.run("schema", "show", "events")[1]
    out = str(cli.root / "rows.parquet")
    cli.json("read", "events", "--out", out)
    assert pq.read_table(out).select(["kind", "t_"]).to_pylist() == [{"kind": "a", "t_": 5}]


def test_a_proposal_says_which_names_are_others(cli: Declared) -> None:
    file = cli.file("odd.csv", '"t\nu",Name,name', "1,2,3")
    out = cli.root / "odd.yaml"

    found = cli.json("create", "odd", "--infer", file, "--out", str(out))

    assert len(found["notes"]) == 2
    text = out.read_text()
    assert "# t_u: the source calls it 't\\nu'; with blanks at its ends" in text
    assert "# name_2: the source calls it 'name'; case does not distinguish two columns" in text
    cli.json("create", "odd", "--spec", str(out))
    cli.json("ingest", "odd", "--from", file)

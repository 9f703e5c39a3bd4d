"""What maintenance selects, leaves alone and says: each rule by itself."""

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from strata.config.shards import Declaration
from strata.errors import Conflict, InvalidRequest
from strata.format.part import read_footer
from strata.machine.machine import Machine
from strata.maintain import backfill, exchange, own, schema, trim, trim_tasks, worth
from strata.maintain.backfill import backfill_shard
from strata.maintain.backfill_plan import _lacks, plan_backfill
from strata.maintain.collect import lacks_members
from strata.maintain.declare import (
    ShardPlan,
    _selection,
    _used,
    check_statistics,
    plan_declarations,
)
from strata.maintain.exchange import PARTIAL, Exchanged, Fresh, KnownStatistics, Selection
from strata.maintain.revert import _Work, revert_interval
from strata.maintain.schema import change_schema
from strata.maintain.trim import _by_batch, column_weights, trim_shard
from strata.maintain.trim_report import TrimShardReport
from strata.maintain.trim_tasks import JudgedFilter, Survey, SurveyTask, Trimmed, survey_batch
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.state.declare import Effect, Follow, Line
from strata.state.schema import AddColumn, DropColumn
from strata.state.state import Batch
from strata.stats import STATS_VERSION
from strata.stats.members import Sought, place_named
from strata.stats.wire import BLOOM, SET, bloom_name, set_name
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores, spec_of
from tests.support.updates import table

RELATION = Relation(
    0,
    (Column(1, "n", parse_type("int64")), Column(2, "text", parse_type("string"))),
    (1,),
    (),
)
NONE: Any = None
BATCH = Batch(0, 9, 0, manifest="m")
FILTERS: Any = [SimpleNamespace(name="mine")]


def stored(**changes: object) -> Stores:
    """Return a shard of two batches of ten rows, each one part with statistics."""
    stores = memory_stores()
    create(stores, RELATION, **changes)
    for day in range(2):
        rows = [(n, f"text {n}", day, 1) for n in range(10 * day, 10 * day + 10)]
        append(stores, "shard", day, day + 1, [table(RELATION, rows)], "both")
    return stores


# What a backfill reads.


def test_a_part_lacks_statistics_that_are_older_than_asked_for() -> None:
    some = pa.array([{"nulls": 0}] * 3, pa.struct([("nulls", pa.int64())]))
    versions = [STATS_VERSION, PARTIAL, None]
    rows = pa.table({"stats_version": pa.array(versions, pa.int64()), "s.1": some})

    assert _lacks(rows, ["s.1"], Selection()).tolist() == [False, False, True]
    assert _lacks(rows, [], Selection()).tolist() == [False, True, True]


PLACE = place_named(RELATION, "s.2")
FORMS: list[tuple[dict[str, Any] | None, bool, bool, bool]] = [
    # the set; is there a filter; does the part lack a set; and one or a filter
    (None, False, True, True),
    ({"form": "text", "values": [b"a"]}, False, False, False),
    ({"form": "text", "values": None}, True, False, False),
    ({"form": "text", "values": None}, False, False, True),
    ({"form": "", "values": None}, False, False, False),
    ({"form": "int64", "values": [b"a"]}, False, True, True),
    ({"form": "int64", "values": None}, True, True, True),
]


def test_a_part_lacks_values_unless_it_has_them_or_says_that_nothing_can_be_known() -> None:
    assert isinstance(PLACE, Sought)
    filter = {"form": "text", "key": "k", "size_bytes": 1, "distinct": 1}
    sets = pa.array([one for one, *_ in FORMS], SET)
    blooms = pa.array([filter if there else None for _, there, *_ in FORMS], BLOOM)
    rows = pa.table({set_name(PLACE.name): sets, bloom_name(PLACE.name): blooms})

    wanted = [lacks_members(rows, replace(PLACE, bloom=bloom)).tolist() for bloom in (False, True)]

    assert wanted == [[lacks for *_, lacks, _ in FORMS], [lacks for *_, lacks in FORMS]]


def test_a_shard_with_all_its_statistics_lacks_nothing() -> None:
    relation = Relation(
        0, tuple(Column(n, name, parse_type("int64")) for n, name in ((1, "a"), (2, "b"))), (1,), ()
    )
    stores = memory_stores()
    create(stores, relation, stats=StatsSpec(pairs=(("a", "b"),)))
    append(stores, "shard", 0, 1, [table(relation, [(n, n + 1, 0, 1) for n in range(9)])], "both")
    state = Machine(stores).load("shard")

    assert plan_backfill(stores, state, Selection()).parts == 0
    assert plan_backfill(stores, state, Selection(again=True)).parts == 1


def test_a_dry_run_reads_and_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = stored()
    before = Machine(stores).load("shard")
    monkeypatch.setattr(backfill, "_Work", None)

    report = backfill_shard(stores, "shard", Selection(again=True), dry_run=True)

    assert (report.parts_selected, report.parts_changed) == (2, 0)
    assert backfill_shard(stores, "shard").parts_selected == 0, "and no lease is taken"
    assert Machine(stores).load("shard") == before


def test_a_column_that_is_named_weighs_two_more_than_filters_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state: Any = SimpleNamespace(relation=RELATION, spec=SimpleNamespace(stats=StatsSpec()))
    work = backfill._Work(NONE, state, Selection(columns=("n", "text")), {}, print, None)
    given: list[Any] = []
    monkeypatch.setattr(backfill, "trim", lambda *some: (given.append(some[-1]), None))
    found = pa.RecordBatch.from_pydict({"s.1": [{"nulls": 0}], "s.2": [{"nulls": 0}]})

    work._fresh(found, KnownStatistics(None, None), {"s.1": 0.5, "s.9": 1.0}, members_only=False)

    assert given == [{"s.1": 2.5, "s.2": 2.0, "s.9": 1.0}]


# Manifests are exchanged.


def test_a_manifest_that_stays_as_it_is_is_no_commit() -> None:
    stores = stored()
    before = Machine(stores).load("shard")
    batch = before.batches[0]

    def same(_: str, known: KnownStatistics) -> Fresh:
        assert known.stats is not None
        return Fresh(known.stats, known.version or 0)

    parts = exchange.load_manifest_of(stores.blob, "shard", batch)["key"].to_pylist()
    done = exchange.exchange(stores, "shard", batch, parts, same)

    assert done is not None
    assert (done.changed, done.bytes_added) == (1, 0)
    assert Machine(stores).load("shard") == before


@pytest.mark.parametrize("changed", [0, 2])
def test_pages_of_which_none_changes_stay(monkeypatch: pytest.MonkeyPatch, changed: int) -> None:
    rows = pa.table({"stats_parts": [3, 4], "stats_bytes": [30, 40]})
    target = SimpleNamespace(put_tree=lambda _: "new")
    monkeypatch.setattr(exchange, "PageTarget", lambda *_: target)
    monkeypatch.setattr(exchange, "_pages_rewritten", lambda *_: (rows, changed))
    for name in ("stats_columns", "union", "row_stream"):
        monkeypatch.setattr(exchange, name, lambda _: None)
    state: Any = SimpleNamespace(name="s", generation=0)
    paged: Any = SimpleNamespace(in_pages=True)

    new, count = exchange._rewritten(NONE, state, BATCH, paged, (), NONE)

    assert count == changed
    assert new.manifest == ("new" if changed else "m")
    assert (new.stats_parts, new.stats_bytes) == ((7, 70) if changed else (0, 0))


class Outside:
    """A store with a part that refers to a file; `left` times it says so."""

    def __init__(self, data: bytes, left: int) -> None:
        self.data, self.left = data, left
        self.written: list[str] = []

    def get(self, _: str) -> bytes:
        return self.data

    def referred(self, _: str) -> object | None:
        self.left -= 1
        return None if self.left < 0 else "a reference"

    def overwrite(self, key: str, _: bytes) -> None:
        self.written.append(key)


@pytest.mark.parametrize(("left", "taken"), [(1, True), (0, False)])
def test_what_an_erasure_took_away_meanwhile_does_not_come_back(
    monkeypatch: pytest.MonkeyPatch, left: int, taken: bool
) -> None:
    blob: Any = Outside(b"rows", left)
    lease: Any = SimpleNamespace(renew=lambda: None)
    monkeypatch.setattr(own.keys, "names_content", lambda *_: True)

    assert own._copied(blob, own.ReferredFile("file:///f", 4, "part"), lease) is taken
    assert blob.written == (["part"] if taken else [])


# Declarations.


def test_a_column_that_no_filter_uses_may_go(monkeypatch: pytest.MonkeyPatch) -> None:
    line = Line("columns", "text", None, Effect.AT_ONCE, change=DropColumn("text"))
    monkeypatch.setattr("strata.maintain.declare.uses_column", lambda _, name: name == "text")
    kept = replace(line, change=DropColumn("n"))

    assert _used(line, []) is line
    assert _used(kept, FILTERS) is kept
    assert _used(line, FILTERS).effect == Effect.REFUSED


@pytest.mark.parametrize("stats", [{"sets": ("nowhere",)}, {"pairs": (("n", "nowhere"),)}])
def test_statistics_of_what_is_not_there_are_refused(stats: dict[str, Any]) -> None:
    spec = spec_of(RELATION, stats=StatsSpec(**stats))

    with pytest.raises(InvalidRequest, match="nowhere"):
        check_statistics(spec, RELATION)
    check_statistics(spec_of(RELATION), RELATION)


def test_a_plan_counts_the_settings_that_stay() -> None:
    lines = (
        Line("a", 1, 1, Effect.KEPT),
        Line("b", 1, 1, Effect.KEPT),
        Line("c", 1, 2, Effect.AT_ONCE),
    )
    plan = ShardPlan(Declaration(spec_of(RELATION), "f.yaml"), "change", lines)

    assert plan.to_json()["kept"] == 2


def test_a_shard_that_was_dropped_is_not_made_by_its_declaration() -> None:
    machine = Machine(memory_stores())
    machine.create(spec_of(RELATION))
    machine.drop("shard", by="ann", reason="due", force=True)
    declared = Declaration(spec_of(RELATION), "f.yaml")

    [plan] = plan_declarations(machine, [declared], check=lambda *_: None)

    assert plan.action == "refused"


@pytest.mark.parametrize(
    ("after", "columns"),
    [(["n", "text.a"], ("text",)), (["n"], ()), (["n", "te*"], ()), (["n", "no"], ())],
)
def test_only_columns_that_the_keep_list_gains_are_collected_again(
    after: list[str], columns: tuple[str, ...]
) -> None:
    kept = Line("stats.keep", ["n"], after, Effect.AT_ONCE, follow=Follow.COLLECT)
    found: Any = SimpleNamespace(differences=(kept,), spec=spec_of(RELATION))

    assert _selection(Follow.COLLECT, found) == Selection(again=True, columns=columns)


def test_a_column_that_a_filter_uses_goes_by_force_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(memory_stores())
    machine.create(spec_of(RELATION))
    monkeypatch.setattr(schema, "uses_column", lambda _, name: name == "text")

    with pytest.raises(InvalidRequest, match="registered filters use this column"):
        change_schema(machine, "shard", DropColumn("text"), filters=FILTERS)
    done = change_schema(machine, "shard", DropColumn("text"), filters=FILTERS, force=True)
    assert (done.version_before, done.evolved.relation.version) == (0, 1)
    again = change_schema(machine, "shard", AddColumn("new", parse_type("int64")))
    assert (again.version_before, again.evolved.relation.version) == (1, 2)


# Reverts.


def work_on(stores: Stores) -> _Work:
    machine = Machine(stores)
    return _Work(machine, machine.load("shard"), 1, 2, None)


def test_a_revert_is_done_unless_it_is_only_tried() -> None:
    stores = stored()

    would = revert_interval(stores, "shard", 1, 2, dry_run=True)
    assert Machine(stores).load("shard").upper == 2
    done = revert_interval(stores, "shard", 1, 2)
    again = revert_interval(stores, "shard", 1, 2)

    assert (would.dry_run, done.dry_run, again.dry_run) == (True, False, False)
    assert Machine(stores).load("shard").upper == 3
    assert (done.already_reverted, again.already_reverted) == (False, True)


def test_a_part_of_a_revert_says_which_interval_it_is_for() -> None:
    stores = stored()
    at = work_on(stores).carry_out(NONE).at
    batch = Machine(stores).load("shard").batches[-1]
    [key] = exchange.load_manifest_of(stores.blob, "shard", batch)["key"].to_pylist()

    described = read_footer(stores.blob.get(key) or b"").description

    assert (described.lower, described.upper) == (at, at + 1) == (batch.lower, batch.upper)


def test_a_revert_whose_outcome_was_unknown_is_found_again() -> None:
    stores = stored()
    work = work_on(stores)
    first = work.carry_out(NONE)

    assert work.carry_out(NONE) == replace(first, already_reverted=True)
    append(stores, "shard", 3, 4, [table(RELATION, [(99, "x", 3, 1)])], "both")
    other = replace(work, upper=1, lower=0)
    with pytest.raises((Conflict, InvalidRequest)):
        other.carry_out(NONE)


def test_nobody_takes_back_what_strata_says_of_itself() -> None:
    with pytest.raises(InvalidRequest, match="Strata alone writes"):
        revert_interval(memory_stores(), "strata_operations", 0, 1)


# Trimming.


def trimmed(batch: Batch, added: int = 0) -> Trimmed:
    return Trimmed(batch, {"part": NONE}, {}, (), added)


def job_of(monkeypatch: pytest.MonkeyPatch) -> trim._Job:
    monkeypatch.setattr(trim.Question, "about", lambda *_: None)
    state: Any = SimpleNamespace(name="s", relation=RELATION)
    return trim._Job(SimpleNamespace(settings=None), state, Selection(), StatsSpec(), ())  # type: ignore[arg-type]


def test_results_of_a_batch_come_together_without_those_of_batches_that_are_gone() -> None:
    one, other = trimmed(BATCH), trimmed(replace(BATCH, manifest="n"))

    found = list(_by_batch([None, one, one, None, other, None]))

    assert found == [[one, one], [other]]
    assert list(_by_batch([None])) == []


@pytest.mark.parametrize(
    ("done", "after", "gone"), [(Exchanged(BATCH, 1, -30), 70, 0), (None, 100, 1)]
)
def test_a_batch_that_is_gone_counts_no_bytes(
    monkeypatch: pytest.MonkeyPatch, done: Exchanged | None, after: int, gone: int
) -> None:
    monkeypatch.setattr(trim, "exchange", lambda *_, **__: done)
    report = TrimShardReport("s", False, 1, 0, 100, 100, 0, 0)

    found = job_of(monkeypatch)._commit(report, [trimmed(BATCH)])

    assert (found.stats_bytes_after, found.batches_gone) == (after, gone)
    assert found.parts_changed + found.parts_dropped == 1
    assert found.to_json()["bytes_read"] == 0


def test_a_dry_run_says_what_the_statistics_would_weigh(monkeypatch: pytest.MonkeyPatch) -> None:
    survey = Survey(BATCH, (0,), 100, ())

    def run(*_: object) -> Iterator[Trimmed]:
        yield trimmed(BATCH, -40)

    report = job_of(monkeypatch).trim(run, [survey], {}, dry_run=True)  # type: ignore[arg-type]

    assert (report.stats_bytes_before, report.stats_bytes_after) == (100, 60)
    assert (report.parts_selected, report.parts_changed) == (1, 0)


def test_a_statistic_is_credited_with_its_share_of_all_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[Any] = []
    monkeypatch.setattr(trim.usage, "filter_identity", lambda one: one)
    monkeypatch.setattr(trim.usage, "unread", lambda one: one)
    monkeypatch.setattr(trim.usage, "usefulness", lambda _, shares: given.append(shares))
    named: Any = [SimpleNamespace(filter="f"), SimpleNamespace(filter="g")]
    surveys = [
        Survey(BATCH, (), 0, (JudgedFilter(3, 2, {"s.1": 2}), JudgedFilter(0, 0, {}))),
        Survey(BATCH, (), 0, (JudgedFilter(5, 1, {"s.1": 2, "s.2": 1}), JudgedFilter(0, 0, {}))),
    ]

    column_weights((), named, surveys)

    assert given == [{"f": {"s.1": 0.5, "s.2": 0.125}, "g": {}}]


def test_only_parts_in_the_selected_times_are_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"stats_version": [1, 1, 1, None]})
    answers: dict[str, Any] = {
        "open_stores": SimpleNamespace(blob=None),
        "manifest_of": rows,
        "stats_columns": rows,
        "encoded_sizes": np.array([90, 90, 10, 90]),
        "_has_free": np.ones(4, bool),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(trim_tasks, name, lambda *_, answer=answer: answer)
    times: Any = SimpleNamespace(
        in_time=lambda _: np.array([True, False, True, True]), version=None
    )
    judging: Any = SimpleNamespace(shard="s", judge=lambda *_: ())

    found = survey_batch(SurveyTask(NONE, judging, BATCH, times, StatsSpec(budget_bytes=50)))

    assert found is not None
    assert (found.rows, found.stats_bytes) == ((0,), 190)


def test_a_task_of_a_batch_that_is_gone_has_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trim_tasks, "open_stores", lambda _: None)
    monkeypatch.setattr(trim_tasks, "manifest_of", lambda *_: None)
    judging: Any = SimpleNamespace(shard="s")
    task: Any = SimpleNamespace(settings=None, state=judging, batch=BATCH)

    assert trim_tasks.trim_rows(task) is None
    assert survey_batch(task) is None


def test_a_trim_is_done_unless_it_is_only_tried() -> None:
    stores = stored()
    before = Machine(stores).load("shard")

    would = trim_shard(stores, "shard", budget_bytes=0, dry_run=True)
    assert Machine(stores).load("shard") == before
    done = trim_shard(stores, "shard", budget_bytes=0)

    assert (would.parts_selected, would.parts_changed) == (2, 0)
    assert (done.parts_selected, done.parts_changed) == (2, 2)
    assert would.stats_bytes_after == done.stats_bytes_after < done.stats_bytes_before


@pytest.mark.parametrize(("most", "rows"), [(1, 1), (2, 2), (3, 3), (9, 4)])
def test_statistics_of_the_newest_parts_are_as_many_as_are_asked_for(
    monkeypatch: pytest.MonkeyPatch, most: int, rows: int
) -> None:
    piece = pa.table({"rows": [1]})
    monkeypatch.setattr(worth, "some_of_manifest", lambda *_: [piece])
    monkeypatch.setattr(worth, "stats_columns", lambda one: one)

    assert worth._statistics(NONE, "s", [BATCH] * 4, most).num_rows == rows

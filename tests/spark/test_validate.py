"""Spark judges what pruning would skip: right, wrong, failing and unreadable parts."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from strata.audit.run import Scope, ValidationReport
from strata.config.filters import RegisteredFilter
from strata.decide.descent import load_manifest
from strata.expr import interpret
from strata.expr.entry import Context, Entry
from strata.expr.nodes import Call
from strata.expr.spec import Spec, exactly
from strata.format.manifest import encode_manifest, part_refs
from strata.history import operations
from strata.history.metrics import Metrics
from strata.jobs.validate.outcome import document
from strata.jobs.validate.report import WrittenReport
from strata.machine.machine import Machine
from strata.spark.evaluate import spark_evaluator, validate
from strata.spark.front.catalyst import analyse
from strata.state.transitions import replace_manifests
from strata.store import keys
from strata.ui.evidence import points_of
from strata.ui.nights import checked_filters
from tests.support.climb import standing
from tests.support.shards import NAME, Events, copied

WHERE = "at >= timestamp'2013-01-12 00:00:00' and at < now()"


@pytest.fixture
def events(tmp_path: Path) -> Events:
    events = copied(tmp_path)
    Machine(events.stores).apply(NAME, partial(standing, mode="on", percent=0))
    return events


def check(
    spark: SparkSession, events: Events, where: str = WHERE, **scope: Any
) -> ValidationReport:
    filters = [RegisteredFilter(NAME, "late", where, now=(1388534400000, 1388534400000))]
    asked = Scope("run 1", 100, check_format=False)
    return validate(spark, events.stores, NAME, filters, asked)


def move_high(events: Events, column: str, high: Any) -> str:
    """Lower the high bound of a part of the last batch, and return the part's key."""
    batch = [b for b in events.state.batches if b.manifest][2]
    manifest = load_manifest(events.stores, events.state, batch)
    index = manifest.column_names.index(column)
    rows = manifest[column].to_pylist()
    row = next(i for i, value in enumerate(rows) if value["high"] and value["high"] > high)
    rows[row] = {**rows[row], "low": high, "high": high}
    changed = manifest.set_column(index, column, pa.array(rows, manifest.schema.field(index).type))
    data = encode_manifest(changed)
    key = keys.manifest_key(NAME, keys.content_hash(data))
    events.stores.blob.set(key, data)
    old = batch.manifest
    assert old is not None
    new = replace(batch, manifest=key)
    Machine(events.stores).apply(NAME, lambda s, now: replace_manifests(s, now, {old: new}))
    return str(part_refs(manifest)[row].key)


def test_right_pruning_is_clean(spark: SparkSession, events: Events) -> None:
    report = check(spark, events)

    assert report.summaries[0].parts_skipped > 0
    assert report.summaries[0].audited_parts == report.summaries[0].parts_skipped
    assert report.mismatches == ()
    assert report.mode_after == "on"


def test_a_lie_is_found_by_spark_and_named(spark: SparkSession, events: Events) -> None:
    part = move_high(events, "s.1", 250)

    report = check(spark, events, "id > 250")

    assert [(v.part, v.column) for v in report.mismatches] == [(part, "id")]
    assert report.mode_after == "off"


def test_an_error_is_pinned_to_the_part_that_raises_it(spark: SparkSession, events: Events) -> None:
    """Halving leaves a verdict for every other part."""
    state = events.state
    batch = [b for b in state.batches if b.manifest][2]
    refs = part_refs(load_manifest(events.stores, state, batch))[:5]
    evaluate = spark_evaluator(spark, events.stores.settings, state.relations)
    ids = {r.key: _ids(events, r) for r in refs}
    bad = ids[refs[2].key][0]

    results = evaluate(analyse(spark, state.relation, f"1 / (id - {bad}) > 5"), refs)

    assert [bool(result.error) for result in results] == [bad in ids[r.key] for r in refs]
    assert "DIVIDE_BY_ZERO" in next(r.error for r in results if r.error)


def test_a_part_that_two_runs_name_is_judged_once(spark: SparkSession, events: Events) -> None:
    state = events.state
    batch = [b for b in state.batches if b.manifest][2]
    refs = part_refs(load_manifest(events.stores, state, batch))[:2]
    evaluate = spark_evaluator(spark, events.stores.settings, state.relations)

    results = evaluate(analyse(spark, state.relation, "id >= 0"), [*refs, refs[0]])

    assert [result.part for result in results] == [refs[0].key, refs[1].key, refs[0].key]
    assert [result.rows for result in results] == [refs[0].rows, refs[1].rows, refs[0].rows]


def test_a_lost_part_is_not_a_pass(spark: SparkSession, events: Events) -> None:
    state = events.state
    batch = [b for b in state.batches if b.manifest][2]
    refs = part_refs(load_manifest(events.stores, state, batch))[:3]
    events.stores.blob.delete(refs[1].key)
    evaluate = spark_evaluator(spark, events.stores.settings, state.relations)

    results = evaluate(analyse(spark, state.relation, "id > 250"), refs)

    assert [result.corrupt for result in results] == [False, True, False]


def _ids(events: Events, ref: Any) -> list[int]:
    from strata.read.scan import read_updates

    return list(read_updates(events.stores, events.state, ref)["1"].to_pylist())


def test_the_rule_that_lied_is_named_and_no_other(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of `abs(number % 7) + id > 250` only the rule of the remainder is false."""
    wrong = Entry("remainder", "left, right", (2, 2), _always_zero, "a lie")
    monkeypatch.setattr(interpret, "REGISTRY", {**interpret.REGISTRY, "remainder": wrong})

    report = check(spark, events, "abs(small % 70) + 1 > 60")

    assert report.mismatches
    assert {v.suspects for v in report.mismatches} == {"remainder"}
    assert "the rule of remainder is wrong" in report.mismatches[0].bound
    assert (report.mode_after, events.state.rollout.quarantine) == ("off", ("remainder",))


def test_where_every_rule_holds_none_is_blamed(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter that is judged as another than the one that runs: no function is to blame."""
    filter = analyse(spark, events.state.relation, "id > 250")
    monkeypatch.setattr(
        "strata.spark.evaluate.analyse_registered",
        lambda *_: replace(filter, sql="id between 100 and 110"),
    )

    report = check(spark, events, "id > 250")

    assert report.mismatches
    assert {v.suspects for v in report.mismatches} == {""}
    assert "another filter" in report.mismatches[0].bound
    assert (report.mode_after, events.state.rollout.quarantine) == ("off", ())


def _always_zero(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    return exactly(0, call.type)


def test_the_pages_show_what_a_validation_has_found(spark: SparkSession, events: Events) -> None:
    """Writer and readers of the history of operations agree about its fields."""
    report = check(spark, events)
    done = document([report], WrittenReport(Path("index.html"), success=True, failed=()))
    operations.note(events.stores, Metrics(), "validate", 0, done, 0)
    (night,) = operations.recent(events.stores, NAME, 10)
    summary, seen = report.summaries[0], report.evidence
    assert seen is not None

    (filter,) = checked_filters([night], night.at_ms)
    points = points_of([], [night])

    assert filter.name == "late"
    assert filter.last == pytest.approx(summary.bytes_skipped / summary.bytes_total)
    assert (seen.parts, seen.repeats, seen.distinct_parts) in {
        (point.parts, point.repeats, point.distinct_parts) for point in points
    }

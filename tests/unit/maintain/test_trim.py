"""Trimming keeps what filters skip parts with, says what it cost, and is never wrong."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import count

import pyarrow as pa
import pytest

from strata.decide.decision import decide
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Expr, Literal
from strata.expr.nodes import Column as Field
from strata.format.manifest import part_refs, stats_columns, stats_rows
from strata.history import usage
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import Selection
from strata.maintain.trim import trim_shard
from strata.maintain.trim_report import Named
from strata.model.settings import StoreSettings, UsageSettings
from strata.model.spec import StatsSpec
from strata.read.scan import read_updates
from strata.store import keys
from strata.store.open import Stores, open_stores
from tests.support.facts import complaints
from tests.unit.maintain.test_backfill import RELATION, SHARD, SPEC, batches_of, manifest, put

NUMBERS = count()
ID, NAME, PAYLOAD = (
    Field(1, "id", "long"),
    Field(3, "name", "string"),
    Field(4, "payload", "string"),
)
WORD = Call("get_json_object", (PAYLOAD, Literal("$.s", "string")), "string")


def compare(function: str, left: Expr, value: int | str) -> Filter:
    kind = "long" if isinstance(value, int) else "string"
    return Filter(Call(function, (left, Literal(value, kind)), "boolean"), f"{value}", 0, 0)


BY_NAME = compare("greater_than", NAME, "name 0250")
BY_ID = compare("less_than", ID, 30)
BY_PATH = compare("less_than", WORD, "x050")


@pytest.fixture
def stores() -> Stores:
    """Three batches of several parts with statistics: ids, names and payloads grow."""
    name = f"memory://trimming {next(NUMBERS)}"
    opened = open_stores(StoreSettings(blob=name, consensus=name))
    Machine(opened).create(SPEC)
    for number in range(3):
        put(opened, 100 * number, 100 * number + 100, "both")
    return opened


def named(*filters: Filter) -> list[Named]:
    return [Named(f"f{n}", "registered", one) for n, one in enumerate(filters)]


def tables(stores: Stores) -> list[pa.Table]:
    return [manifest(stores, batch) for batch in batches_of(stores)]


def left(stores: Stores) -> set[str]:
    """Return the statistics columns that every part still has."""
    return set.intersection(
        *(
            {n for n in t.column_names if n.startswith("s.") and not t[n].null_count}
            for t in tables(stores)
        )
    )


def skipped(stores: Stores, filter: Filter) -> int:
    decisions = (decide(filter, stats_columns(t), RELATION) for t in tables(stores))
    return sum(int((~decision.keep).sum()) for decision in decisions)


def test_what_was_trimmed_is_collected_again_only_on_request(stores: Stores) -> None:
    backfill_shard(stores, SHARD)
    whole = [batch.stats_bytes for batch in batches_of(stores)]
    trim_shard(stores, SHARD, budget_bytes=0)
    bare = [batch.stats_bytes for batch in batches_of(stores)]
    backfill_shard(stores, SHARD)
    assert [batch.stats_bytes for batch in batches_of(stores)] == bare < whole

    report = backfill_shard(stores, SHARD, Selection(again=True))

    assert report.parts_changed == report.parts_selected == sum(b.parts for b in batches_of(stores))
    assert [batch.stats_bytes for batch in batches_of(stores)] == whole


@pytest.mark.parametrize("limit", [{"parts_max": 1}, {"bytes_max": 1}, {"version": 1}])
def test_a_selection_that_leaves_a_rest_for_ever_is_refused(limit: dict[str, int]) -> None:
    with pytest.raises(InvalidRequest, match="no rest"):
        Selection(again=True, **limit)  # type: ignore[arg-type]


@pytest.mark.parametrize(("filter", "kept"), [(BY_NAME, "s.3"), (BY_PATH, "s.4$.s")])
def test_what_a_registered_filter_skips_with_goes_last(
    stores: Stores, filter: Filter, kept: str
) -> None:
    before = skipped(stores, filter)
    assert before > 0

    report = trim_shard(stores, SHARD, budget_bytes=60, registered=named(filter))

    assert kept in left(stores)
    assert skipped(stores, filter) == before
    (effect,) = report.filters
    assert (effect.skipped_before, effect.skipped_after) == (before, before)


def test_what_nobody_asks_for_goes_first(stores: Stores) -> None:
    before = skipped(stores, BY_NAME)

    trim_shard(stores, SHARD, budget_bytes=40)

    assert skipped(stores, BY_NAME) < before


def test_filters_that_readers_used_count_like_registered_ones(stores: Stores) -> None:
    state = Machine(stores).load(SHARD)
    for mode in ("off", "on"):  # whether or not statistics were asked then
        usage._known.clear()
        plan = plan_read(stores, state, filter=BY_NAME, mode=mode)
        assert usage.record(stores, state, plan, BY_NAME, UsageSettings(), Metrics()) in (
            "written",
            "known",
        )
        before = skipped(stores, BY_NAME)

        report = trim_shard(stores, SHARD, budget_bytes=60, dry_run=True)

        (effect,) = report.filters
        assert (effect.source, effect.skipped_before, effect.skipped_after) == (
            "log",
            before,
            before,
        )


def test_the_report_adds_up(stores: Stores) -> None:
    filters = (BY_NAME, BY_ID, BY_PATH)
    before = [skipped(stores, one) for one in filters]
    bits = sum(batch.stats_bytes for batch in batches_of(stores))

    report = trim_shard(stores, SHARD, budget_bytes=20, registered=named(*filters))

    after = [skipped(stores, one) for one in filters]
    assert [e.skipped_before for e in report.filters] == before
    assert [e.skipped_after for e in report.filters] == after
    assert report.filters_skipped_before == sum(before) > report.filters_skipped_after == sum(after)
    assert {e.parts_total for e in report.filters} == {sum(b.parts for b in batches_of(stores))}
    assert report.stats_bytes_before == bits
    assert report.stats_bytes_after == sum(batch.stats_bytes for batch in batches_of(stores))
    lost = {e.column: e for e in report.columns}
    assert {"name", "payload$.s", "payload$.a.n"} <= set(lost)
    number = lost["payload$.a.n"]
    assert number.dropped == number.parts
    assert number.bytes_after == 0 < number.bytes_before
    assert number.usefulness == 0 < lost["name"].usefulness
    assert all(e.bytes_after <= e.bytes_before for e in report.columns)


@pytest.mark.parametrize("budget", [0, 10, 25, 50, 100, 10_000])
def test_no_budget_makes_statistics_wrong_or_larger(stores: Stores, budget: int) -> None:
    before = {r.key: r.stats_bytes for t in tables(stores) for r in part_refs(t)}
    state = Machine(stores).load(SHARD)

    trim_shard(stores, SHARD, budget_bytes=budget, registered=named(BY_NAME))

    for table in tables(stores):
        for ref, row in zip(part_refs(table), stats_rows(table), strict=True):
            assert ref.stats_bytes <= before[ref.key]
            assert row is not None
            assert "s.2" in row.schema.names  # sent_at is on the keep list
            assert complaints(row, read_updates(stores, state, ref), RELATION) == []


def test_kept_paths_keep_their_ancestors() -> None:
    name = f"memory://trimming {next(NUMBERS)}"
    opened = open_stores(StoreSettings(blob=name, consensus=name))
    spec = replace(SPEC, stats=StatsSpec(keep=("payload.a.n",)))
    Machine(opened).create(spec)
    put(opened, 0, 100, "both", spec)

    trim_shard(opened, SHARD, budget_bytes=0, registered=named(BY_NAME))

    assert left(opened) == {"s.1", "s.4$", "s.4$.a", "s.4$.a.n"}  # the first is the sort order


def test_only_named_columns_are_trimmed(stores: Stores) -> None:
    others = {"s.1", "s.2", "s.4", "s.4$", "s.4$.a", "s.4$.a.n", "s.4$.s"}
    old = [stats_columns(t).select(sorted(others)) for t in tables(stores)]

    report = trim_shard(stores, SHARD, Selection(columns=("name",)), budget_bytes=0)

    assert left(stores) == others
    assert {e.column for e in report.columns} == {"name"}
    assert [stats_columns(t).select(sorted(others)) for t in tables(stores)] == old
    assert (
        trim_shard(stores, SHARD, Selection(columns=("name",)), budget_bytes=0).parts_changed == 0
    )


def test_times_and_limits_choose_parts(stores: Stores) -> None:
    first, second, third = (batch.parts for batch in batches_of(stores))

    timed = trim_shard(stores, SHARD, Selection(100, 200), budget_bytes=10, dry_run=True)
    limited = trim_shard(stores, SHARD, Selection(parts_max=first + 1), budget_bytes=10)

    assert timed.parts_selected == second
    assert limited.parts_changed == first + 1
    rest = trim_shard(stores, SHARD, budget_bytes=10)
    assert rest.parts_changed == second + third - 1
    with pytest.raises(InvalidRequest, match="reads no part"):
        trim_shard(stores, SHARD, Selection(bytes_max=5))


def test_trimming_leaves_the_version_alone(stores: Stores) -> None:
    """What is old stays old, and waits for its backfill."""
    versions = {r.stats_version for t in tables(stores) for r in part_refs(t)}
    trim_shard(stores, SHARD, budget_bytes=10)

    assert {r.stats_version for t in tables(stores) for r in part_refs(t)} == versions
    assert backfill_shard(stores, SHARD).parts_selected == 0


def test_a_real_run_folds_the_log_and_a_dry_one_does_not(stores: Stores) -> None:
    state = Machine(stores).load(SHARD)
    day = UsageSettings(days=1)
    entry = usage._encode(usage.unread(BY_NAME))
    stores.blob.set(keys.usage_key(SHARD, "2013-01-01", "000"), entry)

    def logged() -> Sequence[str]:
        return [info.key for info in stores.blob.list(keys.usage_prefix(SHARD))]

    trim_shard(stores, SHARD, log=day, dry_run=True)
    assert len(logged()) == 1
    trim_shard(stores, SHARD, log=day)
    assert logged() == []
    assert Machine(stores).load(SHARD) == state

"""Statistics arrive afterwards: only manifests change, and only where something is missing."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import strata.maintain.backfill
import strata.maintain.backfill_plan
import strata.maintain.exchange
from strata.decide.decision import decide
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call
from strata.expr.nodes import Column as Field
from strata.format.columns import updates_schema
from strata.format.manifest import decode_manifest, part_refs, stats_columns, stats_rows
from strata.format.part import Description
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.exchange import PARTIAL, Selection
from strata.maintain.trim import trim_shard
from strata.model.settings import StoreSettings
from strata.model.spec import ShardSpec, StatsSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.parts.unions import batch_stats
from strata.parts.write import write_batch, write_parts
from strata.state.state import Batch, State
from strata.store import keys, memory
from strata.store.interface import Blob, BlobInfo
from strata.store.open import Stores, open_stores
from strata.updates.order import sort_updates
from tests.support.facts import complaints

SHARD = "events"
SPEC = parse_spec(
    {
        "name": SHARD,
        "columns": [
            {"name": "id", "type": "int64", "nullable": False},
            {"name": "sent_at", "type": "timestamptz"},
            {"name": "name", "type": "string"},
            {"name": "payload", "type": "jsonb"},
        ],
        "key": ["id"],
        "part_bytes": 2600,
        "row_group_bytes": 1024,
    }
)
RELATION = SPEC.relation()


def rows(start: int, count: int) -> pa.Table:
    """Return updates with numbered ids; every fifth name is null, payloads nest."""
    table = {
        "1": list(range(start, start + count)),
        "2": [1_356_998_400_000_000 + i for i in range(start, start + count)],
        "3": [None if i % 5 == 0 else f"name {i:04}" for i in range(start, start + count)],
        "4": [f'{{"a":{{"n":{i}}},"s":"x{i:03}"}}' for i in range(start, start + count)],
        "t": [start] * count,
        "d": [1] * count,
    }
    return sort_updates(pa.table(table, schema=updates_schema(RELATION)), RELATION)


def put(
    stores: Stores,
    lower: int,
    upper: int,
    layout: str,
    spec: ShardSpec = SPEC,
    *,
    forget: bool = False,
) -> Batch:
    """Append a batch of 60 rows written in one layout; `forget`: without their statistics."""
    parts = write_parts(
        stores.blob,
        keys.part_prefix(SHARD),
        [rows(lower, 60)],
        RELATION,
        layout=layout,
        description=Description(lower, upper, MIN_TIME),
        part_bytes=spec.part_bytes,
        row_group_bytes=spec.group_bytes,
        stats_spec=spec.stats,
    )
    if forget:
        none = {"stats_version": None, "stats_bytes": 0}
        parts = [replace(p, ref=replace(p.ref, **none), stats=None) for p in parts]  # type: ignore[arg-type]
    batch = write_batch(stores.blob, SHARD, parts, lower, upper, MIN_TIME)
    Machine(stores).append(SHARD, token=f"t{lower}", lower=lower, upper=upper, batch=batch)
    return batch


class Counting:
    """A blob store that counts reads of parts."""

    def __init__(self, inner: Blob) -> None:
        self.inner, self.parts = inner, 0

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        self.parts += key.startswith(keys.part_prefix(SHARD))
        return self.inner.get(key, start, length)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@contextmanager
def counted(name: str, blob: Counting) -> Iterator[None]:
    """Let whoever opens the memory store of this name get the counting one."""
    place = name.removeprefix("memory://")
    plain = memory._BLOBS[place]
    memory._BLOBS[place] = blob  # type: ignore[assignment]
    try:
        yield
    finally:
        memory._BLOBS[place] = plain


@pytest.fixture
def stores(request: pytest.FixtureRequest) -> Stores:
    """Return stores with a shard of two batches in the old layout and one in both."""
    name = f"memory://{request.node.name}"
    opened = open_stores(StoreSettings(blob=name, consensus=name))
    Machine(opened).create(SPEC)
    put(opened, 0, 100, "row")
    put(opened, 100, 200, "row")
    put(opened, 200, 300, "both")
    return opened


def parts_with_stats(stores: Stores) -> list[bool]:
    """Return, batch by batch, whether all of its parts have statistics."""
    return [b.stats_parts == b.parts for b in batches(Machine(stores).load(SHARD))]


def batches(state: State) -> list[Batch]:
    """Return the batches that have parts."""
    return [batch for batch in state.batches if batch.manifest]


def batches_of(stores: Stores) -> list[Batch]:
    """Return the batches that have parts, as they are now."""
    return batches(Machine(stores).load(SHARD))


def manifest(stores: Stores, batch: Batch) -> pa.Table:
    """Return the manifest of a batch."""
    data = stores.blob.get(batch.manifest or "")
    assert data is not None
    return decode_manifest(data)


def test_backfill_gives_old_parts_the_statistics_of_new_ones(stores: Stores) -> None:
    report = backfill_shard(stores, SHARD)

    assert parts_with_stats(stores) == [True, True, True]
    first, second, _ = batches(Machine(stores).load(SHARD))
    assert report.parts_selected == report.parts_changed == first.parts + second.parts > 2
    assert (
        report.stats_bytes_after
        == report.stats_bytes_before + first.stats_bytes + second.stats_bytes
    )
    united = batch_stats(stores.blob, SHARD, first)
    assert united is not None
    assert complaints(united, rows(0, 60), RELATION) == []
    for ref, row in zip(
        part_refs(manifest(stores, first)), stats_rows(manifest(stores, first)), strict=True
    ):
        assert row is not None
        assert ref.stats_version == 1
        assert {"s.1", "s.2", "s.3", "s.4", "s.4$", "s.4$.a.n"} < set(row.schema.names)


def test_backfill_changes_manifests_only(stores: Stores) -> None:
    before = batches(Machine(stores).load(SHARD))

    backfill_shard(stores, SHARD)

    for old, new in zip(before, batches(Machine(stores).load(SHARD)), strict=True):
        same = {
            "manifest": "",
            "stats_parts": 0,
            "stats_bytes": 0,
            "union": None,
        }
        assert replace(old, **same) == replace(new, **same)  # type: ignore[arg-type]
        keys_of = [[r.key for r in part_refs(manifest(stores, b))] for b in (old, new)]
        assert keys_of[0] == keys_of[1]


def test_backfill_again_finds_nothing_to_do(stores: Stores) -> None:
    backfill_shard(stores, SHARD)
    seqno = Machine(stores).load(SHARD).seqno

    again = backfill_shard(stores, SHARD)

    assert (again.parts_selected, again.parts_changed) == (0, 0)
    assert Machine(stores).load(SHARD).seqno == seqno


def test_a_dry_run_counts_and_changes_nothing(stores: Stores) -> None:
    before = Machine(stores).load(SHARD)

    report = backfill_shard(stores, SHARD, dry_run=True)

    assert Machine(stores).load(SHARD) == before
    assert report.parts_selected == sum(b.parts for b in batches(before)[:2])
    assert report.bytes_read == sum(b.size_bytes for b in batches(before)[:2])
    assert report.parts_changed == 0


@pytest.mark.parametrize(
    ("lower", "upper", "filled"),
    [
        (100, 200, [False, True, True]),
        (None, 100, [True, False, True]),
        (300, None, [False, False, True]),
    ],
)
def test_only_batches_in_the_selected_times_are_filled(
    stores: Stores, lower: int | None, upper: int | None, filled: list[bool]
) -> None:
    backfill_shard(stores, SHARD, Selection(lower, upper))

    assert parts_with_stats(stores) == filled


def test_named_columns_are_added_and_the_others_stay(stores: Stores) -> None:
    trim_shard(stores, SHARD, budget_bytes=0)
    selection = Selection(columns=("name",))

    report = backfill_shard(stores, SHARD, selection)

    assert report.parts_changed == sum(b.parts for b in batches(Machine(stores).load(SHARD)))
    names = set(manifest(stores, batches(Machine(stores).load(SHARD))[2]).column_names)
    assert {"s.2", "s.3"} <= names  # sent_at is on the keep list and survived
    assert "s.1" in names  # and so is the sort order
    assert not names & {"s.4", "s.4$"}
    assert backfill_shard(stores, SHARD, selection).parts_selected == 0


def test_an_unknown_column_is_refused(stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="no such column"):
        backfill_shard(stores, SHARD, Selection(columns=("nmae",)))


def test_ids_name_columns_too(stores: Stores) -> None:
    trim_shard(stores, SHARD, budget_bytes=0)

    backfill_shard(stores, SHARD, Selection(columns=("3",)))

    names = set(manifest(stores, batches(Machine(stores).load(SHARD))[2]).column_names)
    assert "s.3" in names
    assert "s.4" not in names


def test_a_part_with_some_columns_still_waits_for_the_others(stores: Stores) -> None:
    """Nothing says that its other columns were trimmed: they were never collected."""
    first = backfill_shard(stores, SHARD, Selection(columns=("id",)))
    versions = {r.stats_version for r in part_refs(manifest(stores, batches_of(stores)[0]))}
    again = backfill_shard(stores, SHARD, Selection(columns=("id",)))
    rest = backfill_shard(stores, SHARD)

    old_parts = sum(b.parts for b in batches_of(stores)[:2])
    assert versions == {PARTIAL}
    assert [r.parts_changed for r in (first, again, rest)] == [old_parts, 0, old_parts]
    assert backfill_shard(stores, SHARD).parts_selected == 0
    for row in stats_rows(manifest(stores, batches_of(stores)[0])):
        assert row is not None
        assert {"s.1", "s.2", "s.3", "s.4"} < set(row.schema.names)


def test_only_the_named_columns_are_read(stores: Stores) -> None:
    seen = set()

    def watching(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            seen.add(item.columns)
            yield function(item)

    backfill_shard(stores, SHARD, Selection(columns=("name", "id")), runner=watching)  # type: ignore[arg-type]

    assert seen == {(3, 1)}


def test_a_column_that_cannot_be_known_is_asked_for_once() -> None:
    """A key twice in a map: what a path holds is unknown, but that is known then."""
    name = "memory://unknown"
    opened = open_stores(StoreSettings(blob=name, consensus=name))
    Machine(opened).create(SPEC)
    table = rows(0, 60)
    twice = pa.array(['{"a":1,"a":2}'] * 60, table.schema.field("4").type)
    parts = write_parts(
        opened.blob,
        keys.part_prefix(SHARD),
        [table.set_column(3, table.schema.field("4"), twice)],
        RELATION,
        layout="row",
        description=Description(0, 100, MIN_TIME),
        part_bytes=10_000,
        row_group_bytes=1024,
        stats_spec=SPEC.stats,
    )
    batch = write_batch(opened.blob, SHARD, parts, 0, 100, MIN_TIME)
    Machine(opened).append(SHARD, token="t", lower=0, upper=100, batch=batch)

    done = [backfill_shard(opened, SHARD, Selection(columns=("payload",))) for _ in range(2)]

    assert [report.parts_selected for report in done] == [1, 0]
    stats = stats_columns(manifest(opened, batches_of(opened)[0]))
    assert stats["s.4"].to_pylist() == [{"nulls": None, "paths": None}]
    for function in ("is_null", "is_not_null"):
        expr = Call(function, (Field(4, "payload", "string"),), "boolean")
        assert decide(Filter(expr, "", 0, 0), stats, RELATION).keep.all()
    backfill_shard(opened, SHARD)
    assert "s.1" in manifest(opened, batches_of(opened)[0]).column_names


@pytest.fixture
def newer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Statistics have a second version from now on."""
    maintain = strata.maintain
    for module in (maintain.backfill, maintain.backfill_plan, maintain.exchange):
        monkeypatch.setattr(module, "STATS_VERSION", 2)


@pytest.mark.usefixtures("newer")
def test_a_newer_version_collects_everything_anew(stores: Stores) -> None:
    old = backfill_shard(stores, SHARD, Selection(version=1))
    report = backfill_shard(stores, SHARD)

    first, second, third = (batch.parts for batch in batches_of(stores))
    assert old.parts_selected == first + second  # those that had none
    assert report.parts_changed == third
    assert backfill_shard(stores, SHARD).parts_selected == 0


@pytest.mark.usefixtures("newer")
def test_columns_of_two_versions_do_not_mix(stores: Stores) -> None:
    report = backfill_shard(stores, SHARD, Selection(lower=200, columns=("id",)))

    (batch,) = batches_of(stores)[2:]
    assert report.parts_changed == batch.parts
    assert {r.stats_version for r in part_refs(manifest(stores, batch))} == {2}
    for row in stats_rows(manifest(stores, batch)):
        assert row is not None
        assert {"s.1", "s.2", "s.3", "s.4"} < set(row.schema.names)


@pytest.mark.parametrize("version", [0, 2])
def test_a_version_that_is_not_there_is_refused(version: int) -> None:
    with pytest.raises(InvalidRequest, match="no such version"):
        Selection(version=version)


def test_times_choose_parts_not_batches(stores: Stores) -> None:
    """Two parts of one batch, with other times: only one of them is meant."""
    table = rows(300, 60)
    times = pa.array([300] * 30 + [390] * 30, pa.int64())
    parts = write_parts(
        stores.blob,
        keys.part_prefix(SHARD),
        [table.set_column(4, "t", times)],
        RELATION,
        layout="row",
        description=Description(300, 400, MIN_TIME),
        part_bytes=1500,
        row_group_bytes=1024,
        stats_spec=SPEC.stats,
    )
    batch = write_batch(stores.blob, SHARD, parts, 300, 400, MIN_TIME)
    Machine(stores).append(SHARD, token="t", lower=300, upper=400, batch=batch)
    meant = [p.ref for p in parts if p.ref.t_high >= 350]
    assert 0 < len(meant) < len(parts)

    dry = backfill_shard(stores, SHARD, Selection(lower=350), dry_run=True)
    report = backfill_shard(stores, SHARD, Selection(lower=350))

    assert dry.parts_selected == report.parts_changed == len(meant)
    refs = part_refs(manifest(stores, batches_of(stores)[3]))
    assert [r.key for r in refs if r.stats_version] == [r.key for r in meant]


@pytest.mark.parametrize(
    ("limit", "parts"), [({"parts_max": 2}, 2), ({"bytes_max": 1}, 1), ({"parts_max": 0}, 0)]
)
def test_a_limit_is_kept_and_the_next_run_goes_on(
    stores: Stores, limit: dict[str, int], parts: int
) -> None:
    lacking = backfill_shard(stores, SHARD, dry_run=True).parts_selected

    report = backfill_shard(stores, SHARD, Selection(**limit))  # type: ignore[arg-type]

    assert report.parts_changed == parts
    assert backfill_shard(stores, SHARD, dry_run=True).parts_selected == lacking - parts


def test_parts_are_not_touched(stores: Stores) -> None:
    def listed() -> list[BlobInfo]:
        return list(stores.blob.list(keys.part_prefix(SHARD)))

    before = listed()
    backfill_shard(stores, SHARD)
    trim_shard(stores, SHARD, budget_bytes=20)

    assert listed() == before  # keys, sizes and times of writing


def test_work_is_committed_in_chunks(stores: Stores) -> None:
    seqno, told = Machine(stores).load(SHARD).seqno, []

    report = backfill_shard(stores, SHARD, commit_bytes=1, log=told.append)

    assert Machine(stores).load(SHARD).seqno == seqno + report.parts_changed
    assert len(told) == report.parts_changed
    assert parts_with_stats(stores) == [True, True, True]


def test_a_dry_run_knows_its_time_from_the_run_before(stores: Stores) -> None:
    unknown = backfill_shard(stores, SHARD, dry_run=True)
    done = backfill_shard(stores, SHARD, Selection(upper=100))
    known = backfill_shard(stores, SHARD, dry_run=True)
    named = backfill_shard(stores, SHARD, Selection(columns=("id",)), dry_run=True)

    assert unknown.cost.seconds is None
    assert "not known yet" in unknown.lines()[0]
    assert done.cost.seconds is not None
    assert known.cost.seconds is not None
    assert known.cost.seconds == pytest.approx(
        max(done.cost.seconds, 0.001) * known.bytes_read / done.bytes_read, abs=0.002
    )
    assert named.cost.seconds is None  # reading some columns is another pace


def test_the_requests_of_a_dry_run_are_about_those_of_the_run() -> None:
    """Counted where they arrive, for parts longer than their end that is read at once."""
    name = "memory://requests"
    opened = open_stores(StoreSettings(blob=name, consensus=name))
    big = replace(SPEC, part_bytes=100_000, row_group_bytes=30_000)
    Machine(opened).create(big)
    table = rows(0, 20_000)
    parts = write_parts(
        opened.blob,
        keys.part_prefix(SHARD),
        [table.set_column(4, "t", pa.array([0] * 20_000))],
        RELATION,
        layout="row",
        description=Description(0, 100, MIN_TIME),
        part_bytes=big.part_bytes,
        row_group_bytes=big.row_group_bytes,
        stats_spec=big.stats,
    )
    batch = write_batch(opened.blob, SHARD, parts, 0, 100, MIN_TIME)
    Machine(opened).append(SHARD, token="t", lower=0, upper=100, batch=batch)
    assert len(parts) > 1
    dry = backfill_shard(opened, SHARD, dry_run=True)
    reads = Counting(opened.blob)

    with counted(name, reads):
        backfill_shard(opened, SHARD)

    assert abs(reads.parts - dry.cost.requests) <= len(parts)
    assert reads.parts > 5 * len(parts)


def test_an_interrupted_backfill_goes_on_where_it_stopped(stores: Stores) -> None:
    first = batches(Machine(stores).load(SHARD))[0]

    def dies(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        yield from (function(item) for item in items[: first.parts])
        raise ConnectionError("the cluster is gone")

    with pytest.raises(ConnectionError):
        backfill_shard(stores, SHARD, runner=dies)  # type: ignore[arg-type]

    assert parts_with_stats(stores) == [True, False, True]
    backfill_shard(stores, SHARD)
    assert parts_with_stats(stores) == [True, True, True]


def test_trim_brings_every_part_under_the_budget(stores: Stores) -> None:
    backfill_shard(stores, SHARD)

    report = trim_shard(stores, SHARD, budget_bytes=40)

    assert report.stats_bytes_after < report.stats_bytes_before
    assert report.parts_changed == report.parts_selected > 0
    for batch in batches(Machine(stores).load(SHARD)):
        assert all(ref.stats_bytes <= 40 for ref in part_refs(manifest(stores, batch)))
        united = batch_stats(stores.blob, SHARD, batch)
        assert united is not None
        assert complaints(united, rows(batch.upper - 100, 60), RELATION) == []
    assert trim_shard(stores, SHARD, budget_bytes=40).parts_changed == 0


def test_a_dry_trim_says_what_would_remain(stores: Stores) -> None:
    dry = trim_shard(stores, SHARD, budget_bytes=40, dry_run=True)
    real = trim_shard(stores, SHARD, budget_bytes=40)

    assert dry == replace(real, dry_run=True, parts_changed=0)
    assert dry.columns


def test_trim_keeps_to_the_declared_budget_when_none_is_given(stores: Stores) -> None:
    assert trim_shard(stores, SHARD).parts_selected == 0  # written within it


@pytest.mark.parametrize(
    ("read_format", "halves"),
    [
        ("row", ["row", "row", "structured"]),
        ("structured", ["row", "structured", "structured"]),
        ("row_with_validate", ["row", "structured", "structured"]),
    ],
)
def test_statistics_describe_the_half_that_readers_believe(
    read_format: str, halves: list[str]
) -> None:
    """A shard that reads rows must not be pruned by what its columns say."""
    name = f"memory://half {read_format}"
    opened = open_stores(StoreSettings(blob=name, consensus=name))
    Machine(opened).create(replace(SPEC, read_format=read_format))
    for number, layout in enumerate(("row", "both", "structured")):
        put(opened, 100 * number, 100 * number + 100, layout, forget=True)
    seen: dict[str, str] = {}

    def watching(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            seen[item.part.layout] = item.read_format
            yield function(item)

    backfill_shard(opened, SHARD, runner=watching)  # type: ignore[arg-type]

    assert [seen[layout] for layout in ("row", "both", "structured")] == halves


def test_a_new_budget_of_the_shard_is_met_by_what_backfill_adds() -> None:
    name = "memory://budget"
    opened = open_stores(StoreSettings(blob=name, consensus=name))
    tight = replace(SPEC, stats=StatsSpec(budget_bytes=30, keep=()))
    Machine(opened).create(tight)
    put(opened, 0, 100, "row", tight)

    backfill_shard(opened, SHARD)

    (batch,) = batches(Machine(opened).load(SHARD))
    assert all(0 < r.stats_bytes <= 30 for r in part_refs(manifest(opened, batch)))

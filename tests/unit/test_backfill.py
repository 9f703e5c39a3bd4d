"""Statistics arrive afterwards: only manifests change, and only where something is missing."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from strata.backfill import Selection, backfill_shard, trim_shard
from strata.errors import InvalidRequest
from strata.format.columns import updates_schema
from strata.format.manifest import decode_manifest, part_refs, stats_rows
from strata.format.part import Description
from strata.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.spec import ShardSpec, StatsSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.read import batch_stats
from strata.state.state import Batch, State
from strata.state.transitions import replace_manifests
from strata.store import keys
from strata.store.open import Stores, open_stores
from strata.updates.order import sort_updates
from strata.write import write_batch, write_parts
from tests.facts import complaints

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
        "part_bytes": 4500,
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


def put(stores: Stores, lower: int, upper: int, layout: str, spec: ShardSpec = SPEC) -> Batch:
    """Append a batch of 60 rows written in one layout."""
    parts = write_parts(
        stores.blob,
        keys.part_prefix(SHARD),
        [rows(lower, 60)],
        RELATION,
        layout=layout,
        description=Description(lower, upper, MIN_TIME),
        part_bytes=spec.part_bytes,
        row_group_bytes=spec.row_group_bytes,
        stats_spec=spec.stats,
    )
    batch = write_batch(stores.blob, SHARD, parts, lower, upper, MIN_TIME)
    Machine(stores).append(SHARD, token=f"t{lower}", lower=lower, upper=upper, batch=batch)
    return batch


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
    united = batch_stats(first)
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
        same = {"manifest": "", "stats_parts": 0, "stats_bytes": 0, "stats_union": None}
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
    assert not names & {"s.1", "s.4", "s.4$"}
    assert backfill_shard(stores, SHARD, selection).parts_selected == 0


def test_an_unknown_column_is_refused(stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="no such column"):
        backfill_shard(stores, SHARD, Selection(columns=("nmae",)))


def test_a_newer_version_collects_everything_anew(stores: Stores) -> None:
    backfill_shard(stores, SHARD)

    report = backfill_shard(stores, SHARD, Selection(version=2))

    assert report.parts_selected == sum(b.parts for b in batches(Machine(stores).load(SHARD)))


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


def test_a_batch_that_was_compacted_away_is_left_alone(stores: Stores) -> None:
    first = batches(Machine(stores).load(SHARD))[0]

    def overtaken(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        for number, item in enumerate(items):
            if number == 0:
                _replace_by_equal(stores, first)
            yield function(item)

    report = backfill_shard(stores, SHARD, runner=overtaken)  # type: ignore[arg-type]

    assert report.batches_gone == 1
    assert report.parts_changed == batches(Machine(stores).load(SHARD))[1].parts
    assert parts_with_stats(stores) == [False, True, True]


def test_trim_brings_every_part_under_the_budget(stores: Stores) -> None:
    backfill_shard(stores, SHARD)

    report = trim_shard(stores, SHARD, budget_bytes=40)

    assert report.stats_bytes_after < report.stats_bytes_before
    assert report.parts_changed == report.parts_selected > 0
    for batch in batches(Machine(stores).load(SHARD)):
        assert all(ref.stats_bytes <= 40 for ref in part_refs(manifest(stores, batch)))
        united = batch_stats(batch)
        assert united is not None
        assert complaints(united, rows(batch.upper - 100, 60), RELATION) == []
    assert trim_shard(stores, SHARD, budget_bytes=40).parts_changed == 0


def test_a_dry_trim_says_what_would_remain(stores: Stores) -> None:
    dry = trim_shard(stores, SHARD, budget_bytes=40, dry_run=True)
    real = trim_shard(stores, SHARD, budget_bytes=40)

    assert dry == replace(real, dry_run=True, parts_changed=0)


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
        put(opened, 100 * number, 100 * number + 100, layout)
    seen: dict[str, str] = {}

    def watching(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
        for item in items:
            seen[item.part.layout] = item.read_format
            yield function(item)

    backfill_shard(opened, SHARD, Selection(version=2), runner=watching)  # type: ignore[arg-type]

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


def _replace_by_equal(stores: Stores, batch: Batch) -> None:
    """Put another manifest over the same parts in place, as a compaction would."""
    data = pa.BufferOutputStream()
    table = manifest(stores, batch).append_column("s.99", pa.nulls(batch.parts, pa.int64()))
    with pa.ipc.new_file(data, table.schema) as writer:
        writer.write_table(table)
    key = keys.manifest_key(SHARD, keys.content_hash(data.getvalue().to_pybytes()))
    stores.blob.set(key, data.getvalue().to_pybytes())
    new = replace(batch, manifest=key)
    Machine(stores).apply(
        SHARD, lambda s, now: replace_manifests(s, now, {batch.manifest or "": new})
    )

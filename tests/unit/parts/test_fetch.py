"""How much of a run is decoded at a time follows from its rows, not from how they are stored."""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from strata.compact import tasks as rewrite
from strata.decide.plan import plan_read
from strata.format.columns import updates_schema
from strata.format.values.coded import decoded
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts import fetch
from strata.parts.fetch import LEAST_ROWS, RowBudget, sorted_runs, source_of
from strata.read import merged as merged_reads
from strata.state.spine import full_request
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores

RELATION = Relation(
    0, (Column(1, "id", parse_type("int64")), Column(2, "text", parse_type("string"))), (1,), ()
)
ROWS, SIZE, MIB = 20_000, 900, 2**20


@pytest.fixture(scope="module")
def stores() -> Stores:
    """A shard of two runs: 18 MiB each, stored in a few KiB."""
    stores = memory_stores()
    create(stores, RELATION, write_format="structured", part_bytes=2**25, row_group_bytes=4 * MIB)
    for number in range(2):
        texts = [f"{i % 7}" * SIZE for i in range(ROWS)]
        columns = [range(ROWS), texts, [number] * ROWS, [1] * ROWS]
        schema = updates_schema(RELATION)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)]
        append(stores, "shard", number, number + 1, [pa.Table.from_arrays(arrays, schema=schema)])
    return stores


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows at a time were asked of parts."""
    found: list[int] = []
    real = fetch.read_part

    def noted(*args: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        found.append(options["batch_rows"])
        return real(*args, **options)

    monkeypatch.setattr(fetch, "read_part", noted)
    return found


def test_a_batch_has_as_many_rows_as_fit(stores: Stores) -> None:
    state = Machine(stores).load("shard")
    (parts, _) = plan_read(stores, state).runs
    source = source_of(stores.blob, state)
    (ref,) = parts.parts

    def largest(batches: RowBudget) -> int:
        (run,) = sorted_runs(source, [ref], batches=batches, together_bytes=4 * MIB)
        return max(decoded(pa.Table.from_batches(b.to_batches())).nbytes for b in run)

    assert (ref.size_bytes < MIB / 4, len(ref.splits) > 3) == (True, True)
    assert largest(RowBudget()) > 10 * MIB
    assert largest(RowBudget(65_536, 2 * MIB)) < 3 * MIB
    assert largest(RowBudget(500, 2 * MIB)) < MIB
    assert largest(RowBudget(65_536, 1)) <= LEAST_ROWS * (SIZE + 60)


def test_merges_and_consolidated_reads_ask_for_what_fits(
    stores: Stores, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = Machine(stores).load("shard")
    planned = plan_read(stores, state)
    request = full_request(state.spine, state.since)
    assert request is not None
    refs = {run.upper: list(run.parts) for run in planned.runs}
    manifests = {b.manifest: refs[b.upper] for b in request.batches if b.manifest}
    source = source_of(stores.blob, state)
    runs = [run.parts for run in planned.runs]

    for memory, rows in ((2**30, 10_000), (48 * MIB, 2_500)):
        (task,) = rewrite.merge_tasks(state, request, manifests, stores.settings, memory)
        monkeypatch.setattr(merged_reads, "MEMORY_BYTES", memory // 2)
        for made in (
            rewrite.merged_rows(source, task),
            merged_reads.merged(source, runs, state.upper - 1),
        ):
            asked.clear()
            assert sum(chunk.num_rows for chunk in made) >= ROWS
            assert (max(asked) <= rows) == (memory < 2**30)

"""How much of a run is decoded at a time follows from its rows, not from how they are stored."""

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.compact import tasks as rewrite
from strata.decide.plan import plan_read
from strata.errors import Corrupt
from strata.format import part
from strata.format.columns import updates_schema
from strata.format.values.coded import decoded, is_coded
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts import fetch
from strata.parts.fetch import (
    LEAST_ROWS,
    RowBudget,
    part_batches,
    part_bytes,
    sorted_runs,
    source_of,
)
from strata.parts.manifests import CURE
from strata.read import merged as merged_reads
from strata.state.spine import full_request
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

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


@pytest.fixture
def small() -> Stores:
    """A shard of one part: few texts, each in many rows."""
    stores = memory_stores()
    create(stores, RELATION, write_format="structured", row_group_bytes=MIB, part_bytes=MIB)
    append(stores, "shard", 0, 1, [table(RELATION, [(i, "cab"[i % 3], 0, 1) for i in range(90)])])
    return stores


def test_a_damaged_part_is_named_with_the_cure_that_it_brings_or_the_usual_one(
    small: Stores,
) -> None:
    state = Machine(small).load("shard")
    source, ref = source_of(small.blob, state), plan_read(small, state).fetched[0]
    whole = pq.read_table(io.BytesIO(part_bytes(source, ref)))
    footer = {**(whole.schema.metadata or {}), b"strata.format_version": b"2"}
    later = io.BytesIO()
    pq.write_table(whole.replace_schema_metadata(footer), later)

    for data, cure in ((b"no part", CURE), (later.getvalue(), "the version that wrote it")):
        with pytest.raises(Corrupt) as caught:
            list(part_batches(source, ref, data=data))
        assert (caught.value.details["part"], caught.value.details["shard"]) == (ref.key, "shard")
        assert cure in (caught.value.cure or "")


def test_a_part_in_another_order_is_sorted_as_plain_texts(
    small: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part, "CODED_ROWS", 1)
    state = Machine(small).load("shard")
    ref = plan_read(small, state).fetched[0]
    newer = replace(RELATION, version=1, order=(2,))
    coded = replace(source_of(small.blob, state), coded=True)

    [run] = sorted_runs(coded, [ref])
    [again] = sorted_runs(replace(coded, relations=(RELATION, newer)), [ref])

    assert any(is_coded(rows.schema.field("2").type) for rows in run)
    found = [row for rows in again for row in rows.to_pylist()]
    assert [(row["2"], row["1"]) for row in found] == sorted(("cab"[i % 3], i) for i in range(90))

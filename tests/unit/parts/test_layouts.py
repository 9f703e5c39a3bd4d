"""Layouts mix: in one shard, in one batch, in one run of parts."""

from dataclasses import replace
from itertools import product

import pyarrow as pa
import pytest

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.spec import LAYOUTS, StatsSpec
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.parts.write import WrittenPart, write_batch, write_parts
from strata.state.step import step
from strata.store.keys import part_prefix
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores, settings, snapshot
from tests.support.updates import table

RELATION = Relation(
    0,
    (
        Column(1, "id", parse_type("int64")),
        Column(2, "name", parse_type("string")),
        Column(3, "n", parse_type("int32")),
    ),
    (1,),
    (),
)


def day(number: int, rows: int = 60) -> pa.Table:
    """Return the updates of one day: new rows, and yesterday's taken back."""
    new = [(i, f"row {i}", number, number, 1) for i in range(rows)]
    old = [(i, f"row {i}", number - 1, number, -1) for i in range(rows) if number]
    return table(RELATION, sorted([*new, *old]))


def mixed_run(stores: Stores, number: int, layouts: tuple[str, ...]) -> None:
    """Append a batch of one run whose parts follow each other in different layouts."""
    updates = day(number).sort_by([("1", "ascending"), ("3", "ascending")])
    parts: list[WrittenPart] = []
    for i, layout in enumerate(layouts):
        size = -(-updates.num_rows // len(layouts))
        parts += write_parts(
            stores.blob,
            part_prefix("shard"),
            [updates.slice(i * size, size)],
            RELATION,
            layout=layout,
            description=Description(number, number + 1, MIN_TIME),
            part_bytes=1 << 20,
            row_group_bytes=1024,
            stats_spec=stats_spec(stores),
        )
    batch = write_batch(stores.blob, "shard", parts, number, number + 1, MIN_TIME)
    assert len(batch.runs) == 1
    Machine(stores).append("shard", token=f"{number}", lower=number, upper=number + 1, batch=batch)


def stats_spec(stores: Stores) -> StatsSpec:
    return Machine(stores).load("shard").spec.stats


def filled(read_format: str) -> Stores:
    """Return a shard of seven batches in every layout, two of them of mixed runs."""
    stores = memory_stores()
    create(stores, RELATION, read_format=read_format)
    for number, layout in enumerate([*LAYOUTS, *LAYOUTS]):
        append(stores, "shard", number, number + 1, [day(number)], layout=layout)
    mixed_run(stores, 6, LAYOUTS)
    mixed_run(stores, 7, LAYOUTS[::-1])
    return stores


@pytest.mark.parametrize("read_format", ["structured", "row_with_validate"])
def test_every_layout_is_read_as_if_there_were_one(read_format: str) -> None:
    stores, uniform = filled(read_format), memory_stores()
    create(uniform, RELATION, write_format="structured")
    for number in range(8):
        append(uniform, "shard", number, number + 1, [day(number)])

    for as_of in range(8):
        assert snapshot(stores, "shard", as_of) == snapshot(uniform, "shard", as_of)
    assert len(snapshot(stores, "shard")) == 60


@pytest.mark.parametrize("write_format", LAYOUTS)
def test_compaction_writes_the_wanted_layout_whatever_it_read(write_format: str) -> None:
    stores = filled("structured")
    machine = Machine(stores)
    before = [snapshot(stores, "shard", as_of) for as_of in range(8)]
    machine.apply(
        "shard",
        lambda state, now: (
            step(state, now, spec=replace(state.spec, write_format=write_format)),
            None,
        ),
    )

    compact_shard(stores, "shard", settings(), full=True)

    state = machine.load("shard")
    assert {layout for batch in state.batches for layout, _ in batch.layouts} == {write_format}
    assert [snapshot(stores, "shard", as_of) for as_of in range(8)] == before


def test_read_format_row_needs_the_row_codec_everywhere() -> None:
    stores = memory_stores()
    create(stores, RELATION, read_format="row")
    for number, layout in product(range(2), ["row", "both"]):
        at = 2 * number + (layout == "both")
        append(stores, "shard", at, at + 1, [day(at)], layout=layout)
    assert len(snapshot(stores, "shard")) == 60

    append(stores, "shard", 4, 5, [day(4)], layout="structured")
    with pytest.raises(InvalidRequest, match="no row codec"):
        snapshot(stores, "shard")


def test_parts_of_one_run_name_their_own_layout() -> None:
    stores = filled("structured")
    plan = plan_read(stores, Machine(stores).load("shard"))

    last = [ref for ref in plan.fetched if ref.t_low == 7]
    assert [ref.layout for ref in last] == [*LAYOUTS[::-1]]
    assert [ref.stats_version is None for ref in last] == [False, False, True]

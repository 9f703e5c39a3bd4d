"""What is fetched of a part: all of it in one request, or only what is asked for."""

from typing import Any

import pytest

from strata.decide.plan import plan_read
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.parts import prefetch
from strata.parts.fetch import PartSource, source_of
from strata.parts.prefetch import Wanted, part_ahead
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(
    0, (Column(1, "n", parse_type("int64")), Column(2, "s", parse_type("string"))), (1,), ()
)
SOME = frozenset({1})


@pytest.fixture
def part() -> tuple[PartSource, PartRef]:
    stores = memory_stores()
    create(stores, RELATION, part_bytes=1 << 20)
    rows = [(n, f"{n * n:050}", 0, 1) for n in range(90)]
    state = append(stores, "shard", 0, 1, [table(RELATION, rows)])
    [ref] = plan_read(stores, state).fetched
    assert len(ref.splits) > 3
    return source_of(stores.blob, Machine(stores).load("shard")), ref


@pytest.mark.parametrize(
    ("small", "columns", "groups", "whole"),
    [
        (0, None, None, True),
        (0, SOME, None, False),
        (0, None, (1, 2), False),
        (1 << 20, SOME, (1,), True),  # too small for several requests
    ],
)
def test_a_part_is_fetched_whole_if_that_is_best(
    part: tuple[PartSource, PartRef],
    monkeypatch: pytest.MonkeyPatch,
    small: int,
    columns: frozenset[int] | None,
    groups: tuple[int, ...] | None,
    whole: bool,
) -> None:
    source, ref = part
    asked: list[tuple[Any, ...]] = []
    get = source.blob.get

    def noted(key: str, *stretch: Any) -> bytes | None:
        asked.append(stretch)
        return get(key, *stretch)

    monkeypatch.setattr(source.blob, "get", noted, raising=False)
    monkeypatch.setattr(prefetch, "SMALL_BYTES", small)
    wanted = Wanted(columns, {} if groups is None else {ref.key: groups})

    _, batches = part_ahead(source, ref, wanted, threads=False, decode=True)

    assert (asked == [()]) == whole
    edges = [*(split.row for split in ref.splits), ref.rows]
    chosen = range(len(ref.splits)) if groups is None else groups
    numbers = [n for group in chosen for n in range(edges[group], edges[group + 1])]
    assert [n for batch in batches for n in batch.column("1").to_pylist()] == numbers


def test_nothing_is_fetched_of_a_part_without_a_row_group(
    part: tuple[PartSource, PartRef], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, ref = part
    monkeypatch.setattr(source.blob, "get", None, raising=False)
    wanted = Wanted(groups={ref.key: ()})
    assert part_ahead(source, ref, wanted, threads=False, decode=True) == (ref, [])

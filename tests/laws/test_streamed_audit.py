"""What a validation looks at and pays for is what its twins say, with all parts in one list.

The twins are `tests/twins/named.py` and `tests/twins/budgeted.py`; draws have one in
`tests/unit/decide/test_skips.py`.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.audit import batches, budget
from strata.audit.batches import look
from strata.audit.budget import Pile, affordable, affordable_parts, in_chunks, pile_of
from strata.audit.format import rest_of_share, share_of
from strata.decide.skips import Drawn
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.time import MIN_TIME
from strata.parts.batch import BatchWriter
from strata.store.open import Stores
from tests.support.paged import RELATION, cut
from tests.support.sizes import tries
from tests.support.stored import create, memory_stores
from tests.twins import budgeted, named
from tests.twins.budgeted import PlainPile

PART = PartRef("", 9, 9, 0, "both", 0, (1,), 0, 0, 3, 7, False, b"", None)
LISTED = st.lists(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 12)), min_size=1, max_size=9).map(sorted),
    min_size=1,
    max_size=3,
)
SIZES = st.integers(0, 40)


@pytest.fixture(autouse=True, scope="module")
def few_at_a_time() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "SLICE_PARTS", 2)
        patch.setattr(batches, "PAGES_PARTS", 3)
        patch.setattr(budget, "DRAWN_PARTS", 2)
        yield


def key_of(number: int) -> str:
    return f"shards/shard/parts/{number:040x}.parquet"


def shard_of(listed: list[list[tuple[int, int]]]) -> Stores:
    """Return a shard whose batches name these parts, by run and number."""
    stores = memory_stores()
    create(stores, RELATION)
    for at, parts in enumerate(listed):
        writer = BatchWriter(stores.blob, "shard", 0)
        for run, number in parts:
            writer.add(replace(PART, key=key_of(number), run=run, t_low=at, t_high=at), None)
        batch = writer.finish(at, at + 1, MIN_TIME)
        Machine(stores).append("shard", token=str(at), lower=at, upper=at + 1, batch=batch)
    return stores


@settings(max_examples=tries(30, 2000), deadline=None)
@given(LISTED, st.sets(st.integers(0, 12)), st.booleans())
def test_missing_parts_and_those_named_twice_are_those_of_the_twin(
    listed: list[list[tuple[int, int]]], there: set[int], paged: bool
) -> None:
    with cut(2, 2) if paged else cut(99):
        stores = shard_of(listed)
    for number in there:
        stores.blob.set(key_of(number), b"x")
    keyed = [[(run, key_of(number)) for run, number in parts] for parts in listed]

    found = look(stores, Machine(stores).load("shard"))

    told = [[f for f in one.findings if f.what == "part"] for one in found]
    gone = [[f.suspect for f in some if "does not exist" in f.statement] for some in told]
    assert gone == named.missing(keyed, {key_of(number) for number in there})
    again = [{f.suspect: f.statement for f in some if "is named" in f.statement} for some in told]
    assert again == [
        {key: f"{key} is named {times} times" for key, times in some.items()}
        for some in named.named_twice(keyed)
    ]
    assert [one.parts for one in found] == [len(parts) for parts in listed]
    assert not any(f.what not in ("part", "runs") for one in found for f in one.findings)


class Piled:
    """Skipped parts in pieces of three: only the upper of each is asked."""

    def __init__(self, uppers: list[int]) -> None:
        self._uppers = uppers

    def spans(self, numbers: np.ndarray) -> list[tuple[int, int, int]]:
        starts = range(0, len(numbers), 1)
        return [(self._uppers[n], n, n + 1) for n in starts]


PILES = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.booleans()), max_size=8),
        st.integers(0, 6),
    ),
    max_size=4,
).map(lambda some: [PlainPile(parts, evidence) for parts, evidence in some])


def pile(plain: PlainPile, size_bytes: int) -> Pile:
    uppers, sizes, known = (list(c) for c in zip(*plain.parts, strict=True))
    drawn = Drawn(np.arange(len(sizes)), np.array(sizes, np.int64))
    skips: Any = Piled(uppers)
    return pile_of(skips, drawn, np.array(known, np.bool_), plain.evidence, size_bytes)


@settings(max_examples=tries(100, 5000), deadline=None)
@given(PILES, SIZES)
def test_a_budget_pays_for_the_parts_of_the_twin(piles: list[PlainPile], size_bytes: int) -> None:
    filled = [one for one in piles if one.parts]
    expected = budgeted.affordable(filled, size_bytes)

    found = affordable([pile(one, size_bytes) for one in filled], size_bytes)

    assert [some.numbers.tolist() for some in found] == expected
    for one, some in zip(filled, found, strict=True):
        assert some.sizes.tolist() == [one.parts[n][1] for n in some.numbers.tolist()]


BATCHES = st.lists(
    st.tuples(st.integers(0, 3), st.lists(SIZES, max_size=9)), min_size=1, max_size=4
).map(
    lambda some: [
        (upper, [(f"{n}/{m}", size) for m, size in enumerate(sizes)])
        for n, (upper, sizes) in enumerate(some)
    ]
)


def looked(batch: tuple[int, list[tuple[str, int]]]) -> Any:
    upper, parts = batch
    table = pa.table(
        {
            "key": pa.array([key for key, _ in parts], pa.string()),
            "size_bytes": pa.array([size for _, size in parts], pa.int64()),
        }
    )

    def slices(_: object) -> Iterator[pa.Table]:
        return (table.slice(start, 2) for start in range(0, len(parts), 2))

    return SimpleNamespace(batch=SimpleNamespace(upper=upper), slices=slices)


@settings(max_examples=tries(100, 5000), deadline=None)
@given(BATCHES, st.sampled_from([0, 30, 70, 100]), SIZES, st.data())
def test_the_format_check_pays_for_the_parts_of_the_twin(
    some: list[tuple[int, list[tuple[str, int]]]], percent: int, most: int, data: st.DataObject
) -> None:
    every = [looked(batch) for batch in some]

    found = affordable_parts(every, partial(share_of, "run", percent), "run", most)
    checked = data.draw(st.sets(st.sampled_from(sorted(found)))) if found else set()

    assert found == budgeted.affordable_parts(some, "run", percent, most)
    assert rest_of_share(every, "run", percent, checked) == budgeted.left_out(
        some, "run", percent, checked
    )


@given(st.lists(SIZES, max_size=12), st.booleans(), st.integers(1, 5))
def test_chunks_have_each_part_once(sizes: list[int], limited: bool, most: int) -> None:
    numbers = np.arange(len(sizes))[::-1].copy()
    until = None if not limited else np.inf
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budget, "CHUNK_PARTS", most)
        patch.setattr(budget, "CHUNK_BYTES", 30)

        found = [some.tolist() for some in in_chunks(Drawn(numbers, np.array(sizes, int)), until)]

    assert sorted(n for some in found for n in some) == sorted(numbers.tolist())
    assert all(some == sorted(some) and 0 < len(some) <= most for some in found)
    if not limited:
        assert [n for some in found for n in some] == sorted(numbers.tolist())

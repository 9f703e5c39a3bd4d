"""A part is written without its rows to erase, and without no other."""

from dataclasses import replace

import numpy as np
import pytest

from strata.erase.parts import (
    NO_ROWS,
    RowsTask,
    find_terms,
    hash_rows,
    others_of_keys,
    rewrite_part,
    tasks_of,
)
from strata.erase.remove import parts_of
from strata.erase.texts import Terms
from strata.errors import Corrupt
from strata.kernels.arrays import Ints
from strata.parts.fetch import part_batches
from strata.parts.suppressed import empty
from tests.support.garbage import SPEC, World


def task(rows: Ints, count: int = 10) -> RowsTask:
    """Return a task on the only part of a shard, which has the rows from 0 on in this order."""
    world = World()
    world.append(*range(count))
    [ref] = parts_of(world.stores, world.state).values()
    [found] = tasks_of(world.stores, world.state, [ref], {ref.key: rows}, empty())
    return found


@pytest.mark.parametrize("rows", [[0], [9], [2, 3, 7], [*range(10)]])
def test_exactly_the_rows_go(rows: list[int]) -> None:
    done = rewrite_part(task(np.array(rows)))

    assert done.removed.updates == done.removed.diffs_sum == len(rows)
    assert sum(part.ref.rows for part in done.parts) == 10 - len(rows)


def test_a_row_that_was_found_twice_or_not_at_all_is_damage() -> None:
    with pytest.raises(Corrupt, match="other rows than were found") as caught:
        rewrite_part(task(np.array([3, 3])))
    assert caught.value.details["part"]


def test_rows_are_hashed_and_keys_of_rows_that_stay_are_found() -> None:
    some = task(np.array([2, 5]))
    every = hash_rows(RowsTask(**{**vars_of(some), "rows": np.arange(10)}))

    found = hash_rows(some)

    assert list(found.keys) == [every.keys[2], every.keys[5]]
    assert list(found.rows) == [every.rows[2], every.rows[5]]
    assert len(hash_rows(task(NO_ROWS)).keys) == 0
    shared = others_of_keys(np.unique(every.keys), some)
    assert sorted(shared) == sorted(set(every.keys) - set(found.keys))


def test_rows_that_mention_a_term_are_found_by_their_numbers() -> None:
    assert list(find_terms(Terms(("row 3",)), task(NO_ROWS))) == [3]
    assert list(find_terms(Terms(("row 11",)), task(NO_ROWS))) == []


def vars_of(some: RowsTask) -> dict[str, object]:
    return {name: getattr(some, name) for name in RowsTask.__dataclass_fields__}


def test_a_row_is_found_in_whichever_group_of_a_part_it_lies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = replace(SPEC, part_bytes=1 << 20)
    monkeypatch.setattr("tests.support.garbage.SPEC", large)
    some = task(np.array([3, 350, 399]), 400)
    assert len([*part_batches(some.source(), some.ref)]) > 2

    every = hash_rows(RowsTask(**{**vars_of(some), "rows": np.arange(400)}))

    assert list(hash_rows(some).keys) == [every.keys[row] for row in (3, 350, 399)]
    assert rewrite_part(some).removed.updates == 3
    assert list(find_terms(Terms(("row 350",)), some)) == [350]

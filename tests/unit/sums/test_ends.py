"""Ends of groups where values are taken away before they come; and what a check calls different."""

from collections import Counter
from dataclasses import replace

import pytest

from strata.machine.machine import Machine
from strata.store.open import Stores
from strata.sums.check import _compared, check_sums
from strata.sums.run import maintain_sums
from strata.sums.table import GroupSums, SumsTable
from tests.laws.test_kept_sums import RELATION, WISH, take
from tests.support.stored import create, memory_stores

ALL = replace(WISH, least=("n",), greatest=("n",))


@pytest.fixture
def stores() -> Stores:
    made = memory_stores()
    create(made, RELATION)
    return made


@pytest.mark.parametrize("late", [2, 9])
def test_a_value_that_was_taken_away_before_it_came_is_no_end(stores: Stores, late: int) -> None:
    """It counts -1 before the run, and 0 after it."""
    row = (9, "x", 3, late, None, 1.5)
    take(stores, 0, 10, [((1, "x", 3, 5, None, 1.5), 3, 1), (row, 4, -1)])
    maintain_sums(stores, ALL)
    take(stores, 10, 20, [(row, 12, 1)])

    maintain_sums(stores, ALL)

    assert check_sums(stores, ALL).different == 0


def test_a_group_differs_unless_its_right_row_is_there_once(stores: Stores) -> None:
    table = SumsTable.of(Machine(stores).load("shard"), WISH)
    group, row, other = ("x", 3), GroupSums(1, (5, 0), (1, 0)), GroupSums(1, (6, 0), (1, 0))

    def different(stored: dict[GroupSums, int]) -> int:
        held = Counter({(group, numbers): count for numbers, count in stored.items()})
        return _compared(WISH, table, 9, {group: row}, held).different

    assert different({row: 1}) == 0
    wrong: list[dict[GroupSums, int]] = [{}, {other: 1}, {row: 2}, {row: -1}, {other: 1, row: 1}]
    assert [different(stored) for stored in wrong] == [1] * len(wrong)

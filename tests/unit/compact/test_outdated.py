"""What need not be written again, and which keys can be compared with today's."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from strata.compact.outdated import has_keys_of_today
from strata.compact.stretches import Stretches
from strata.model.schema import Column, Relation
from strata.model.types import parse_type

RELATION = Relation(
    0, (Column(1, "id", parse_type("int64")), Column(2, "n", parse_type("int64"))), (1,), ()
)


@pytest.mark.parametrize(("order", "comparable"), [((1, 2), True), ((2, 1), False), ((), False)])
def test_keys_of_a_run_in_no_order_are_compared_with_none(
    order: tuple[int, ...], comparable: bool
) -> None:
    state: Any = SimpleNamespace(relation=RELATION, relations=(RELATION,))
    batch: Any = SimpleNamespace(runs=(SimpleNamespace(order=order),), versions=(0,))

    assert has_keys_of_today(state, batch) == comparable


@dataclass(frozen=True)
class Case:
    runs: int = 1
    first: int = 5
    order: tuple[int, ...] = (1, 2)
    layouts: tuple[str, ...] = ("both",)
    unchanged: bool = False


@pytest.mark.parametrize(
    "case",
    [
        Case(unchanged=True),
        Case(runs=2),
        Case(first=4),  # a time that would be advanced
        Case(order=(2, 1)),
        Case(layouts=("row",)),
        Case(layouts=("both", "row")),
    ],
)
def test_only_a_run_that_is_what_merging_writes_stays(case: Case) -> None:
    run = SimpleNamespace(order=case.order)
    layouts = tuple((name, 1) for name in case.layouts)
    batch = SimpleNamespace(manifest="m", runs=(run,) * case.runs, layouts=layouts)
    empty = SimpleNamespace(manifest=None)
    made: Any = Stretches.__new__(Stretches)
    made.request = SimpleNamespace(batches=(empty, batch), since=5)
    made.state = SimpleNamespace(relation=RELATION, spec=SimpleNamespace(write_format="both"))
    made._first = case.first

    assert made.unchanged == case.unchanged

"""What Strata writes about itself is what an approver weighs: nobody else writes it or bends it."""

from functools import partial
from itertools import count

import pytest

from strata.errors import InvalidRequest
from strata.history import operations
from strata.history.metrics import Metrics
from strata.ingest.engine import ingest_steps
from strata.machine.machine import Machine
from strata.maintain.revert import revert_interval
from strata.maintain.schema import change_schema
from strata.model.settings import Settings, StoreSettings
from strata.state.schema import DropColumn
from strata.store.open import Stores, open_stores
from tests.support.batches import spec

NAME = operations.SHARD
NUMBERS = count()


@pytest.fixture
def stores() -> Stores:
    name = f"memory://journals {next(NUMBERS)}"
    found = open_stores(StoreSettings(name, name), lambda: 60_000)
    assert noted(found, 1) == 1
    return found


def noted(stores: Stores, began_ms: int) -> int:
    return operations.note(stores, Metrics(), "validate", began_ms, {"shard": "s"}, 0)


def test_a_journal_keeps_its_form_and_its_rows(stores: Stores) -> None:
    machine = Machine(stores)
    for attack in (
        partial(change_schema, machine, NAME, DropColumn("who")),
        partial(machine.drop, NAME, by="mallory", reason="tidy", force=True),
        partial(revert_interval, stores, NAME, 0, 70_000),
        lambda: list(ingest_steps(stores, Settings(), NAME, [])),
        partial(machine.create, operations.spec()),
    ):
        with pytest.raises(InvalidRequest, match="Strata alone writes"):
            attack()
    assert noted(stores, 2) == 1
    assert len(operations.recent(stores, "s", 9)) == 2


@pytest.mark.parametrize("name", [NAME, "strata_verdicts", "strata_new"])
def test_nobody_takes_the_name_of_a_journal_first(name: str) -> None:
    stores = open_stores(StoreSettings(*[f"memory://first {next(NUMBERS)}"] * 2), lambda: 60_000)
    with pytest.raises(InvalidRequest, match="Strata alone writes"):
        Machine(stores).create(spec(name))
    assert noted(stores, 1) == 1

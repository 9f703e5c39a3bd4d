"""What a shard holds is read from the tokens of its commits."""

import pytest

from strata.adopt.record import AdoptionRecord, adoption_of, standing_of, table_mark
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.spec import check_name
from strata.model.types import parse_type
from strata.state.transitions import COMMITS_MAX
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION = Relation(0, (Column(1, "id", parse_type("int64")),), (1,), ())
RECORD = AdoptionRecord(
    "iceberg", table_mark("some table"), "9223372036854775807-4", 3, "0a0b0c", 2, -62135596800000
)


@pytest.fixture
def stores() -> Stores:
    made = memory_stores()
    create(made, RELATION)
    return made


def commit(stores: Stores, token: str, at: int) -> None:
    Machine(stores).append("shard", token=token, lower=at, upper=at + 1)


def test_a_token_is_the_record_that_it_was_made_of() -> None:
    assert adoption_of(RECORD.token) == RECORD
    assert check_name(RECORD.token) == RECORD.token


@pytest.mark.parametrize(
    "token",
    [
        "interval-0123",
        "revert:0:1:all:0",
        RECORD.token + ".1",
        RECORD.token.replace("iceberg", "hudi"),
    ],
)
def test_other_tokens_are_no_record(token: str) -> None:
    assert adoption_of(token) is None


def test_a_shard_without_rows_holds_nothing(stores: Stores) -> None:
    assert standing_of(stores.blob, Machine(stores).load("shard")).record is None
    commit(stores, "interval-1", 0)
    standing = standing_of(stores.blob, Machine(stores).load("shard"))
    assert (standing.record, standing.other) == (None, None)


def test_the_newest_adoption_counts_and_empty_intervals_do_not(stores: Stores) -> None:
    commit(stores, AdoptionRecord("delta", "0" * 12, "1", 0, "0" * 6, -1, 1).token, 0)
    commit(stores, AdoptionRecord("delta", "0" * 12, "2", 0, "0" * 6, -1, 2).token, 1)
    commit(stores, "interval-1", 2)

    standing = standing_of(stores.blob, Machine(stores).load("shard"))
    assert standing.record == AdoptionRecord("delta", "0" * 12, "2", 0, "0" * 6, -1, 2)


def test_rows_of_others_are_seen(stores: Stores) -> None:
    commit(stores, RECORD.token, 0)
    state = append(stores, "shard", 1, 2, [table(RELATION, [(1, 0, 1)])])

    standing = standing_of(stores.blob, state)
    assert standing.record is None
    assert standing.other is not None


def test_a_record_is_found_behind_more_commits_than_a_state_names(stores: Stores) -> None:
    commit(stores, RECORD.token, 0)
    for at in range(1, COMMITS_MAX + 70):
        commit(stores, f"interval-{at}", at)

    state = Machine(stores).load("shard")
    assert state.ledger
    assert RECORD.token not in [one.token for one in state.commits]
    assert standing_of(stores.blob, state).record == RECORD

"""What a sink remembers of the wish that filled it."""

import pytest

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.plain.parse import plain_filter
from strata.read.bookmark import Bookmark, check_same_wish, what_is_wanted
from strata.state.state import State
from tests.support.stored import create, memory_stores

RELATION = Relation(
    0, (Column(1, "n", parse_type("int64")), Column(2, "s", parse_type("string"))), (1,), ()
)
# Sinks hold these for ever: another spelling would refuse each of them.
KNOWN = [
    (None, None, '814b97611e65f37e.814b97611e65f37e.{"n": 1, "s": 2}'),
    (["s"], None, '3f43bba20518e567.c33d33e81c70821d.{"s": 2}'),
    (["n"], "s > 'a'", '73a0bc57ed5814c8.c1c5dc5ff3db245b.{"n": 1, "s": 2}'),
]


@pytest.fixture
def state() -> State:
    stores = memory_stores()
    create(stores, RELATION)
    return Machine(stores).load("shard")


@pytest.mark.parametrize(("columns", "where", "identity"), KNOWN)
def test_the_identity_of_a_wish_is_that_of_sinks_from_before(
    state: State, columns: list[str] | None, where: str | None, identity: str
) -> None:
    filter = None if where is None else plain_filter(RELATION, where, 0)

    assert what_is_wanted(state, columns, filter)[0] == identity


def test_a_sink_goes_on_with_the_same_wish_alone(state: State) -> None:
    def mark(where: str) -> Bookmark:
        wanted = what_is_wanted(state, ["n"], plain_filter(RELATION, where, 0))
        return Bookmark(5, "shard", "c", 0, *wanted)

    check_same_wish(mark("s > 'a'"), mark("s > 'a'"))
    with pytest.raises(InvalidRequest, match="other rows or columns") as caught:
        check_same_wish(mark("s > 'a'"), mark("s > 'b'"))
    assert caught.value.details["there"] == "rows where s > 'a', n"
    with pytest.raises(InvalidRequest, match="another consumer"):
        check_same_wish(mark("s > 'a'"), Bookmark(5, "shard", "d"))

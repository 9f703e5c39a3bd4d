"""A long sort order is stored as ranges, and comes back as it was."""

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Corrupt
from strata.state.codec import decode_state, encode_state
from strata.state.delta import apply_changes, changes_between
from strata.state.order import SPELLED_OUT, order_of, order_text
from strata.state.plain import dump, plain
from strata.state.seal import sealed
from strata.state.state import Batch, RunSummary, Spine, SpineBatch, State
from tests.support.batches import batch, spec

WIDE = (7, 2, *range(9, 200), 1, 8, *range(3, 7))
ORDERS = st.lists(st.integers(0, 300), unique=True).map(tuple)


def state(*orders: tuple[int, ...]) -> State:
    runs = tuple(RunSummary(1, 5, 50, order) for order in orders)
    one: Batch = replace(batch(0, 9, 5 * len(orders), runs=len(orders)), runs=runs)
    made = spec("events")
    return State(
        1,
        0,
        made,
        (made.relation(),),
        since=0,
        upper=9,
        spine=Spine((SpineBatch(0, 1, 3, (one,)),), 1),
    )


@given(ORDERS.filter(bool))
def test_an_order_comes_back(order: tuple[int, ...]) -> None:
    assert order_of(order_text(order)) == order


@pytest.mark.parametrize(
    "text", ["", "1,", "a", "3-1", "1,2", "5-5", "01", "1-2-3", "-1", "1 ,3", "0-999999999999"]
)
def test_what_no_order_is_written_as_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"order|columns"):
        order_of(text)


@pytest.mark.parametrize("orders", [(WIDE,), ((1, 2), WIDE, ()), (tuple(range(1, 17)),)])
def test_a_state_keeps_orders_short_and_exact(orders: tuple[tuple[int, ...], ...]) -> None:
    before = state(*orders)
    data = encode_state(before)

    assert decode_state(data) == before
    runs = orjson.loads(data)["state"]["spine"]["runs"]
    assert runs["fields"][-1] == "order"
    for run, order in zip(runs["rows"], orders, strict=True):
        assert isinstance(run[-1], str if len(order) > SPELLED_OUT else list)
        assert len(dump(run[-1])) < 80


def test_a_change_keeps_them_short_as_well() -> None:
    before, after = state((1, 2)), state(WIDE)
    change = orjson.loads(dump(changes_between(before, after)))

    assert apply_changes(before, change) == after
    assert b'"7,2,9-199,1,8,3-6"' in dump(change)


def test_states_with_long_lists_are_read_and_damaged_texts_are_not() -> None:
    before = state(WIDE)
    document = orjson.loads(encode_state(before))
    run = document["state"]["spine"]["runs"]["rows"][0]
    del document["digest"]
    run[-1] = list(WIDE)
    assert decode_state(sealed(dump(document))) == before

    run[-1] = "9-7"
    with pytest.raises(Corrupt, match="is not how an order is written"):
        decode_state(sealed(dump(document)))


def test_an_order_is_spelled_out_up_to_its_limit() -> None:
    short = plain(RunSummary(1, 1, 1, WIDE[:SPELLED_OUT]))["order"]
    long = plain(RunSummary(1, 1, 1, WIDE[: SPELLED_OUT + 1]))["order"]

    assert list(short) == list(WIDE[:SPELLED_OUT])
    assert long == order_text(WIDE[: SPELLED_OUT + 1])

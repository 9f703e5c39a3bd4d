"""Rows leave a batch by exactly what they were, and merges that still have them are forgotten."""

from dataclasses import replace

import pytest

from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest
from strata.state.erasing import (
    ERASER,
    Closing,
    Removed,
    close,
    finish,
    forget_verdicts,
    readers_before,
    remove,
    suppress,
)
from strata.state.holds import hold
from strata.state.merging import live_progress
from strata.state.state import Erasure, Hold, Progress, State, Writer
from strata.state.transitions import append, create
from strata.store.keys import manifest_key
from tests.support.batches import batch, spec


@pytest.fixture
def state() -> State:
    state = create(spec(), 1)
    for lower in range(0, 40, 10):
        new = batch(lower, lower + 10, updates=3)
        state, _ = append(state, 5, token=f"t{lower}", lower=lower, upper=lower + 10, batch=new)
    return state


def under_way(first: int) -> Progress:
    """Return a merge of the two batches from a time on, of which one task is done."""
    inputs = tuple(f"manifest-{low}-{low + 10}" for low in (first, first + 10))
    done = {"manifest": f"kept-{first}", "bytes_out": 10, "at_ms": 6, "rows_out": 3}
    known = {name: value for name, value in done.items() if name in Progress.__dataclass_fields__}
    return Progress(inputs, first, first + 20, 0, f"work-{first}", 2, 1, **known)  # type: ignore[arg-type]


def test_merges_of_a_batch_that_loses_rows_are_forgotten_and_others_go_on(state: State) -> None:
    merges = (under_way(0), under_way(20))
    state = replace(state, merging=merges)
    assert live_progress(state) == merges
    left = replace(batch(0, 10, updates=2, manifest="without"), digest=4)

    after, done = remove(state, 9, manifest="manifest-0-10", batch=left, removed=Removed(1, 1, 3))

    assert done
    assert after.merging == merges[1:]
    assert [b.manifest for b in after.batches][:2] == ["without", "manifest-10-20"]


@pytest.mark.parametrize("removed", [Removed(2, 1, 3), Removed(1, 2, 3), Removed(1, 1, 4)])
def test_figures_that_do_not_add_up_are_damage(state: State, removed: Removed) -> None:
    left = replace(batch(0, 10, updates=2, manifest="without"), digest=4)
    with pytest.raises(Corrupt, match="are not what the batch was"):
        remove(state, 9, manifest="manifest-0-10", batch=left, removed=removed)


def test_a_batch_that_contradicts_itself_takes_no_others_place(state: State) -> None:
    left = replace(batch(0, 10, updates=2, manifest="without"), digest=4, parts=7)

    with pytest.raises(InvalidRequest, match="contradicts itself"):
        remove(state, 9, manifest="manifest-0-10", batch=left, removed=Removed(1, 1, 3))


def test_a_batch_that_a_merge_took_is_left(state: State) -> None:
    left = batch(0, 10, updates=2, manifest="without")
    assert remove(state, 9, manifest="gone", batch=left, removed=Removed(1, 1, 3)) == (state, False)


def test_readers_of_states_before_are_those_with_a_live_hold_on_one(state: State) -> None:
    first = replace(hold(state, 10, name="first", since=0, lease_ms=100)[1], seqno=1)
    state, later = hold(state, 10, name="later", since=0, lease_ms=100)
    state = replace(state, holds=(first, later))

    assert readers_before(state, 20, later.seqno) == (first,)
    assert readers_before(state, 20, later.seqno + 1) == (first, later)
    assert readers_before(state, 20, 1) == ()
    assert readers_before(state, 111, later.seqno + 1) == ()
    # One of before holds said what they read, and one whose owner reads the newest state.
    others = (replace(first, seqno=0), Hold("critical", 0, None, "x", 1))
    assert readers_before(replace(state, holds=others), 20, later.seqno + 1) == ()


ERASURE = Erasure("e1", 0, "ann", "asked", "a fingerprint")
CLEAN = [f"manifest-{low}-{low + 10}" for low in range(0, 40, 10)]


def under_erasure(state: State, *writers: Writer, **changes: int) -> State:
    return replace(
        state, generation=7, fence=4, erasing=replace(ERASURE, **changes), writers=writers
    )


def test_an_erasure_is_not_closed_while_a_batch_may_hold_a_row(state: State) -> None:
    begun = under_erasure(state)

    after, closing = close(begun, 9, clean=CLEAN[1:])

    assert (after, closing.unseen) == (begun, {CLEAN[0]})
    assert not closing.erasure.closed
    with pytest.raises(InvalidRequest, match="no erasure is under way"):
        close(state, 9, clean=CLEAN)


def test_an_erasure_is_closed_in_two_steps_and_the_fence_keeps_out_who_wrote_before(
    state: State,
) -> None:
    first, closing = close(under_erasure(state), 9, clean=CLEAN)
    assert (first.generation, first.generation_ms, first.fence) == (8, 9, 4)
    assert (closing.erasure.generation, closing.erasure.closed, closing.writers) == (8, 0, ())

    second, closing = close(replace(first, merging=(under_way(0),)), 10, clean=CLEAN)

    assert (second.generation, second.fence, second.merging) == (8, 8, ())
    assert second.erasing == closing.erasure
    assert closing.erasure.closed == second.seqno
    assert close(second, 11, clean=CLEAN) == (second, Closing(closing.erasure, frozenset(), ()))
    assert replace(second, fence=9) == close(replace(first, fence=9), 10, clean=CLEAN)[0]


@pytest.mark.parametrize(
    ("writer", "waits"),
    [
        (Writer("w", 7, 11, "compact"), True),
        (Writer("w", 7, 10, "compact"), False),  # its lease is over
        (Writer("w", 8, 11, "compact"), False),  # it has read clean batches only
        (Writer("w", 7, 11, ERASER), False),  # it writes only what is clean
    ],
)
def test_an_erasure_waits_for_writers_who_began_before_the_rows_were_gone(
    state: State, writer: Writer, waits: bool
) -> None:
    begun, closing = close(under_erasure(state, writer), 9, clean=CLEAN)
    assert closing.writers == (("w",) if waits or writer.expires_ms == 10 else ())

    after, closing = close(begun, 10, clean=CLEAN)

    assert closing.writers == (("w",) if waits else ())
    assert (after is begun) == waits
    assert bool(closing.erasure.closed) != waits
    assert after.writers == ((writer,) if waits or writer.generation == 8 else ())


def test_a_row_that_is_found_later_opens_a_closed_erasure_again(state: State) -> None:
    left = replace(batch(0, 10, updates=2, manifest="without"), digest=4)
    closed = under_erasure(replace(state, generation=7), generation=6, closed=3)

    after, _ = remove(
        replace(closed, fence=0), 9, manifest=CLEAN[0], batch=left, removed=Removed(1, 1, 3)
    )

    assert after.erasing == ERASURE


def test_rows_are_removed_by_writers_who_are_not_fenced(state: State) -> None:
    key = manifest_key("events", "ab", 3)
    left = replace(batch(0, 10, updates=2, manifest=key), digest=4)
    whole = {"manifest": CLEAN[0], "batch": left, "removed": Removed(1, 1, 3)}

    with pytest.raises(Fenced, match="collected"):
        remove(under_erasure(state), 9, **whole)  # type: ignore[arg-type]
    with pytest.raises(Fenced, match="expired"):
        remove(replace(state, fence=0), 9, writer="w", **whole)  # type: ignore[arg-type]


def test_a_list_of_hashes_takes_the_place_of_the_one_that_it_was_made_from(state: State) -> None:
    first, known = suppress(under_erasure(state), 9, expected=None, key="a", generation=4)

    assert (first.suppressed, known) == ("a", False)
    assert suppress(first, 9, expected=None, key="a", generation=0) == (first, True)
    assert suppress(first, 9, expected="a", key="b", generation=4)[0].suppressed == "b"
    with pytest.raises(Conflict):
        suppress(first, 9, expected=None, key="b", generation=4)
    with pytest.raises(Fenced):
        suppress(first, 9, expected="a", key="b", generation=3)


def test_verdicts_are_forgotten_and_an_erasure_ends_once(state: State) -> None:
    begun = replace(under_erasure(state), verdicts=("a", "b", "c"))

    after, gone = forget_verdicts(begun, 9, keys={"a", "c", "x"})

    assert (after.verdicts, gone) == (("b",), 2)
    assert forget_verdicts(after, 9, keys={"a"}) == (after, 0)
    assert finish(after, 9, id="e2") == (after, False)
    ended, done = finish(after, 9, id="e1")
    assert (ended.erasing, done) == (None, True)
    assert finish(ended, 9, id="e1") == (ended, False)

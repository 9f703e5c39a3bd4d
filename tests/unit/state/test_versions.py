"""A shard's documents: changes say what the whole state says, and none is applied to another's."""

import random
from dataclasses import fields, replace
from functools import partial
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.time import MIN_TIME
from strata.state import versions
from strata.state.codec import decode_state, encode_state
from strata.state.delta import apply_changes, changes_between
from strata.state.holds import hold
from strata.state.plain import dump
from strata.state.seal import sealed
from strata.state.spine import requests
from strata.state.state import Batch, RunSummary, State
from strata.state.step import step
from strata.state.transitions import append, create
from strata.state.versions import (
    LEAST_BYTES,
    RUN_MAX,
    Version,
    link_of,
    successor,
    whole_document,
)
from strata.store.interface import Versioned
from strata.store.keys import state_key
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import Stores
from tests.support.batches import spec
from tests.unit.state.test_codec import STATES


def told(old: State, new: State) -> Any:
    """Return a change as a reader finds it: read from JSON."""
    return orjson.loads(dump(changes_between(old, new)))


@given(STATES, STATES)
def test_any_state_follows_any_other(old: State, new: State) -> None:
    assert apply_changes(old, told(old, new)) == new
    assert apply_changes(decode_state(encode_state(old)), told(old, new)) == new
    assert told(old, old) == {}


def shuffled(draw: random.Random, old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return a tuple with items of both, some of them twice, as no transition makes them."""
    items = [*old, *new, *old[:2]]
    draw.shuffle(items)
    return tuple(items[: draw.randrange(len(items) + 1)])


@given(STATES, STATES, st.integers())
def test_items_are_found_wherever_they_have_gone(old: State, other: State, seed: int) -> None:
    draw = random.Random(seed)
    mixed: dict[str, Any] = {}
    for field in fields(old):
        before, after = getattr(old, field.name), getattr(other, field.name)
        if isinstance(before, tuple) and field.name != "relations":
            mixed[field.name] = shuffled(draw, before, after)
        elif draw.random() < 0.3:
            mixed[field.name] = after
    slots = shuffled(draw, old.spine.slots, other.spine.slots)
    slots = tuple(replace(s, batches=shuffled(draw, s.batches, s.batches)) for s in slots)
    new = replace(old, **{**mixed, "spine": replace(old.spine, slots=slots)})
    assert apply_changes(old, told(old, new)) == new


def batch_at(number: int) -> Batch:
    """Return a batch as an append of one part brings it."""
    key = f"shards/events/manifests/g1/{number:040x}.arrow"
    run = (RunSummary(1, 5, 9_000, (1, 2)),)
    return Batch(
        number, number + 1, MIN_TIME, 5, 9_000, 1, run, key, (("both", 1),), 1, 300,
        diffs_sum=5, digest=number,
    )  # fmt: skip


def grown(count: int) -> list[State]:
    """Return states of a shard to which batches are appended that nobody merges."""
    states = [create(spec("events"), 1)]
    for number in range(count):
        state, _ = append(
            states[-1],
            number,
            token=f"token-{number:020}",
            lower=number,
            upper=number + 1,
            batch=batch_at(number),
        )
        states.append(state)
    return states


def documents(states: list[State]) -> list[bytes]:
    """Return what is stored for states that follow one another."""
    data, version = whole_document(states[0])
    found = [data]
    for state in states[1:]:
        data, version = successor(version, state)
        assert version.state == state
        found.append(data)
    return found


def test_a_commit_writes_what_it_changes_however_much_stays() -> None:
    states = grown(300)
    assert len(requests(states[-1].spine, 0)) >= 1
    written = documents(states)
    changed_only = [data for data in written if link_of(data)]
    full = len(encode_state(states[-1]))
    assert full > 60_000, "a large state"
    assert max(map(len, changed_only)) < 1_500
    assert len(written) - len(changed_only) <= 14, "some are whole"
    assert sum(map(len, written)) < 301 * 2_000


def test_each_is_read_from_its_whole_one_on() -> None:
    states = grown(2 * RUN_MAX)
    written = documents(states)
    versions.forget_known()
    before: Version | None = None
    for data, state in zip(written, states, strict=True):
        before = versions.read_version(data, before)
        assert before.state == state
        assert before.run <= RUN_MAX
        link = link_of(data)
        assert (state.seqno if link is None else link.base) == before.base
        assert versions.walltime_ms(data) in {None, state.walltime_ms}


def test_a_change_is_applied_to_no_other_state() -> None:
    states = grown(3)
    first, second, third, _ = documents(states)
    versions.forget_known()
    base = versions.read_version(first, None)
    for before in (None, base):
        with pytest.raises(Corrupt, match="does not follow the state before it"):
            versions.read_version(third, before)
    assert versions.read_version(third, versions.read_version(second, base)).state == states[2]


def test_what_would_not_come_back_is_written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    states = grown(2)
    _, version = whole_document(states[0])
    monkeypatch.setattr(versions, "changes_between", lambda _old, _new: {"upper": ["set", 77]})
    data, found = successor(version, states[1])
    assert link_of(data) is None
    assert found.state == states[1]


def test_no_flipped_bit_of_a_change_is_believed() -> None:
    states = grown(2)
    first, second, _ = documents(states)
    base = versions.read_version(first, None)
    for at in range(len(second)):
        for bit in range(8):
            flipped = bytearray(second)
            flipped[at] ^= 1 << bit
            with pytest.raises(Corrupt):
                versions.read_version(bytes(flipped), base)


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"upper": ["set", "7"]}, "cannot be understood"),
        ({"upper": ["by", [[0, 1]]]}, "does not fit"),
        ({"commits": ["by", [[0, 2]]]}, "does not fit"),
        ({"commits": ["by", [[1, 0]]]}, "does not fit"),
        ({"commits": ["by", [[True, 1]]]}, "does not fit"),
        ({"spine": ["spine", {"next_id": 1, "slots": [[0, 1, 0, 9]], "batches": [[0, 1]]}]}, "fit"),
        ({"spine": ["set"]}, "does not fit"),
        ({"spine": 5}, "does not fit"),
        ({"upper": ["turn", 5]}, "does not fit"),
    ],
)
def test_a_change_that_fits_nothing_is_refused(state: Any, why: str) -> None:
    [_, second] = grown(1)
    _, version = whole_document(second)
    head = {"base": version.base, "before": version.digest, "by": "0", "format": versions.FORMAT}
    with pytest.raises(Corrupt, match=why):
        versions.read_version(sealed(dump({**head, "state": state})), version)


def test_what_a_newer_version_wrote_is_refused_by_its_name() -> None:
    _, version = whole_document(grown(0)[0])
    head = {"base": 1, "before": version.digest, "by": "9.9", "format": versions.FORMAT}
    newer = sealed(dump({**head, "format": versions.FORMAT + 1, "state": {}}))
    with pytest.raises(InvalidRequest, match="newer version") as caught:
        versions.read_version(newer, version)
    assert caught.value.details["written_by"] == "9.9"
    with pytest.raises(InvalidRequest, match="newer version"):
        versions.read_version(sealed(dump({**head, "state": {"moon": ["set", 5]}})), version)


def test_an_older_program_refuses_a_change_as_newer() -> None:
    """What it reads of any document: the state under its name, and then the format."""
    data = documents(grown(1))[1]
    with pytest.raises(InvalidRequest, match="newer version"):
        decode_state(data)


@pytest.fixture
def machine() -> Machine:
    settings = StoreSettings("memory://", "memory://")
    stores = Stores(MemoryBlob(), MemoryConsensus(), lambda: 1, settings)
    made = Machine(stores, sleep=lambda _: None)
    made.create(spec("events"))
    return made


def fill(machine: Machine, count: int) -> None:
    for number in range(count):
        bounds = {"lower": number, "upper": number + 1}
        machine.append("events", token=f"t{number}", batch=batch_at(number), **bounds)


def test_a_fresh_process_reads_every_state(machine: Machine) -> None:
    fill(machine, 150)
    newest = machine.load("events")
    for number in (1, 2, 63, 64, 65, 66, 120, newest.seqno):
        versions.forget_known()
        state = machine.at("events", number)
        assert state is not None
        assert (state.seqno, state.upper) == (number, state.upper)
        assert len(state.batches) == number - 1
    versions.forget_known()
    assert [s.seqno for s in machine.states("events")] == list(range(1, newest.seqno + 1))
    versions.forget_known()
    before = list(machine.states_before("events", newest.seqno))
    assert [s.seqno for s in before] == list(range(newest.seqno - 1, 0, -1))
    versions.forget_known()
    assert machine.load("events") == newest


def test_what_is_kept_is_kept_with_what_it_builds_upon(machine: Machine) -> None:
    fill(machine, 200)
    newest = machine.load("events")
    dropped = machine.forget("events", keep=20, keep_ms=-(10**9))
    versions.forget_known()
    stored = list(machine.states("events"))
    assert stored[-1] == newest
    assert len(stored) == newest.seqno - dropped
    assert 20 <= len(stored) <= 20 + RUN_MAX
    data = machine.stores.consensus.scan(state_key("events"), 0, 1)[0].data
    assert link_of(data) is None, "the oldest that is left is whole"


class Overtaken(MemoryConsensus):
    """A store in which, behind one call of a kind, others are committed and old ones dropped."""

    def __init__(self, inner: MemoryConsensus, meanwhile: Any, behind: str = "head") -> None:
        super().__init__()
        self.inner, self.meanwhile, self.behind = inner, meanwhile, behind

    def head(self, key: str) -> Versioned | None:
        found = self.inner.head(key)
        self.overtake("head")
        return found

    def scan(self, key: str, from_seqno: int, limit: int) -> list[Versioned]:
        found = self.inner.scan(key, from_seqno, limit)
        self.overtake("scan")
        return found

    def overtake(self, call: str) -> None:
        if self.meanwhile is not None and call == self.behind:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
            versions.forget_known()


def test_what_is_dropped_while_it_is_read_is_read_anew(machine: Machine) -> None:
    fill(machine, 100)
    inner = machine.stores.consensus
    assert isinstance(inner, MemoryConsensus)

    def meanwhile() -> None:
        for number in range(100, 200):
            bounds = {"lower": number, "upper": number + 1}
            machine.append("events", token=f"t{number}", batch=batch_at(number), **bounds)
        machine.forget("events", keep=5, keep_ms=-(10**9))

    versions.forget_known()
    slow = replace(machine.stores, consensus=Overtaken(inner, meanwhile))
    assert Machine(slow, sleep=lambda _: None).load("events").upper == 200


def test_states_that_are_dropped_while_a_page_is_read_are_no_damage(machine: Machine) -> None:
    """Each 64th commit drops some: who read others then was told to restore from a backup."""
    fill(machine, 100)
    newest, inner = machine.load("events"), machine.stores.consensus
    assert isinstance(inner, MemoryConsensus)
    forget = partial(machine.forget, "events", keep=5, keep_ms=-(10**9))
    slow = Overtaken(inner, forget, behind="scan")
    versions.forget_known()
    reader = Machine(replace(machine.stores, consensus=slow), sleep=lambda _: None)
    page = reader._documents.page("events", newest.seqno - 15, 16)
    assert slow.meanwhile is None
    assert page[-1] == newest
    left = [one.seqno for one in inner.log[state_key("events")]]
    assert [one.seqno for one in page] == left
    assert newest.seqno - 15 < left[0]


def needed(consensus: MemoryConsensus) -> int:
    """Return the number of a change that the newest document builds upon."""
    head = consensus.log[state_key("events")][-1]
    link = link_of(head.data)
    assert link is not None
    assert link.base + 1 < head.seqno
    return link.base + 1


def test_a_document_that_is_missing_in_between_is_named(machine: Machine) -> None:
    fill(machine, 30)
    inner = machine.stores.consensus
    assert isinstance(inner, MemoryConsensus)
    inner.log[state_key("events")].pop(needed(inner) - 1)
    versions.forget_known()
    with pytest.raises(Corrupt, match="builds upon are missing") as caught:
        machine.load("events")
    assert caught.value.details["seqno"] == 31
    assert "backup" in str(caught.value.cure)
    with pytest.raises(Corrupt, match="builds upon are missing") as caught:
        machine.at("events", 31)
    assert caught.value.details["seqno"] == 31


def test_a_damaged_one_in_between_is_named(machine: Machine) -> None:
    fill(machine, 30)
    inner = machine.stores.consensus
    assert isinstance(inner, MemoryConsensus)
    seqno, log = needed(inner), inner.log[state_key("events")]
    data = bytearray(log[seqno - 1].data)
    data[-9] ^= 1
    log[seqno - 1] = Versioned(seqno, bytes(data))
    versions.forget_known()
    with pytest.raises(Corrupt, match="its digest is another one") as caught:
        machine.load("events")
    assert (caught.value.details["shard"], caught.value.details["seqno"]) == ("events", seqno)


def test_holds_cost_what_they_change(machine: Machine) -> None:
    fill(machine, 100)
    for number in range(5):
        machine.apply("events", partial(hold, name=f"r{number}", since=5, lease_ms=9))
        head = machine.stores.consensus.head(state_key("events"))
        assert head is not None
        assert len(head.data) < 500


def test_changes_of_a_small_state_are_written_until_there_are_many_bytes_of_them() -> None:
    _, found = whole_document(create(spec(), 1))
    assert found.base_bytes < LEAST_BYTES
    while found.run_bytes < LEAST_BYTES:
        run = found.run
        _, found = successor(found, step(found.state, 1))
        assert (found.base, found.run) == (1, run + 1)

    assert successor(found, step(found.state, 1))[1].run == 0

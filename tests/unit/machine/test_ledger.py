"""The ledger of old commits: every token is found for ever, and the state names few blobs."""

import json
from itertools import pairwise
from math import ceil, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata import gc
from strata.errors import Corrupt, InvalidRequest
from strata.gc.verdicts import Fate
from strata.machine import ledger as commits
from strata.machine.ledger import (
    FAN,
    commit_at,
    commit_ms_before,
    commits_after,
    commits_of,
    find,
    foldable,
    is_of_life,
    ledger_keys,
    mark_of,
    spill_old_commits,
)
from strata.model.time import MIN_TIME
from strata.state.codec import LedgerNode, encode_commits, encode_nodes
from strata.state.state import Commit, State
from strata.state.transitions import COMMITS_SPILLED, append, create
from strata.store import keys
from strata.store.memory import MemoryBlob
from tests.support.batches import spec
from tests.support.garbage import SETTINGS, World

APPENDS = 64 * FAN * 4


def grown(blob: MemoryBlob, appends: int, state: State | None = None) -> State:
    """Return a shard after so many empty appends, each of ten milliseconds."""
    state = state or create(spec(), 1)
    for number in range(max(state.upper, 0) // 10, appends):
        bounds = {"lower": 10 * number, "upper": 10 * number + 10}
        state, _ = append(state, number, token=f"t{number}", **bounds)
        state = spill_old_commits(blob, state)
    return state


class Counting(MemoryBlob):
    """Another store's blobs, and which of them were read."""

    def __init__(self, inner: MemoryBlob) -> None:
        super().__init__()
        self.inner, self.read = inner, []

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        self.read.append(key)
        return self.inner.get(key, start, length)


def without_marks(node: LedgerNode) -> bytes:
    """Return a node as it was written before there were marks."""
    document = json.loads(encode_nodes(node))
    del document["marks"]
    return json.dumps(document).encode()


@pytest.fixture(scope="module")
def shard() -> tuple[MemoryBlob, State]:
    blob = MemoryBlob()
    return blob, grown(blob, APPENDS)


def test_every_commit_is_in_the_ledger_or_the_state_once(shard: tuple[MemoryBlob, State]) -> None:
    blob, state = shard
    leaves = [k for k in ledger_keys(blob, state.ledger) if not keys.ledger_level(k)]
    stored = [c.token for leaf in leaves for c in commits_of(blob, leaf)]
    stored += [c.token for c in state.commits]
    assert stored == [f"t{n}" for n in range(APPENDS)]
    assert {info.key for info in blob.list("")} == {*ledger_keys(blob, state.ledger)}


def test_the_state_names_few_blobs_however_many_appends_there_were(
    shard: tuple[MemoryBlob, State],
) -> None:
    _, state = shard
    levels = ceil(log(APPENDS / COMMITS_SPILLED, FAN))
    assert len(state.ledger) <= FAN * levels < APPENDS / COMMITS_SPILLED
    assert not foldable(state.ledger)


@pytest.mark.parametrize("number", [0, 63, 64, 64 * FAN, APPENDS // 2, APPENDS - 1])
def test_a_token_is_found_with_one_blob_a_level(
    shard: tuple[MemoryBlob, State], number: int
) -> None:
    blob, state = shard
    counting = Counting(blob)

    found = find(counting, state, f"t{number}", 10 * number + 10)

    assert found is not None
    assert (found.token, found.lower) == (f"t{number}", 10 * number)
    assert len(counting.read) <= 3
    assert find(blob, state, f"t{number}", None) == found
    assert find(blob, state, "never", 10 * number + 10) is None


@pytest.mark.parametrize("number", [0, 63, 64 * FAN, APPENDS // 2, APPENDS - 300, None])
def test_a_token_of_an_unknown_interval_is_found_with_few_blobs(
    shard: tuple[MemoryBlob, State], number: int | None
) -> None:
    blob, state = shard
    counting = Counting(blob)

    found = find(counting, state, "never" if number is None else f"t{number}", None)

    assert (found is None) == (number is None)
    levels = max(map(keys.ledger_level, state.ledger))
    assert len(counting.read) <= len(state.ledger) + levels + 1
    assert len(counting.read) < len([*ledger_keys(blob, state.ledger)]) / 2


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes of three leaves of two commits: there are four levels after 200 appends."""
    for name, value in (("COMMITS_MAX", 3), ("COMMITS_SPILLED", 2), ("FAN", 3)):
        monkeypatch.setattr(commits, name, value)
    monkeypatch.setattr("strata.state.transitions.COMMITS_SPILLED", 2)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("forgetful", [True, False])
def test_marks_lead_to_every_token_through_all_levels(forgetful: bool) -> None:
    """Nodes of before there were marks are looked into; those folded from such have none."""
    blob = MemoryBlob()
    with pytest.MonkeyPatch.context() as patch:
        if forgetful:
            patch.setattr(commits, "encode_nodes", without_marks)
        state = grown(blob, 60)
    state = grown(blob, 200, state)
    assert max(map(keys.ledger_level, state.ledger)) >= 3
    for number in range(200):
        counting = Counting(blob)
        found = find(counting, state, f"t{number}", None)
        assert found is not None
        assert found.lower == 10 * number
        assert forgetful or len(counting.read) <= len(state.ledger) + 5
    without = Counting(blob)
    assert find(without, state, "never", None) is None
    assert (len(without.read) > len(state.ledger)) == forgetful


@pytest.mark.usefixtures("small")
def test_a_damaged_leaf_does_not_stop_who_appends() -> None:
    blob = MemoryBlob()
    state = grown(blob, 9)
    lost = state.ledger[0]
    blob.live.pop(lost)

    state = grown(blob, 40, state)

    assert lost not in state.ledger, "it was folded"
    with pytest.raises(Corrupt, match="missing"):
        find(blob, state, "t0", None)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("number", [0, 1, 57, 100, 198, 199])
def test_the_commit_of_a_time_and_those_after_it_are_found_through_all_levels(number: int) -> None:
    blob = MemoryBlob()
    state = grown(blob, 200)
    counting = Counting(blob)

    found = commit_at(blob, state, 10 * number + 9)
    later = [commit.token for commit in commits_after(counting, state, 10 * number)]

    assert found is not None
    assert found.token == f"t{number}"
    assert later == [f"t{n}" for n in range(199, number - 1, -1)]
    assert all(keys.ledger_range(key)[1] > 10 * number for key in counting.read)
    assert commit_at(blob, state, 2000) is None


def test_a_position_is_known_by_the_commit_that_ends_there_though_it_lasts_a_millisecond() -> None:
    blob, state = MemoryBlob(), create(spec(), 1)
    for number in range(3):
        state, _ = append(state, 100 + number, token=f"t{number}", lower=number, upper=number + 1)

    found = [commit_ms_before(blob, state, position) for position in (MIN_TIME, 1, 2, 3, 4)]

    assert found == [0, 100, 101, 102, 0]


def test_a_life_goes_on_where_the_commit_before_a_position_is_the_same() -> None:
    blob, begun = MemoryBlob(), create(spec(), 1)
    lived, _ = append(begun, 100, token="t", lower=0, upper=5)
    later, _ = append(lived, 200, token="u", lower=5, upper=9)
    other, _ = append(begun, 101, token="t", lower=0, upper=5)  # created again

    assert is_of_life(blob, lived, begun)
    assert is_of_life(blob, later, lived)
    assert not is_of_life(blob, lived, later), "restored to a point before it"
    assert not is_of_life(blob, other, lived)
    assert not is_of_life(blob, begun, lived)


@given(st.lists(st.text(max_size=3), min_size=1, max_size=300, unique=True), st.data())
def test_marks_leave_no_token_out(tokens: list[str], data: st.DataObject) -> None:
    marks = np.array(sorted(map(mark_of, tokens)), commits.MARKS).tobytes()
    key = keys.ledger_key("s", 0, 9, "ab" * 20)
    for token in data.draw(st.lists(st.sampled_from(tokens), max_size=20)):
        assert commits._Wanted(mark_of(token), None).may_be_under(key, marks)


def test_a_ledger_from_before_there_were_nodes_folds_little_by_little() -> None:
    blob = MemoryBlob()
    state = grown(blob, 64 * 3)
    flat = []
    for number in range(300):  # of earlier times
        old = tuple(Commit(f"old{number}-{i}", 1, 0, -number, 0, 0, 0, 0) for i in range(2))
        data = encode_commits(old)
        key = keys.ledger_key("events", -number, -number, keys.content_hash(data))
        blob.set(key, data)
        flat.append(key)
    sizes = []
    state = State(**{**vars_of(state), "ledger": (*reversed(flat), *state.ledger)})
    for appends in range(64 * 4, 64 * 12, 64):
        state = grown(blob, appends, state)
        sizes.append(len(state.ledger))

    assert max(before - after for before, after in pairwise(sizes)) < 8 * FAN
    assert sizes[-1] <= 3 * FAN
    assert {*flat} <= {*ledger_keys(blob, state.ledger)}
    assert all(find(blob, state, f"old{n}-1", -n) for n in range(300))


def vars_of(state: State) -> dict[str, object]:
    return {name: getattr(state, name) for name in State.__dataclass_fields__}


def test_a_node_that_is_missing_is_corrupt(shard: tuple[MemoryBlob, State]) -> None:
    blob, state = shard
    with pytest.raises(Corrupt, match="a ledger of old commits is missing"):
        find(MemoryBlob(), state, "t0", 10)
    with pytest.raises(Corrupt, match="a ledger of old commits is damaged"):
        find(Other(blob), state, "t0", 10)


class Other(MemoryBlob):
    """A store whose nodes hold something else."""

    def __init__(self, inner: MemoryBlob) -> None:
        super().__init__()
        self.inner = inner

    def get(self, key: str, start: int = 0, length: int | None = None) -> bytes | None:
        return b'{"format":1,"else":[]}' if keys.ledger_level(key) else self.inner.get(key)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    for name, value in (("COMMITS_MAX", 3), ("COMMITS_SPILLED", 2), ("FAN", 2)):
        monkeypatch.setattr(commits, name, value)
    monkeypatch.setattr("strata.state.transitions.COMMITS_SPILLED", 2)
    made = World()
    for number in range(30):
        made.append(number)
    return made


def test_a_sweep_leaves_the_whole_ledger(world: World) -> None:
    ledger = {*ledger_keys(world.blob, world.state.ledger)}
    assert max(map(keys.ledger_level, ledger)) >= 2
    assert len(world.state.ledger) < len(ledger)

    world.settle()

    assert {*world.stored("ledger")} == ledger
    for number in range(30):
        bounds = {"lower": 10 * number, "upper": 10 * number + 10}
        [done] = {world.machine.append("s", token=f"t{bounds['upper']}", **bounds).commit}
        assert done.lower == 10 * number
        with pytest.raises(InvalidRequest, match="already written"):
            world.machine.append("s", token="other", **bounds)


def node(world: World, *children: str) -> str:
    data = encode_nodes(LedgerNode(children, (None,) * len(children)))
    level = keys.ledger_level(children[0]) + 1
    key = keys.ledger_key("s", 0, 1000, keys.content_hash(data), level)
    world.blob.set(key, data)
    return key


def test_a_node_that_a_lost_race_left_goes_and_one_on_its_way_stays(world: World) -> None:
    world.settle()
    state = world.state
    inner = next(k for k in ledger_keys(world.blob, state.ledger) if k not in state.ledger)
    top = state.ledger[-1]
    folded, pending = node(world, top, inner), node(world, top)
    above = node(world, node(world, inner), pending)
    newer = tuple(Commit(f"new{i}", state.seqno + 9, 0, 0, 0, 0, 0, 0) for i in range(2))
    unseen = keys.ledger_key("s", 0, 10, keys.content_hash(encode_commits(newer)))
    world.blob.set(unseen, encode_commits(newer))  # a state newer than the one looked at has it
    waiting = node(world, unseen)
    gone = node(world, keys.ledger_key("s", 0, 10, "ab" * 20))

    report = gc.plan(world.stores, "s", SETTINGS, every=True)

    fates = {one.key: one.fate for one in (*report.dead, *report.others)}
    assert [fates[k] for k in (folded, above, gone)] == [Fate.DEAD] * 3
    assert [fates[k] for k in (pending, unseen, waiting)] == [Fate.YOUNG] * 3

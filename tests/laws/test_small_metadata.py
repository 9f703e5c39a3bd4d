"""Law 17: metadata is small. A commit writes what it changes; settings bound what is kept.

Sizes are counted in what is stored, not in what the code means to store.
"""

import random
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from benchmarks import states
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME
from strata.state import transitions, versions
from strata.state.codec import encode_state
from strata.state.holds import hold
from strata.state.state import Batch, RunSummary
from strata.state.versions import RUN_MAX, link_of
from strata.store.interface import Versioned
from strata.store.keys import BlobKind, parse_key, state_key
from strata.store.open import Stores, open_stores
from tests.support.shards import NAME, append, build, event

APPENDS = 40


def documents(stores: Stores) -> list[Versioned]:
    """Return all that the database holds of the shard."""
    return list(stores.consensus.scan(state_key(NAME), 0, 10**6))


def stored(stores: Stores) -> Counter[BlobKind]:
    """Return the bytes of blobs by what they are."""
    found: Counter[BlobKind] = Counter()
    for info in stores.blob.list(""):
        found[parse_key(info.key).kind] += info.size_bytes
    return found


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    """Return a shard of 13 columns to which 40 batches of two parts came that nobody merged."""
    events = build(tmp_path_factory.mktemp("small"))
    stores, machine = events.stores, Machine(events.stores)
    draw = random.Random(1)
    for number in range(APPENDS):
        lower = 3000 + 1000 * number
        rows = [(event(1000 + 40 * number + i, draw), lower + i, 1) for i in range(40)]
        append(stores, machine.load(NAME), rows, lower, "structured")
    return stores


def test_a_commit_writes_what_it_changes(stores: Stores) -> None:
    """Of an append: its batch, its commit, and how the few slots of the spine stand."""
    changes = [one for one in documents(stores) if link_of(one.data)]
    assert len(changes) > APPENDS / 2
    assert max(len(one.data) for one in changes) < 1_600
    state = Machine(stores).load(NAME)
    assert len(state.batches) == APPENDS + 3
    assert len(encode_state(state)) > 15_000, "most of it stays as it is"


def test_whole_documents_are_no_more_than_the_changes(stores: Stores) -> None:
    """So that all that is written is what changed, twice at most, and the newest whole one."""
    sizes = {True: 0, False: 0}
    largest = 0
    for one in documents(stores):
        sizes[link_of(one.data) is None] += len(one.data)
        largest = max(largest, len(one.data))
    assert sizes[True] <= 2 * sizes[False] + 2 * largest


def test_statistics_are_in_blobs_and_no_larger_than_manifests(stores: Stores) -> None:
    assert not any(
        b"ARROW" in one.data or b'stats_union":"' in one.data for one in documents(stores)
    )
    found = stored(stores)
    assert 0 < found[BlobKind.UNION] < found[BlobKind.MANIFEST]
    named = {batch.union for batch in Machine(stores).load(NAME).batches}
    unions = [i.key for i in stores.blob.list("") if parse_key(i.key).kind is BlobKind.UNION]
    assert named - {None} == set(unions), "one a batch, and none is written twice"


def test_what_is_kept_is_bounded(stores: Stores) -> None:
    """By the states that are kept, and what the oldest of them builds upon."""
    machine = Machine(stores)
    for number in range(3 * RUN_MAX):
        machine.apply(NAME, partial(hold, name=f"r{number}", since=3000, lease_ms=1))
    machine.forget(NAME, keep=10, keep_ms=-(10**12))
    assert 10 <= len(documents(stores)) <= 10 + RUN_MAX
    versions.forget_known()
    assert len(list(machine.states(NAME))) == len(documents(stores))


@pytest.mark.parametrize("shape", ["200 columns", "400 JSON paths"])
def test_a_state_of_100_batches_is_at_most_64_kib(shape: str, tmp_path: Path) -> None:
    """Of 10 real batches of two parts, and what each of them adds."""
    stores = open_stores(StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/c.db"))
    Machine(stores).create(states.spec_of(states.SHAPES[shape](0)))
    sizes = []
    for number in range(10):
        states.append(stores, number, states.SHAPES[shape], 2)
        sizes.append(len(encode_state(Machine(stores).load(states.SHARD))))
    one = (sizes[9] - sizes[4]) / 5
    assert one < 450, "a batch, its runs and its commit; of one part some 300"
    assert sizes[9] + 90 * one < 64 * 1024


def test_a_state_of_the_longest_values_is_at_most_64_kib() -> None:
    """100 batches in a shard of 200 columns, every number as long as real ones are."""
    columns = [{"name": f"measure_{n}", "type": "float64"} for n in range(200)]
    declared = parse_spec({"name": "measurements", "columns": columns, "key": ["measure_0"]})
    state = transitions.create(declared, 1_750_000_000_000)
    sort = state.relation.sort_ids
    for number in range(100):
        lower = 1_750_000_000_000 + 3_600_000 * number
        key = f"shards/measurements/{{}}/g12/{number:040x}.arrow"
        batch = Batch(
            lower, lower + 3_600_000, MIN_TIME, 987_654, 98_765_432, 4,
            (RunSummary(4, 987_654, 98_765_432, sort),), key.format("manifests"),
            (("structured", 4),), 4, 40_960, None, 987_654, 2**64 - 1 - number,
            union=key.format("unions"),
        )  # fmt: skip
        token = f"scheduled__2026-11-24T00:00:00+00:00-{number}"
        state, _ = transitions.append(
            state,
            lower + 99_999_999,
            token=token,
            lower=lower,
            upper=lower + 3_600_000,
            batch=batch,
        )
    assert len(state.batches) >= 100
    assert len(encode_state(state)) < 64 * 1024

"""A judgement at its edges: the last millisecond that a blob is kept for, and the first beyond."""

from dataclasses import replace
from functools import partial

import pytest

from strata import gc
from strata.errors import Corrupt
from strata.gc.reach import reach
from strata.gc.verdicts import SEEN_DAYS, Fate, Judge
from strata.maintain.estimate import RUNS_MAX
from strata.model.settings import GcSettings, Settings, UsageSettings
from strata.state.codec import LedgerNode, encode_commits, encode_nodes
from strata.state.state import State
from strata.state.step import step
from strata.store import keys
from strata.store.interface import BlobInfo
from tests.support.garbage import HOUR, SETTINGS, World

DAY = 24 * HOUR
NOON = 1_700_000_000_000 // DAY * DAY + 12 * HOUR  # of 2023-11-14


def fate(world: World, key: str, settings: Settings = SETTINGS) -> Fate:
    report = gc.plan(world.stores, "s", settings, every=True)
    [found] = [one for one in (*report.dead, *report.others) if one.key == key]
    return found.fate


def put(world: World, key: str, age_ms: int = 0) -> str:
    world.blob.set(key, b"x")
    world.blob.live[key] = (b"x", world.now_ms - age_ms)
    return key


@pytest.mark.parametrize(
    ("key", "days"),
    [
        (keys.verdict_key("s", "run"), SETTINGS.gc.verdict_days),
        (keys.seen_key("s", "00ff"), SEEN_DAYS),
        (keys.quarantine_key("s", "never/00ff"), SETTINGS.gc.reject_days),
    ],
)
def test_history_is_kept_to_the_last_millisecond_of_its_days(key: str, days: int) -> None:
    world = World()

    assert fate(world, put(world, key, days * DAY)) is Fate.LIVE
    assert fate(world, put(world, key, days * DAY + 1)) is Fate.DEAD


def test_the_list_of_what_was_audited_is_kept_for_a_validation_under_way() -> None:
    assert SEEN_DAYS == 2


def test_the_days_are_those_of_the_settings() -> None:
    wanted = GcSettings(verdict_days=3, reject_days=4, grace_ms=HOUR)
    world, settings = World(), Settings(gc=wanted)
    for key, days in ((keys.verdict_key("s", "r"), 3), (keys.quarantine_key("s", "n/00ff"), 4)):
        assert fate(world, put(world, key, days * DAY), settings) is Fate.LIVE
        assert fate(world, put(world, key, days * DAY + 1), settings) is Fate.DEAD


@pytest.mark.parametrize(("age_ms", "kept"), [(HOUR, True), (HOUR + 1, False)])
def test_history_that_is_kept_for_no_day_still_has_its_grace(age_ms: int, kept: bool) -> None:
    world = World()
    settings = Settings(gc=replace(SETTINGS.gc, verdict_days=0))
    key = put(world, keys.verdict_key("s", "run"), age_ms)

    assert fate(world, key, settings) is (Fate.YOUNG if kept else Fate.DEAD)


def test_a_generation_at_the_fence_may_still_be_committed_and_one_behind_it_may_not() -> None:
    world = World()
    world.sweep()
    world.sweep()
    fence, generation = world.state.fence, world.state.generation
    assert generation > fence > 0
    at, behind, ahead = (
        put(world, keys.part_key(keys.part_prefix("s", number), f"{number:04x}"))
        for number in (fence, fence - 1, generation)
    )

    assert [fate(world, key) for key in (at, behind, ahead)] == [Fate.YOUNG, Fate.DEAD, Fate.YOUNG]


def test_a_blob_of_a_generation_that_began_meanwhile_is_young() -> None:
    """Another sweep closed the one of the state that this sweep has looked at."""
    world = World()
    found = reach(world.machine, world.state, world.state.fence, world.now_ms)
    judge = Judge(world.machine, found, SETTINGS.gc, SETTINGS.usage, world.now_ms, [])
    world.sweep()
    begun = world.state.generation
    assert begun > found.head.generation
    at, ahead = (keys.part_key(keys.part_prefix("s", n), "ab") for n in (begun, begun + 1))

    assert judge.judge(BlobInfo(at, 1, world.now_ms)).fate is Fate.YOUNG
    with pytest.raises(Corrupt, match="still to come"):
        judge.judge(BlobInfo(ahead, 1, world.now_ms))


def test_the_log_of_filters_is_kept_for_its_days() -> None:
    world = World(time=[NOON])
    settings = replace(SETTINGS, usage=UsageSettings(days=3))
    first = put(world, keys.usage_key("s", "2023-11-11", "007"))
    before = put(world, keys.usage_key("s", "2023-11-10", "007"))

    assert fate(world, first, settings) is Fate.LIVE
    assert fate(world, before, settings) is Fate.DEAD


def test_a_day_that_is_summed_up_keeps_its_summary_alone_and_today_keeps_all() -> None:
    world = World(time=[NOON])
    log = {
        (day, name): put(world, keys.usage_key("s", day, name))
        for day in ("2023-11-12", "2023-11-13", "2023-11-14")
        for name in ("007", "summary")
        if (day, name) != ("2023-11-12", "summary")
    }

    assert {place: fate(world, key) for place, key in log.items()} == {
        ("2023-11-12", "007"): Fate.LIVE,
        ("2023-11-13", "007"): Fate.DEAD,
        ("2023-11-13", "summary"): Fate.LIVE,
        ("2023-11-14", "007"): Fate.LIVE,
        ("2023-11-14", "summary"): Fate.LIVE,
    }


def test_the_speed_of_the_last_backfills_is_kept() -> None:
    world = World()
    every = [put(world, keys.backfill_key("s", n, "00ff")) for n in range(1000, 1002 + RUNS_MAX)]
    put(world, keys.usage_key("s", "2999-01-01", "007"))  # small as well, and no backfill

    fates = [fate(world, key) for key in every]

    assert fates == [Fate.DEAD] * 2 + [Fate.LIVE] * RUNS_MAX


def test_a_held_blob_says_who_may_read_it() -> None:
    world = World()
    world.append(1, 3)
    world.append(2, 4)
    before = world.state
    world.compact()

    report = gc.plan(world.stores, "s", SETTINGS, every=True)

    held = [one for one in report.others if one.fate is Fate.HELD]
    assert len(held) == 4
    assert {one.reason for one in held} == {
        f"state {before.seqno} names it, and a reader may have planned then"
    }


def test_the_certificate_of_an_erasure_is_kept() -> None:
    world = World()

    assert fate(world, put(world, keys.erasure_key("s", "e1"), 9999 * DAY)) is Fate.LIVE


def spilled(state: State, now_ms: int, *, ledger: str) -> tuple[State, None]:
    return step(state, now_ms, commits=(), ledger=(ledger,)), None


def test_rejected_rows_of_a_commit_stay_though_only_the_ledger_remembers_it() -> None:
    world = World()
    world.append(1)  # under the token t10
    data = encode_commits(world.state.commits)
    ledger = put(world, keys.ledger_key("s", 0, 10, keys.content_hash(data)))
    world.blob.live[ledger] = (data, world.now_ms)
    world.machine.apply("s", partial(spilled, ledger=ledger))
    kept, gone = (keys.quarantine_key("s", f"{token}/00ff") for token in ("t10", "never"))
    for key in (kept, gone):
        put(world, key, 999 * DAY)

    assert (fate(world, kept), fate(world, gone)) == (Fate.LIVE, Fate.DEAD)


def test_a_leaf_of_the_ledger_with_a_commit_that_is_newer_than_the_state_is_young() -> None:
    """The state that spills it may be under way, or be there already."""
    world = World()
    world.append(1)
    head = world.state
    newer = replace(head.commits[0], token="new", seqno=head.seqno + 1)
    for spilled_now in ((*head.commits, newer), (newer,)):
        data = encode_commits(spilled_now)
        leaf = put(world, keys.ledger_key("s", 0, 10, keys.content_hash(data)))
        world.blob.live[leaf] = (data, world.now_ms)

        assert fate(world, leaf) is Fate.YOUNG


def test_a_node_of_the_ledger_is_lost_with_one_of_its_leaves() -> None:
    world = World()
    world.append(1)
    data = encode_commits(world.state.commits)
    leaf = put(world, keys.ledger_key("s", 0, 10, keys.content_hash(data)))
    world.blob.live[leaf] = (data, world.now_ms)
    world.machine.apply("s", partial(spilled, ledger=leaf))
    gone = keys.ledger_key("s", 11, 20, "00ff")
    fates = []
    for leaves in ((leaf,), (leaf, gone)):
        held = encode_nodes(LedgerNode(leaves, (None,) * len(leaves)))
        node = keys.ledger_key("s", 0, 20, keys.content_hash(held), level=1)
        world.blob.set(node, held)
        fates.append(fate(world, node))

    assert fates == [Fate.YOUNG, Fate.DEAD]

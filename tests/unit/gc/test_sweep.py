"""What a sweep deletes and what it leaves, kind by kind, with the reason for each blob."""

from dataclasses import replace
from functools import partial

import pytest

from strata import gc
from strata.errors import Corrupt
from strata.gc import live
from strata.gc.sweep import purge
from strata.gc.verdicts import Fate
from strata.machine.machine import Machine
from strata.machine.named import pointers
from strata.machine.writer_lease import LEASE_MS, Lease
from strata.maintain.estimate import RUNS_MAX, Speed, record_speed
from strata.model.settings import GcSettings, Settings
from strata.state.codec import encode_commits
from strata.state.generations import register
from strata.state.holds import hold, release
from strata.state.rollout import record_verdicts
from strata.state.state import Commit, Evidence, State
from strata.state.step import step
from strata.store import keys
from tests.support.garbage import HOUR, SETTINGS, World

DAY = 24 * HOUR


@pytest.fixture(params=[live.NAMES_MAX, 2], ids=["by name", "by number"])
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> World:
    """A shard whose live parts are known by their names, or by numbers, as those of a large one."""
    monkeypatch.setattr(live, "NAMES_MAX", request.param)
    return World()


def fates(report: gc.SweepReport) -> dict[str, int]:
    return {fate: blobs for fate, (blobs, _) in report.counts.items()}


def fate_of(world: World, key: str) -> tuple[Fate, str]:
    """Return what a sweep would do with a blob, once two more sweeps have passed."""
    world.settle()
    report = gc.plan(world.stores, "s", SETTINGS, every=True)
    [found] = [one for one in (*report.dead, *report.others) if one.key == key]
    return found.fate, found.reason


def test_what_compaction_left_behind_goes_and_nothing_else(world: World) -> None:
    for number in range(4):
        world.append(*range(number, 400, 4))
    before = world.stored()
    world.compact()
    live = set(world.stored()) - set(before)

    assert world.settle() == len(before)
    assert set(world.stored()) == live
    world.check()
    assert world.settle() == 0


def test_what_the_first_sweeps_leave_has_its_reason(world: World) -> None:
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    world.compact()
    orphan = world.write([3])

    first, second = world.sweep(), world.sweep()

    assert (fates(first), first.fence) == ({"live": 2, "held": 4, "young": 2}, 0)
    assert (fates(second), second.fence) == ({"live": 2, "dead": 6}, 1)
    assert (first.deleted, second.deleted) == (0, 6)
    assert orphan.manifest not in world.stored()


def test_a_plan_says_what_a_sweep_does_and_changes_nothing(world: World) -> None:
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    world.compact()
    for _ in range(4):
        world.now_ms += HOUR
        stored, state = world.stored(), world.state
        planned = gc.plan(world.stores, "s", SETTINGS)
        assert (world.stored(), world.state) == (stored, state)
        done = gc.collect(world.stores, "s", SETTINGS)
        assert [(b.key, b.reason) for b in planned.dead] == [(b.key, b.reason) for b in done.dead]
        assert (planned.dry_run, done.dry_run) == (True, False)
        assert done.deleted == len(done.dead)
        assert all(b.reason for b in done.dead)


def test_a_young_generation_is_not_closed(world: World) -> None:
    world.sweep()
    generation = world.state.generation

    report = world.sweep(hours=0.5)

    assert report.generation == world.state.generation == generation


def test_a_hold_keeps_what_it_reads_until_it_is_released_or_long_expired(world: World) -> None:
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    take = partial(hold, name="reader", since=0, lease_ms=100 * HOUR)
    world.machine.apply("s", take)
    planned = world.state
    world.compact()

    world.settle()

    assert world.read(planned) == [1, 2, 3, 4]
    assert gc.plan(world.stores, "s", SETTINGS).held_by == ("reader",)
    world.now_ms += 97 * HOUR + 1  # expired by a moment: its clock may be behind ours
    world.sweep(hours=0)
    assert world.read(planned) == [1, 2, 3, 4]
    assert world.settle() == 4
    world.check()


def test_released_holds_keep_nothing(world: World) -> None:
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    world.machine.apply("s", partial(hold, name="reader", since=0, lease_ms=100 * HOUR))
    world.compact()
    world.settle()

    world.machine.apply("s", partial(release, name="reader"))

    assert world.settle() == 4
    world.check()


def test_deleted_blobs_can_be_restored_until_they_are_purged(world: World) -> None:
    dead = world.write([1]).manifest
    assert dead is not None
    assert world.settle() == 2
    assert dead not in world.stored()

    world.blob.restore(dead)

    assert dead in world.stored()
    assert purge(world.stores, SETTINGS) == 0  # memory keeps no time of deletion


def test_every_pointer_of_a_state_counts_whatever_its_field(world: World) -> None:
    """A field that joins the state later is found by its value; see `pointers`."""
    world.append(1)
    ledger = keys.ledger_key("s", 0, 10, "ab" * 20)
    state = replace(world.state, ledger=(ledger,), verdicts=(keys.verdict_key("s", "run"),))
    lied = replace(state.rollout, quarantine=(keys.part_key(keys.part_prefix("s"), "cd" * 20),))

    found = pointers(replace(state, rollout=lied))

    manifests = {b.manifest for b in state.batches}
    assert found == {*manifests, ledger, keys.verdict_key("s", "run")}


def test_verdicts_are_kept_as_evidence_for_their_days(world: World) -> None:
    key = keys.verdict_key("s", "old")
    world.blob.set(key, b"table")
    world.blob.live[key] = (b"table", world.now_ms)

    assert fate_of(world, key) == (Fate.LIVE, "evidence of soft evaluation, kept for 400 days")
    world.now_ms += 401 * DAY
    assert world.sweep(hours=0).deleted == 1
    named = keys.verdict_key("s", "named")
    world.blob.set(named, b"table")
    world.machine.apply("s", partial(record_verdicts, key=named))
    world.blob.live[named] = (b"table", 0)  # as old as can be, and named
    assert fate_of(world, named)[0] is Fate.LIVE


def test_verdicts_on_their_way_into_a_state_stay_whatever_the_days(world: World) -> None:
    """They are written first and named then; found by 50 shards at once with `verdict_days` 0."""
    settings = replace(SETTINGS, gc=replace(SETTINGS.gc, verdict_days=0, reject_days=0))
    for key in (keys.verdict_key("s", "new"), keys.quarantine_key("s", "new/00ff")):
        world.blob.set(key, b"table")
        world.blob.live[key] = (b"table", world.now_ms)
    world.now_ms += 1

    report = gc.plan(world.stores, "s", settings, every=True)
    assert {one.fate for one in report.others} == {Fate.YOUNG}
    world.now_ms += settings.gc.grace_ms
    assert gc.collect(world.stores, "s", settings).deleted == 2


def test_rejected_rows_of_a_commit_stay_and_those_of_none_go(world: World) -> None:
    kept = keys.quarantine_key("s", "t10/00ff")
    gone = keys.quarantine_key("s", "never/00ff")
    for key in (kept, gone):
        world.blob.set(key, b"{}")
        world.blob.live[key] = (b"{}", world.now_ms)
    world.append(1)  # under the token t10

    assert fate_of(world, gone)[0] is Fate.LIVE
    world.now_ms += 31 * DAY
    world.settle()

    assert kept in world.stored()
    assert gone not in world.stored()


def test_a_spilled_ledger_that_lost_its_race_goes_and_one_on_its_way_stays(world: World) -> None:
    world.append(1)
    [commit] = world.state.commits
    pending, lost = (
        keys.ledger_key("s", 0, 10, keys.content_hash(encode_commits(commits)))
        for commits in ((commit,), (commit, Commit("gone", 1, 0, 0, 0, 0, 0, 0)))
    )
    world.blob.set(pending, encode_commits((commit,)))
    world.blob.set(lost, encode_commits((commit, Commit("gone", 1, 0, 0, 0, 0, 0, 0))))
    broken = keys.ledger_key("s", 3, 4, "00ff")
    world.blob.set(broken, b"not commits")

    assert fate_of(world, pending)[0] is Fate.YOUNG
    assert lost not in world.stored()
    assert fate_of(world, broken)[0] is Fate.UNKNOWN


def test_logs_of_filters_and_of_backfills_are_bounded(world: World) -> None:
    world.now_ms = 1_700_000_000_000  # 2023-11-14
    old, folded, summary, today = (
        keys.usage_key("s", day, name)
        for day, name in (
            ("2023-10-01", "007"),
            ("2023-11-13", "007"),
            ("2023-11-13", "summary"),
            ("2023-11-14", "007"),
        )
    )
    for key in (old, folded, summary, today):
        world.blob.set(key, b"[]")
    for number in range(RUNS_MAX + 3):
        world.blob.set(keys.backfill_key("s", number, "00ff"), b"{}")

    world.sweep(hours=0)

    assert world.stored("usage") == [summary, today]
    assert len(world.stored("backfills")) == RUNS_MAX
    record_speed(world.stores, "s", Speed(1, 1, 1, whole=True))
    assert len(world.stored("backfills")) == RUNS_MAX


def test_what_is_not_understood_is_left_alone_and_told(world: World) -> None:
    foreign = "shards/s/parts-of-somebody/x"
    world.blob.set(foreign, b"?")

    world.settle()

    [left] = gc.plan(world.stores, "s", SETTINGS).others
    assert (left.key, left.fate) == (foreign, Fate.UNKNOWN)


def test_of_a_dropped_shard_nothing_stays_but_not_at_once(world: World) -> None:
    world.append(1)
    world.machine.drop("s", by="ann", reason="a trial")

    assert "lately" in world.sweep(hours=0).idle_reason
    assert world.stored()
    world.sweep()

    assert world.stored() == []
    assert gc.find_leaks(world.stores, SETTINGS).clean


def audited(state: State, now_ms: int, *, seen: str) -> tuple[State, None]:
    return step(state, now_ms, rollout=replace(state.rollout, evidence=Evidence(seen=seen))), None


def test_of_a_dropped_shard_the_list_of_what_was_audited_goes_as_well(world: World) -> None:
    """Its state keeps the figures of the evidence, which name that blob; no pool reads it."""
    world.append(1)
    seen = keys.seen_key("s", "00ff")
    world.blob.set(seen, b"table")
    world.machine.apply("s", partial(audited, seen=seen))
    assert fate_of(world, seen)[0] is Fate.LIVE
    world.machine.drop("s", by="ann", reason="a trial")

    world.sweep()

    assert world.stored() == []


def test_a_missing_manifest_stops_the_sweep_before_anything_is_deleted(world: World) -> None:
    world.append(1)
    lost = world.append(2).manifest
    assert lost is not None
    world.write([3])  # garbage
    world.sweep()
    whole = world.blob.get(lost)
    assert whole is not None
    world.blob.delete(lost)
    world.blob.expunge(lost)
    stored = world.stored()

    world.now_ms += HOUR
    with pytest.raises(Corrupt, match="missing"):
        gc.collect(world.stores, "s", SETTINGS)
    assert world.stored() == stored
    world.blob.set(lost, whole)
    assert world.settle() == 2


def test_blobs_ahead_of_the_state_mean_that_the_consensus_store_is_another(world: World) -> None:
    """An old copy of the database names few of the blobs: all the others would be 'dead'."""
    world.append(1)
    key = keys.part_key(keys.part_prefix("s", 9), "00ff")
    world.blob.set(key, b"of a later life")

    for _ in range(3):
        world.now_ms += HOUR
        with pytest.raises(Corrupt, match="still to come"):
            gc.collect(world.stores, "s", SETTINGS)
    world.check()


def test_the_leak_detector_sees_both_directions(world: World) -> None:
    world.append(1)
    gone = world.append(2).manifest
    assert gc.find_leaks(world.stores, SETTINGS).clean
    zombie = world.write([5], world.state)
    world.settle()
    stray, homeless = "shards/s/x", keys.manifest_key("nobody", "00ff")
    for key in (stray, homeless):
        world.blob.set(key, b"?")
    assert zombie.manifest is not None
    world.blob.restore(zombie.manifest)
    [part] = [k for k in world.state_parts() if k][:1]
    world.blob.delete(part)

    found = gc.find_leaks(world.stores, SETTINGS)

    assert found.missing == (part,)
    assert {one.key for one in found.overdue} == {zombie.manifest}
    assert {one.key for one in found.strays} == {stray, homeless}
    document = found.to_json()
    assert (document["clean"], document["leaked"]) == (False, 3)
    assert gone not in document["missing"]
    assert document["shards"][0]["live"] == 3


def test_settings_that_wait_for_nothing_need_two_sweeps(world: World) -> None:
    """Whoever is sure that nobody writes can insist: the fence still is one sweep behind."""
    at_once = Settings(gc=GcSettings(grace_ms=0))
    world.append(1, 3)
    world.append(2, 4)  # between those: a merge keeps neither part as it is
    world.compact()

    deleted = [gc.collect(world.stores, "s", at_once).deleted for _ in range(4)]

    assert sum(deleted) == 4
    assert deleted[0] == 0
    world.check()
    assert Machine(world.stores).load("s").generation == 4


def test_a_clock_that_was_a_year_ahead_stops_no_sweep(world: World) -> None:
    world.append(1, 3)
    world.append(2, 4)
    world.now_ms += 365 * DAY
    world.sweep()
    killed = Lease(world.machine, "s", "compact")
    world.machine.apply("s", partial(register, name=killed.name, lease_ms=LEASE_MS))
    world.now_ms -= 365 * DAY
    world.compact()
    orphan = world.write([5])

    world.sweep()  # from now on the generation has its grace
    assert world.settle() > 0

    assert orphan.manifest not in world.stored()
    world.check()


def test_a_drop_by_a_clock_that_was_a_year_ahead_waits_no_year(world: World) -> None:
    world.append(1)
    world.now_ms += 365 * DAY
    world.machine.drop("s", by="ann", reason="a trial")
    world.now_ms -= 365 * DAY

    assert "lately" in world.sweep(hours=0).idle_reason
    assert world.stored()  # whoever read it when it was dropped has a grace from now on
    world.sweep()
    assert world.stored() == []


def test_a_drop_by_a_clock_that_differs_a_little_keeps_its_time(world: World) -> None:
    world.append(1)
    world.now_ms += DAY
    stone = world.machine.drop("s", by="ann", reason="a trial")
    world.now_ms -= DAY
    world.sweep()

    assert world.stored()
    assert world.machine.load("s", dropped=True).dropped == stone


def test_a_writer_at_work_outlives_the_mending_of_its_clock(world: World) -> None:
    world.now_ms += 365 * DAY
    with Lease(world.machine, "s", "ingest") as lease:
        world.now_ms -= 365 * DAY
        with Lease(world.machine, "s", "another"):
            lease.renew()
        [writer] = world.state.writers
        assert writer.expires_ms == world.now_ms + LEASE_MS

"""A backup brings back what there was, whole or not at all, whatever happens meanwhile."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

import pytest

from strata import gc
from strata.backup import Backup, back_up, drop_points, restore, verify_point, verify_shard
from strata.backup.point import BEGUN, FOLDER, Point
from strata.backup.save import HISTORY
from strata.errors import Corrupt, Fenced, InvalidRequest, Unavailable
from strata.history.journal import journal_spec
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.state.holds import hold
from strata.state.state import Rollout
from strata.state.step import step
from strata.store import keys
from strata.store.memory import MemoryBlob
from strata.store.open import open_stores
from strata.store.retry import Patience, retry
from tests.support.failing_stores import CrashError, Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.support.garbage import SETTINGS, SPEC, World

WHO = {"by": "ann", "reason": "the disk is gone"}
_numbers = count()


@pytest.fixture
def world() -> World:
    world = World()
    for number in range(3):
        world.append(*range(number, 300, 3))
    return world


@pytest.fixture
def target() -> MemoryBlob:
    return MemoryBlob()


def lost(world: World) -> World:
    """Return a view of the same shard on stores that hold nothing."""
    other = World.__new__(World)
    other.__dict__.update(world.__dict__)
    other.ids = [*world.ids]
    name = f"memory://lost-{next(_numbers)}"
    other.inner = open_stores(StoreSettings(name, name), clock=lambda: world.now_ms)
    other.stores = other.inner
    return other


def clean(world: World) -> bool:
    return gc.find_leaks(world.inner, SETTINGS).clean


def dropped_long_ago(world: World, target: MemoryBlob) -> None:
    """Back the shard up and drop it, so long ago that a sweep takes it."""
    back_up(world.stores, target, SETTINGS)
    world.machine.drop("s", by="ben", reason="by mistake")
    world.now_ms += 2 * SETTINGS.gc.grace_ms


def test_what_is_lost_comes_back(world: World, target: MemoryBlob) -> None:
    point = back_up(world.stores, target, SETTINGS).point
    saved = world.state

    new = lost(world)
    report = restore(new.stores, Backup(target), **WHO)

    assert report.point == point
    new.check()
    assert clean(new)
    state = new.state
    kept = ("spec", "relations", "since", "upper", "spine", "commits", "ledger", "consumed")
    assert all(getattr(state, name) == getattr(saved, name) for name in kept)
    assert state.seqno > point.shards[0].seqno
    [last] = state.rollout.entries[-1:]
    assert (last.what, last.by, last.reason) == ("restored", "ann", "the disk is gone")
    first = saved.commits[0]
    again = new.machine.append("s", token=first.token, lower=first.lower, upper=first.upper)
    assert again.already_committed
    new.append(1_000)
    new.compact()
    new.settle()
    new.check()


def test_a_point_copies_only_what_is_new(world: World, target: MemoryBlob) -> None:
    first = back_up(world.stores, target, SETTINGS)
    assert first.copied == len(set(target.live) - set(documents(target)))
    assert back_up(world.stores, target, SETTINGS).copied == 0
    world.append(500)
    added = back_up(world.stores, target, SETTINGS)
    assert added.copied == 2, "a part and a manifest"
    assert len(Backup(target).names()) == 3


def test_the_newest_point_is_the_last_one_also_where_the_clock_went_back(
    world: World, target: MemoryBlob
) -> None:
    """A point is found by its name, and by default the newest comes back."""
    began_ms, points = world.now_ms, []
    for back_ms in (0, 0, 3_600_000, 400 * 86_400_000):
        world.now_ms = began_ms - back_ms
        points.append(back_up(world.stores, target, SETTINGS).point)
        world.append(5_000 + len(points))

    assert Backup(target).names() == [point.name for point in points]
    assert Backup(target).point() == points[-1]
    assert points[-1].at_ms < points[0].at_ms, "it says what the clock said"


def test_a_point_of_the_same_moment_has_the_next_name(world: World, target: MemoryBlob) -> None:
    target.set(f"{FOLDER}20380119T031407.999-ffff/point.json", b"")

    point = back_up(world.stores, target, SETTINGS).point.name

    assert point.startswith("20380119T031408.000-")


def test_a_point_knows_what_only_earlier_ones_have(world: World, target: MemoryBlob) -> None:
    world.machine.create(replace(SPEC, name="other"))
    back_up(world.stores, target, SETTINGS)
    both = back_up(world.stores, target, SETTINGS).point
    one = back_up(world.stores, target, SETTINGS, ["s"]).point
    backup = Backup(target)
    assert backup.point() == one
    assert backup.only_before(one) == {"other": both.name}
    assert backup.only_before(both) == {}


def test_a_backup_leaves_no_mark_that_nobody_removes(world: World, target: MemoryBlob) -> None:
    for _ in range(3):
        back_up(world.stores, target, SETTINGS)
    assert target.deleted == {}
    assert [key for key in target.live if BEGUN in key] == []


def documents(target: MemoryBlob) -> list[str]:
    return [key for key in target.live if key.startswith(FOLDER)]


def test_each_point_is_a_state_of_its_own(world: World, target: MemoryBlob) -> None:
    ids, points = [], []
    for number in range(3):
        world.append(1_000 + number)
        world.now_ms += 1_000
        points.append(back_up(world.stores, target, SETTINGS).point.name)
        ids.append(sorted(world.ids))
    world.compact()
    world.settle()

    for name, there in zip(points, ids, strict=True):
        new = lost(world)
        restore(new.stores, Backup(target), point=name, **WHO)
        assert new.read() == there
    assert Backup(target).names() == points
    with pytest.raises(InvalidRequest, match="no such point"):
        restore(lost(world).stores, Backup(target), point="20200101T000000-abcdef", **WHO)
    with pytest.raises(InvalidRequest, match="there is no backup here"):
        restore(lost(world).stores, Backup(MemoryBlob()), **WHO)


@pytest.mark.parametrize("deleted", [False, True])
def test_a_sweep_of_the_dropped_shard_takes_nothing_of_what_came_back(
    world: World, target: MemoryBlob, deleted: bool
) -> None:
    """It has judged all blobs when the shard comes back, and deletes before or after."""
    rejects = keys.quarantine_key("s", "t1")
    world.blob.set(rejects, b'{"line": 1}\n')
    dropped_long_ago(world, target)

    def runner(work: Callable[[str], int | None], blobs: list[str]) -> list[int | None]:
        assert rejects in blobs
        if deleted:
            sizes = [work(key) for key in blobs]
            restore(world.stores, Backup(target), **WHO)
            return sizes
        restore(world.stores, Backup(target), **WHO)
        return [work(key) for key in blobs]

    report = gc.collect(world.inner, "s", SETTINGS, runner)  # type: ignore[arg-type]

    assert "came back" in report.idle_reason
    assert rejects in world.blob.live, "the rows that were rejected"
    assert verify_shard(world.inner, "s", SETTINGS).wrong == ()
    world.check()


@pytest.mark.parametrize("late", ["parts", "manifests", "all"])
def test_what_a_killed_sweep_took_of_a_shard_that_came_back_is_restored_by_the_next(
    world: World, target: MemoryBlob, late: str
) -> None:
    """Its last delete was under way when the shard came back, and it never looked again."""
    dropped_long_ago(world, target)

    def runner(_: Callable[[str], int | None], blobs: list[str]) -> list[int | None]:
        restore(world.stores, Backup(target), **WHO)
        for key in blobs:
            if late == "all" or f"/{late}/" in key:
                world.blob.delete(key)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gc.collect(world.inner, "s", SETTINGS, runner)  # type: ignore[arg-type]
    assert verify_shard(world.inner, "s", SETTINGS).wrong

    assert gc.collect(world.inner, "s", SETTINGS).restored > 0

    assert verify_shard(world.inner, "s", SETTINGS).wrong == ()
    world.check()
    assert gc.collect(world.inner, "s", SETTINGS).restored == 0


def test_a_sweep_of_a_dropped_shard_ends_its_deletes_when_the_shard_comes_back(
    world: World, target: MemoryBlob
) -> None:
    """So a kill before it looks again costs at most the delete that is under way."""
    dropped_long_ago(world, target)

    def runner(work: Callable[[str], int | None], blobs: list[str]) -> list[int | None]:
        restore(world.stores, Backup(target), **WHO)
        assert [work(key) for key in blobs] == [None] * len(blobs)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        gc.collect(world.inner, "s", SETTINGS, runner)  # type: ignore[arg-type]

    assert verify_shard(world.inner, "s", SETTINGS).wrong == ()
    world.check()


def test_a_dropped_shard_comes_back_though_its_blobs_are_swept(
    world: World, target: MemoryBlob
) -> None:
    began = world.state
    back_up(world.stores, target, SETTINGS)
    late = world.write([77], began)
    world.machine.drop("s", by="ben", reason="by mistake")
    for _ in range(3):
        world.sweep(hours=30)
    assert world.stored("parts") == []

    restore(world.stores, Backup(target), **WHO)

    world.check()
    with pytest.raises(Fenced):
        world.commit(late, [77])
    world.settle()
    world.check()
    assert clean(world)


def test_what_comes_back_is_of_a_later_generation_than_all_that_is_stored(
    world: World, target: MemoryBlob
) -> None:
    """A writer of any life before may still write, and none of them may commit."""
    back_up(world.stores, target, SETTINGS)
    new = lost(world)
    for generation in (7, 3):
        new.blob.set(keys.part_key(keys.part_prefix("s", generation), "00ff"), b"of another life")

    restore(new.stores, Backup(target), **WHO)

    assert new.state.generation == 8


def test_a_journal_that_is_named_is_not_replaced_either(world: World, target: MemoryBlob) -> None:
    """Without a name those that are there are left alone: any command makes them."""
    name = "strata_operations"
    world.machine.create(journal_spec(name, Line, ("what",)), journal=True)
    back_up(world.stores, target, SETTINGS)
    world.machine.drop("s", by="ben", reason="by mistake")

    with pytest.raises(InvalidRequest, match="is not replaced"):
        restore(world.stores, Backup(target), names=[name], **WHO)
    report = restore(world.stores, Backup(target), **WHO)
    assert report.left_alone == (name,)
    assert [one.copied for one in report.shards] == [0], "all blobs are still there"


def test_what_exists_is_never_replaced(world: World, target: MemoryBlob) -> None:
    back_up(world.stores, target, SETTINGS)
    world.append(700)
    before = world.state
    with pytest.raises(InvalidRequest, match="is not replaced"):
        restore(world.stores, Backup(target), **WHO)
    assert restore(world.stores, Backup(target), missing=True, **WHO).shards == ()
    with pytest.raises(InvalidRequest, match="not replaced"):
        world.machine.bring_back(before, generation=9, **WHO)
    assert world.state == before


def test_skipping_is_earned_again_and_nobody_of_then_is_alive(
    world: World, target: MemoryBlob
) -> None:
    """Since then a lie may have been found: what a backup says of trust is old."""

    def trusted(state, now_ms):  # type: ignore[no-untyped-def]
        rollout = Rollout("on", 50, now_ms, "ann", "", ("5",), "basis")
        return step(state, now_ms, rollout=rollout), None

    world.machine.apply("s", trusted)
    world.machine.apply("s", partial(hold, name="reader", since=0, lease_ms=10**9))
    back_up(world.stores, target, SETTINGS)
    new = lost(world)

    report = restore(new.stores, Backup(target), **WHO)

    rollout = new.state.rollout
    assert (rollout.mode, rollout.audit_percent, rollout.basis) == ("soft", 0, "")
    assert rollout.quarantine == ("5",)
    assert rollout.evidence.runs == 0
    assert (new.state.holds, new.state.writers) == ((), ())
    assert report.shards[0].mode == "soft"


def test_history_that_no_state_names_is_saved_too(world: World, target: MemoryBlob) -> None:
    mine = [
        keys.usage_key("s", "2026-11-24", "1"),
        keys.quarantine_key("s", "token"),
        keys.backfill_key("s", 5, "ab" * 20),
        keys.verdict_key("s", "run"),
        keys.erasure_key("s", "id"),
    ]
    assert {keys.parse_key(key).kind for key in mine} == HISTORY
    for key in mine[:2] + mine[3:]:
        world.blob.set(key, key.encode())
    back_up(world.stores, target, SETTINGS)
    new = lost(world)
    new.blob.set(mine[0], b"what came later stays")

    restore(new.stores, Backup(target), **WHO)

    assert new.blob.get(mine[0]) == b"what came later stays"
    assert new.blob.get(mine[1]) == mine[1].encode()
    assert new.blob.get(mine[3]) == mine[3].encode()


def damage(blob: MemoryBlob, key: str) -> None:
    data, at = blob.live[key]
    blob.live[key] = (data[:-9] + bytes([data[-9] ^ 4]) + data[-8:], at)


@pytest.mark.parametrize("kind", ["parts", "manifests"])
def test_damage_is_never_saved_and_never_restored(
    world: World, target: MemoryBlob, kind: str
) -> None:
    back_up(world.stores, target, SETTINGS)
    [key, *_] = world.stored(kind)

    damage(target, key)
    new = lost(world)
    with pytest.raises(Corrupt, match="cannot be used"):
        restore(new.stores, Backup(target), **WHO)
    assert new.machine.names() == []
    point = Backup(target).point()
    assert [one.key for one in verify_point(Backup(target), point, point.shards[0]).wrong] == [key]

    damage(world.blob, key)
    found = verify_shard(world.stores, "s", SETTINGS)
    assert [one.key for one in found.wrong] == [key]
    with pytest.raises(Corrupt):
        back_up(world.stores, MemoryBlob(), SETTINGS)


def cut(blob: MemoryBlob, key: str) -> None:
    data, at = blob.live[key]
    blob.live[key] = (data[: len(data) // 2], at)


KINDS = ("parts", "manifests", "unions")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spoil", [damage, cut])
def test_what_is_damaged_in_the_store_is_restored_too(
    world: World, target: MemoryBlob, kind: str, spoil: Callable[[MemoryBlob, str], None]
) -> None:
    """The shard is dropped, and its blobs are still there: the whole ones are not copied."""
    back_up(world.stores, target, SETTINGS)
    [key, *_] = world.stored(kind)
    spoil(world.blob, key)
    world.machine.drop("s", by="ben", reason="damaged")
    [done] = restore(world.stores, Backup(target), **WHO).shards
    assert (done.copied, done.copied_bytes) == (1, len(target.live[key][0]))
    assert verify_shard(world.stores, "s", SETTINGS).wrong == ()
    world.check()
    world.settle()
    assert clean(world)


def test_a_damaged_backup_brings_no_shard_back(world: World, target: MemoryBlob) -> None:
    Machine(world.stores).create(replace(SPEC, name="other"))
    back_up(world.stores, target, SETTINGS)
    [key, *_] = world.stored("parts")  # of `s`, the last one
    damage(target, key)
    new = lost(world)
    with pytest.raises(Corrupt, match="cannot be used"):
        restore(new.stores, Backup(target), **WHO)
    assert new.machine.names() == []


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_cut_off_in_a_backup_is_copied_again(
    world: World, target: MemoryBlob, kind: str
) -> None:
    first = back_up(world.stores, target, SETTINGS).point
    [key, *_] = world.stored(kind)
    cut(target, key)
    report = back_up(world.stores, target, SETTINGS)
    assert (report.copied, report.copied_bytes) == (1, len(world.blob.live[key][0]))
    for point in (first, report.point):
        assert verify_point(Backup(target), point, point.shard("s")).wrong == ()


def test_what_its_name_does_not_stand_for_stays_as_older_points_have_it(
    world: World, target: MemoryBlob
) -> None:
    """A filter is logged twice in one hour: before a shard is restored, and afterwards."""
    key = keys.usage_key("s", "2026-11-28", "a-slot")
    world.blob.set(key, b"{}")
    first = back_up(world.stores, target, SETTINGS).point
    world.blob.live[key] = (b'{"reads": 2}', 0)
    second = back_up(world.stores, target, SETTINGS)
    assert (second.copied, target.live[key][0]) == (0, b"{}")
    for point in (first, second.point):
        assert verify_point(Backup(target), point, point.shard("s")).wrong == ()


@pytest.mark.parametrize("spoil", [damage, cut])
def test_a_damaged_point_is_named_and_can_be_dropped(
    world: World, target: MemoryBlob, spoil: Callable[[MemoryBlob, str], None]
) -> None:
    first = back_up(world.stores, target, SETTINGS).point
    world.compact()
    world.now_ms += 1000
    second, backup = back_up(world.stores, target, SETTINGS).point, Backup(target)
    spoil(target, f"{FOLDER}{first.name}/point.json")
    with pytest.raises(Corrupt, match="a point of a backup is damaged") as caught:
        backup.point(first.name)
    assert caught.value.details["point"] == first.name
    with pytest.raises(Corrupt, match="a point of a backup is damaged"):
        drop_points(backup, [second.name], world.now_ms)
    assert drop_points(backup, [first.name], world.now_ms).blobs > 0
    assert backup.names() == [second.name]
    assert verify_point(backup, second, second.shard("s")).wrong == ()
    drop_points(backup, [second.name], world.now_ms)
    assert target.live == {}


def test_each_document_of_a_backup_is_checked(world: World, target: MemoryBlob) -> None:
    back_up(world.stores, target, SETTINGS)
    for key in documents(target):
        whole = target.live[key]
        damage(target, key)
        new = lost(world)
        with pytest.raises(Corrupt):
            restore(new.stores, Backup(target), **WHO)
        assert new.machine.names(dropped=True) == []
        target.live[key] = whole
        del target.live[key]
        if not key.endswith("point.json"):
            with pytest.raises(Corrupt, match="missing"):
                restore(new.stores, Backup(target), **WHO)
        target.live[key] = whole


def test_a_missing_blob_makes_no_point(world: World, target: MemoryBlob) -> None:
    [key, *_] = world.stored("parts")
    del world.blob.live[key]
    with pytest.raises(Corrupt, match="it is missing"):
        back_up(world.stores, target, SETTINGS)
    assert Backup(target).names() == []
    assert [one.key for one in verify_shard(world.stores, "s", SETTINGS).wrong] == [key]


def test_a_store_without_shards_makes_no_point(world: World, target: MemoryBlob) -> None:
    """The newest point would be an empty one: another database was meant, or it was lost."""
    kept = back_up(world.stores, target, SETTINGS).point
    new = lost(world)
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="there is no shard to save"):
            back_up(new.stores, target, SETTINGS)
        new.machine.create(journal_spec("strata_operations", Line, ("what",)), journal=True)
    assert Backup(target).names() == [kept.name]
    assert not [key for key in target.live if key.endswith(f"/{BEGUN}")]
    assert back_up(new.stores, target, SETTINGS, ["strata_operations"]).point.shards


@dataclass(frozen=True)
class Line:
    what: str


def test_a_backup_in_the_store_itself_is_refused(world: World) -> None:
    with pytest.raises(InvalidRequest, match="cannot lie in the store"):
        back_up(world.stores, world.blob, SETTINGS)
    assert not [key for key in world.stored() if key.startswith(FOLDER)]


def test_compaction_and_sweeps_meanwhile_take_nothing(world: World, target: MemoryBlob) -> None:
    """All of it happens while the blobs of one shard are copied."""

    class Meanwhile(MemoryBlob):
        def set(self, key: str, data: bytes) -> None:
            super().set(key, data)
            if sum("/parts/" in copied for copied in self.live) == 1:
                world.compact()
                for _ in range(3):
                    world.sweep(hours=0.05)

    slow = Meanwhile()
    ids = sorted(world.ids)
    back_up(world.stores, slow, SETTINGS)
    new = lost(world)
    restore(new.stores, Backup(slow), **WHO)
    assert new.read() == ids


@pytest.mark.parametrize("outcome", [Outcome.CRASH_BEFORE, Outcome.CRASH_AFTER])
def test_killed_anywhere_it_leaves_no_half_point_and_can_be_repeated(
    world: World, outcome: Outcome
) -> None:
    ids = sorted(world.ids)
    for calls in count():
        faults, target = Faults(sleep=lambda _: None), MemoryBlob()
        faults.plan([*[Outcome.WORKS] * calls, outcome])
        try:
            back_up(world.stores, FaultyBlob(target, faults), SETTINGS)
            break
        except (CrashError, Unavailable):
            pass
        if Backup(target).names():  # only a reply is lost, or the removal of the mark
            there = (*target.live, *target.deleted)
            marks = [key for key in there if key.endswith(f"/{BEGUN}")]
            assert outcome is Outcome.CRASH_AFTER or marks
        back_up(world.stores, target, SETTINGS)
        new = lost(world)
        restore(new.stores, Backup(target), **WHO)
        assert new.read() == ids
    assert calls > 10


@pytest.mark.parametrize("outcome", [Outcome.CRASH_BEFORE, Outcome.CRASH_AFTER])
def test_a_restore_killed_anywhere_is_repeated(
    world: World, target: MemoryBlob, outcome: Outcome
) -> None:
    back_up(world.stores, target, SETTINGS)
    for calls in count():
        faults, new = Faults(sleep=lambda _: None), lost(world)
        stores = replace(
            new.stores,
            blob=FaultyBlob(new.stores.blob, faults),
            consensus=FaultyConsensus(new.stores.consensus, faults),
        )
        faults.plan([*[Outcome.WORKS] * calls, outcome])
        try:
            restore(stores, Backup(target), **WHO)
            break
        except (CrashError, Unavailable):
            pass
        if new.machine.names():
            new.check()
        restore(new.stores, Backup(target), missing=True, **WHO)
        new.check()
        assert clean(new)
    assert calls > 10


def test_shards_are_chosen_by_name(world: World, target: MemoryBlob) -> None:
    other = replace(SPEC, name="other")
    Machine(world.stores).create(other)
    report = back_up(world.stores, target, SETTINGS, ["other"])
    assert [one.name for one in report.point.shards] == ["other"]
    with pytest.raises(InvalidRequest, match="no such shard"):
        back_up(world.stores, target, SETTINGS, ["nobody"])
    with pytest.raises(InvalidRequest, match="this point has no such shard"):
        restore(lost(world).stores, Backup(target), names=["s"], **WHO)
    both = back_up(world.stores, target, SETTINGS).point
    assert [one.name for one in both.shards] == ["other", "s"]


@pytest.mark.parametrize("name", ["point", "begun", "late", "point.json"])
def test_a_shard_may_have_the_name_of_a_document(
    name: str, world: World, target: MemoryBlob
) -> None:
    Machine(world.stores).create(replace(SPEC, name=name))
    back_up(world.stores, target, SETTINGS)
    point = back_up(world.stores, target, SETTINGS).point
    stores, backup = lost(world).stores, Backup(target)
    restore(stores, backup, **WHO)

    assert len(backup.names()) == 2
    assert {*Machine(stores).names()} == {"s", name}
    target.delete(f"{FOLDER}{point.name}/point.json")  # a drop that was killed finds its shards
    target.set(f"{keys.shard_prefix(name)}parts/g1/00ff.parquet", b"of that point")
    drop_points(backup, backup.names(), world.now_ms)
    assert target.live == {}


def test_a_shard_that_is_named_twice_is_meant_once(world: World, target: MemoryBlob) -> None:
    report = back_up(world.stores, target, SETTINGS, ["s", "s"])
    back = restore(lost(world).stores, Backup(target), names=["s", "s"], **WHO)

    assert report.point.names == [one.shard for one in back.shards] == ["s"]


def test_a_dropped_point_takes_what_only_it_needs(world: World, target: MemoryBlob) -> None:
    first = back_up(world.stores, target, SETTINGS).point
    world.compact()
    world.now_ms += 1000
    second = back_up(world.stores, target, SETTINGS).point
    backup = Backup(target)
    only = backup.sizes(first, first.shard("s")).keys() - backup.sizes(second, second.shard("s"))
    assert only

    report = drop_points(backup, [first.name], world.now_ms)

    assert report.points == (first.name,)
    assert report.blobs == len(only)
    assert not only & target.live.keys()
    assert not only & target.deleted.keys(), "nothing of it can be restored"
    assert backup.names() == [second.name]
    assert verify_point(backup, second, second.shard("s")).wrong == ()
    drop_points(backup, [second.name], world.now_ms)
    assert target.live == {}


def test_a_point_is_not_dropped_while_one_is_added_nor_the_other_way_round(
    world: World, target: MemoryBlob
) -> None:
    point = back_up(world.stores, target, SETTINGS).point
    target.set(f"{FOLDER}20200101T000000-abcd/{BEGUN}", b"")
    with pytest.raises(Unavailable, match="a point of it is added"):
        drop_points(Backup(target), [point.name], world.now_ms)
    target.delete(f"{FOLDER}20200101T000000-abcd/{BEGUN}")

    target.set(f"{FOLDER}dropping-1234", b"")
    with pytest.raises(Unavailable, match="points of it are dropped"):
        back_up(world.stores, target, SETTINGS)
    assert Backup(target).names() == [point.name]


@pytest.mark.parametrize("outcome", [Outcome.CRASH_BEFORE, Outcome.CRASH_AFTER])
def test_a_drop_killed_anywhere_leaves_the_other_point_whole(
    world: World, outcome: Outcome
) -> None:
    for calls in count():
        faults, target = Faults(sleep=lambda _: None), MemoryBlob()
        first = back_up(world.stores, target, SETTINGS).point
        world.append(5_000 + calls)
        world.now_ms += 1000
        second = back_up(world.stores, target, SETTINGS).point
        faults.plan([*[Outcome.WORKS] * calls, outcome])
        try:
            drop_points(Backup(FaultyBlob(target, faults)), [first.name], world.now_ms)
            break
        except (CrashError, Unavailable):
            pass
        backup = Backup(target)
        assert second.name in backup.names()
        assert verify_point(backup, second, second.shard("s")).wrong == ()
        needed = backup.sizes(second, second.shard("s")).keys()
        blobs = {key for key in target.live if not key.startswith(FOLDER)}
        assert blobs == needed or any(first.name in key for key in target.live), "known to the next"
        again = first.name if any(first.name in key for key in target.live) else second.name
        drop_points(backup, [again], world.now_ms)
        kept = () if again == second.name else named_in(backup, second)
        marks = {key for key in target.live if key.startswith(f"{FOLDER}dropping-")}
        assert {*target.live} - marks == {*kept}, "nothing is left of the killed drop"
        aside = {key for key in target.deleted if not key.startswith(FOLDER)}
        assert aside == set(), "nothing of it can be restored"
    assert calls > 10


def named_in(backup: Backup, point: Point) -> set[str]:
    documents = {f"{FOLDER}{point.name}/{name}" for name in ("s.json", "s.blobs", "point.json")}
    return {*backup.sizes(point, point.shard("s"))} | documents


def test_a_drop_beside_a_backup_of_days_leaves_no_half_point(world: World) -> None:
    """The mark of the backup is so old that the drop takes its process for dead."""

    class Slow(MemoryBlob):
        first = ""

        def set(self, key: str, data: bytes) -> None:
            super().set(key, data)
            self.live[key] = data, world.now_ms
            if "/parts/" in key and self.first:
                world.now_ms += 25 * 3_600_000
                name, self.first = self.first, ""
                drop_points(Backup(self), [name], world.now_ms)

    target = Slow()
    first = back_up(world.stores, target, SETTINGS).point
    world.append(7_000)
    target.first = first.name
    with pytest.raises(Unavailable, match="points were dropped while this one was added"):
        back_up(world.stores, target, SETTINGS)
    assert Backup(target).names() == []
    point = back_up(world.stores, target, SETTINGS).point
    assert verify_point(Backup(target), point, point.shard("s")).wrong == ()
    drop_points(Backup(target), [point.name], world.now_ms)
    assert target.live == {}


def test_a_drop_that_begins_late_in_a_backup_of_days_waits_for_its_end(world: World) -> None:
    """The backup has seen that all of its blobs are there, and is about to write its point."""
    refused: list[Unavailable] = []

    class Slow(MemoryBlob):
        first = ""

        def set(self, key: str, data: bytes) -> None:
            if "/parts/" in key and self.first:
                world.now_ms += 25 * 3_600_000
            if key.endswith("/point.json") and self.first:
                with pytest.raises(Unavailable, match="a point of it is added") as caught:
                    drop_points(Backup(self), [self.first], world.now_ms)
                refused.append(caught.value)
            super().set(key, data)
            self.live[key] = data, world.now_ms

    target = Slow()
    first = back_up(world.stores, target, SETTINGS).point
    world.append(7_000)
    target.first = first.name
    point = back_up(world.stores, target, SETTINGS).point

    assert len(refused) == 1
    assert verify_point(Backup(target), point, point.shard("s")).wrong == ()
    assert not [key for key in target.live if key.endswith(f"/{BEGUN}")]


def test_what_a_killed_backup_left_goes_with_the_next_drop(
    world: World, target: MemoryBlob
) -> None:
    first = back_up(world.stores, target, SETTINGS).point
    for left in ("20260101T000000.000-dead/s.json", "20260101T000000.000-dead/begun"):
        target.live[f"{FOLDER}{left}"] = (b"{}", world.now_ms - 2 * 86_400_000)
    blobs = [data for key, (data, _) in target.live.items() if not key.startswith(FOLDER)]
    report = drop_points(Backup(target), [first.name], world.now_ms)
    assert (report.blobs, report.size_bytes) == (len(blobs), sum(map(len, blobs)))
    assert target.live == {}
    with pytest.raises(InvalidRequest, match="there is no backup here"):
        drop_points(Backup(target), [first.name], world.now_ms)


@pytest.mark.parametrize("outcome", [Outcome.REFUSED, Outcome.REPLY_LOST])
@pytest.mark.parametrize("calls", range(8))
def test_an_outage_leaves_no_mark_for_which_others_wait(
    world: World,
    target: MemoryBlob,
    monkeypatch: pytest.MonkeyPatch,
    outcome: Outcome,
    calls: int,
) -> None:
    """The outage is over when the command ends; its mark would count for a day."""
    monkeypatch.setattr(retry, "__defaults__", (Patience(), lambda _: None))
    point = back_up(world.stores, target, SETTINGS).point.name
    back_up(world.stores, target, SETTINGS)
    for work in (
        lambda blob: back_up(world.stores, blob, SETTINGS),
        lambda blob: drop_points(Backup(blob), [point], world.now_ms),
    ):
        faults = Faults([*[Outcome.WORKS] * calls, *[outcome] * Patience().attempts])
        with suppress(Unavailable):  # what was only read may be of no matter
            work(FaultyBlob(target, faults))
        assert faults.drawn[outcome]
        assert not [one.key for one in target.list(FOLDER) if BEGUN in one.key]
        assert not [one.key for one in target.list(FOLDER) if "dropping-" in one.key]


def test_a_store_that_fails_first_leaves_no_mark_in_the_backup(
    world: World, target: MemoryBlob, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retry, "__defaults__", (Patience(), lambda _: None))
    faults = Faults([Outcome.REFUSED] * Patience().attempts)
    failing = replace(world.stores, blob=FaultyBlob(world.stores.blob, faults))
    with pytest.raises(Unavailable):
        back_up(failing, target, SETTINGS)
    assert [*target.list(FOLDER)] == []

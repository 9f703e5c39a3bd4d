"""One sweep over a shard: close the generation, judge every blob, delete what is dead.

    begin_sweep (one commit) -> reach (states, manifests) -> list and judge -> delete -> look again

Any number of sweeps may run at once, be killed at any point, and be late. Dead blobs stay dead, so
a delete is right at any time. A listing only proposes blobs; the next sweep finds those it lacks.
The store sets deleted blobs aside, and they can be restored until they are purged. A sweep restores
what the newest state names and an earlier one, killed before it looked again, has deleted.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any, Final, TypeVar

from strata.errors import Corrupt, InvalidRequest
from strata.gc.back import brought_back, named_count
from strata.gc.live import AT_ONCE, Live, which_live
from strata.gc.reach import Reach, reach
from strata.gc.verdicts import Fate, Judge, JudgedBlob
from strata.machine.machine import Machine
from strata.machine.named import named_by
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.model.shown import json_of
from strata.state.generations import begin_sweep
from strata.state.state import State
from strata.state.tombstone import redate
from strata.store.interface import Blob, BlobInfo, Purges
from strata.store.keys import backfill_prefix, shard_prefix, usage_prefix
from strata.store.open import Stores
from strata.store.retry import relisted, retry

Found = TypeVar("Found")
LOOKS: Final = 5  # while an erasure goes on
SHOWN_MAX: Final = 20  # blobs in the report for people; the JSON has all dead ones
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True)
class SweepReport:
    """What a sweep did to one shard, or would do. Units: bytes."""

    shard: str
    dry_run: bool
    generation: int
    fence: int
    states: int  # how many states count
    held_by: tuple[str, ...]  # live holds that keep older states
    counts: dict[Fate, tuple[int, int]] = field(default_factory=dict)  # fate -> (blobs, bytes)
    dead: tuple[JudgedBlob, ...] = ()
    others: tuple[JudgedBlob, ...] = ()  # not understood; with `every`, all other blobs
    deleted: int = 0
    deleted_bytes: int = 0
    restored: int = 0  # that the newest state names, and that were set aside
    lost: tuple[str, ...] = ()  # manifests of earlier states that are no longer stored
    idle_reason: str = ""  # why no blob was judged

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        document = json_of(self, dead="dead_blobs", others="other_blobs", lost="lost_manifests")
        del document["counts"]
        return document | {
            **{fate.value: self.counts.get(fate, (0, 0))[0] for fate in Fate},
            **{f"{fate.value}_bytes": self.counts.get(fate, (0, 0))[1] for fate in Fate},
        }

    def lines(self) -> list[str]:
        """See `Report`: totals, then why each of the first blobs goes."""
        head = f"{self.shard}: generation {self.generation}, fence {self.fence}"
        if self.idle_reason:
            return [f"{head}; nothing to do: {self.idle_reason}"]
        totals = ", ".join(
            f"{blobs:,} {fate} ({size:,} bytes)" for fate, (blobs, size) in self.counts.items()
        )
        done = "would be deleted" if self.dry_run else f"{self.deleted:,} deleted"
        done += f"; {self.restored:,} named by the state restored" if self.restored else ""
        found = [f"  {one.key} ({one.size_bytes:,} bytes): {one.reason}" for one in self.dead]
        more = [f"  and {len(found) - SHOWN_MAX:,} more"] if len(found) > SHOWN_MAX else []
        return [f"{head}; {totals or 'no blobs'}; {done}", *found[:SHOWN_MAX], *more]


def plan(stores: Stores, name: str, settings: Settings, *, every: bool = False) -> SweepReport:
    """Return what a sweep would do now, with the reason for each blob; change nothing.

    `every` includes the blobs that stay. Raises: as `collect`.
    """
    now_ms, machine = stores.clock(), Machine(stores)

    def look() -> tuple[SweepReport, Reach]:
        state = machine.load(name, dropped=True)
        fence = state.fence
        if state.dropped is None:
            _, fence = begin_sweep(state, now_ms, grace_ms=settings.gc.grace_ms)
        return survey(machine, state, fence, settings, now_ms, every=every)

    return of_newest(machine, name, look)[0]


def collect(stores: Stores, name: str, settings: Settings, runner: Runner = serial) -> SweepReport:
    """Delete the dead blobs of a shard and return what was found.

    Raises: Corrupt, before anything is deleted, when a manifest of the newest state cannot be read
    or blobs are ahead of the state, because then live blobs are unknown. Corrupt also when a state
    names a deleted blob after all; the blob is restored first.
    Cost: at most one commit and one listing; reads the states that count and their manifests.
    """
    now_ms, machine = stores.clock(), Machine(stores)
    if machine.load(name, dropped=True).dropped is None:
        machine.apply(name, partial(begin_sweep, grace_ms=settings.gc.grace_ms))
    else:
        machine.apply(name, _begin_for_dropped, dropped=True)

    def look() -> tuple[SweepReport, Reach]:
        head = machine.load(name, dropped=True)
        return survey(machine, head, head.fence, settings, now_ms)

    report, found = _judged(machine, name, look)
    if found.head.dropped is not None:
        delete = partial(_delete_of_dropped, machine, name)
    else:
        delete = partial(_delete, stores.blob)
    sizes = runner(delete, [one.key for one in report.dead])
    gone = [size for size in sizes if size is not None]
    if _came_back(machine, found, report.dead):
        idle = "it came back from its drop meanwhile, and so did what was deleted"
        return replace(report, dry_run=False, idle_reason=idle)
    _look_again(machine, found, report.dead)
    return replace(report, dry_run=False, deleted=len(gone), deleted_bytes=sum(gone))


def _begin_for_dropped(state: State, now_ms: int) -> tuple[State, int]:
    return (state, 0) if state.dropped is None else redate(state, now_ms)  # it may have come back


def _judged(
    machine: Machine, name: str, look: Callable[[], tuple[SweepReport, Reach]]
) -> tuple[SweepReport, Reach]:
    """Look, and again where blobs that the newest state names were restored. Raises: as `look`."""
    newest = partial(of_newest, machine, name, look)
    try:
        report, found = newest()
    except Corrupt:  # perhaps of a manifest that is set aside
        if not (back := brought_back(machine, name)):
            raise
    else:
        if found.missing <= 0 or not (back := brought_back(machine, name)):
            return report, found
    report, found = newest()
    return replace(report, restored=back), found


def of_newest(
    machine: Machine,
    name: str,
    look: Callable[[], Found],
    doubtful: Callable[[Found], bool] = lambda _: False,
) -> Found:
    """Look again where the newest state was replaced meanwhile: an erasure takes what it named.

    `doubtful`: whether what was found is believed only if the state is still the newest.
    Raises: as `look`.
    """
    for _ in range(LOOKS):
        before = machine.load(name, dropped=True).seqno
        try:
            found = look()
            if not doubtful(found) or machine.load(name, dropped=True).seqno == before:
                return found
        except Corrupt:
            if machine.load(name, dropped=True).seqno == before:
                raise
    return look()


def purge(stores: Stores, settings: Settings) -> int:
    """Purge blobs of all shards deleted more than `gc.aside_days` ago; return the bytes.

    A store with retention rules of its own (a bucket's lifecycle) is left alone and returns 0.
    """
    if not isinstance(stores.blob, Purges):
        return 0
    before_ms = stores.clock() - settings.gc.aside_days * _DAY_MS
    return retry(partial(stores.blob.purge, before_ms))


def survey(
    machine: Machine,
    head: State,
    fence: int,
    settings: Settings,
    now_ms: int,
    *,
    every: bool = False,
) -> tuple[SweepReport, Reach]:
    """Return the judgement of all blobs of a shard for this fence, and the reach it rests on.

    Raises: as `collect`.
    """
    # Clocks differ: a hold counts as expired only once a whole grace has passed since.
    found = reach(machine, head, fence, now_ms - settings.gc.grace_ms)
    report = SweepReport(
        head.name, True, head.generation, fence, found.states, found.held_by, lost=found.lost
    )
    if head.dropped is not None and now_ms - head.dropped.at_ms < settings.gc.grace_ms:
        idle = "it was dropped so lately that readers may still be under way"
        return replace(report, idle_reason=idle), found
    blob = machine.stores.blob
    small = {
        i.key
        for prefix in (usage_prefix, backfill_prefix)
        for i in relisted(blob, prefix(head.name))
    }
    judge = Judge(machine, found, settings.gc, settings.usage, now_ms, small)
    counts: dict[Fate, tuple[int, int]] = {}
    dead, others = [], []
    alive = alive_bytes = 0  # nearly all blobs of a large shard: only counted
    missing = named_count(found.live)
    for info, is_live in _with_life(found.live, relisted(blob, shard_prefix(head.name))):
        missing -= is_live
        if is_live and not every:
            alive, alive_bytes = alive + 1, alive_bytes + info.size_bytes
            continue
        one = judge.judge(info)
        blobs, size = counts.get(one.fate, (0, 0))
        counts[one.fate] = (blobs + 1, size + one.size_bytes)
        if one.fate is Fate.DEAD:
            dead.append(one)
        elif every or one.fate is Fate.UNKNOWN:
            others.append(one)
    if alive:
        blobs, size = counts.get(Fate.LIVE, (0, 0))
        counts[Fate.LIVE] = (blobs + alive, size + alive_bytes)
    report = replace(report, counts=counts, dead=tuple(dead), others=tuple(others))
    return report, replace(found, missing=missing)


def _with_life(live: Live, listed: Iterator[BlobInfo]) -> Iterator[tuple[BlobInfo, bool]]:
    while some := list(islice(listed, AT_ONCE)):
        yield from zip(some, which_live(live, [info.key for info in some]), strict=True)


def _delete(blob: Blob, key: str) -> int | None:
    return retry(partial(blob.delete, key))


def _delete_of_dropped(machine: Machine, name: str, key: str) -> int | None:
    """Delete a blob unless the shard has come back: then its state may name it."""
    if machine.load(name, dropped=True).dropped is None:
        return None
    return _delete(machine.stores.blob, key)


def _came_back(machine: Machine, before: Reach, dead: Iterable[JudgedBlob]) -> bool:
    """Return whether a dropped shard is alive again, and restore all that was deleted of it.

    Its state names most of it, and history is named by no state: the next sweep judges anew.
    """
    head = machine.load(before.head.name, dropped=True)
    if before.head.dropped is None or head.dropped is not None:
        return False
    for one in dead:
        with suppress(InvalidRequest):  # an erasure removed it for good
            retry(partial(machine.stores.blob.restore, one.key))
    return True


def _look_again(machine: Machine, before: Reach, dead: Iterable[JudgedBlob]) -> None:
    """Restore deleted blobs that states committed meanwhile name; a guard, this should not happen.

    Raises: Corrupt when there were any.
    """
    head = machine.load(before.head.name, dropped=True)
    if head.seqno == before.head.seqno:
        return
    deleted = {one.key for one in dead}
    blob = machine.stores.blob
    lost = set[str]()
    named = {*named_by(blob, head, {}, lost, before.live)}
    while back := lost & deleted:  # what a manifest or page names is known once it is back
        for key in back:
            retry(partial(blob.restore, key))
        lost.clear()
        named = {*named_by(blob, head, {}, lost, before.live)}
    wrong = sorted(named & deleted)
    for key in wrong:
        retry(partial(machine.stores.blob.restore, key))
    if wrong:
        raise Corrupt(
            "a state names blobs that no state could name any more; they were restored",
            shard=head.name,
            seqno=head.seqno,
            blobs=len(wrong),
            first=wrong[0],
            cure="a writer of an older version is at work: stop it, and run strata validate",
        )

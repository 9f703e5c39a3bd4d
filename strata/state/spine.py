"""The spine: batches arranged by size, so that merges stay cheap and reads stay few.

Slots are in time order, and their levels, the logarithms of their sizes, strictly fall. A new batch
is pushed as a slot of its own; while the slot before it has no higher level, the two become one.
That is only bookkeeping: their batches are side by side in one slot until a merge writes them as
one batch. With batches a, b, ... and the level below each slot:

    [a b]  [c] [d]      push e of level 2:   [a b]  [c d e]       merge of c, d, e is due
      5     3   1                              5       4

Laws. There is at most one slot a level, hence O(log n) slots. An update that a merge writes again
rises by at least one level, except once, if its batch was larger than the batches before it. Hence
each update is written O(log n) times; see docs/explanation/spine.md for a simulation. If
consolidation shrinks a slot, its level falls with it; the vanished updates pay for that. The
structure is stored in the state and never derived again: it depends on the order of appends and
merges, and two processes must never disagree about it.

Deviation from the source: no fuel, no merges in progress. A slot with several batches *is* the
record of a due merge; any worker may do it, any number of times.
Source: notes on persist, section 2.1.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.model.sums import MODULUS, wrapped
from strata.state.state import Batch, Spine, SpineBatch


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """Batches to merge into one: everything a worker needs, and the reason."""

    id_lower: int
    id_upper: int
    lower: int
    upper: int
    since: int  # stored times are advanced to it
    batches: tuple[Batch, ...]  # contiguous, in time order; empty ones included
    reason: str

    @property
    def manifests(self) -> tuple[str, ...]:
        """Return the manifests of the inputs in time order: `MergeResult.replaced`."""
        return tuple(b.manifest for b in self.batches if b.manifest is not None)


@dataclass(frozen=True, slots=True)
class MergeResult:
    """One batch that is equivalent to those it replaces."""

    id_lower: int  # of the request
    id_upper: int
    replaced: tuple[str, ...]  # manifests of the inputs, in time order, all of them
    batch: Batch  # covers [lower, upper) of the request, and has its since
    digest_shift: int = 0  # added to the digest by a change of relation, modulo 2**64


@dataclass(frozen=True, slots=True)
class Applied:
    """The result is in the state."""

    already: bool  # it was there before this call


@dataclass(frozen=True, slots=True)
class NotApplied:
    """The inputs are gone because another merge was faster; nothing is lost.

    The output's blobs may still be in use (a merge is deterministic, so the faster one wrote the
    same keys). Never delete them here; leave them to garbage collection.
    """

    reason: str


def level_of(updates: int) -> int:
    """Return ceil(log2(updates)), and 0 for none.

    >>> [level_of(n) for n in (0, 1, 2, 3, 4, 5, 1024, 1025)]
    [0, 0, 1, 2, 2, 3, 10, 11]
    """
    return max(updates - 1, 0).bit_length()


def insert(spine: Spine, batch: Batch) -> Spine:
    """Return the spine with `batch` appended; it begins where the spine ends."""
    slot = _slot(spine.next_id, spine.next_id + 1, [batch])
    return Spine(_settle((*spine.slots, slot)), spine.next_id + 1)


def requests(
    spine: Spine, since: int, outdated: Callable[[Batch], str] | None = None
) -> list[MergeRequest]:
    """Return the due merges, smallest first, since these are the cheapest to finish.

    `outdated` returns how a batch differs from what is written now, "" if it does not. If given,
    slots with such batches are due as well.
    """
    due = [(slot, _reason(slot, outdated)) for slot in spine.slots]
    return [_request([slot], since, reason) for slot, reason in reversed(due) if reason]


def debt(spine: Spine) -> int:
    """Return how many runs the due merges would save: what compaction owes to readers.

    >>> debt(Spine())
    0
    """
    runs = (sum(len(batch.runs) for batch in slot.batches) for slot in spine.slots)
    return sum(max(0, found - 1) for found in runs)


def check_debt(spine: Spine, shard: str, most: int) -> None:
    """Refuse to let the debt grow beyond `most` runs; 0: no limit.

    Raises: Unavailable, since compaction can pay it back.
    """
    if most and debt(spine) >= most:
        raise Unavailable(
            "too many runs of this shard wait to be merged",
            certain=True,
            shard=shard,
            waiting=debt(spine),
            most=most,
            cure=f"run `strata compact {shard}`, then again; `compact.debt_max` is the limit",
        )


def full_request(spine: Spine, since: int, *, force: bool = False) -> MergeRequest | None:
    """Return the merge of everything; None if that would change nothing.

    `force` returns it even then, which a change of layout or relation needs.
    """
    batches = [b for slot in spine.slots for b in slot.batches if b.manifest is not None]
    if not batches:
        return None
    compact = len(batches) == 1 and len(batches[0].runs) <= 1 and batches[0].since == since
    if compact and not force:
        return None
    runs = sum(len(b.runs) for b in batches)
    return _request(
        spine.slots, since, f"asked for: all {len(batches)} batches ({runs} runs) into one"
    )


def idle_reason(spine: Spine) -> str:
    """Return why no merge is due, for people."""
    filled = [slot for slot in spine.slots if any(b.manifest for b in slot.batches)]
    if not filled:
        return "the shard holds no updates"
    levels = ", ".join(str(slot.level) for slot in filled)
    return f"every slot is one sorted run, and their levels fall: {levels}"


def apply(spine: Spine, result: MergeResult, since: int) -> Spine | NotApplied:
    """Return the spine with the result in place of the batches that it replaces.

    The inputs are found by their manifests, even if appends have moved their slot. `since` is the
    shard's, which is never less than at the time of planning. A result that is already in place
    changes nothing. Empty time at its ends that now belongs to a neighbour stays there.

    Raises: InvalidRequest for a result with a since beyond the shard's or with more updates than
    its inputs; Corrupt for a result whose diffs or digest differ from its inputs'.
    """
    filled = [b for slot in spine.slots for b in slot.batches if b.manifest is not None]
    found = placed(filled, result.replaced, result.batch.lower, result.batch.upper)
    after = 0 if found is None else found + len(result.replaced)
    inputs = filled[found:after]
    reason = _overtaken(inputs, result.batch)
    if found is None or reason:
        there = result.batch.manifest in (b.manifest for b in filled)
        return spine if there else NotApplied(reason)
    check_merge(inputs, result.batch, since, result.digest_shift)
    room_low = filled[found - 1].upper if found else spine.slots[0].batches[0].lower
    room_high = filled[after].lower if after < len(filled) else spine.slots[-1].batches[-1].upper
    new = replace(
        result.batch,
        lower=max(result.batch.lower, room_low),
        upper=min(result.batch.upper, room_high),
    )
    return _substitute(spine, new)


def substituted(spine: Spine, new: Batch) -> Spine:
    """Return the spine with `new` in place of the batch that has its bounds."""
    return _substitute(spine, new)


def _overtaken(inputs: Sequence[Batch], new: Batch) -> str:
    """Return why `new` comes too late for its inputs; empty if it does not.

    A merge with nothing to rewrite keeps the manifest, and moves only since and bounds. Then a
    slower merge still finds its inputs, but must not undo that.
    """
    if not inputs:
        return "its inputs are no longer in the spine, in this order and side by side"
    if any(b.since > new.since for b in inputs):
        return "its inputs were advanced further meanwhile"
    if not (new.lower <= inputs[0].lower and inputs[-1].upper <= new.upper):
        return "its inputs cover more time than it does"
    return ""


def check_merge(inputs: Sequence[Batch], new: Batch, since: int, digest_shift: int) -> None:
    """Refuse a batch that is not equivalent to `inputs`.

    `digest_shift` is the digest of the rows in the newer relation minus that in the relation they
    were written with: a dropped column no longer counts, a default does. The merge has computed it
    from rows with the recorded digest. Without a change of relation it is 0.

    Raises: InvalidRequest for a wrong since or more updates; Corrupt for other contents.
    """
    if new.since > since:
        raise InvalidRequest("a merge result has a wrong since", since=new.since, shard=since)
    updates = sum(b.updates for b in inputs)
    if new.updates > updates:
        raise InvalidRequest(
            "a merge result has more updates than its inputs", updates=new.updates, inputs=updates
        )
    if digest_shift and {v for b in inputs for v in b.versions} == set(new.versions):
        raise Corrupt(
            "a merge within one relation version has another digest",
            shift=digest_shift,
            versions=new.versions,
            manifests=[b.manifest for b in inputs],
        )
    digest = sum(b.digest for b in inputs) + digest_shift
    for name, got, wanted in (
        ("diffs_sum", wrapped(new.diffs_sum), wrapped(sum(b.diffs_sum for b in inputs))),
        ("digest", new.digest, digest % MODULUS),
    ):
        if got != wanted:
            raise Corrupt(
                "a merge result does not hold what its inputs hold",
                field=name,
                result=got,
                inputs=wanted,
                manifests=[b.manifest for b in inputs],
            )


def problems(spine: Spine, lower: int, upper: int) -> list[str]:
    """Return the broken invariants of a spine that should fill [lower, upper)."""
    found: list[str] = []
    at_time, at_id, below = lower, 0, None
    for slot in spine.slots:
        if slot.id_lower != at_id or slot.id_upper <= slot.id_lower or not slot.batches:
            found.append(f"slot ids do not follow one another at {at_id}")
        at_id = slot.id_upper
        if slot.level != level_of(sum(b.updates for b in slot.batches)):
            found.append(f"slot {slot.id_lower} has the wrong level")
        if below is not None and slot.level >= below:
            found.append(f"the level does not fall at slot {slot.id_lower}")
        below = slot.level
        for batch in slot.batches:
            if batch.lower != at_time or batch.upper <= batch.lower:
                found.append(f"batches do not follow one another at {at_time}")
            at_time = batch.upper
            found.extend(batch_problems(batch))
    if at_time != upper or at_id != spine.next_id:
        found.append(f"the spine ends at {at_time}, the shard at {upper}")
    return found


def batch_problems(batch: Batch) -> list[str]:
    """Return the contradictions inside a batch."""
    found = []
    if (batch.manifest is None) != (batch.parts == 0) or (batch.parts == 0) != (batch.updates == 0):
        found.append("a batch has a manifest and parts exactly when it has updates")
    for name in ("parts", "updates", "size_bytes"):
        if sum(getattr(run, name) for run in batch.runs) != getattr(batch, name):
            found.append(f"the runs of a batch do not add up to its {name}")
    if not batch.updates and (batch.diffs_sum or batch.digest):
        found.append("a batch without updates has a sum of diffs or a digest")
    if not 0 <= batch.digest < MODULUS:
        found.append("a digest is not within 64 bits")
    return found


def _reason(slot: SpineBatch, outdated: Callable[[Batch], str] | None = None) -> str:
    """Return why a slot should be merged; empty if it should not."""
    filled = [b for b in slot.batches if b.manifest is not None]
    runs = sum(len(b.runs) for b in filled)
    if len(filled) > 1:
        return f"{len(filled)} batches ({runs} runs) of one level"
    if runs > 1:
        return f"one batch of {runs} runs"
    old = "" if outdated is None else next(filter(None, map(outdated, filled)), "")
    return f"written in {old}" if old else ""


def _request(slots: Sequence[SpineBatch], since: int, reason: str) -> MergeRequest:
    batches = tuple(b for slot in slots for b in slot.batches)
    return MergeRequest(
        slots[0].id_lower,
        slots[-1].id_upper,
        batches[0].lower,
        batches[-1].upper,
        since,
        batches,
        reason,
    )


def _slot(id_lower: int, id_upper: int, batches: Iterable[Batch]) -> SpineBatch:
    """Return a slot; adjacent empty batches become one, which costs nothing."""
    tidy: list[Batch] = []
    for batch in batches:
        if tidy and tidy[-1].manifest is None and batch.manifest is None:
            tidy[-1] = replace(tidy[-1], upper=batch.upper, since=max(tidy[-1].since, batch.since))
        else:
            tidy.append(batch)
    return SpineBatch(id_lower, id_upper, level_of(sum(b.updates for b in tidy)), tuple(tidy))


def _settle(slots: Iterable[SpineBatch]) -> tuple[SpineBatch, ...]:
    """Return the slots, with each slot joined to its successor unless its level is higher."""
    settled: list[SpineBatch] = []
    for slot in slots:
        joined = slot
        while settled and settled[-1].level <= joined.level:
            before = settled.pop()
            joined = _slot(before.id_lower, joined.id_upper, (*before.batches, *joined.batches))
        settled.append(joined)
    return tuple(settled)


def placed(filled: Sequence[Batch], wanted: Sequence[str], lower: int, upper: int) -> int | None:
    """Return the place where the batches of these manifests are adjacent; None if they are not.

    Shape: `filled` are all batches with updates. `append` refuses a repeated manifest, but an older
    shard may have one: then the batches in [lower, upper) count, if there are any.
    """
    there, count = [b.manifest for b in filled], len(wanted)
    found = [i for i in range(len(there)) if wanted and there[i : i + count] == [*wanted]]
    within = (i for i in found if lower <= filled[i].lower and filled[i + count - 1].upper <= upper)
    return next(within, found[0] if found else None)


def _substitute(spine: Spine, new: Batch) -> Spine:
    """Return the spine with `new` in place of all batches in its bounds.

    An empty batch that lies only partly in the bounds is cut. The affected slots become one.
    """
    before: list[SpineBatch] = []
    touched: list[SpineBatch] = []
    after: list[SpineBatch] = []
    for slot in spine.slots:
        low, high = slot.batches[0].lower, slot.batches[-1].upper
        side = before if high <= new.lower else after if low >= new.upper else touched
        side.append(slot)
    inside = [b for slot in touched for b in slot.batches]
    left = [replace(b, upper=min(b.upper, new.lower)) for b in inside if b.lower < new.lower]
    right = [replace(b, lower=max(b.lower, new.upper)) for b in inside if b.upper > new.upper]
    slot = _slot(touched[0].id_lower, touched[-1].id_upper, (*left, new, *right))
    return Spine(_settle((*before, slot, *after)), spine.next_id)

"""Cut one merge into tasks that run anywhere: read runs, merge, write one run.

A request is cut into slices of the key space at the row groups that its manifests list. Each task
reads the row groups of all runs that overlap its slice, streams them through the merge kernel, and
writes its parts. The parts of all slices, in order, are one run. A task's output depends only on
its input, byte for byte, and keys are hashes of bytes. So a task that runs twice, or on two workers
at once, writes the same blobs. Parts that stand apart and need no change are kept by reference;
slices end and begin at them.

Memory: heads of runs, fetched row groups and the part in progress share `memory_bytes`. If there
are more runs than fit, groups of them are merged to temporary files first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import ceil
from typing import Final

import pyarrow as pa

from strata.compact.kept import KeptPart, kept_parts
from strata.errors import Corrupt
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.format.manifest import PartRef
from strata.format.values.coded import decoded
from strata.model.runner import cores
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.model.spec import ShardSpec
from strata.model.sums import MODULUS, wrapped
from strata.parts.fetch import PartSource, RowBudget
from strata.parts.relation_change import Crossed, DigestTally, crossing_runs, expected_shift
from strata.parts.write import WrittenPart, write_parts
from strata.state.spine import MergeRequest
from strata.state.state import Batch, State
from strata.stats.worth import NO_WORTH, StatsWorth
from strata.store.keys import part_prefix
from strata.store.open import open_blob
from strata.updates.apart import standing_apart
from strata.updates.cut import SPARE, cut
from strata.updates.merge import COPIES, Run, batch_rows, merge
from strata.updates.overlaps import Overlaps
from strata.updates.resident import Resident, giving_back, keep_freed
from strata.updates.slices import WHOLE, Slice, end_of, overlapping_groups
from strata.updates.stream import (
    PLAIN_OPTIONS,
    SPILL_BATCH_BYTES,
    SPILL_OPTIONS,
    ahead,
    spilled,
)

SLACK: Final = 1 / 5  # of the memory: freed memory that allocators keep
PART_COPIES: Final = 1.25  # the encoded part, and its last growth
WRITTEN_GROUPS: Final = 6  # waiting rows, the row group, its columns, encoders' pages, both chunks
GROUP_COPIES: Final = 2  # a row group while it is read: stored bytes and pages
TOGETHER_BYTES: Final = 4 * 1024 * 1024  # small row groups of a run are fetched together
ROW_GROUP: Final = 1 / 32  # of the memory: largest row group that is written
HUGE: Final = 1 / 16  # of the memory: row groups from this size on are not computed ahead

SMALL_TASK: Final = 64 * 1024 * 1024  # stored bytes: a smaller merge is not divided
TASK_PARTS: Final = 3 / 4  # of a part: tasks should write no smaller ones
WIDE: Final = 64  # a request is cut into at most this many tasks before tasks grow

PartRuns = tuple[tuple[PartRef, ...], ...]


@dataclass(frozen=True)
class MergeTask:
    """One slice of one request; picklable."""

    store: StoreSettings
    spec: ShardSpec
    relations: tuple[Relation, ...]  # all versions; the output has the last one
    description: Description
    runs: PartRuns  # parts that may hold rows of the slice, run by run, in order
    within: Slice
    memory_bytes: int
    generation: int = 0  # of the shard at the start of the work
    kept: tuple[KeptPart, ...] = ()  # parts whose rows come before the slice, by reference
    worth: StatsWorth = NO_WORTH  # of the statistics that its parts get
    run: int = 0  # of the parts that it writes
    alone: bool = False  # no other task reads the parts, and this one reads all their rows

    @property
    def read_bytes(self) -> int:
        """Return how many stored bytes the task reads at most."""
        return sum(ref.size_bytes for parts in self.runs for ref in parts)

    @property
    def weight(self) -> int:
        """Return an estimate of the merged rows: those of the row groups that may hold some."""
        return sum(
            _rows_within(ref, self.within, self.relations) for parts in self.runs for ref in parts
        )


@dataclass(frozen=True)
class TaskOutput:
    """What a task wrote, in order."""

    parts: tuple[WrittenPart, ...]
    crossed: tuple[Crossed, ...] = ()  # input parts whose rows came in other columns
    shift: int = 0  # of a task that reads its parts alone: as `MergeResult.digest_shift`


def _rows_within(ref: PartRef, within: Slice, relations: tuple[Relation, ...]) -> int:
    groups = overlapping_groups(ref, within, relations[-1], relations)
    if groups is None or not ref.splits:
        return ref.rows
    starts = [*(split.row for split in ref.splits), ref.rows]
    return sum(starts[group + 1] - starts[group] for group in groups)


def runs_of(manifests: Iterable[Sequence[PartRef]]) -> PartRuns:
    """Return the runs of some batches, each as its parts in order."""
    runs: dict[tuple[int, int], list[PartRef]] = {}
    for number, refs in enumerate(manifests):
        for ref in refs:
            runs.setdefault((number, ref.run), []).append(ref)
    return tuple(tuple(parts) for _, parts in sorted(runs.items()))


def merge_tasks(
    state: State,
    request: MergeRequest,
    manifests: Mapping[str, Sequence[PartRef]],
    store: StoreSettings,
    memory_bytes: int,
    stretch: Slice = WHOLE,
) -> list[MergeTask]:
    """Return the tasks of a request, in key order.

    `manifests` are the parts of the request's batches by manifest key. `stretch`: only the rows in
    it are merged, and `manifests` need not have parts without any. A task merges about three
    quarters of a part's bytes, at least 64 MiB; up to a third less where that divides the work more
    evenly; more where there would be more than 64 tasks, up to half of `memory_bytes`.
    """
    relations = state.relations
    runs = runs_of(manifests[key] for key in request.manifests)
    every = [ref for parts in runs for ref in parts]
    apart = [
        ref
        for ref in standing_apart(every, state.spec, state.relation, request.since)
        if _lies_in(ref, stretch)
    ]
    chosen = {ref.key for ref in apart}
    kept = {
        ref.key: KeptPart(ref, key)
        for key in request.manifests
        for ref in manifests[key]
        if ref.key in chosen
    }
    runs = tuple(tuple(ref for ref in run if ref.key not in kept) for run in runs)
    description = Description(request.lower, request.upper, request.since)
    overlaps = [Overlaps(run, relations) for run in runs]
    if stretch == WHOLE:
        total = sum(ref.size_bytes for parts in runs for ref in parts)
    else:
        total = sum(batch.size_bytes for batch in request.batches)
    slice_bytes = slice_bytes_of(total, state.spec, memory_bytes)
    made: list[MergeTask] = []
    waiting: list[KeptPart] = []
    for before, between in _stretches(apart, stretch):
        waiting += [] if before is None else [kept[before.key]]
        rest = _within(overlaps, between)
        parts = [Overlaps(run, relations) for run in rest]
        for within in _cut_between(rest, between, state, slice_bytes):
            mine = _within(parts, within)
            if mine or (stretch == WHOLE and not kept and not made):
                made.append(
                    MergeTask(
                        store,
                        state.spec,
                        relations,
                        description,
                        mine,
                        within,
                        memory_bytes,
                        state.generation,
                        tuple(waiting),
                    )
                )
                waiting = []
    if waiting:
        last = MergeTask(
            store,
            state.spec,
            relations,
            description,
            (),
            Slice(waiting[-1].ref.key_low),
            memory_bytes,
            state.generation,
            tuple(waiting),
        )
        made.append(last)
    return made


def _lies_in(ref: PartRef, stretch: Slice) -> bool:
    """Return whether all rows of a part are in a stretch. Errs: may say no wrongly."""
    if stretch == WHOLE:
        return True
    end = end_of(ref.key_high)
    ends = stretch.high is None or (end is not None and end <= stretch.high)
    return ref.key_low >= stretch.low and ends


def _stretches(apart: Sequence[PartRef], stretch: Slice) -> list[tuple[PartRef | None, Slice]]:
    """Return a stretch cut at the kept parts, each with the piece of it behind."""
    edges: list[bytes | None] = [stretch.low, *(ref.key_low for ref in apart), stretch.high]
    slices = [Slice(low or b"", high) for low, high in pairwise(edges)]
    return list(zip([None, *apart], slices, strict=True))


def slice_bytes_of(total: int, spec: ShardSpec, memory_bytes: int) -> int:
    """Return the stored bytes that a task merges: enough for wide tasks and whole parts."""
    wanted = min(max(SMALL_TASK, TASK_PARTS * spec.part_bytes, total / WIDE), memory_bytes / 2)
    count = ceil(total / max(wanted, 1) - SPARE)
    return max(1, ceil(total / _evened(count)))


def _evened(count: int) -> int:
    """Return `count` tasks or up to half more: a number that a few cores can share evenly.

    >>> [_evened(count) for count in (1, 2, 3, 5, 9, 17, 33, 65)]
    [1, 2, 4, 6, 12, 24, 48, 65]
    """
    if count <= 2 or count > WIDE:
        return max(count, 1)
    step = max(2, 1 << (count.bit_length() - 2))
    return -(-count // step) * step


def _cut_between(runs: PartRuns, between: Slice, state: State, slice_bytes: int) -> list[Slice]:
    """Return the slices of a stretch of the key space, each about as large as a task merges."""
    every = [ref for parts in runs for ref in parts]
    if sum(ref.size_bytes for ref in every) <= slice_bytes:
        return [between]
    return [
        Slice(max(within.low, between.low), _least(within.high, between.high))
        for within in cut(every, state.relation, state.relations, slice_bytes)
        if (between.high is None or within.low < between.high)
        and (within.high is None or within.high > between.low)
    ]


def _least(a: bytes | None, b: bytes | None) -> bytes | None:
    return min(a, b) if a is not None and b is not None else (a if b is None else b)


def _within(runs: Sequence[Overlaps], within: Slice) -> PartRuns:
    return tuple(parts for run in runs if (parts := run.of(within)))


def merge_slice(task: MergeTask) -> TaskOutput:
    """Merge one slice and write its parts.

    Raises: Corrupt when an input is missing, damaged or not sorted; Unavailable.
    """
    blob = open_blob(task.store)
    spec, relation = task.spec, task.relations[-1]
    before = kept_parts(blob, spec.name, task.kept)
    if not task.runs:
        return TaskOutput(tuple(before))
    keep_freed(task.memory_bytes)
    source = PartSource(
        blob, spec.name, task.relations, spec.read_format, row_group_bytes=spec.group_bytes
    )
    tally = DigestTally()
    rows = merged_rows(source, task, tally)
    parts = write_parts(
        blob,
        part_prefix(spec.name, task.generation),
        ahead(rows) if cores() > 1 and not _huge(task) else rows,
        relation,
        layout=spec.write_format,
        description=task.description,
        part_bytes=spec.part_bytes,
        row_group_bytes=_row_group_bytes(task),
        stats_spec=spec.stats,
        run=task.run,
        worth=task.worth,
    )
    if not task.alone:
        return TaskOutput((*before, *parts), tally.crossed())
    refs = [ref for run in task.runs for ref in run]
    shift = expected_shift(refs, tally.crossed(), task.relations, spec.name)
    return TaskOutput((*before, *parts), shift=shift)


def merged_rows(
    source: PartSource, task: MergeTask, tally: DigestTally | None = None
) -> Iterator[pa.Table]:
    """Yield the task's rows, times advanced, sorted and consolidated.

    `tally` adds up the digests of parts whose columns are not the newest, as they are read.
    """
    counted = DigestTally() if tally is None else tally
    relation, since = source.relation, task.description.since
    budget, huge = _budget(task), _huge(task)
    fan_in = _fan_in(task.runs, budget)
    at_once = min(max(len(task.runs), 1), fan_in)
    together = min(TOGETHER_BYTES, budget // 2 // (GROUP_COPIES * at_once))
    batches = RowBudget(batch_rows(at_once), budget // 2 // (COPIES * at_once))
    # The row codec needs plain texts, and huge rows are not joined.
    source = replace(source, coded=not huge and task.spec.write_format == "structured")
    runs: list[Run] = [
        run
        for parts in task.runs
        for run in crossing_runs(
            source,
            parts,
            counted,
            within=task.within,
            batches=batches,
            together_bytes=together,
        )
    ]
    settled = giving_back if huge else Resident(task.memory_bytes).settled

    def joined(group: Sequence[Run]) -> Iterator[pa.Table]:
        watched = [settled(run) for run in group]
        return settled(merge(watched, relation, since=since, memory_bytes=budget // 2))

    schema = updates_schema(relation)
    options = PLAIN_OPTIONS if huge else SPILL_OPTIONS
    while len(runs) > fan_in:
        groups = _even(runs, fan_in)
        runs = [spilled(map(decoded, joined(group)), schema, options) for group in groups]
        if not huge:
            fan_in = max(fan_in, budget // 2 // (GROUP_COPIES * SPILL_BATCH_BYTES))
    return joined(runs)


def _budget(task: MergeTask) -> int:
    """Return the memory left for merging beside the part in progress."""
    group = max(_row_group_bytes(task), _largest_row(task.runs))
    written = PART_COPIES * task.spec.part_bytes + WRITTEN_GROUPS * group
    rest = task.memory_bytes * (1 - SLACK) - written
    return int(max(rest, task.memory_bytes / 4))


def _fan_in(runs: PartRuns, budget: int) -> int:
    """Return the number of runs to merge at once; each costs its largest row group."""
    return max(2, (budget // 2) // max(GROUP_COPIES * _largest_group(runs), 1))


def _largest_group(runs: PartRuns) -> int:
    """Return an estimate of the largest row group's stored bytes."""
    return max(
        (ref.size_bytes // max(len(ref.splits), 1) for parts in runs for ref in parts), default=0
    )


def _largest_row(runs: PartRuns) -> int:
    """Return the average stored bytes of a row in the part with the largest rows."""
    return max((ref.size_bytes // max(ref.rows, 1) for parts in runs for ref in parts), default=0)


def _row_group_bytes(task: MergeTask) -> int:
    """Return the size of written row groups: as declared, or smaller if memory is short."""
    return max(1, min(task.spec.group_bytes, int(task.memory_bytes * ROW_GROUP)))


def _huge(task: MergeTask) -> bool:
    return _largest_group(task.runs) > HUGE * task.memory_bytes


def _even(runs: list[Run], fan_in: int) -> list[list[Run]]:
    """Return runs in the fewest groups of at most `fan_in`, of about equal size."""
    groups = -(-len(runs) // fan_in)
    edges = [len(runs) * i // groups for i in range(groups + 1)]
    return [runs[low:high] for low, high in pairwise(edges)]


def unchanged(state: State, request: MergeRequest, parts: Sequence[PartRef]) -> bool:
    """Return whether a request's only run already is what merging it would write.

    Its parts can then be kept by reference. Errs: may say no wrongly.
    """
    filled = [batch for batch in request.batches if batch.manifest is not None]
    return (
        len(filled) == 1
        and len(filled[0].runs) == 1
        and all(
            ref.t_low >= request.since
            and ref.layout == state.spec.write_format
            and ref.relation_version == state.relation.version
            and ref.order == state.relation.sort_ids
            for ref in parts
        )
    )


def check_inputs(request: MergeRequest, manifests: Mapping[str, Sequence[PartRef]]) -> None:
    """Refuse manifests that do not add up to the state's figures of their batches.

    Raises: Corrupt.
    """
    for batch in request.batches:
        if batch.manifest is not None:
            refs = manifests[batch.manifest]
            sums = (sum(getattr(r, of) for r in refs) for of in ("rows", "diffs_sum", "digest"))
            check_figures(batch, *sums)


def check_figures(batch: Batch, updates: int, diffs_sum: int, digest: int) -> None:
    """Refuse a manifest whose parts add up to other figures than the state's. Raises: Corrupt."""
    for name, listed, counted in (
        ("updates", updates, batch.updates),
        ("diffs_sum", wrapped(diffs_sum), wrapped(batch.diffs_sum)),
        ("digest", digest % MODULUS, batch.digest),
    ):
        if listed != counted:
            raise Corrupt(
                "a manifest contradicts the state",
                manifest=batch.manifest,
                field=name,
                manifest_says=listed,
                state_says=counted,
            )

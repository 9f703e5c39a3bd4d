"""One merge, cut into tasks that run anywhere: read runs, merge, write one run.

A request is cut at split points of the manifests into slices of the key space. Each task reads
the row groups of all runs that overlap its slice, streams them through the merge kernel, and
writes its parts; the parts of all slices, in order, are one run. What a task writes depends on
its input alone, byte for byte, and keys are hashes of bytes: a task that is run twice, or by two
workers at once, writes the same blobs.

Memory: heads of runs and the part in progress share `memory_bytes`. Where there are more runs
than fit, groups of them are merged to temporary files first.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from strata.crossing import Crossed, Tally, crossing_runs
from strata.errors import Corrupt
from strata.fetch import Source
from strata.format.columns import updates_schema
from strata.format.layout import Description
from strata.format.manifest import PartRef
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.model.spec import ShardSpec
from strata.state.spine import MergeRequest
from strata.state.state import State
from strata.store.keys import part_prefix
from strata.store.open import open_stores
from strata.updates.merge import HEAD_ROWS, ROUND_ROWS, Run, merge
from strata.updates.slices import WHOLE, Slice, cut, overlapping_groups
from strata.updates.stream import ahead, spilled
from strata.write import WrittenPart, write_parts

PARTS_IN_PROGRESS: Final = 4  # a part's rows in memory and its encoded bytes, in part sizes
GROUP_COPIES: Final = 4  # a row group while it is read: stored bytes, pages, decoded rows

PartRuns = tuple[tuple[PartRef, ...], ...]


@dataclass(frozen=True)
class MergeTask:
    """One slice of one request; picklable."""

    store: StoreSettings
    spec: ShardSpec
    relations: tuple[Relation, ...]  # all versions; the last one is written
    description: Description
    runs: PartRuns  # parts that may hold rows of the slice, run by run, in order
    piece: Slice
    memory_bytes: int
    generation: int = 0  # of the shard when the work began


@dataclass(frozen=True)
class TaskResult:
    """What a task wrote, in order."""

    parts: tuple[WrittenPart, ...]
    crossed: tuple[Crossed, ...] = ()  # input parts of which rows came in other columns


def runs_of(manifests: Iterable[Sequence[PartRef]]) -> PartRuns:
    """Return the runs of some batches, each as its parts in order."""
    runs: dict[tuple[int, int], list[PartRef]] = {}
    for number, refs in enumerate(manifests):
        for ref in refs:
            runs.setdefault((number, ref.run), []).append(ref)
    return tuple(tuple(parts) for _, parts in sorted(runs.items()))


def tasks(
    state: State,
    request: MergeRequest,
    manifests: Mapping[str, Sequence[PartRef]],
    store: StoreSettings,
    memory_bytes: int,
) -> list[MergeTask]:
    """Return the tasks of a request, in key order: one, or one for each `memory_bytes` / 2.

    `manifests` are the parts of the request's batches by manifest key.
    """
    relations = state.relations
    runs = runs_of(manifests[key] for key in request.manifests)
    every = [ref for parts in runs for ref in parts]
    pieces = [WHOLE]
    if sum(ref.size_bytes for ref in every) > memory_bytes // 2:
        pieces = cut(every, state.relation, relations, memory_bytes // 2)
    description = Description(request.lower, request.upper, request.since)
    return [
        MergeTask(
            store,
            state.spec,
            relations,
            description,
            _overlapping(runs, piece, relations),
            piece,
            memory_bytes,
            state.generation,
        )
        for piece in pieces
    ]


def _overlapping(runs: PartRuns, piece: Slice, relations: Sequence[Relation]) -> PartRuns:
    kept = (
        tuple(r for r in run if overlapping_groups(r, piece, relations[-1], relations) != [])
        for run in runs
    )
    return tuple(run for run in kept if run)


def run_task(task: MergeTask) -> TaskResult:
    """Merge one slice and write its parts.

    Raises: Corrupt when an input is missing, damaged or not sorted; Unavailable.
    """
    blob = open_stores(task.store).blob
    spec, relation = task.spec, task.relations[-1]
    source = Source(blob, spec.name, task.relations, spec.read_format)
    tally = Tally()
    parts = write_parts(
        blob,
        part_prefix(spec.name, task.generation),
        ahead(merged(source, task, tally)),
        relation,
        layout=spec.write_format,
        description=task.description,
        part_bytes=spec.part_bytes,
        row_group_bytes=spec.row_group_bytes,
        stats_spec=spec.stats,
    )
    return TaskResult(tuple(parts), tally.crossed())


def merged(source: Source, task: MergeTask, tally: Tally | None = None) -> Iterator[pa.Table]:
    """Yield the task's rows, times advanced, sorted and consolidated.

    `tally` is told the digests of parts whose columns are not the newest, as they are read.
    """
    counted = Tally() if tally is None else tally
    relation, since = source.relation, task.description.since
    reserved = PARTS_IN_PROGRESS * task.spec.part_bytes
    budget = max(task.memory_bytes - reserved, task.memory_bytes // 4)
    fan_in = _fan_in(task.runs, budget)
    batch_rows = max(ROUND_ROWS // min(max(len(task.runs), 1), fan_in), HEAD_ROWS[0])
    runs: list[Run] = [
        run
        for parts in task.runs
        for run in crossing_runs(
            source, parts, counted, piece=task.piece, batch_rows=min(batch_rows, HEAD_ROWS[1])
        )
    ]
    while len(runs) > fan_in:
        groups = (runs[i : i + fan_in] for i in range(0, len(runs), fan_in))
        runs = [
            spilled(
                merge(group, relation, since=since, memory_bytes=budget // 2),
                updates_schema(relation),
            )
            for group in groups
        ]
    return merge(runs, relation, since=since, memory_bytes=budget // 2)


def _fan_in(runs: PartRuns, budget: int) -> int:
    """Return how many runs are merged at once: each costs its largest row group."""
    largest = max(
        (ref.size_bytes // max(len(ref.splits), 1) for parts in runs for ref in parts), default=0
    )
    return max(2, (budget // 2) // max(GROUP_COPIES * largest, 1))


def unchanged(state: State, request: MergeRequest, parts: Sequence[PartRef]) -> bool:
    """Return whether a request's only run already is what merging it would write.

    Its parts can then be kept by reference. Errs: may say no.
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
    """Refuse manifests that do not add up to what the state says of their batches.

    Raises: Corrupt.
    """
    for batch in request.batches:
        if batch.manifest is None:
            continue
        refs = manifests[batch.manifest]
        for name, listed, counted in (
            ("updates", sum(r.rows for r in refs), batch.updates),
            ("diffs_sum", sum(r.diffs_sum for r in refs), batch.diffs_sum),
            ("digest", sum(r.digest for r in refs) % 2**64, batch.digest),
        ):
            if listed != counted:
                raise Corrupt(
                    "a manifest contradicts the state",
                    manifest=batch.manifest, field=name, manifest_says=listed, state_says=counted,
                )  # fmt: skip

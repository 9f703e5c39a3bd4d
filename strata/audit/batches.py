"""Check the state's figures of batches against their manifests, and that every part exists.

No part is opened; `strata.audit.parts` does that. A manifest that cannot be read, or differs from
the one that the state describes, is a finding like any other, and its parts are not checked.

Memory: the manifests as stored, the names of their parts, one piece as a table, and Python objects
for the values of `SLICE_PARTS` parts at a time.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata import __version__
from strata.audit.blame import find_lies
from strata.audit.compare import Finding
from strata.audit.pages import index_findings, page_findings
from strata.audit.verdict import FORMAT_CHECK, Verdict
from strata.errors import Corrupt
from strata.format.manifest import PartRef, part_refs, stats_columns
from strata.model.sums import MODULUS, wrapped
from strata.model.time import MIN_TIME
from strata.parts.manifests import StoredManifest
from strata.parts.part_facts import KEY_BYTES
from strata.parts.unions import batch_stats
from strata.state.state import Batch, State
from strata.stats import concat, union
from strata.store import keys
from strata.store.interface import Blob
from strata.store.open import Stores
from strata.store.retry import retry

SLICE_PARTS: Final = 8192


@dataclass(frozen=True, slots=True)
class Looked:
    """One checked batch."""

    batch: Batch
    manifest: StoredManifest | None  # None: unreadable
    keys: pa.ChunkedArray  # of the parts; string
    findings: tuple[Finding, ...]
    size_bytes: int = 0  # of the parts
    without_stats: int = 0  # parts
    again: frozenset[str] = frozenset()  # parts that one run names more than once

    @property
    def parts(self) -> int:
        """Return how many parts the manifest names."""
        return len(self.keys)


def manifest_slices(manifest: StoredManifest) -> Iterator[pa.Table]:
    """Yield the rows of a manifest in slices.

    Cost: decodes the manifest.
    Raises: Corrupt.
    """
    for piece in manifest.pieces():
        yield from _slices(piece.read())


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, SLICE_PARTS):
        yield table.slice(start, SLICE_PARTS)


def look(stores: Stores, state: State) -> list[Looked]:
    """Return what is wrong with each batch that has parts.

    Cost: reads every manifest, lists the shard's parts once.
    """
    listed = retry(partial(_listed, stores, state))
    found = [_look(stores, state, batch, listed) for batch in state.batches if batch.manifest]
    return _told_apart(found)


def _listed(stores: Stores, state: State) -> pa.Array:
    """Return the keys of all stored parts, from a listing."""
    found = stores.blob.list(f"{keys.shard_prefix(state.name)}{keys.BlobKind.PART}/")
    pieces = []
    while piece := [info.key for info in islice(found, SLICE_PARTS)]:
        pieces.append(pa.array(piece, pa.string()))
    return pa.chunked_array(pieces, pa.string()).combine_chunks()


def readable(state: State, looked: Sequence[Looked]) -> State:
    """Return the state without the batches whose manifest cannot be read."""
    lost = {one.batch.manifest for one in looked if one.manifest is None}
    if not lost:
        return state
    slots = tuple(
        replace(slot, batches=tuple(b for b in slot.batches if b.manifest not in lost))
        for slot in state.spine.slots
    )
    return replace(state, spine=replace(state.spine, slots=slots))


def verdicts_of(state: State, looked: Sequence[Looked], run: str) -> list[Verdict]:
    """Return one verdict for each batch, under the key of its manifest."""
    return [_verdict(state, one, run) for one in looked]


def _verdict(state: State, one: Looked, run: str) -> Verdict:
    blamed = sorted({f.suspect for f in one.findings if f.suspect})
    if any(not f.suspect for f in one.findings):
        # nothing may be concluded about any of them
        blamed += sorted(set(one.keys.to_pylist()))
    return Verdict(
        run=run, shard=state.name, check=FORMAT_CHECK, sql="", part=one.batch.manifest or "",
        outcome="mismatch" if one.findings else "clean",
        rows=one.parts, accepted=0, size_bytes=0, layout="manifest",
        stats_version=0, code_version=__version__, stratum="format × manifest",
        column=one.findings[0].what if one.findings else "",
        bound="; ".join(dict.fromkeys(f.statement for f in one.findings)),
        replay=f"strata validate {state.name}", suspects=" ".join(blamed),
    )  # fmt: skip


def _look(stores: Stores, state: State, batch: Batch, listed: pa.Array) -> Looked:
    sums, parts = _Sums(), list[Finding]()
    names: list[pa.Array] = []
    runs: list[pa.Array] = []
    unions: list[pa.RecordBatch | None] = []
    try:
        manifest = StoredManifest(stores.blob, state.name, batch)
        parts += index_findings(manifest, state.relation)
        for piece in manifest.pieces(unions=True):
            table = piece.read()
            if piece.pages is not None:
                parts += page_findings(piece.pages, table, state.relation)
            for some in _slices(table):
                parts += [*_times(batch, some), *sums.add(some)]
                names.append(pc.cast(some["key"].combine_chunks(), pa.string()))
                runs.append(some["run"].combine_chunks())
                unions.append(union(stats_columns(some)))
        manifest.check_parts(sum(map(len, names)))
    except (Corrupt, pa.ArrowException) as error:
        none = pa.chunked_array([], pa.string())
        return Looked(batch, None, none, (Finding("manifest", str(error)),))
    every = pa.chunked_array(names, pa.string())
    findings = [
        *sums.findings(batch),
        *parts,
        *_stored(stores, every, listed),
        *_union(stores.blob, state, batch, unions),
    ]
    return Looked(
        batch,
        manifest,
        every,
        tuple(findings),
        sums.numbers["size_bytes"],
        len(every) - sums.numbers["stats_parts"],
        _again(every, pa.chunked_array(runs, pa.int32())),
    )


class _Sums:
    """The sums over a manifest, and the order of the parts in its runs."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.layouts: Counter[str] = Counter()
        self.runs: Counter[int] = Counter()
        self.versions: set[int] = set()
        self.retractions = False
        self.last: pa.Table | None = None  # a row

    def add(self, table: pa.Table) -> Iterator[Finding]:
        """Add the next parts, and yield those that are out of order in their run.

        Shape: rows of a manifest, with the fixed columns.
        """
        self.numbers.update(
            parts=table.num_rows,
            updates=sum(table["rows"].to_pylist()),
            stats_parts=table.num_rows - table["stats_version"].null_count,
        )
        # As Python's integers: one that is wrong may be huge.
        self.numbers.update(
            {n: sum(table[n].to_pylist()) for n in ("size_bytes", "diffs_sum", "digest")}
        )
        self.layouts.update(table["layout"].to_pylist())
        self.runs.update(table["run"].to_pylist())
        self.versions.update(table["relation_version"].unique().to_pylist())
        self.retractions |= bool(pc.any(table["retractions"]).as_py())
        rows = table if self.last is None else pa.concat_tables([self.last, table])
        self.last = table.slice(table.num_rows - 1)
        yield from _disorder(rows)

    def findings(self, batch: Batch) -> Iterator[Finding]:
        """Yield the sums that differ between the state and its manifest."""
        numbers = self.numbers
        runs = {number: run.parts for number, run in enumerate(batch.runs)}
        for what, recorded, found in (
            ("parts", batch.parts, numbers["parts"]),
            ("updates", batch.updates, numbers["updates"]),
            ("size_bytes", batch.size_bytes, numbers["size_bytes"]),
            ("diffs_sum", wrapped(batch.diffs_sum), wrapped(numbers["diffs_sum"])),
            ("digest", batch.digest, numbers["digest"] % MODULUS),
            ("retractions", batch.retractions, self.retractions),
            ("layouts", batch.layouts, tuple(sorted(self.layouts.items()))),
            ("stats_parts", batch.stats_parts, numbers["stats_parts"]),
            ("versions", batch.versions, tuple(sorted(self.versions))),
        ):
            if recorded != found:
                yield Finding(what, f"the state says {what} {recorded}, the manifest {found}")
        if dict(self.runs) != runs:
            yield Finding(
                "runs", f"the state says parts by run {runs}, the manifest {dict(self.runs)}"
            )


def _disorder(rows: pa.Table) -> Iterator[Finding]:
    """Yield the parts whose rows come before some of the part in front of them, in one run."""
    before, after = rows.slice(0, rows.num_rows - 1), rows.slice(1)
    sooner = [pc.less(after["key_low"], before[name]) for name in ("key_low", "key_high")]
    apart = pc.not_equal(after["run"], before["run"])
    suspects = pc.and_not(pc.or_(sooner[0], pc.fill_null(sooner[1], False)), apart)
    at = np.flatnonzero(suspects.to_numpy())
    for a, b in zip(part_refs(before.take(at)), part_refs(after.take(at)), strict=True):
        if a.order and a.order == b.order and _after(a, b):
            yield Finding("runs", f"in run {a.run} {b.key} comes before {a.key}", b.key)


def _times(batch: Batch, table: pa.Table) -> Iterator[Finding]:
    """Yield parts with times outside their batch; times before since have been moved up to it."""
    upper = max(batch.upper, batch.since + 1)
    low, high = (table[name].to_numpy() for name in ("t_low", "t_high"))
    wrong = np.flatnonzero((low > high) | (low < batch.lower) | (high >= upper))
    for ref in part_refs(table.take(wrong)):
        yield Finding(
            "times",
            f"{ref.key} has times {ref.t_low} to {ref.t_high}, its batch"
            f" {batch.lower if batch.lower > MIN_TIME else 'the beginning'} to {upper}",
            ref.key,
        )


def _after(a: PartRef, b: PartRef) -> bool:
    """Return whether some rows of `a` certainly do not come before those of `b`."""
    if b.key_low < a.key_low:
        return True
    whole = a.key_high is not None and len(a.key_high) < KEY_BYTES  # otherwise it was rounded up
    return (
        whole
        and a.key_high is not None
        and not a.key_high.startswith(b.key_low)
        and (b.key_low < a.key_high)
    )


def _stored(stores: Stores, parts: pa.ChunkedArray, listed: pa.Array) -> Iterator[Finding]:
    """Yield missing parts. A listing may be stale, so each part that it lacks is requested."""
    for key in parts.filter(pc.invert(pc.is_in(parts, value_set=listed))):
        if retry(partial(stores.blob.get, key.as_py(), 0, 1)) is None:
            yield Finding("part", f"{key} does not exist", key.as_py())


def _union(
    blob: Blob, state: State, batch: Batch, unions: Sequence[pa.RecordBatch | None]
) -> Iterator[Finding]:
    """Yield the contradictions between the batch's union and the statistics of its parts."""
    try:
        stored = batch_stats(blob, state.name, batch)
    except Corrupt as error:
        yield Finding("union", str(error), batch.union or "")
        return
    if stored is None or not unions:
        return
    if any(one is None for one in unions):  # some part has no statistics
        return
    actual = union(concat(unions, [0 if one is None else one["rows"][0].as_py() for one in unions]))
    if actual is None:
        return
    for lie in find_lies(stored.combine_chunks().to_batches()[0], actual, state.relation):
        yield Finding(lie.column, f"union of the batch: {lie}", str(lie.column_id))


def _again(parts: pa.ChunkedArray, runs: pa.ChunkedArray) -> frozenset[str]:
    """Return the parts that one run names more than once.

    Two runs may name the same part: older versions of ingest gave runs with equal rows the same
    part, and its rows count once for each run.
    """
    if pc.count_distinct(parts).as_py() == len(parts):
        return frozenset()
    named = Counter(zip(parts.to_pylist(), runs.to_pylist(), strict=True))
    return frozenset(key for (key, _), times in named.items() if times > 1)


def _told_apart(found: Sequence[Looked]) -> list[Looked]:
    """Return the batches with a finding for each part named by two batches, or twice by one run."""
    own = [one.keys.unique() for one in found]
    unique = pa.chunked_array(own, pa.string())
    shared = frozenset[str]().union(*(one.again for one in found))
    if pc.count_distinct(unique).as_py() < len(unique):
        shared |= {key for key, times in Counter(unique.to_pylist()).items() if times > 1}
    if not shared:
        return list(found)
    times = Counter(key for one in found for key in one.keys.to_pylist() if key in shared)
    return [
        replace(
            one,
            findings=(
                *one.findings,
                *(
                    Finding("part", f"{key} is named {times[key]} times", key)
                    for key in some.to_pylist()
                    if key in shared
                ),
            ),
        )
        for one, some in zip(found, own, strict=True)
    ]

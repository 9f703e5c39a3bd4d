"""Check the state's figures of batches against their manifests, and that every part exists.

No part is opened; `strata.audit.parts` does that. A manifest that cannot be read, or differs from
the one that the state describes, is a finding like any other, and its parts are not checked.

Memory: manifests in one blob as stored, one piece as a table, a number for each part of the shard
and each listed one (`strata.parts.numbered`), and Python objects for `SLICE_PARTS` parts at a time.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata import __version__
from strata.audit.blame import find_lies
from strata.audit.compare import Finding
from strata.audit.names import Named, named_again
from strata.audit.pages import index_findings, page_findings
from strata.audit.verdict import FORMAT_CHECK, Verdict
from strata.errors import Corrupt
from strata.format.manifest import SCHEMA, PartRef, part_refs, stats_columns
from strata.kernels.arrays import Bools, Ints
from strata.model.sums import MODULUS, wrapped
from strata.model.time import MIN_TIME
from strata.parts.manifests import StoredManifest
from strata.parts.numbered import Numbered, name_numbers, numbers_in
from strata.parts.part_facts import KEY_BYTES
from strata.parts.unions import batch_stats
from strata.state.state import Batch, State
from strata.stats import concat, union
from strata.store import keys
from strata.store.interface import Blob
from strata.store.open import Stores
from strata.store.retry import retry
from strata.updates.resident import Resident

SLICE_PARTS: Final = 8192
PAGES_PARTS: Final = 16_384  # of pages that are decoded together
# The pages of a large manifest leave freed memory behind in the threads that decoded them: so much
# of it is given back now and then
FREED_BYTES: Final = 128 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Looked:
    """One checked batch."""

    batch: Batch
    manifest: StoredManifest | None  # None: unreadable
    findings: tuple[Finding, ...]
    parts: int = 0
    size_bytes: int = 0  # of the parts
    without_stats: int = 0  # parts

    def slices(self, columns: Collection[str] | None = None) -> Iterator[pa.Table]:
        """Yield the rows of the manifest in slices; nothing if it is unreadable.

        Cost: decodes these columns of the manifest, None all. Raises: Corrupt.
        """
        if self.manifest is not None:
            for piece in Resident(FREED_BYTES).settled(self.manifest.pieces(most=PAGES_PARTS)):
                yield from _slices(piece.read(columns))


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    for start in range(0, table.num_rows, SLICE_PARTS):
        yield table.slice(start, SLICE_PARTS)


def look(stores: Stores, state: State) -> list[Looked]:
    """Return what is wrong with each batch that has parts.

    Cost: reads every manifest, lists the shard's parts once.
    """
    listed, named = retry(partial(_listed, stores, state)), Numbered()
    found = [
        _look(stores, state, batch, listed, named) for batch in state.batches if batch.manifest
    ]
    del listed
    return _told_apart(found, named.twice())


def _listed(stores: Stores, state: State) -> Ints:
    """Return the numbers of all stored parts in order, from a listing."""
    found = stores.blob.list(f"{keys.shard_prefix(state.name)}{keys.BlobKind.PART}/")
    listed = Numbered()
    while piece := [info.key for info in islice(found, SLICE_PARTS)]:
        listed.add(piece)
    return listed.sorted()


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
        blamed += sorted({key for s in one.slices(["key"]) for key in s["key"].to_pylist()})
    return Verdict(
        run=run, shard=state.name, check=FORMAT_CHECK, sql="", part=one.batch.manifest or "",
        outcome="mismatch" if one.findings else "clean",
        rows=one.parts, accepted=0, size_bytes=0, layout="manifest",
        stats_version=0, code_version=__version__, stratum="format × manifest",
        column=one.findings[0].what if one.findings else "",
        bound="; ".join(dict.fromkeys(f.statement for f in one.findings)),
        replay=f"strata validate {state.name}", suspects=" ".join(blamed),
    )  # fmt: skip


def _look(stores: Stores, state: State, batch: Batch, listed: Ints, named: Numbered) -> Looked:
    sums, parts, gone = _Sums(), list[Finding](), list[Finding]()
    unions: list[pa.RecordBatch | None] = []
    try:
        manifest = StoredManifest(stores.blob, state.name, batch)
        parts += index_findings(manifest, state.relation)
        for piece in Resident(FREED_BYTES).settled(manifest.pieces(unions=True, most=PAGES_PARTS)):
            table = piece.read()
            if piece.pages is not None:
                parts += page_findings(piece.pages, table, state.relation)
            for some in _slices(table):
                parts += [*_times(batch, some), *sums.add(some)]
                names = some["key"].to_pylist()
                gone += _stored(stores, names, numbers_in(named.add(names), listed))
                unions.append(union(stats_columns(some)))
        manifest.check_parts(sums.numbers["parts"])
    except (Corrupt, pa.ArrowException) as error:
        return Looked(batch, None, (Finding("manifest", str(error)),))
    findings = [
        *sums.findings(batch),
        *parts,
        *gone,
        *_union(stores.blob, state, batch, unions),
    ]
    return Looked(
        batch,
        manifest,
        tuple(findings),
        sums.numbers["parts"],
        sums.numbers["size_bytes"],
        sums.numbers["parts"] - sums.numbers["stats_parts"],
    )


class _Sums:
    """The sums over a manifest, and the order of the parts in its runs."""

    def __init__(self) -> None:
        self.numbers: Counter[str] = Counter()
        self.layouts: Counter[Any] = Counter()
        self.runs: Counter[Any] = Counter()
        self.versions: set[int] = set()
        self.retractions = False
        self.last: pa.Table | None = None  # a row

    def add(self, table: pa.Table) -> Iterator[Finding]:
        """Add the next parts, and yield those that are out of order in their run.

        Shape: rows of a manifest, with the fixed columns.
        """
        self.numbers.update(
            parts=table.num_rows,
            updates=_exact_sum(table["rows"]),
            stats_parts=table.num_rows - table["stats_version"].null_count,
        )
        self.numbers.update(
            {n: _exact_sum(table[n]) for n in ("size_bytes", "diffs_sum", "digest")}
        )
        for name, counted in (("layout", self.layouts), ("run", self.runs)):
            counts = pc.value_counts(table[name])
            values, times = (counts.field(n).to_pylist() for n in ("values", "counts"))
            counted.update(dict(zip(values, times, strict=True)))
        self.versions.update(table["relation_version"].unique().to_pylist())
        self.retractions |= bool(pc.any(table["retractions"]).as_py())
        fixed = table.select(SCHEMA.names)  # pages may have different statistics
        rows = fixed if self.last is None else pa.concat_tables([self.last, fixed])
        self.last = fixed.slice(table.num_rows - 1)
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


def _exact_sum(column: pa.ChunkedArray) -> int:
    """Return a sum of up to 2^31 integers of 64 bits; one that is wrong may be huge."""
    values = column.to_numpy()
    low, high = values & values.dtype.type(0xFFFFFFFF), values >> 32
    return (int(high.sum()) << 32) + int(low.sum())


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


def _stored(stores: Stores, names: Sequence[str], listed: Bools) -> Iterator[Finding]:
    """Yield missing parts. A listing may be stale, so each part that it lacks is requested."""
    for place in np.flatnonzero(~listed).tolist():
        if retry(partial(stores.blob.get, names[place], 0, 1)) is None:
            yield Finding("part", f"{names[place]} does not exist", names[place])


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


def _told_apart(found: Sequence[Looked], twice: Ints) -> list[Looked]:
    """Return the batches with a finding for each part named by two batches, or twice by one run.

    `twice`: the numbers that more than one name has; only these names are looked at.
    """
    more: dict[int, list[Finding]] = {}
    if len(twice):
        for key, times, places in named_again(_named(found, twice)):
            for place in places:
                finding = Finding("part", f"{key} is named {times} times", key)
                more.setdefault(place, []).append(finding)
    return [
        replace(one, findings=(*one.findings, *more[place])) if place in more else one
        for place, one in enumerate(found)
    ]


def _named(found: Sequence[Looked], numbers: Ints) -> Iterator[Named]:
    """Yield the parts that have one of these numbers."""
    for place, one in enumerate(found):
        for some in one.slices(["key", "run"]):
            names, runs = some["key"].to_pylist(), some["run"].to_pylist()
            for at in np.flatnonzero(numbers_in(name_numbers(names), numbers)).tolist():
                yield place, runs[at], names[at]

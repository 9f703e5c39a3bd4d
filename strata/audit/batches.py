"""Check what the state says of batches against their manifests, and that every part is there.

No part is opened: that is `strata.audit.parts`. A manifest that cannot be read, or is not the one
that the state describes, is a finding like any other; what it would have led to is not checked.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import pyarrow as pa

from strata import __version__
from strata.audit.blame import find_lies
from strata.audit.compare import Finding
from strata.audit.verdict import FORMAT_CHECK, Verdict
from strata.errors import Corrupt
from strata.format.manifest import PartRef, part_refs, stats_rows
from strata.model.time import MIN_TIME
from strata.plan import batch_stats, load_manifest
from strata.state.state import Batch, State
from strata.stats import concat, union
from strata.store import keys
from strata.store.open import Stores
from strata.store.retry import retry
from strata.write import KEY_BYTES


@dataclass(frozen=True, slots=True)
class Looked:
    """One batch that was looked at."""

    batch: Batch
    manifest: pa.Table | None  # None: it cannot be read
    refs: tuple[PartRef, ...]
    findings: tuple[Finding, ...]


def look(stores: Stores, state: State) -> list[Looked]:
    """Return what is wrong with each batch that has parts.

    Cost: reads every manifest, lists the shard's parts once.
    """
    prefix = f"{keys.shard_prefix(state.name)}{keys.Kind.PART}/"
    sizes = {i.key: i.size_bytes for i in retry(lambda: list(stores.blob.list(prefix)))}
    found = [_look(stores, state, batch, sizes) for batch in state.batches if batch.manifest]
    return _told_apart(found)


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
    parts = {ref.key for ref in one.refs}
    blamed = sorted({f.suspect for f in one.findings if f.suspect})
    if any(not f.suspect for f in one.findings):
        blamed += sorted(parts)  # nothing may be concluded about any of them
    return Verdict(
        run=run, shard=state.name, check=FORMAT_CHECK, sql="", part=one.batch.manifest or "",
        outcome="mismatch" if one.findings else "clean",
        rows=len(one.refs), accepted=0, size_bytes=0, layout="manifest",
        stats_version=0, code_version=__version__, stratum="format × manifest",
        column=one.findings[0].what if one.findings else "",
        bound="; ".join(f.statement for f in one.findings),
        replay=f"strata validate {state.name}", suspects=" ".join(blamed),
    )  # fmt: skip


def _look(stores: Stores, state: State, batch: Batch, sizes: Mapping[str, int]) -> Looked:
    try:
        manifest = load_manifest(stores, state, batch)
        refs = tuple(part_refs(manifest))
    except (Corrupt, pa.ArrowException) as error:
        return Looked(batch, None, (), (Finding("manifest", str(error)),))
    findings = [
        *_sums(batch, refs), *_times(batch, refs), *_runs(batch, refs),
        *_stored(stores, refs, sizes), *_union(state, batch, manifest),
    ]  # fmt: skip
    return Looked(batch, manifest, refs, tuple(findings))


def _sums(batch: Batch, refs: Sequence[PartRef]) -> Iterator[Finding]:
    """Yield what the state adds up otherwise than its manifest does."""
    layouts = Counter(ref.layout for ref in refs)
    for what, recorded, found in (
        ("parts", batch.parts, len(refs)),
        ("updates", batch.updates, sum(ref.rows for ref in refs)),
        ("size_bytes", batch.size_bytes, sum(ref.size_bytes for ref in refs)),
        ("diffs_sum", batch.diffs_sum, sum(ref.diffs_sum for ref in refs)),
        ("digest", batch.digest, sum(ref.digest for ref in refs) % 2**64),
        ("retractions", batch.retractions, any(ref.retractions for ref in refs)),
        ("layouts", batch.layouts, tuple(sorted(layouts.items()))),
        ("stats_parts", batch.stats_parts, sum(ref.stats_version is not None for ref in refs)),
        ("versions", batch.versions, tuple(sorted({ref.relation_version for ref in refs}))),
    ):
        if recorded != found:
            yield Finding(what, f"the state says {what} {recorded}, the manifest {found}")


def _times(batch: Batch, refs: Sequence[PartRef]) -> Iterator[Finding]:
    """Yield parts with times outside their batch; those before since were moved up to it."""
    upper = max(batch.upper, batch.since + 1)
    for ref in refs:
        if ref.t_low > ref.t_high or ref.t_low < batch.lower or ref.t_high >= upper:
            yield Finding(
                "times", f"{ref.key} has times {ref.t_low} to {ref.t_high}, its batch"
                f" {batch.lower if batch.lower > MIN_TIME else 'the beginning'} to {upper}",
                ref.key,
            )  # fmt: skip


def _runs(batch: Batch, refs: Sequence[PartRef]) -> Iterator[Finding]:
    """Yield runs that are not as long as recorded, or whose parts do not follow one another."""
    numbers = [ref.run for ref in refs]
    found = Counter(numbers)
    recorded = {number: run.parts for number, run in enumerate(batch.runs)}
    if dict(found) != recorded:
        yield Finding("runs", f"the state says parts by run {recorded}, the manifest {dict(found)}")
    for a, b in pairwise(refs):
        if a.run == b.run and a.order and a.order == b.order and _after(a, b):
            yield Finding("runs", f"in run {a.run} {b.key} comes before {a.key}", b.key)


def _after(a: PartRef, b: PartRef) -> bool:
    """Tell whether the rows of `a` certainly do not all come before those of `b`."""
    if b.key_low < a.key_low:
        return True
    whole = a.key_high is not None and len(a.key_high) < KEY_BYTES  # else it was rounded up
    return (
        whole
        and a.key_high is not None
        and not a.key_high.startswith(b.key_low)
        and (b.key_low < a.key_high)
    )


def _stored(stores: Stores, refs: Sequence[PartRef], sizes: Mapping[str, int]) -> Iterator[Finding]:
    """Yield parts that are not there; a listing may be stale, so what it lacks is asked for."""
    for ref in refs:
        if ref.key not in sizes and retry(lambda ref=ref: stores.blob.get(ref.key, 0, 1)) is None:  # type: ignore[misc]
            yield Finding("part", f"{ref.key} does not exist", ref.key)


def _union(state: State, batch: Batch, manifest: pa.Table) -> Iterator[Finding]:
    """Yield what the union in the state denies that a part's statistics say."""
    stored = batch_stats(batch)
    rows = stats_rows(manifest)
    if stored is None or not all(row is not None for row in rows):
        return
    actual = union(concat(rows, manifest["rows"].to_pylist()))
    if actual is None:
        return
    for lie in find_lies(stored.combine_chunks().to_batches()[0], actual, state.relation):
        yield Finding(lie.column, f"union of the batch: {lie}", str(lie.column_id))


def _told_apart(found: Sequence[Looked]) -> list[Looked]:
    """Return the same with a finding for each part that more than one place names."""
    times = Counter(ref.key for one in found for ref in one.refs)
    return [
        replace(one, findings=(*one.findings, *(
            Finding("part", f"{ref.key} is named {times[ref.key]} times", ref.key)
            for ref in one.refs if times[ref.key] > 1
        )))
        for one in found
    ]  # fmt: skip

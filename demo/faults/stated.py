"""Faults of whole batches: in the state, and between the state and its manifests."""

from dataclasses import replace
from random import Random
from typing import Final

import pyarrow as pa

from demo.faults.site import Injected, Site, with_cell
from strata.parts.unions import batch_stats
from strata.state.seal import digest_of
from strata.state.state import Batch
from strata.stats.wire import parse_name


def _drawn(site: Site, draw: Random) -> list[Batch]:
    batches = site.batches()
    draw.shuffle(batches)
    return batches


def _manifests_swapped(site: Site, draw: Random) -> Injected | None:
    """Point two batches to each other's manifests."""
    batches = _drawn(site, draw)
    for a in batches:
        for b in batches:
            if a.parts == b.parts and a.digest != b.digest:
                keys = a.manifest or "", b.manifest or ""
                swapped = replace(a, manifest=keys[1]), replace(b, manifest=keys[0])
                site.exchange(dict(zip(keys, swapped, strict=True)))
                return Injected(keys[1], "digest", f"manifests {keys[0]} and {keys[1]} swapped")
    return None


def _stale_manifest(site: Site, draw: Random) -> Injected | None:
    """Point a batch to a manifest from before its last part came; the counts are taken along."""
    for batch in _drawn(site, draw):
        table = site.manifest(batch)
        if table.num_rows > 1:
            older = table.slice(0, table.num_rows - 1)
            key = site.record(batch, older, parts=batch.parts - 1)
            return Injected(key, "digest", "a manifest without its last part")
    return None


def _short_manifest(site: Site, draw: Random) -> Injected | None:
    for batch in _drawn(site, draw):
        table = site.manifest(batch)
        if table.num_rows > 1:
            key = site.record(batch, table.slice(1))
            return Injected(key, "", "a manifest with fewer parts than the state counts")
    return None


def _part_twice(site: Site, draw: Random) -> Injected | None:
    """Name one part twice: every row of it counts double."""
    batch = next(iter(_drawn(site, draw)), None)
    if batch is None:
        return None
    table = site.manifest(batch)
    key = site.record(batch, pa.concat_tables([table, table.slice(0, 1)]), parts=batch.parts + 1)
    return Injected(key, "2 times", "a part is named twice")


def _manifest_flipped(site: Site, draw: Random) -> Injected | None:
    batch = next(iter(_drawn(site, draw)), None)
    if batch is None:
        return None
    key = batch.manifest or ""
    data = bytearray(site.data(key))
    data[len(data) // 2] ^= 0xFF
    site.overwrite(key, bytes(data))
    return Injected(key, "", "a byte of a manifest flipped")


def _manifest_lost(site: Site, draw: Random) -> Injected | None:
    batch = next(iter(_drawn(site, draw)), None)
    if batch is None:
        return None
    key = batch.manifest or ""
    site.stores.blob.delete(key)
    return Injected(key, "", "a manifest deleted")


def _union_narrow(site: Site, draw: Random) -> Injected | None:
    """Raise a low bound in the union that drops a whole batch."""
    for batch in _drawn(site, draw):
        stats = batch_stats(site.stores.blob, site.state.name, batch)
        names = [] if stats is None else [n for n in stats.column_names if parse_name(n)]
        draw.shuffle(names)
        for name in names:
            assert stats is not None
            value = stats[name][0].as_py()
            ends = (value or {}).get("low"), (value or {}).get("high")
            if None not in ends and ends[0] != ends[1]:
                narrow = with_cell(stats, name, 0, {**value, "low": ends[1]})
                union = _ipc(narrow)
                lying = replace(batch, stats_union=union, stats_digest=digest_of(union))
                site.exchange({batch.manifest or "": lying})
                return Injected(batch.manifest or "", "union", f"union of {name}")
    return None


def _ipc(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _updates_miscounted(site: Site, draw: Random) -> Injected | None:
    batch = next(iter(_drawn(site, draw)), None)
    if batch is None:
        return None
    site.exchange({batch.manifest or "": replace(batch, updates=batch.updates + 1)})
    return Injected(batch.manifest or "", "updates", "the state counts an update more")


def _run_disordered(site: Site, draw: Random) -> Injected | None:
    """Turn the parts of a run around, so that a merge takes them for sorted."""
    for batch in _drawn(site, draw):
        table = site.manifest(batch)
        if table.num_rows > 1 and len(batch.runs) == 1 and batch.runs[0].order:
            turned = table.take(list(range(table.num_rows))[::-1])
            return Injected(site.record(batch, turned), "comes before", "a run turned around")
    return None


def _outside(site: Site, draw: Random) -> Injected | None:
    """Move the bounds of a batch past the times of its parts."""
    for batch in _drawn(site, draw):
        low = min(site.manifest(batch)["t_high"].to_pylist())
        if batch.lower < low < batch.upper - 1:
            site.exchange({batch.manifest or "": replace(batch, upper=low)})
            return Injected(batch.manifest or "", "times", "a batch ends before its last update")
    return None


FAULTS: Final = {
    "two manifests swapped": _manifests_swapped,
    "a stale manifest": _stale_manifest,
    "a manifest with too few parts": _short_manifest,
    "a part named twice": _part_twice,
    "a byte of a manifest flipped": _manifest_flipped,
    "a manifest lost": _manifest_lost,
    "union of a batch too narrow": _union_narrow,
    "updates miscounted in the state": _updates_miscounted,
    "parts of a run in the wrong order": _run_disordered,
    "times outside their batch": _outside,
}

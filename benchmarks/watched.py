"""What a load test watches: sizes that must not grow for ever, and the report at its end."""

import argparse
import json
import os
import sys
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
import psutil

from strata.machine.documents import Documents
from strata.machine.machine import KEEP_AT_MOST
from strata.state.codec import encode_state
from strata.state.spine import debt
from strata.store.keys import BlobKind, parse_key
from strata.store.open import Stores

GROWTH: Final = 1.5  # the last quarter against the second; more is growth without bound
# A token of any age is recognised, so each 64 commits leave a leaf, and each 16 leaves a node
COMMITS_A_BLOB: Final = 56
LEDGER_BLOBS: Final = 8  # of a shard, beside these: what lost races leave until it is swept
_NAMES: Final = {
    BlobKind.PART: "parts",
    BlobKind.MANIFEST: "manifests",
    BlobKind.LEDGER: "ledger blobs",
}


def shard_name(number: int) -> str:
    """Return the name of a shard."""
    return f"load{number:03}"


def sizes(
    stores: Stores, shards: int, database: Path | None, processes: Sequence[psutil.Process]
) -> dict[str, float]:
    """Return what must not grow for ever, all shards together. Units: bytes, but for counts."""
    found: dict[str, float] = defaultdict(float)
    for number in range(shards):
        head = Documents(stores.consensus).head(shard_name(number))
        if head is not None:
            found["state bytes"] += len(encode_state(head.state))
            found["runs unmerged"] += debt(head.state.spine)
            found["orphan parts"] -= sum(batch.parts for batch in head.state.batches)
            found["ledger blobs too many"] -= (
                LEDGER_BLOBS + head.state.spine.next_id / COMMITS_A_BLOB
            )
    for info in stores.blob.list(""):
        kind = parse_key(info.key).kind
        found[_NAMES.get(kind, "other blobs")] += 1
        found["blob bytes"] += info.size_bytes
    found["orphan parts"] += found["parts"]
    found["ledger blobs too many"] = max(0, found["ledger blobs too many"] + found["ledger blobs"])
    if database is not None:
        found["database bytes"] = sum(f.stat().st_size for f in database.glob("consensus.db*"))
    for process in processes:
        if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            found[f"memory of {process.pid}"] = process.memory_info().rss
    return dict(found)


def names_of(samples: Sequence[dict[str, float]]) -> list[str]:
    """Return what was watched; processes are not there any more at the end."""
    return sorted({name for sample in samples for name in sample})


def growing(samples: Sequence[dict[str, float]]) -> list[str]:
    """Return what is in the last quarter so much more than in the second."""
    quarter = len(samples) // 4
    if quarter < 2:
        return []
    found = []
    for name in names_of(samples):
        values = [sample[name] for sample in samples if name in sample]
        before, after = median(values[quarter : 2 * quarter]), median(values[-quarter:])
        if name == "ledger blobs":
            continue  # they grow by design: see "ledger blobs too many"
        if name == "database bytes":  # it keeps a day's states, up to a limit for each shard
            before = KEEP_AT_MOST * median(sample.get("state bytes", 0) for sample in samples)
        if after > GROWTH * before:
            found.append(f"{name}: {before:,.0f} -> {after:,.0f}")
    return found


def report(
    seen: dict[str, dict[str, list[float]]],
    samples: list[dict[str, float]],
    died: list[str],
    asked: argparse.Namespace,
) -> int:
    """Print the figures; return the exit code."""
    errors = [*died, *seen["error"], *growing(samples)]
    print(
        f"{asked.minutes:g} min, {asked.shards} shards, {asked.writers} writers of at most "
        f"{asked.pace:g} batches/s, load {os.getloadavg()[1]:.1f}"
    )
    print(f"{'':14} {'number':>8} {'median ms':>10} {'p95 ms':>10} {'p99 ms':>10} {'most ms':>10}")
    for name, times in sorted(seen["time"].items()):
        ms = 1000 * np.percentile(times, [50, 95, 99, 100])
        print(f"{name:14} {len(times):8,} " + " ".join(f"{value:10,.1f}" for value in ms))
    batches = len(seen["time"]["append"])
    print(f"{batches / asked.minutes / 60:,.1f} batches a second appended by all writers")
    for name, races in seen["race"].items():
        print(f"races lost, {name}: {len(races):,}")
    quarters = [samples[max(len(samples) - 2, 0) * n // 4] for n in range(1, 5)] if samples else []
    for name in names_of(samples):
        print(f"{name:20} " + " ".join(f"{quarter.get(name, 0):14,.0f}" for quarter in quarters))
    for error in errors:
        print(f"ERROR {error}", file=sys.stderr)
    print(json.dumps({"errors": len(errors), "samples": len(samples)}))
    return 1 if errors else 0

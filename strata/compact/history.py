"""Report what merges did to a shard, their cost, and merges under way, from the state alone."""

from dataclasses import asdict
from typing import Any

from strata.compact.plan import runs_of
from strata.state.merging import live_progress
from strata.state.state import State


def merge_history(state: State, limit: int = 20) -> dict[str, Any]:
    """Return the document of `strata merges`, newest first.

    Units: times in milliseconds since 1970, sizes in bytes. Totals cover all remembered merges.
    """
    merges = [asdict(merge) for merge in reversed(state.merges)][:limit]
    under_way = [
        {
            "lower": p.lower,
            "upper": p.upper,
            "since": p.since,
            "tasks": p.tasks,
            "done": p.done,
            "bytes_out": p.bytes_out,
            "at_ms": p.at_ms,
            "bytes_in": sum(b.size_bytes for b in state.batches if b.manifest in p.inputs),
        }
        for p in live_progress(state)
    ]
    return {
        "shard": state.name,
        "runs": runs_of(state.batches),
        "merges": merges,
        "under_way": under_way,
        "bytes_in": sum(m.bytes_in for m in state.merges),
        "bytes_out": sum(m.bytes_out for m in state.merges),
        "updates_in": sum(m.updates_in for m in state.merges),
        "updates_out": sum(m.updates_out for m in state.merges),
        "seconds": round(sum(m.seconds for m in state.merges), 3),
    }

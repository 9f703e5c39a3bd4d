"""Describe a state for people and programs, as `strata inspect` and `strata shards` do."""

from typing import Any

from strata.state.state import Batch, State


def describe(state: State) -> dict[str, Any]:
    """Return the document of `strata inspect`.

    Units: times in milliseconds since 1970, sizes in bytes.
    """
    names = {column.id: column.name for column in state.relation.columns}
    formats: dict[str, int] = {}
    for batch in state.batches:
        for layout, parts in batch.layouts:
            formats[layout] = formats.get(layout, 0) + parts
    return {
        "shard": state.name,
        "since": state.since,
        "upper": state.upper,
        "seqno": state.seqno,
        "batches": [_batch(batch, names) for batch in state.batches],
        "parts": sum(batch.parts for batch in state.batches),
        "bytes": sum(batch.size_bytes for batch in state.batches),
        "updates": sum(batch.updates for batch in state.batches),
        "formats": formats,
        "holds": [
            {"name": h.name, "since": h.since, "state": h.seqno, "expires_ms": h.expires_ms}
            for h in state.holds
        ],
        "stats": {
            "parts_with": sum(batch.stats_parts for batch in state.batches),
            "bytes": sum(batch.stats_bytes for batch in state.batches),
        },
        "rollout": {
            "mode": state.rollout.mode,
            "audit_percent": state.rollout.audit_percent,
            "reason": state.rollout.reason,
            "quarantine": list(state.rollout.quarantine),
        },
    }


def _batch(batch: Batch, names: dict[int, str]) -> dict[str, Any]:
    return {
        "lower": batch.lower,
        "upper": batch.upper,
        "since": batch.since,
        "updates": batch.updates,
        "bytes": batch.size_bytes,
        "runs": [
            {
                "parts": run.parts,
                "updates": run.updates,
                "order": [names.get(i, f"#{i}") for i in run.order],
            }
            for run in batch.runs
        ],
    }


def summarise(state: State) -> dict[str, Any]:
    """Return the shard in one line."""
    batches = state.batches
    return {
        "shard": state.name,
        "since": state.since,
        "upper": state.upper,
        "seqno": state.seqno,
        "batches": len(batches),
        "runs": sum(len(batch.runs) for batch in batches),
        "parts": sum(batch.parts for batch in batches),
        "updates": sum(batch.updates for batch in batches),
        "bytes": sum(batch.size_bytes for batch in batches),
        "mode": state.rollout.mode,
    }

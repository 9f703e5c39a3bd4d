"""Report the outcome of a compaction, for people and for programs."""

from dataclasses import dataclass
from typing import Any

from strata.model.time import MIN_TIME, format_time


@dataclass(frozen=True, slots=True)
class RequestReport:
    """The outcome of one request."""

    lower: int
    upper: int
    since: int
    reason: str  # why it was made
    outcome: str  # applied | planned | why it was not applied
    updates_in: int
    updates_out: int
    bytes_in: int
    bytes_out: int
    parts_in: int
    parts_out: int
    runs_in: int
    by_reference: bool = False  # nothing was rewritten, because the input already was the result
    parts_kept: int = 0  # of `parts_out`: kept by reference
    tasks: int = 0
    resumed: int = 0  # of `tasks`: done by an earlier run that ended early
    seconds: float = 0.0  # from planning to the commit
    stats_bytes: int = 0  # size of the statistics in the result
    stats_seconds: float = 0.0  # processor time to collect them

    @property
    def applied(self) -> bool:
        """Return whether the merge is in the state."""
        return self.outcome == "applied"

    def __str__(self) -> str:
        """Return the request and its outcome on one line."""
        made = f"[{shown_time(self.lower)}, {shown_time(self.upper)}) {self.reason}: {self.outcome}"
        if not self.applied:
            return f"{made}; {self.updates_in:,} updates, {self.bytes_in:,} bytes"
        return (
            f"{made}{' by reference' if self.by_reference else ''}; "
            f"updates {self.updates_in:,} -> {self.updates_out:,}, "
            f"bytes {self.bytes_in:,} -> {self.bytes_out:,}, "
            f"parts {self.parts_in:,} -> {self.parts_out:,}"
            f"{f' ({self.parts_kept:,} kept)' if self.parts_kept else ''}"
            f"{f', {self.resumed} of {self.tasks} tasks done before' if self.resumed else ''}"
        )


@dataclass(frozen=True, slots=True)
class CompactReport:
    """What a compaction did to one shard."""

    shard: str
    since: int
    requests: tuple[RequestReport, ...]
    idle_reason: str | None
    runs_before: int
    runs_after: int
    seconds: float

    @property
    def applied(self) -> int:
        """Return how many requests were applied."""
        return sum(request.applied for request in self.requests)

    @property
    def not_applied(self) -> tuple[str, ...]:
        """Return why requests were not applied: another merge was faster."""
        return tuple(r.outcome for r in self.requests if not r.applied and r.outcome != "planned")

    def lines(self) -> list[str]:
        """Return the report for people: a line for each request, or why there is none."""
        head = f"{self.shard}: since {shown_time(self.since)}"
        if self.idle_reason is not None:
            return [f"{head}; nothing to do: {self.idle_reason}"]
        if all(request.outcome == "planned" for request in self.requests):
            change = f"{len(self.requests)} merges would be done"
            return [f"{head}; {change}", *(f"  {request}" for request in self.requests)]
        change = f"{self.applied} of {len(self.requests)} merges applied in {self.seconds:.1f} s"
        runs = f"runs {self.runs_before:,} -> {self.runs_after:,}"
        return [f"{head}; {change}; {runs}", *(f"  {request}" for request in self.requests)]

    def to_json(self) -> dict[str, Any]:
        """Return the document of `strata compact --json`.

        Units: times in milliseconds since 1970, sizes in bytes. Totals count applied requests.
        """
        done = [r for r in self.requests if r.applied]
        return {
            "shard": self.shard,
            "since": self.since,
            "requests": [
                {
                    "lower": r.lower,
                    "upper": r.upper,
                    "since": r.since,
                    "runs": r.runs_in,
                    "bytes": r.bytes_in,
                    "parts": r.parts_in,
                    "updates": r.updates_in,
                    "bytes_out": r.bytes_out,
                    "parts_out": r.parts_out,
                    "parts_kept": r.parts_kept,
                    "updates_out": r.updates_out,
                    "tasks": r.tasks,
                    "resumed": r.resumed,
                    "reason": r.reason,
                    "outcome": r.outcome,
                }
                for r in self.requests
            ],
            "applied": self.applied,
            "not_applied": len(self.not_applied),
            "updates_in": sum(r.updates_in for r in done),
            "updates_out": sum(r.updates_out for r in done),
            "bytes_in": sum(r.bytes_in for r in done),
            "bytes_out": sum(r.bytes_out for r in done),
            "parts_in": sum(r.parts_in for r in done),
            "parts_out": sum(r.parts_out for r in done),
            "runs_before": self.runs_before,
            "runs_after": self.runs_after,
            "stats_bytes": sum(r.stats_bytes for r in done),
            "stats_ms": round(sum(r.stats_seconds for r in done) * 1000),
            "idle_reason": self.idle_reason,
            "seconds": round(self.seconds, 3),
        }


def shown_time(value: int) -> str:
    """Return a time in a form for people."""
    return "the beginning" if value == MIN_TIME else format_time(value)

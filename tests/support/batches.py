"""Batches without data, as the state sees them, for tests of the state."""

from dataclasses import replace

from strata.model.spec import ShardSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.state.state import Batch, RunSummary


def spec(name: str = "events", **changes: object) -> ShardSpec:
    columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "note", "type": "text"}]
    return parse_spec({"name": name, "columns": columns, "key": ["id"], **changes})


def batch(
    lower: int,
    upper: int,
    updates: int = 1,
    *,
    manifest: str | None = None,
    runs: int = 1,
    since: int = MIN_TIME,
    digest: int = 7,
) -> Batch:
    """Return a batch of `updates` in `runs` runs of one part each; none of either if empty."""
    if not updates:
        return Batch(lower, upper, since)
    share, rest = divmod(updates, runs)
    sizes = [share + (i < rest) for i in range(runs)]
    return Batch(
        lower,
        upper,
        since,
        updates,
        updates * 10,
        runs,
        tuple(RunSummary(1, size, size * 10, (1, 2)) for size in sizes),
        manifest or f"manifest-{lower}-{upper}",
        (("both", runs),),
        diffs_sum=updates,
        digest=digest,
    )


def merged(inputs: tuple[Batch, ...], since: int, updates: int | None = None) -> Batch:
    """Return what a merge of `inputs` makes of them: one run with the same content."""
    total = sum(b.updates for b in inputs) if updates is None else updates
    lower, upper = inputs[0].lower, inputs[-1].upper
    new = batch(lower, upper, total, since=since, manifest=f"merged-{lower}-{upper}-{since}")
    return replace(
        new,
        diffs_sum=sum(b.diffs_sum for b in inputs),
        digest=sum(b.digest for b in inputs) % 2**64,
    )

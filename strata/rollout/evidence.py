"""Counts of audits, by stratum, and what they say about the parts that were not audited.

One run of soft evaluation adds one `AuditCounts` to a shard's evidence, in the commit that records
its verdicts. A mismatch resets the evidence, and so does a change of the deciding code. Each pair
of a part and a shape of filters counts once; auditing it again counts as another night and as a
repeat. Evidence proves nothing: parts are not drawn independently, so the bound holds for the
audited mix.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from strata.state.state import Evidence, Stratum

STRATA_MAX: Final = 256  # counted separately; further ones are counted together
OTHER: Final = "other"
CONFIDENCE: Final = 0.95
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Seen:
    """The parts judged with each filter, this run included; see `strata.audit.seen`."""

    key: str  # of the blob that records them
    parts: int  # distinct ones
    filters: int  # shapes of them
    before: str | None  # the blob that it continues, from the earlier evidence
    whole: bool = True  # False: the earlier record is lost, and evidence starts again


@dataclass(frozen=True, slots=True)
class AuditCounts:
    """What one clean run of soft evaluation looked at."""

    parts: int  # would-be-skipped parts fetched and judged, with a filter not seen before
    rows: int  # this and bytes include the repeats
    size_bytes: int
    failed: int
    missing: int
    percent: int  # planned share of the would-be-skipped parts to fetch
    strata: Mapping[str, int] = field(default_factory=dict)  # of `parts`
    repeats: int = 0  # parts already judged with the same filter
    seen: Seen | None = None  # everything judged so far; None: it is not kept


def add(
    old: Evidence, new: AuditCounts, now_ms: int, basis: str, *, counts_for_step: bool
) -> Evidence:
    """Return the evidence after one more run without a mismatch.

    `counts_for_step`: the run audited a share that counts for the next step. A run that judges
    nothing adds no evidence, but its failures are kept.
    """
    seen = new.seen
    if old.basis != basis or (seen is not None and not seen.whole):
        old = Evidence(basis=basis, first_ms=now_ms, distinct=True)
    if not old.distinct:  # written before repeats were counted: its nights count, its parts do not
        repeats = old.repeats + old.parts
        old = replace(old, parts=0, repeats=repeats, strata=(), distinct=True)
    if seen is not None:
        old = replace(old, seen=seen.key, distinct_parts=seen.parts, filters=seen.filters)
    failed, missing = old.failed + new.failed, old.missing + new.missing
    if not new.parts + new.repeats:
        return replace(old, failed=failed, missing=missing, last_ms=now_ms)
    day, last = now_ms // _DAY_MS, old.last_ms // _DAY_MS
    step = counts_for_step and day != old.step_day
    return replace(
        old,
        last_ms=now_ms,
        runs=old.runs + 1,
        days=old.days + (day != last or not old.runs),
        step_days=old.step_days + step,
        step_day=day if step else old.step_day,
        parts=old.parts + new.parts,
        rows=old.rows + new.rows,
        size_bytes=old.size_bytes + new.size_bytes,
        failed=failed,
        missing=missing,
        strata=_with(old.strata, new.strata),
        repeats=old.repeats + new.repeats,
    )


def _with(old: tuple[Stratum, ...], new: Mapping[str, int]) -> tuple[Stratum, ...]:
    total = Counter({stratum.name: stratum.parts for stratum in old})
    for name, parts in sorted(new.items()):
        known = name in total or len(total) < STRATA_MAX - 1
        total[name if known else OTHER] += parts
    return tuple(Stratum(name, parts) for name, parts in sorted(total.items()))


def upper_bound(parts: int, confidence: float = CONFIDENCE) -> float:
    """Return the exact upper bound on the rate of wrong skips after `parts` audits without any.

    >>> round(upper_bound(2995), 5)
    0.001
    >>> upper_bound(0)
    1.0
    """
    return float(1.0 - (1.0 - confidence) ** (1.0 / parts)) if parts else 1.0

"""What was looked at: counts of audits, by stratum, and what they say about the rest.

One run of soft evaluation adds one `Counts` to a shard's evidence, in the commit that records its
verdicts. A mismatch, and code other than that of the audits before, begin anew. What counts is a
part with a filter, once: the same again is another night, and a repeat. Nothing is proven by it:
parts are not drawn independently, so the bound is one on the audited mix.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from strata.state.state import Evidence, Stratum

STRATA_MAX: Final = 256  # counted apart; further ones are counted together
OTHER: Final = "other"
CONFIDENCE: Final = 0.95
_DAY_MS: Final = 86_400_000


@dataclass(frozen=True, slots=True)
class Seen:
    """Which parts were judged with which filters, this run included; see `strata.audit.seen`."""

    key: str  # of the blob that says so
    parts: int  # distinct ones
    filters: int
    before: str | None  # the blob that it continues, of the evidence that was found
    whole: bool = True  # False: what was seen before is lost, and evidence begins anew


@dataclass(frozen=True, slots=True)
class Counts:
    """What one clean run of soft evaluation looked at."""

    parts: int  # would-be-skipped parts that were fetched and judged, with a filter not seen before
    rows: int  # and bytes: of the repeats as well
    size_bytes: int
    failed: int
    missing: int
    percent: int  # share of the would-be-skipped parts that was to be fetched
    strata: Mapping[str, int] = field(default_factory=dict)  # of `parts`
    repeats: int = 0  # parts that were judged before with the same filter
    seen: Seen | None = None  # all that was judged; None: it is not kept


def add(old: Evidence, new: Counts, now_ms: int, basis: str, *, counts_for_step: bool) -> Evidence:
    """Return the evidence after one more run without a mismatch.

    `counts_for_step`: the run audited a share that counts for the next step. A run that judged
    nothing is no evidence, but its failures are kept.
    """
    seen = new.seen
    if old.basis != basis or (seen is not None and not seen.whole):
        old = Evidence(basis=basis, first_ms=now_ms, distinct=True)
    if (
        not old.distinct
    ):  # older than the distinction of repeats: its nights count, its parts do not
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
    """Return the exact upper bound on the rate of wrong skips after a number of audits without one.

    >>> round(upper_bound(2995), 5)
    0.001
    >>> upper_bound(0)
    1.0
    """
    return float(1.0 - (1.0 - confidence) ** (1.0 / parts)) if parts else 1.0

"""The gates of a step up: each compares a figure of the evidence with its threshold."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from strata.model.settings import Thresholds
from strata.rollout.evidence import upper_bound
from strata.rollout.policy import Policy
from strata.rollout.pool import Pool, together
from strata.state.state import Evidence, Mode, Rollout

LADDER: Final[tuple[Mode, ...]] = ("off", "soft", "audit", "on")


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of a step."""

    name: str
    wanted: str
    found: str
    passed: bool


def next_mode(mode: Mode) -> Mode | None:
    """Return the mode one step up; None at the top."""
    at = LADDER.index(mode)
    return LADDER[at + 1] if at + 1 < len(LADDER) else None


def gates(
    rollout: Rollout, to: Mode, policy: Policy, basis: str, pool: Pool | None = None
) -> tuple[Gate, ...]:
    """Return the gates of the step to `to`; there are none for `soft`, which skips nothing.

    With a `pool`, the evidence of other shards of the class counts too, see `strata.rollout.pool`.
    A mismatch needs no gate: it trips the shard, and evidence starts again.
    """
    if to not in ("audit", "on"):
        return ()
    own, settings = rollout.evidence, policy.gates
    seen = own if pool is None else together(own, [pool.evidence])
    found = [
        Gate("code", basis, own.basis or "no audit yet", own.basis == basis),
        *(() if pool is None else _pooled(own, pool, settings)),
        *_counted(seen, to, settings),
        _strata(seen, settings),
        _failed(seen, settings),
    ]
    return tuple(found)


def _pooled(own: Evidence, pool: Pool, settings: Thresholds) -> Iterator[Gate]:
    """Yield the gates of pooling: evidence of the shard's own, and no member that may have lied."""
    least = settings.stratum_parts
    yield Gate("audited parts of its own", f"at least {least}", str(own.parts), own.parts >= least)
    shown = f"in quarantine: {', '.join(pool.lied)}" if pool.lied else "none"
    yield Gate("members of the class that lied", "none", shown, not pool.lied)
    if pool.unknown:
        shown = f"{', '.join(pool.unknown)} cannot be loaded and may have lied"
        yield Gate("shards of unknown class", "none", shown, passed=False)


def unmet(found: tuple[Gate, ...]) -> str:
    """Return the gates that fail, in words; empty when all pass."""
    return "; ".join(f"{g.name}: {g.found}, wanted {g.wanted}" for g in found if not g.passed)


def _counted(seen: Evidence, to: Mode, settings: Thresholds) -> Iterator[Gate]:
    wanted = {
        "audit": (
            ("audited parts", settings.audit_parts, seen.parts),
            ("runs", settings.audit_runs, seen.runs),
            ("days with a run", settings.audit_days, seen.days),
        ),
        "on": (
            ("audited parts", settings.on_parts, seen.parts),
            (f"days in audit at {settings.on_percent} %", settings.on_days, seen.step_days),
        ),
    }
    for name, least, found in wanted[to]:
        yield Gate(name, f"at least {least}", str(found), found >= least)


def _strata(seen: Evidence, settings: Thresholds) -> Gate:
    thin = [s for s in seen.strata if s.parts < settings.stratum_parts]
    parts = "part" if settings.stratum_parts == 1 else "parts"
    least = f"at least {settings.stratum_parts} audited {parts} in each"
    number = len(seen.strata)
    shown = f"{number} {'stratum' if number == 1 else 'strata'}, {len(thin)} of them too thin"
    if thin:
        shown += f" ({', '.join(f'{s.name}: {s.parts}' for s in thin[:3])})"
    return Gate("strata", least, shown, bool(seen.strata) and not thin)


def _failed(seen: Evidence, settings: Thresholds) -> Gate:
    bad = seen.failed + seen.missing
    total = bad + seen.parts + seen.repeats
    passed = bad * 1000 < settings.failed_permille * total
    return Gate(
        "failed or missing checks",
        f"fewer than {settings.failed_permille} of 1000",
        f"{bad} of {total}",
        passed,
    )


def bound_text(seen: Evidence) -> str:
    """Return the claim that the evidence supports, and no more: a bound on the audited mix."""
    return f"at most {100 * upper_bound(seen.parts):.4f} % wrong skips (95 %, on the audited mix)"

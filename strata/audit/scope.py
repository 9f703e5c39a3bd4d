"""What a validation is asked to look at: the filters, the share of the parts, the budget."""

from dataclasses import dataclass, replace
from shlex import quote
from typing import Final

from strata.audit.budget import NO_LIMIT, Budget
from strata.audit.verdict import Verdict
from strata.expr.filter import Filter
from strata.rollout.obey import SKIPPING
from strata.rollout.policy import Policy
from strata.state.state import State

DEFAULT_POLICY: Final = Policy()  # rules by which evidence is counted


@dataclass(frozen=True, slots=True)
class Check:
    """One filter to evaluate softly."""

    name: str
    filter: Filter


@dataclass(frozen=True, slots=True)
class Scope:
    """The parts of a shard to check, and the name of the run."""

    run: str  # names the run; the sample depends on it
    percent: int | None = None  # share of the would-be-skipped parts to fetch; see `share`
    parts: frozenset[str] | None = None  # only these part keys, to replay a finding; None: all
    check_format: bool = True
    # Share of all parts to check the format of; manifests are always checked
    format_percent: int = 100
    policy: Policy = DEFAULT_POLICY
    budget: Budget = NO_LIMIT  # of this shard; a replay of parts has no limit
    config: str = ""  # settings file that the command of a finding names; empty: none

    def share(self, state: State) -> int:
        """Return the percentage to audit; None means all, or the share that the mode sets.

        Where readers skip, the shard's own share suffices, since the rest was audited before.
        """
        if self.percent is not None:
            return self.percent
        return state.rollout.audit_percent if state.rollout.mode in SKIPPING else 100

    def repeatable(self, verdict: Verdict) -> Verdict:
        """Return a verdict whose command names the settings file, so that it runs anywhere."""
        if not (verdict.replay and self.config):
            return verdict
        return replace(verdict, replay=f"{verdict.replay} --config {quote(self.config)}")

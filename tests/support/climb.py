"""Shards in any mode, for tests: up the real ladder, on evidence that the tests make up."""

from dataclasses import replace
from typing import Final

from strata.model.settings import Thresholds
from strata.rollout import ladder
from strata.rollout.evidence import AuditCounts
from strata.rollout.gates import LADDER, next_mode
from strata.rollout.policy import Policy
from strata.state.state import Rollout, State
from strata.state.step import step

NO_GATES: Final = Policy(
    Thresholds(audit_parts=0, audit_runs=0, audit_days=0, stratum_parts=0, on_parts=0, on_days=0)
)
LOOKED: Final = AuditCounts(1, 10, 100, 0, 0, 100, {"long × equal_to × both × exact": 1})


def stood(state: State, now_ms: int, mode: str, percent: int = 1) -> State:
    """Return a shard that was led to a mode, rung by rung, as two people do it.

    `percent` 0 is a share that no ladder leads to: then nothing is sampled, and all is skipped.
    The evidence that led there is not kept: it was made up.
    """
    verdicts, seen = state.verdicts, state.rollout.evidence
    target = [*LADDER].index(mode)  # type: ignore[arg-type]
    if LADDER.index(state.rollout.mode) > target:
        state, _ = ladder.step_down(state, now_ms, to=mode, who="ann", reason="tests")
    while LADDER.index(state.rollout.mode) < target:
        state = _up(state, now_ms, max(percent, 1))
    rollout = replace(state.rollout, audit_percent=percent, evidence=seen)
    return replace(state, rollout=rollout, verdicts=verdicts)


def standing(state: State, now_ms: int, *, mode: str, percent: int) -> tuple[State, Rollout]:
    """Lead a shard to a mode in one commit, as `stood` does: a transition, for `Machine.apply`."""
    goal = stood(state, now_ms, mode, percent).rollout
    return step(state, now_ms, rollout=goal), goal


def _up(state: State, now_ms: int, percent: int) -> State:
    """Return a shard one rung higher: an audit, a request, and an approval by somebody else."""
    to = next_mode(state.rollout.mode)
    assert to is not None
    key = f"verdicts/of tests/{state.seqno}"
    state, _ = ladder.record(state, now_ms, key=key, counts=LOOKED, policy=NO_GATES)
    state, asked = ladder.ask(
        state,
        now_ms,
        to=to,
        percent=0 if to == "soft" else percent,
        who="ann",
        reason="tests",
        policy=NO_GATES,
    )
    seen = ladder.request_id(state.name, asked)
    return ladder.approve(state, now_ms, request=seen, who="bob", reason="tests", policy=NO_GATES)[
        0
    ]

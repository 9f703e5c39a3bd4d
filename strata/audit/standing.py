"""Where the rollout of a shard stands: its mode, the gates of the next step, evidence, history."""

from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, Final

from orjson import loads

from strata.audit.cost import SHARES
from strata.errors import InvalidRequest, StrataError
from strata.history.operations import Operation, recent
from strata.machine.machine import Machine
from strata.model.time import format_time
from strata.rollout import ladder
from strata.rollout.basis import basis_of
from strata.rollout.gates import bound_text, gates, next_mode
from strata.rollout.obey import mode_of, obeyed
from strata.rollout.people import PROCESSES, Person
from strata.rollout.policy import THRESHOLDS, Policy, as_document
from strata.rollout.pool import Pool, pool_of
from strata.state.state import RolloutEntry, State
from strata.store.open import Stores

COST: Final = ("percent", "parts", "bytes", "requests", "ms")
_AUTOMATIC: Final = ("declared", "tripped", "reset", "lapsed")  # what no person does
LOOKED_THROUGH: Final = 200  # operations searched for the last validation


def pool_among(machine: Machine, shard: str) -> Pool:
    """Return the evidence of other shards; there is none while one of them cannot be loaded.

    A dropped one adds no evidence, and what it has in quarantine counts.
    """
    states, unknown = [], []
    for name in machine.names(dropped=True):
        try:
            states.append(machine.load(name, dropped=True))
        except StrataError:
            unknown.append(name)
    return pool_of(machine.load(shard), states, unknown)


def standing(
    stores: Stores,
    policy: Policy,
    state: State,
    people: Collection[Person] = (),
    found: Sequence[Operation] | None = None,
) -> dict[str, Any]:
    """Return the document of `strata rollout show`.

    `people`: of an open request, it is said which of them may answer. `found`: the shard's last
    operations, newest first; None: they are looked up.
    """
    if found is None:
        found = recent(stores, state.name, LOOKED_THROUGH)
    rollout, seen = state.rollout, state.rollout.evidence
    to = next_mode(rollout.mode)
    pool = pool_among(Machine(stores), state.name)
    shared = pool if rollout.request is not None and rollout.request.pooled else None
    judging = ladder.judging(state, policy)
    conditions = gates(rollout, to, judging, basis_of(state), shared) if to else ()
    document: dict[str, Any] = {
        "shard": state.name,
        "mode": rollout.mode,
        "obeyed": obeyed(stores, mode_of(state)),
        "audit_percent": rollout.audit_percent,
        "changed_at": format_time(rollout.changed_ms) if rollout.changed_ms else "",
        "changed_by": rollout.changed_by,
        "reason": rollout.reason,
        "quarantine": list(rollout.quarantine),
        "basis": rollout.basis,
        "code": basis_of(state),
        "next": to,
        "gates": [asdict(gate) for gate in conditions],
        "policy": as_document(policy),
        "request": _asked(policy, state, people),
        "evidence": {**asdict(seen), "bound": bound_text(seen)},
        "pool": {
            "shards": list(pool.shards),
            "parts": pool.evidence.parts,
            "lied": list(pool.lied),
            "copies": list(pool.copies),
            "unknown": list(pool.unknown),
            "counts": shared is not None,
        },
        "audit_cost": _last_cost(found[:LOOKED_THROUGH]),
        "history": [_line(entry, policy) for entry in reversed(rollout.entries)],
    }
    return document


def _asked(policy: Policy, state: State, people: Collection[Person]) -> dict[str, Any] | None:
    """Return the open request, with the id that an approval must name.

    `may_answer` lists the people whose approval would not be refused for who they are.
    """
    asked = state.rollout.request
    if asked is None:
        return None
    by = Person(asked.by, asked.user)
    request = {
        "id": ladder.request_id(state.name, asked),
        **asdict(asked),
        "by_is": by.proof(policy.vouchers),
    }
    if people:
        request["may_answer"] = [one.name for one in people if _may_answer(policy, one, by)]
    return request


def _may_answer(policy: Policy, person: Person, asked: Person) -> bool:
    try:
        policy.check_approver(person, asked)
    except InvalidRequest:
        return False
    return True


def _last_cost(found: Sequence[Operation]) -> list[dict[str, Any]]:
    """Return the cost of audits of each share, from the last validation of a shard."""
    for one in found:
        counts = loads(one.details)
        if one.what == "validate" and any(f"audit_parts_at_{s}" in counts for s in SHARES):
            return [
                {"percent": s, **{n: counts.get(f"audit_{n}_at_{s}") for n in COST[1:]}}
                for s in SHARES
            ]
    return []


def _line(entry: RolloutEntry, policy: Policy) -> dict[str, Any]:
    """Return a line of history, with how far each name in it can be believed."""
    by = Person(entry.by, entry.user).proof(policy.vouchers)
    asked = Person(entry.asked_by, entry.asked_user).proof(policy.vouchers)
    distrusted = entry.what == "stepped down" and entry.by in PROCESSES and not entry.user
    return {
        "at": format_time(entry.at_ms),
        **asdict(entry),
        "by_is": "" if entry.what in _AUTOMATIC or distrusted else by,
        "asked_by_is": asked if entry.asked_by else "",
        "gates": dict(zip(THRESHOLDS, entry.gates, strict=False)),
    }

"""A store that has lived: shards of weeks, with readers, nights of validation, steps and a trip."""

from dataclasses import replace
from functools import partial
from io import BytesIO
from typing import Any

import pyarrow.parquet as pq

from strata.audit.verdict import Verdict, verdict_table
from strata.decide.plan import plan_read
from strata.history import usage
from strata.history.metrics import Metrics
from strata.history.operations import note
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings, UsageSettings
from strata.rollout import ladder
from strata.rollout.basis import basis_of
from strata.rollout.evidence import AuditCounts, Seen
from strata.rollout.policy import policy_of
from strata.store import keys
from strata.store.open import Stores, open_stores
from tests.support.console import DAY, RELATION, above
from tests.support.stored import append, create
from tests.support.updates import table

FIRST = 20_760 * DAY  # 2026-11-03
FLIGHTS, PLANES, WEATHER = "flights", "planes", "weather"
SETTINGS = Settings()
STRATA = (
    "long × greater_than × both × exact",
    "long × greater_than × row × union",
    "string × like × both × exact",
)


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.now = FIRST

    def __call__(self) -> int:
        return self.now


def lived(name: str, nights: int = 32, *, ask: bool = True) -> tuple[Stores, Clock]:
    """Return stores and their clock after some weeks; a step of `flights` waits for an answer."""
    clock = Clock()
    stores = open_stores(StoreSettings(f"memory://{name}", f"memory://{name}"), clock)
    for shard in (FLIGHTS, PLANES, WEATHER):
        create(stores, RELATION, name=shard)
    for night in range(nights):
        clock.now = FIRST + night * DAY + 3_600_000
        for shard in (FLIGHTS, PLANES, WEATHER) if night % 3 == 0 else (FLIGHTS,):
            _ingested(stores, shard, clock.now)
        if night == 1:
            _stepped(stores, FLIGHTS, "soft", "ann", "bob")
            _stepped(stores, PLANES, "soft", "ann", "bob")
        if night >= 1:
            _validated(stores, clock, FLIGHTS, night, bad=night == 8)
            _validated(stores, clock, PLANES, night)
        if night == 9:
            _stepped(stores, FLIGHTS, "soft", "ann", "bob")
        _read(stores, clock, FLIGHTS)
    clock.now += 3_600_000
    if ask:
        _asked(stores, FLIGHTS, "audit", "ann", "three weeks without a finding since the trip")
    return stores, clock


def _ingested(stores: Stores, shard: str, now: int) -> None:
    state = Machine(stores).load(shard)
    rows = [(n, f"word {n}", now, 1) for n in range(now // DAY * 10, now // DAY * 10 + 40)]
    lower = max(state.upper, FIRST)
    layout = "row" if not state.batches else "both"
    append(stores, shard, lower, now + 1, [table(RELATION, rows)], layout)
    note(stores, Metrics(), "ingest", now, {"shard": shard, "rows": 40, "bytes": 4000}, 0, by="etl")


def _asked(stores: Stores, shard: str, to: str, who: str, reason: str) -> None:
    policy = policy_of(stores, SETTINGS.rollout)
    percent = 10 if to in ("audit", "on") else 0
    move = partial(ladder.ask, to=to, percent=percent, who=who, reason=reason, policy=policy)
    Machine(stores).apply(shard, move)


def _stepped(stores: Stores, shard: str, to: str, asker: str, approver: str) -> None:
    _asked(stores, shard, to, asker, "it is time")
    asked = Machine(stores).load(shard).rollout.request
    assert asked is not None
    Machine(stores).apply(
        shard,
        partial(
            ladder.approve,
            request=ladder.request_id(shard, asked),
            who=approver,
            reason="looks good",
            policy=policy_of(stores, SETTINGS.rollout),
        ),
    )


def _validated(stores: Stores, clock: Clock, shard: str, night: int, *, bad: bool = False) -> None:
    run = f"nightly {night}"
    clock.now += 60_000
    state = Machine(stores).load(shard)
    verdicts = [_verdict(run, shard, state.batches[0].manifest or "", bad=bad)]
    sink = BytesIO()
    pq.write_table(verdict_table(verdicts), sink)
    key = keys.verdict_key(shard, keys.content_hash(sink.getvalue()))
    stores.blob.set(key, sink.getvalue())
    seen = state.rollout.evidence
    again = 90 * (night % 4)
    counts = AuditCounts(
        320,
        9_600,
        960_000,
        0,
        0,
        10,
        dict(zip(STRATA, (200, 112, 8), strict=True)),
        again,
        Seen(f"seen {night}", seen.distinct_parts + 45, 4, seen.seen),
    )
    if seen.basis != basis_of(state):
        counts = replace(counts, seen=Seen(f"seen {night}", 45, 4, seen.seen))
    Machine(stores).apply(
        shard,
        partial(
            ladder.record,
            key=key,
            counts=counts,
            policy=policy_of(stores, SETTINGS.rollout),
            mismatch=f"1 mismatches in {run}" if bad else "",
            quarantine=["2"] if bad else [],
        ),
    )
    after = Machine(stores).load(shard).rollout.evidence
    document: dict[str, Any] = {
        "shard": shard, "checked_parts": 320 + again, "audited_parts": 320 + again, "rows": 9_600,
        "mismatches": int(bad), "errors": 0, "missing": 0, "evidence_parts": after.parts,
        "evidence_repeats": after.repeats, "evidence_distinct_parts": after.distinct_parts,
        "s3_puts": 12, "s3_gets": 340, "s3_bytes_in": 81_000, "s3_bytes_out": 4_000,
        "audit_parts_at_10": 30, "audit_bytes_at_10": 9_000, "audit_requests_at_10": 60,
        "audit_ms_at_10": 900, "checks": {
            "old_numbers": {"parts_total": 90, "parts_skipped": 40 + night, "bytes_total": 9_000,
                            "bytes_skipped": 4_000 + 90 * night},
        },
    }  # fmt: skip
    note(stores, Metrics(), "validate", clock.now, document, 3 if bad else 0, by="airflow nightly")


def _verdict(run: str, shard: str, part: str, *, bad: bool) -> Verdict:
    return Verdict(
        run, shard, "old_numbers", "n > 24", part, "mismatch" if bad else "clean", 40, int(bad),
        4_000, "both", 1, "0.1", STRATA[0], column="word" if bad else "",
        bound="max of word recorded as 'word 12', found 'word 31'" if bad else "",
        replay=f'strata validate {shard} --filter "n > 24" --part {part}', suspects="2",
    )  # fmt: skip


def _read(stores: Stores, clock: Clock, shard: str) -> None:
    state = Machine(stores).load(shard)
    for than in (207_700, 207_800):
        filter = above(than)
        plan = plan_read(stores, state, filter=filter, mode="on")
        usage.record(stores, state, plan, filter, UsageSettings(), Metrics())
    clock.now += 1_000

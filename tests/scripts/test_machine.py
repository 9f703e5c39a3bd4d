"""The scripts in `machine/`: two writers, lost replies, crashes, holds and trips on one shard.

Run on memory, on SQLite with a local folder, and on PostgreSQL. Every command takes `by=NAME`:
another process.

    create | state | batches | history            look
    append TOKEN lower=A upper=B [updates=N] [runs=N] [born=GENERATION] [writer=NAME]
    plan | merge NAME                              the due merge, done but not applied
    apply NAME                                     put the result in place
    since T
    hold NAME since=T lease=MS [owner=O] | renew NAME lease=MS [since=T] [owner=O] [seqno=N]
    release NAME [opaque=O]
    critical NAME since=T expected=X opaque=Y      `-` is empty
    rollout MODE percent=N | trip QUARANTINE
    add NAME TYPE [default=N] [expect=V] | drop NAME [expect=V] | rename NAME TO [expect=V]
    schema                                         the versions of the relation
    writer NAME lease=MS | heartbeat NAME lease=MS | finish NAME
    sweep grace=MS | generations
    forget keep=N age=MS | stored                  old states
    bury who=WHO reason=WHY [force=1] | revive      the shard's end, and another beginning
    future                                         a state that a newer version wrote, as the head
    clock MS                                       set the clock
    fail OUTCOME...                                of the next store calls; `_` stands for a blank
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.state import generations, holds, rollout, transitions, versions
from strata.state import spine as spines
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn
from strata.state.seal import sealed
from strata.state.spine import MergeResult, NotApplied
from strata.store.interface import Versioned
from strata.store.keys import manifest_key, state_key
from strata.store.open import Stores, open_stores
from tests.scripts.script import run_script
from tests.support.batches import batch, merged, spec
from tests.support.climb import standing
from tests.support.failing_stores import Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.support.postgres import MissingError, fresh_database

SCRIPTS = sorted((Path(__file__).parent / "machine").glob("*.script"))
SHARD = "events"


class MachineCommands:
    def __init__(self, settings: StoreSettings) -> None:
        self.now_ms = 1000
        self.faults = Faults()
        self.inner = open_stores(settings)
        self.stores = Stores(
            FaultyBlob(self.inner.blob, self.faults),
            FaultyConsensus(self.inner.consensus, self.faults),
            lambda: self.now_ms,
            settings,
        )
        self.results: dict[str, MergeResult] = {}

    def __call__(self, name: str, words: list[str], options: dict[str, str]) -> str:
        options.pop("by", None)  # a machine keeps nothing, so that any is as good as another
        values = {k: "" if v == "-" else int(v) if v.isdigit() else v for k, v in options.items()}
        try:
            return str(getattr(self, f"do_{name}")(*words, **values))
        finally:
            if name != "fail":
                self.faults.plan([])

    @property
    def machine(self) -> Machine:
        return Machine(self.stores, sleep=lambda _: None)

    def apply(self, transition: Any, **request: Any) -> Any:
        return self.machine.apply(SHARD, partial(transition, **request))

    def do_create(self, **changes: Any) -> str:
        return f"seqno {self.machine.create(spec(SHARD, **changes)).seqno}"

    def do_state(self) -> str:
        state = self.machine.load(SHARD)
        since = "-" if state.since == MIN_TIME else state.since
        tokens = " ".join(c.token for c in state.commits)
        lines = [
            f"seqno {state.seqno} walltime {state.walltime_ms} since {since} upper {state.upper}",
            f"tokens {tokens}",
            f"rollout {state.rollout.mode} {state.rollout.audit_percent}%"
            f" quarantine {','.join(state.rollout.quarantine) or '-'}",
        ]
        lines += [f"hold {h.name} since {h.since} expires {h.expires_ms}" for h in state.holds]
        return "\n".join(lines)

    def do_batches(self) -> str:
        return "\n".join(
            f"{slot.id_lower}-{slot.id_upper} level {slot.level}: "
            + " ".join(f"{b.updates}@{b.upper}" for b in slot.batches)
            for slot in self.machine.load(SHARD).spine.slots
        )

    def do_history(self) -> str:
        return "\n".join(f"{s.seqno}: upper {s.upper}" for s in self.machine.history(SHARD, 9))

    def do_append(  # noqa: PLR0917  the words of a command
        self,
        token: str,
        lower: int,
        upper: int,
        updates: int = 0,
        runs: int = 1,
        born: int | None = None,
        writer: str | None = None,
    ) -> str:
        manifest = f"{token}-{lower}-{upper}"
        if born is not None:
            manifest = manifest_key(SHARD, manifest, born)
        new = batch(lower, upper, updates, runs=runs, manifest=manifest)
        done = self.machine.append(
            SHARD, token=token, lower=lower, upper=upper, batch=new, writer=writer
        )
        again = ", committed before" if done.already_committed else ""
        return f"seqno {done.commit.seqno} updates {done.commit.updates}{again}"

    def do_plan(self) -> str:
        state = self.machine.load(SHARD)
        due = spines.requests(state.spine, state.since)
        return "\n".join(r.reason for r in due) or f"nothing: {spines.idle_reason(state.spine)}"

    def do_merge(self, name: str) -> str:
        state = self.machine.load(SHARD)
        request = spines.requests(state.spine, state.since)[0]
        new = merged(request.batches, request.since)
        self.results[name] = MergeResult(request.id_lower, request.id_upper, request.manifests, new)
        return f"{len(request.manifests)} batches, {new.updates} updates"

    def do_apply(self, name: str) -> str:
        done = self.apply(transitions.apply_merge, result=self.results[name])
        if isinstance(done, NotApplied):
            return f"not applied: {done.reason}"
        return "applied before" if done.already else "applied"

    def do_since(self, since: str) -> str:
        done = self.apply(transitions.advance_since, since=int(since))
        return f"since {done.since}" + (f", held by {','.join(done.held_by)}" * bool(done.held_by))

    def do_hold(self, name: str, since: int, lease: int, owner: str = "") -> str:
        done = self.apply(holds.hold, name=name, since=since, lease_ms=lease, owner=owner)
        return f"expires {done.expires_ms}"

    def do_renew(self, name: str, lease: int, **options: Any) -> str:
        done = self.apply(holds.renew, name=name, lease_ms=lease, **options)
        return f"expires {done.expires_ms} since {done.since}"

    def do_release(self, name: str, opaque: str = "") -> str:
        return str(self.apply(holds.release, name=name, opaque=opaque))

    def do_critical(self, name: str, since: int, expected: str, opaque: str) -> str:
        done = self.apply(
            holds.hold_critical, name=name, since=since, expected=expected, opaque=opaque
        )
        return f"since {done.since} opaque {done.opaque}"

    def do_rollout(self, mode: str, percent: int) -> str:
        self.apply(standing, mode=mode, percent=percent)
        return "ok"

    def do_trip(self, *quarantine: str) -> str:
        done = self.apply(rollout.trip, reason="a mismatch", quarantine=quarantine)
        return f"{done.mode_before} -> {done.mode_after}"

    def do_add(self, name: str, kind: str, default: int | None = None, **options: Any) -> str:
        return self.evolve(AddColumn(name, parse_type(kind), default=default), **options)

    def do_drop(self, name: str, **options: Any) -> str:
        return self.evolve(DropColumn(name), **options)

    def do_rename(self, name: str, to: str, **options: Any) -> str:
        return self.evolve(RenameColumn(name, to), **options)

    def evolve(self, change: Change, expect: int | None = None) -> str:
        done = self.machine.evolve(SHARD, change, expected_version=expect)
        return f"version {done.relation.version}" + ", there before" * done.already

    def do_schema(self) -> str:
        return "\n".join(
            f"{r.version}: " + " ".join(f"{c.id}={c.name}" for c in r.columns)
            for r in self.machine.load(SHARD).relations
        )

    def do_writer(self, name: str, lease: int) -> str:
        done = self.apply(generations.register, name=name, lease_ms=lease)
        return f"generation {done.generation} expires {done.expires_ms}"

    def do_heartbeat(self, name: str, lease: int) -> str:
        done = self.apply(generations.heartbeat, name=name, lease_ms=lease)
        return f"generation {done.generation} expires {done.expires_ms}"

    def do_finish(self, name: str) -> str:
        return str(self.apply(generations.finish, name=name))

    def do_sweep(self, grace: int) -> str:
        return f"fence {self.apply(generations.begin_sweep, grace_ms=grace)}"

    def do_generations(self) -> str:
        state = self.machine.load(SHARD)
        lines = [f"generation {state.generation} fence {state.fence}"]
        lines += [f"writer {w.name} of {w.generation} until {w.expires_ms}" for w in state.writers]
        return "\n".join(lines)

    def do_forget(self, keep: int, age: int) -> str:
        return f"{self.machine.forget(SHARD, keep=keep, keep_ms=age)} forgotten"

    def do_stored(self) -> str:
        return " ".join(str(state.seqno) for state in self.machine.states(SHARD))

    def do_bury(self, who: str, reason: str, force: int = 0) -> str:
        done = self.machine.drop(SHARD, by=who, reason=reason, force=bool(force))
        return f"dropped at {done.at_ms} by {done.by}: {done.reason}"

    def do_revive(self) -> str:
        return f"seqno {self.machine.create(spec(SHARD), revive=True).seqno}"

    def do_future(self) -> str:
        consensus, key = self.inner.consensus, state_key(SHARD)
        head = consensus.head(key)
        assert head is not None
        document = {**json.loads(head.data), "format": 9, "by": "9.9"}
        del document["digest"]
        new = Versioned(head.seqno + 1, sealed(json.dumps(document).encode()))
        return str(consensus.compare_and_set(key, head.seqno, new))

    def do_clock(self, now_ms: str) -> str:
        self.now_ms = int(now_ms)
        return "ok"

    def do_fail(self, *outcomes: str) -> str:
        self.faults.plan([Outcome(o.replace("_", " ")) for o in outcomes])
        return "ok"


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> StoreSettings:
    if request.param == "postgres":
        try:
            return StoreSettings(f"memory://{tmp_path}", fresh_database())
        except MissingError as error:
            pytest.skip(str(error))
    if request.param == "memory":
        return StoreSettings(f"memory://{tmp_path}", f"memory://{tmp_path}")
    return StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) >= 5


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.stem)
def test_the_machine_does_what_the_script_says(
    path: Path, settings: StoreSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path.stem == "history_is_bounded":  # it counts documents: each is whole, and goes by itself
        monkeypatch.setattr(versions, "RUN_MAX", 0)
    commands = MachineCommands(settings)
    run_script(path, commands)
    if hasattr(commands.inner.consensus, "close"):
        commands.inner.consensus.close()

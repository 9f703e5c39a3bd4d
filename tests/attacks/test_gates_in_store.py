"""S6: what a step takes is what the store says; one person, one environment or one file cannot."""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from strata.cli.app import whole
from strata.errors import Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import RolloutSettings, StoreSettings, Thresholds
from strata.rollout import ladder, policy
from strata.rollout.basis import basis_of
from strata.rollout.kill import kill_switch, release_id, throw
from strata.rollout.people import Person
from strata.rollout.policy import (
    DAY_MS,
    FORMER_MAX,
    THRESHOLDS,
    Book,
    FormerGates,
    Policy,
    book_of,
    policy_of,
)
from strata.state.state import Evidence, Rollout, State, Stratum
from strata.state.step import step
from strata.state.transitions import create
from strata.store.open import Stores, open_stores
from tests.support.batches import spec

ANN, BOB, EVE = Person("ann"), Person("bob"), Person("eve")
LAX = {
    "audit_parts": 0,
    "audit_runs": 0,
    "audit_days": 0,
    "stratum_parts": 0,
    "on_parts": 0,
    "on_days": 0,
    "failed_permille": 1000,
    "on_percent": 1,
    "request_days": 999,
    "sample_parts": 0,
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stores:
    file = tmp_path / "strata.toml"
    settings = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/c.db")
    file.write_text(f'[store]\nblob = "{settings.blob}"\nconsensus = "{settings.consensus}"\n')
    monkeypatch.setenv("STRATA_CONFIG", str(file))
    declared = tmp_path / "s.yaml"
    declared.write_text(json.dumps({"name": "s", "columns": [{"name": "id", "type": "int64"}]}))
    strata("create", "s", "--spec", str(declared))
    return open_stores(settings)


def strata(*words: str, fails: str = "") -> dict[str, Any]:
    done = CliRunner().invoke(whole(), [*words, "--json"])
    if fails:
        assert done.exit_code != 0, done.output
        assert fails in str(done.exception) + done.output
        return {}
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def two_people(*words: str, ask: list[str]) -> dict[str, Any]:
    """Ask as Ann, approve as Bob."""
    asked = strata(*words, "request", *ask, "--by", "ann", "--reason", "due")
    shard = ask if words == ("rollout",) else []
    seen = asked["request"]["id"]
    return strata(*words, "approve", *shard, "--request", seen, "--by", "bob", "--reason", "seen")


def test_an_environment_that_wants_no_evidence_gets_no_step(
    store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From `soft` to `on` in half a minute with six variables: it worked."""
    for name, value in LAX.items():
        monkeypatch.setenv(f"STRATA__ROLLOUT__{name.upper()}", str(value))
    two_people("rollout", ask=["s"])
    strata(
        "rollout",
        "request",
        "s",
        "--by",
        "ann",
        "--reason",
        "due",
        fails="not enough evidence for this step",
    )
    wanted = strata("rollout", "gates", "show")["here"]
    assert {name: wanted[name] for name in THRESHOLDS} == {
        name: getattr(Thresholds(), name) for name in THRESHOLDS
    }


def test_one_person_makes_no_gate_laxer(store: Stores) -> None:
    lax = [f"{name}={value}" for name, value in LAX.items()]
    asked = strata("rollout", "gates", "request", *lax, "--by", "ann", "--reason", "due")
    seen = asked["request"]["id"]
    for who in ("ann", " ANN ", "\uff41nn"):
        strata(
            "rollout",
            "gates",
            "approve",
            "--request",
            seen,
            "--by",
            who,
            "--reason",
            "me too",
            fails="cannot approve",
        )
    strata(
        "rollout",
        "gates",
        "approve",
        "--request",
        "0" * 16,
        "--by",
        "bob",
        "--reason",
        "x",
        fails="another request is open",
    )
    assert policy_of(store, RolloutSettings()) == Policy()
    done = strata(
        "rollout", "gates", "approve", "--request", seen, "--by", "bob", "--reason", "a small store"
    )
    assert (done["store"]["number"], done["store"]["audit_parts"]) == (1, 0)
    told = done["history"][0]
    assert (told["what"], told["by"], told["asked_by"], told["request"]) == (
        "approved",
        "bob",
        "ann",
        seen,
    )
    assert "audit_parts: 3000 -> 0" in told["changes"]
    strata(
        "rollout",
        "gates",
        "approve",
        "--request",
        seen,
        "--by",
        "bob",
        "--reason",
        "again",
        fails="no change of the policy is asked for",
    )


@pytest.mark.parametrize("name", THRESHOLDS)
def test_settings_tighten_the_store_and_never_loosen_it(name: str) -> None:
    held = Policy(replace(Thresholds(), **{name: 500}))
    less = name in ("failed_permille", "request_days")
    for value, wins in ((400, less), (600, not less)):
        given = replace(RolloutSettings(), **{name: value})
        assert getattr(held.tightened(given).gates, name) == (value if wins else 500)


def test_each_threshold_is_in_the_histories_and_stays_at_its_place() -> None:
    """Stored histories hold figures without names: a new threshold is added at the end."""
    assert THRESHOLDS == (
        "audit_parts",
        "audit_runs",
        "audit_days",
        "stratum_parts",
        "failed_permille",
        "on_parts",
        "on_days",
        "on_percent",
        "request_days",
        "sample_parts",
    )
    assert tuple(f.name for f in fields(Thresholds)) == THRESHOLDS
    assert tuple(f.name for f in fields(RolloutSettings)) == ("kill", *THRESHOLDS)


def test_each_entry_of_the_history_says_what_was_wanted_and_what_was_answered(
    store: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_people("rollout", "gates", ask=["audit_parts=7"])
    monkeypatch.setenv("STRATA__ROLLOUT__AUDIT_RUNS", "33")
    shown = two_people("rollout", ask=["s"])
    approved, requested = shown["history"]
    assert approved["request"] == requested["request"] != ""
    for entry in (approved, requested):
        assert entry["policy"] == 1
        assert (entry["gates"]["audit_parts"], entry["gates"]["audit_runs"]) == (7, 33)
        assert [*entry["gates"]] == [*THRESHOLDS]
    tripped, _ = ladder.record(
        Machine(store).load("s"),
        5,
        key="v",
        counts=ladder.AuditCounts(0, 0, 0, 0, 0, 100),
        policy=policy_of(store, RolloutSettings()),
        mismatch="x",
    )
    assert tripped.rollout.entries[-1].gates[:2] == (7, 20)


def test_nobody_puts_a_shard_into_a_mode_by_hand() -> None:
    """Also not by the words that an older version wrote for it."""
    from strata.rollout.obey import mode_of
    from strata.state import rollout as module

    assert not hasattr(module, "set_rollout")
    state = create(spec(), 1000)
    for basis, mode in (("set by hand", "soft"), ("", "soft"), (basis_of(state), "on")):
        assert mode_of(replace(state, rollout=Rollout("on", 1, basis=basis))) == mode


def test_who_may_approve_is_what_the_store_says() -> None:
    held = Policy(approvers=("bob", "carl"))
    state = ready(create(spec(), 1000))
    asked, request = ladder.ask(
        state, 2000, to="soft", percent=0, who="ann", reason="due", policy=held
    )
    answer = partial(
        ladder.approve,
        asked,
        3000,
        request=ladder.request_id(state.name, request),
        reason="seen",
        policy=held,
    )
    with pytest.raises(InvalidRequest, match="may not approve"):
        answer(who="eve")
    with pytest.raises(InvalidRequest, match="may not approve"):
        answer(who="bob", user="eve")
    assert answer(who="Bob")[1].mode == "soft"
    book = Book(held)
    book = policy.ask(book, 1, to={"approvers": ("eve", "mallory")}, who=EVE, reason="mine")
    seen = policy.request_id(book.request)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="may not approve"):
        policy.approve(book, 2, request=seen, who=Person("mallory"), reason="ours")
    assert policy.approve(book, 2, request=seen, who=BOB, reason="well").policy.approvers == (
        "eve",
        "mallory",
    )


@pytest.mark.parametrize(
    "to",
    [
        {"audit_parts": -1},
        {"failed_permille": 1001},
        {"on_percent": 0},
        {"audit_runs": "5"},
        {"kill": False},
        {"number": 9},
        {"release_people": 0},
        {"release_people": 3},
        {"approvers": ("ann",)},
        {"approvers": ("ann", "ANN ")},
        {"audit_parts": 3000},
    ],
)
def test_a_policy_that_cannot_be_is_not_asked_for(to: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest):
        policy.ask(Book(), 1, to=to, who=ANN, reason="due")


def test_a_change_that_nobody_answers_lapses() -> None:
    book = policy.ask(Book(), 0, to={"audit_parts": 1}, who=ANN, reason="due")
    seen = policy.request_id(book.request)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="already asked for"):
        policy.ask(book, 1, to={"audit_parts": 2}, who=EVE, reason="mine")
    with pytest.raises(InvalidRequest, match="no change"):
        policy.approve(book, 7 * DAY_MS, request=seen, who=BOB, reason="late")
    again = policy.ask(book, 7 * DAY_MS, to={"audit_parts": 2}, who=EVE, reason="mine")
    assert [e.what for e in again.entries] == ["requested", "lapsed", "requested"]


def test_a_damaged_policy_is_no_lax_one(store: Stores, tmp_path: Path) -> None:
    two_people("rollout", "gates", ask=["audit_parts=7"])
    for data in (b"{}", b'{"gates":{}}', b"x"):
        with sqlite3.connect(tmp_path / "c.db") as base:
            base.execute("UPDATE strata_consensus SET data = ? WHERE key = 'gates'", (data,))
        base.close()
        with pytest.raises(Corrupt, match="gates"):
            policy_of(store, RolloutSettings())
        strata("rollout", "request", "s", "--by", "ann", "--reason", "x", fails="gates")
    strata("rollout", "kill", "--by", "ann", "--reason", "stop")  # what stops, stops


def flips(data: bytes) -> Iterator[bytes]:
    for at in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[at // 8] ^= 1 << at % 8
        yield bytes(flipped)


def test_no_flipped_bit_of_a_policy_is_believed() -> None:
    from strata.state.codec import decode_sealed, encode_sealed

    book = policy.ask(Book(), 0, to={"audit_parts": 1}, who=ANN, reason="due")
    data = encode_sealed(policy.KEY, book)
    assert decode_sealed(data, policy.KEY, Book) == book
    for flipped in flips(data):
        with pytest.raises(Corrupt):
            decode_sealed(flipped, policy.KEY, Book)


def test_the_release_of_the_kill_switch_takes_as_many_as_the_store_says(store: Stores) -> None:
    two_people("rollout", "gates", ask=["release_people=2"])
    held = policy_of(store, RolloutSettings())
    throw(store, thrown=True, who="ann", reason="stop", policy=held)
    release = partial(throw, store, thrown=False, reason="all is well", policy=held)
    assert release(who="eve").thrown
    asked = kill_switch(store).asked
    assert asked is not None
    seen = release_id(asked)
    with pytest.raises(InvalidRequest, match="cannot approve"):
        release(who="EVE", request=seen)
    with pytest.raises(InvalidRequest, match="another release"):
        release(who="bob", request="0" * 16)
    assert kill_switch(store).thrown
    late = replace(store, clock=lambda: asked.at_ms + held.gates.request_days * DAY_MS)
    with pytest.raises(InvalidRequest, match="has lapsed"):
        throw(late, thrown=False, who="bob", reason="well", policy=held, request=seen)
    assert not release(who="bob", request=seen).thrown
    assert (kill_switch(store).by, kill_switch(store).asked_by) == ("bob", "eve")
    strata("rollout", "kill", "--by", "ann", "--reason", "stop")
    shown = strata("rollout", "kill", "--off", "--by", "ann", "--reason", "go")
    assert shown["thrown"]
    strata(
        "rollout",
        "kill",
        "--off",
        "--request",
        shown["request"],
        "--by",
        "ann",
        "--reason",
        "go",
        fails="cannot approve",
    )


def test_who_was_removed_or_meets_other_gates_between_request_and_answer_is_refused() -> None:
    """What holds is the policy at the moment of the answer, and the history says which it was."""
    then = Policy(approvers=("bob", "carl"), number=1)
    state = ready(replace(create(spec(), 1000), rollout=Rollout("soft")))
    asked, request = ladder.ask(
        state, 2000, to="audit", percent=10, who="ann", reason="due", policy=then
    )
    answer = partial(
        ladder.approve, asked, 3000, request=ladder.request_id(state.name, request), reason="seen"
    )
    removed = replace(then, approvers=("carl", "dora"), number=2)
    stricter = replace(then, gates=replace(Thresholds(), audit_parts=100_000), number=2)
    with pytest.raises(InvalidRequest, match="may not approve"):
        answer(who="bob", policy=removed)
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        answer(who="bob", policy=stricter)
    # Evidence that began anew since the request gives no step either.
    little = replace(asked, rollout=replace(asked.rollout, evidence=Evidence()))
    named = ladder.request_id(state.name, request)
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        ladder.approve(little, 3000, request=named, who="carl", reason="seen", policy=then)

    after, rollout = answer(who="dora", policy=removed)

    assert (rollout.mode, after.rollout.entries[-1].policy) == ("audit", 2)


LOWERED = [(name, 0) for name in ("audit_parts", "audit_runs", "audit_days", "stratum_parts")]


@pytest.mark.parametrize(("name", "lax"), [*LOWERED, ("failed_permille", 1000)])
def test_gates_that_are_lowered_after_a_request_let_nothing_pass_that_failed_before(
    name: str, lax: int
) -> None:
    """The approver saw the gate fail; two others lowered it, and the old request passed."""
    then = Policy(number=1)
    state = ready(replace(create(spec(), 1000), rollout=Rollout("soft")))
    asked, request = ladder.ask(
        state, 2000, to="audit", percent=10, who="ann", reason="due", policy=then
    )
    seen = asked.rollout.evidence
    worse = {
        "audit_parts": {"parts": 2999},
        "audit_runs": {"runs": 19},
        "audit_days": {"days": 6},
        "stratum_parts": {"strata": (Stratum("long", 9),)},
        "failed_permille": {"failed": 9_000},
    }
    thin = replace(asked, rollout=replace(asked.rollout, evidence=replace(seen, **worse[name])))
    lower = replace(then, gates=replace(Thresholds(), **{name: lax}), number=2)
    answer = partial(
        ladder.approve,
        thin,
        3000,
        request=ladder.request_id(state.name, request),
        who="bob",
        reason="seen",
    )
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        answer(policy=then)

    with pytest.raises(InvalidRequest, match="lowered since this was asked for") as refused:
        answer(policy=lower)

    assert "ask again" in (refused.value.cure or "")
    # A validation in between, which is judged by the lower gates, makes no difference.
    nightly, _ = ladder.record(
        thin, 2500, key="v", counts=ladder.AuditCounts(0, 0, 0, 0, 0, 100), policy=lower
    )
    assert nightly.rollout.gates == lower.figures()
    with pytest.raises(InvalidRequest, match="lowered since this was asked for"):
        ladder.approve(
            nightly,
            3000,
            request=ladder.request_id(state.name, request),
            who="bob",
            reason="seen",
            policy=lower,
        )
    # Who asks again is judged by what holds.
    rejected, _ = ladder.reject(thin, 3000, who="ann", reason="to ask again")
    again, request = ladder.ask(
        rejected, 4000, to="audit", percent=10, who="ann", reason="due", policy=lower
    )
    named = ladder.request_id(state.name, request)
    done = ladder.approve(again, 5000, request=named, who="bob", reason="seen", policy=lower)
    assert done[1].mode == "audit"


def test_a_request_passes_under_lower_gates_if_it_passes_under_its_own() -> None:
    """And the history says which gates judged it: the strictest since the request."""
    then = Policy(Thresholds(audit_parts=5000, audit_runs=10), number=1)
    state = ready(replace(create(spec(), 1000), rollout=Rollout("soft")))
    asked, request = ladder.ask(
        state, 2000, to="audit", percent=10, who="ann", reason="due", policy=then
    )
    now = Policy(Thresholds(audit_parts=1, audit_runs=30), number=2)
    named = ladder.request_id(state.name, request)
    done = ladder.approve(asked, 3000, request=named, who="bob", reason="seen", policy=now)[1]
    told = dict(zip(THRESHOLDS, done.entries[-1].gates, strict=True))
    assert (done.mode, done.policy) == ("audit", 2)
    assert (told["audit_parts"], told["audit_runs"]) == (5000, 30)


@pytest.mark.parametrize(("name", "strict"), [("audit_parts", 99_999), ("failed_permille", 1)])
@pytest.mark.parametrize("settings", [RolloutSettings(), RolloutSettings(audit_runs=21)])
def test_gates_that_were_raised_and_lowered_since_the_request_judge_it(
    store: Stores, name: str, strict: int, settings: RolloutSettings
) -> None:
    """Only the gates of the request and of the approval did, and both were the lower ones."""
    state = ready(replace(create(spec(), 1000), rollout=Rollout("soft")))
    enough = replace(state.rollout.evidence, parts=5000, failed=50)
    state = replace(state, rollout=replace(state.rollout, evidence=enough))
    before = two_people("rollout", "gates", ask=["audit_parts=5000", "failed_permille=500"])[
        "store"
    ]
    asked, request = ladder.ask(
        state,
        2000,
        to="audit",
        percent=10,
        who="ann",
        reason="due",
        policy=policy_of(store, settings),
    )
    answer = partial(
        ladder.approve,
        asked,
        3000,
        request=ladder.request_id(state.name, request),
        who="bob",
        reason="seen",
    )
    assert answer(policy=policy_of(store, settings))[1].mode == "audit"
    two_people("rollout", "gates", ask=[f"{name}={strict}"])
    with pytest.raises(InvalidRequest, match="not enough evidence"):
        answer(policy=policy_of(store, settings))
    two_people("rollout", "gates", ask=[f"{name}={before[name]}"])
    two_people("rollout", "gates", ask=["audit_days=1"])

    with pytest.raises(InvalidRequest, match="the strictest of them fail"):
        answer(policy=policy_of(store, settings))

    judges = ladder.judging(asked, policy_of(store, settings)).gates
    assert (getattr(judges, name), judges.audit_days) == (strict, 7)
    assert judges.audit_runs == max(20, settings.audit_runs or 0)


def test_a_request_between_whose_gates_some_are_unknown_is_asked_again() -> None:
    state = ready(replace(create(spec(), 1000), rollout=Rollout("soft")))
    asked, request = ladder.ask(
        state, 2000, to="audit", percent=10, who="ann", reason="due", policy=Policy(number=4)
    )
    named = ladder.request_id(state.name, request)
    figures = Policy().figures()
    known = tuple(FormerGates(number, figures) for number in (3, 4, 5, 6))
    answer = partial(ladder.approve, asked, 3000, request=named, who="bob", reason="seen")
    for former in ((), known[:3], (known[0], *known[2:][1:])):
        with pytest.raises(InvalidRequest, match="lacks gates") as refused:
            answer(policy=Policy(number=7, former=former))
        assert "ask again" in (refused.value.cure or "")
    with pytest.raises(InvalidRequest, match="lacks gates"):  # the store went back to an older one
        answer(policy=Policy(number=3))

    assert answer(policy=Policy(number=7, former=known))[1].mode == "audit"
    assert answer(policy=Policy(number=5))[1].mode == "audit"


def test_a_policy_keeps_a_bounded_number_of_former_gates() -> None:
    book = Book()
    for at in range(FORMER_MAX + 3):
        book = policy.ask(book, at, to={"audit_parts": at}, who=ANN, reason="due")
        assert book.request is not None
        seen = policy.request_id(book.request)
        book = policy.approve(book, at, request=seen, who=BOB, reason="seen")
    assert [one.number for one in book.policy.former] == list(range(3, FORMER_MAX + 3))
    assert [one.gates[0] for one in book.policy.former][:2] == [2, 3]
    assert book.policy.since(1) is None
    assert [one["audit_parts"] for one in book.policy.since(FORMER_MAX) or ()] == [
        FORMER_MAX,
        FORMER_MAX + 1,
    ]


def test_a_request_of_which_nobody_knows_the_gates_is_asked_again() -> None:
    state = ready(replace(create(spec(), 1000), rollout=Rollout("soft")))
    asked, request = ladder.ask(
        state, 2000, to="audit", percent=10, who="ann", reason="due", policy=Policy()
    )
    named = ladder.request_id(state.name, request)
    for entries in ((), tuple(replace(e, gates=()) for e in asked.rollout.entries)):
        lost = replace(asked, rollout=replace(asked.rollout, entries=entries))
        with pytest.raises(InvalidRequest, match="lacks gates"):
            ladder.approve(lost, 3000, request=named, who="bob", reason="x", policy=Policy())


def test_the_gates_that_are_shown_of_a_request_are_those_that_judge_it(store: Stores) -> None:
    two_people("rollout", ask=["s"])
    Machine(store).apply("s", lambda state, now: (ready(state), None))
    strata("rollout", "request", "s", "--by", "ann", "--reason", "due")
    two_people("rollout", "gates", ask=["audit_parts=7", "audit_runs=50"])

    shown = {gate["name"]: gate["wanted"] for gate in strata("rollout", "show", "s")["gates"]}

    assert (shown["audited parts"], shown["runs"]) == ("at least 3000", "at least 50")


def ready(state: State) -> State:
    """Return a shard with evidence enough for any step, by the code of now."""
    seen = Evidence(
        basis=basis_of(state),
        runs=99,
        days=99,
        step_days=99,
        parts=99_999,
        distinct=True,
        strata=(Stratum("long", 99_999),),
    )
    return step(state, 1500, rollout=replace(state.rollout, evidence=seen))


def test_a_store_without_a_policy_has_the_built_in_one(store: Stores) -> None:
    assert book_of(store) == (Book(), None)
    assert policy_of(store, RolloutSettings(audit_parts=1)) == Policy()
    stricter = policy_of(store, RolloutSettings(audit_parts=9999))
    assert stricter.gates.audit_parts == 9999

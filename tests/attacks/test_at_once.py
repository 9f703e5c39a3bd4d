"""Two people at the same moment: one request is open, one answer counts, one step is taken."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from strata.audit.contain import contain
from strata.audit.verdict import Verdict
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings, Thresholds
from strata.rollout import ladder, policy
from strata.rollout.people import Person
from strata.rollout.policy import Policy
from strata.store.open import open_stores
from tests.support.batches import spec
from tests.support.climb import standing
from tests.support.failing_stores import Faults, FaultyConsensus, Outcome

PEOPLE = tuple(f"person {n}" for n in range(6))
GATES = Policy(Thresholds())
NAME = spec().name
GUILTY = Verdict(
    "run", "elsewhere", "a filter", "x = 1", "a/part", "mismatch",
    1, 1, 1, "both", 1, "0", "a stratum", suspects="equal_to",
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> StoreSettings:
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    Machine(open_stores(store)).create(spec())
    return store


def at_once(act: Callable[[str], Any], people: Sequence[str] = PEOPLE) -> list[str]:
    """Let everybody act at the same moment; return who was not refused."""
    ready = Barrier(len(people))

    def acts(who: str) -> bool:
        ready.wait()
        try:
            act(who)
        except InvalidRequest:
            return False
        return True

    with ThreadPoolExecutor(len(people)) as pool:
        return [who for who, done in zip(people, pool.map(acts, people), strict=True) if done]


def test_one_of_many_requests_and_one_of_many_approvals_count(store: StoreSettings) -> None:
    def changes(transition: Any, who: str, **said: Any) -> None:
        how = partial(transition, who=who, policy=GATES, **said)
        Machine(open_stores(store)).apply(NAME, how)

    [asker] = at_once(lambda who: changes(ladder.ask, who, to="soft", percent=1, reason="now"))
    asked = Machine(open_stores(store)).load(NAME).rollout.request
    assert asked is not None
    assert asked.by == asker
    request = ladder.request_id(NAME, asked)
    approvers = at_once(
        lambda who: changes(ladder.approve, who, request=request, reason="I looked")
    )

    after = Machine(open_stores(store)).load(NAME).rollout
    assert len(approvers) == 1
    assert approvers != [asker]
    assert (after.mode, after.changed_by, after.request) == ("soft", approvers[0], None)
    assert [line.what for line in after.entries][-2:] == ["requested", "approved"]


def test_an_approval_and_a_step_down_at_once_end_down_or_say_so(store: StoreSettings) -> None:
    """Whichever comes first: no approval holds after a step down that lapsed its request."""
    machine = Machine(open_stores(store))
    machine.apply(
        NAME,
        partial(ladder.ask, to="soft", percent=1, who="ann", reason="now", policy=GATES),
    )
    asked = machine.load(NAME).rollout.request
    assert asked is not None
    request = ladder.request_id(NAME, asked)

    def acts(who: str) -> None:
        said = {
            "bob": partial(ladder.approve, request=request, policy=GATES),
            "carl": partial(ladder.reject, request=request),
        }[who]
        Machine(open_stores(store)).apply(NAME, partial(said, who=who, reason="I looked"))

    [counted] = at_once(acts, ("bob", "carl"))
    after = machine.load(NAME).rollout
    assert (after.mode, after.request) == ({"bob": "soft", "carl": "off"}[counted], None)


@pytest.mark.parametrize("calls", range(6))
def test_who_steps_down_while_a_rule_is_distrusted_stays_down(
    store: StoreSettings, calls: int
) -> None:
    """A rule was wrong elsewhere: that lowers who skips, and leads nobody from off to soft."""
    stores = open_stores(store)
    machine = Machine(stores)
    machine.apply(NAME, partial(standing, mode="audit", percent=10))
    down = partial(ladder.step_down, to="off", who="ann", reason="doubt")
    faults = Faults([*[Outcome.WORKS] * calls, Outcome.INTERRUPTED])
    faults.interlude = lambda: machine.apply(NAME, down) and None
    beside = replace(stores, consensus=FaultyConsensus(stores.consensus, faults))
    lowered = contain(Machine(beside), "elsewhere", [GUILTY])
    if not faults.drawn[Outcome.INTERRUPTED]:  # it ended before
        machine.apply(NAME, down)
    after = machine.load(NAME).rollout
    assert after.mode == "off"
    assert [line.after for line in after.entries][-1] == "off"
    assert (lowered == [NAME]) == ("soft" in [line.after for line in after.entries][-2:])


def test_the_policy_is_asked_for_and_changed_once(store: StoreSettings) -> None:
    def asks(who: str) -> None:
        move = partial(policy.ask, to={"audit_days": 9}, who=Person(who), reason="more")
        policy.change(open_stores(store), move)

    [asker] = at_once(asks)
    asked = policy.book_of(open_stores(store))[0].request
    assert asked is not None
    seen = policy.request_id(asked)

    def approves(who: str) -> None:
        move = partial(policy.approve, request=seen, who=Person(who), reason="I looked")
        policy.change(open_stores(store), move)

    approvers = at_once(approves)
    book = policy.book_of(open_stores(store))[0]
    assert len(approvers) == 1
    assert approvers != [asker]
    assert (book.policy.number, book.request) == (asked.policy.number + 1, None)

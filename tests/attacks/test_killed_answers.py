"""S5: a task that Airflow stops behind its own approval ends well in its next try, and no other."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from airflow.sdk.exceptions import AirflowFailException

from strata_airflow import approval
from tests.attacks.test_gate_dag import Gate, Notes, gate, strata

__all__ = ["gate"]
pytestmark = pytest.mark.dags
REASON: Final = "I looked"


class Stopped(BaseException):
    """As a signal does, it lets nothing go on."""


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what stops the task before or behind the command that carries out an answer."""

    def at(when: str) -> None:
        def stopped(*words: str) -> dict[str, Any]:
            if words[1] in ("approve", "reject"):
                if when == "behind":
                    strata(*words)
                raise Stopped
            return strata(*words)

        monkeypatch.setattr("strata_airflow.question.run_strata", stopped)

    return at


def answered(gate: Gate, word: str = "Approve") -> tuple[str, Notes]:
    """Ask as alice, answer as bob, and be stopped; return the request and what is noted."""
    notes, asked = Notes(), gate.ask("alice")["request"]
    with pytest.raises(Stopped):
        gate.answer(f"{word} {asked}", "bob", REASON, notes)
    return asked, notes


def by_hand(word: str, request: str, who: str, reason: str = REASON) -> None:
    """Answer on the command line."""
    strata("rollout", word, "s", "--request", request, "--by", who, "--reason", reason)


def red(gate: Gate, notes: Notes | None) -> None:
    before = strata("rollout", "show", "s")
    with pytest.raises(AirflowFailException, match="no step is asked for"):
        gate.tried(notes)
    assert strata("rollout", "show", "s") == before


def test_the_next_try_ends_as_the_one_that_was_stopped_would_have(
    gate: Gate, stop: Callable[[str], None]
) -> None:
    stop("behind")
    asked, notes = answered(gate)
    before = strata("rollout", "show", "s")
    wanted = {"mode": "soft", "by": "bob", "reason": REASON, "answer": "approve", "request": asked}
    assert gate.tried(notes) == gate.tried(notes) == wanted
    assert strata("rollout", "show", "s") == before, "nothing is approved twice"


def test_a_task_that_is_stopped_before_its_approval_asks_again(
    gate: Gate, stop: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop("before")
    asked, notes = answered(gate)
    assert gate.shown(monkeypatch, notes)["options"][0] == f"Approve {asked}"
    assert strata("rollout", "show", "s")["mode"] == "off"


@pytest.mark.parametrize(("who", "reason"), [("carl", REASON), ("bob", "I looked there")])
def test_a_step_that_somebody_else_took_is_not_this_runs(
    gate: Gate, stop: Callable[[str], None], who: str, reason: str
) -> None:
    """The task is stopped before its approval, and the request is approved elsewhere."""
    stop("before")
    asked, notes = answered(gate)
    by_hand("approve", asked, who, reason)
    red(gate, notes)


def test_an_answer_that_came_too_late_took_no_step(gate: Gate) -> None:
    """Bob approves in the console, and then in Airflow with the same words."""
    notes, asked = Notes(), gate.ask("alice")["request"]
    by_hand("approve", asked, "bob")
    with pytest.raises(AirflowFailException, match="no step is asked for"):
        gate.answer(f"Approve {asked}", "bob", REASON, notes)
    red(gate, notes)


def test_a_run_without_an_answer_of_its_own_took_no_step(
    gate: Gate, stop: Callable[[str], None]
) -> None:
    stop("behind")
    answered(gate)
    red(gate, Notes())
    red(gate, None)


def test_a_step_that_was_undone_is_no_end(gate: Gate, stop: Callable[[str], None]) -> None:
    stop("behind")
    _, notes = answered(gate)
    strata("rollout", "step-down", "s", "--by", "carl", "--reason", "something is wrong")
    red(gate, notes)


def test_a_new_request_is_shown_by_the_next_try(
    gate: Gate, stop: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    stop("behind")
    _, notes = answered(gate)
    strata("rollout", "step-down", "s", "--by", "carl", "--reason", "something is wrong")
    new = gate.ask("mallory")["request"]
    assert gate.shown(monkeypatch, notes)["options"][0] == f"Approve {new}"


def test_a_rejection_took_no_step(gate: Gate, stop: Callable[[str], None]) -> None:
    stop("behind")
    _, notes = answered(gate, "Reject")
    assert not notes
    red(gate, notes)


@pytest.mark.parametrize(
    "forged",
    ["Approve", None, 7, [], {}, {"request": ""}, {"at_ms": 0}, {"at_ms": "0"}, {"by": "bob"}],
)
def test_a_note_that_somebody_wrote_takes_no_step(gate: Gate, forged: Any) -> None:
    red(gate, Notes(answer=forged))
    by_hand("approve", gate.ask("alice")["request"], "bob")
    red(gate, Notes(answer=forged))


def line(**fields: Any) -> dict[str, Any]:
    blank = {"what": "approved", "before": "off", "after": "soft", "request": "1f", "by": "bob"}
    return {**blank, "reason": REASON, "at_ms": 7, **fields}


NOTED: Final = {"request": "1f", "by": "bob", "reason": REASON, "at_ms": 7}


@pytest.mark.parametrize(
    ("history", "own"),
    [
        ([line()], True),
        ([line(what="requested", before="soft", after="soft", request="2f"), line()], True),
        ([line(what="tripped", before="soft", after="off"), line()], False),
        ([line(before="soft", after="audit", request="2f"), line()], False),
        ([line(at_ms=6)], False),
        ([line(by="carl")], False),
        ([line(reason="I looked too")], False),
        ([line(request="2f")], False),
        ([line(what="stepped down")], False),
        ([], False),
    ],
)
def test_only_the_last_step_and_its_own_words_count(
    history: list[dict[str, Any]], own: bool
) -> None:
    assert approval.taken_by(history, NOTED) is own

"""S5: a task that Airflow stops behind its own answer ends well in its next try, and no other."""

from collections.abc import Callable
from typing import Any, Final

import pytest
from airflow.sdk.exceptions import AirflowFailException

from strata_airflow import approval
from strata_airflow.question import NOBODY
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


@pytest.mark.parametrize(("word", "after"), [("Approve", "soft"), ("Reject", "off")])
def test_the_next_try_ends_as_the_one_that_was_stopped_would_have(
    gate: Gate, stop: Callable[[str], None], word: str, after: str
) -> None:
    stop("behind")
    asked, notes = answered(gate, word)
    before = strata("rollout", "show", "s")
    wanted = {"mode": after, "by": "bob", "reason": REASON}
    wanted |= {"answer": word.lower(), "request": asked}
    assert gate.tried(notes) == gate.tried(notes) == wanted
    assert strata("rollout", "show", "s") == before, "nothing is answered twice"


def test_a_rejection_for_want_of_an_answer_ends_well_too(
    gate: Gate, stop: Callable[[str], None]
) -> None:
    stop("behind")
    notes, asked = Notes(), gate.ask("alice")["request"]
    with pytest.raises(Stopped):
        gate.answer(f"Reject {asked}", None, None, notes)
    ended = gate.tried(notes)
    assert (ended["answer"], ended["by"]) == ("reject", NOBODY)


@pytest.mark.parametrize("word", ["Approve", "Reject"])
def test_a_task_that_is_stopped_before_its_answer_asks_again(
    gate: Gate, stop: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    stop("before")
    asked, notes = answered(gate, word)
    assert gate.shown(monkeypatch, notes)["options"][0] == f"Approve {asked}"
    assert strata("rollout", "show", "s")["mode"] == "off"


@pytest.mark.parametrize("word", ["Approve", "Reject"])
@pytest.mark.parametrize(("who", "reason"), [("carl", REASON), ("bob", "I looked there")])
def test_an_answer_that_somebody_else_gave_is_not_this_runs(
    gate: Gate, stop: Callable[[str], None], who: str, reason: str, word: str
) -> None:
    """The task is stopped before its answer, and the request is answered elsewhere."""
    stop("before")
    asked, notes = answered(gate, word)
    by_hand(word.lower(), asked, who, reason)
    red(gate, notes)


@pytest.mark.parametrize(("word", "other"), [("Approve", "reject"), ("Reject", "approve")])
def test_the_opposite_answer_is_not_this_runs(
    gate: Gate, stop: Callable[[str], None], word: str, other: str
) -> None:
    """The same person says the opposite elsewhere, in the same words."""
    stop("before")
    asked, notes = answered(gate, word)
    by_hand(other, asked, "bob")
    red(gate, notes)


@pytest.mark.parametrize("word", ["Approve", "Reject"])
def test_an_answer_that_came_too_late_did_nothing(gate: Gate, word: str) -> None:
    """Bob answers in the console, and then in Airflow with the same words."""
    notes, asked = Notes(), gate.ask("alice")["request"]
    by_hand(word.lower(), asked, "bob")
    with pytest.raises(AirflowFailException, match="no step is asked for"):
        gate.answer(f"{word} {asked}", "bob", REASON, notes)
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


@pytest.mark.parametrize("word", ["Approve", "Reject"])
def test_a_question_about_a_former_request_is_not_put_again(
    gate: Gate, stop: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Airflow keeps a question as it was first put: its next try would show the old one."""
    notes, asked = Notes(), gate.ask("alice")["request"]
    for _ in range(2):
        assert gate.shown(monkeypatch, notes)["options"][0] == f"Approve {asked}"
    by_hand(word.lower(), asked, "carl")
    if word == "Approve":
        strata("rollout", "step-down", "s", "--by", "carl", "--reason", "something is wrong")
    new = gate.ask("mallory")["request"]
    with pytest.raises(AirflowFailException, match=f"another request than {new}"):
        gate.tried(notes)
    assert strata("rollout", "show", "s")["request"]["id"] == new, "it stays open"
    assert gate.shown(monkeypatch, Notes())["options"][0] == f"Approve {new}", "for a new run"


@pytest.mark.parametrize(
    "forged",
    [
        "Approve", None, 7, [], {}, {"request": ""}, {"at_ms": 0}, {"at_ms": "0"}, {"by": "bob"},
        {"word": "Reject"}, {"word": ["Reject"]}, {"word": "Reject", "at_ms": 0},
    ],
)  # fmt: skip
def test_a_note_that_somebody_wrote_takes_no_step(gate: Gate, forged: Any) -> None:
    red(gate, Notes(answer=forged))
    by_hand("approve", gate.ask("alice")["request"], "bob")
    red(gate, Notes(answer=forged))


def line(**fields: Any) -> dict[str, Any]:
    blank = {"what": "approved", "before": "off", "after": "soft", "request": "1f", "by": "bob"}
    return {**blank, "reason": REASON, "at_ms": 7, **fields}


NOTED: Final = {"request": "1f", "by": "bob", "reason": REASON, "at_ms": 7}


REJECTED: Final = {"what": "rejected", "after": "off"}


@pytest.mark.parametrize(
    ("word", "history", "own"),
    [
        ("Approve", [line()], True),
        ("Approve", [line(what="requested", before="soft", request="2f"), line()], True),
        ("Approve", [line(what="tripped", before="soft", after="off"), line()], False),
        ("Approve", [line(before="soft", after="audit", request="2f"), line()], False),
        ("Approve", [line(at_ms=6)], False),
        ("Approve", [line(by="carl")], False),
        ("Approve", [line(reason="I looked too")], False),
        ("Approve", [line(request="2f")], False),
        ("Approve", [line(what="stepped down")], False),
        ("Approve", [line(**REJECTED)], False),
        ("Approve", [], False),
        ("Reject", [line(**REJECTED)], True),
        ("Reject", [line(request="2f"), line(**REJECTED)], True),
        ("Reject", [line(**REJECTED, at_ms=6)], False),
        ("Reject", [line(**REJECTED, by="carl")], False),
        ("Reject", [line(**REJECTED, reason="I looked too")], False),
        ("Reject", [line(**REJECTED, request="2f")], False),
        ("Reject", [line()], False),
        ("Reject", [line(what="lapsed", after="off")], False),
        ("Reject", [], False),
    ],
)
def test_only_its_own_words_count_and_only_the_last_step(
    word: str, history: list[dict[str, Any]], own: bool
) -> None:
    assert approval.carried_out(history, {**NOTED, "word": word}) is own


def test_a_note_of_an_older_version_is_an_approval() -> None:
    assert approval.carried_out([line()], NOTED)
    assert not approval.carried_out([line(**REJECTED)], NOTED)

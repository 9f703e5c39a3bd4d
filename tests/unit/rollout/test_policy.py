"""A change of the policy says who wants what and why, in the words that people read."""

from dataclasses import replace
from typing import Any

import pytest

from strata.errors import Conflict, InvalidRequest
from strata.model.settings import Thresholds
from strata.rollout.people import Person
from strata.rollout.policy import (
    ATTEMPTS,
    DAY_MS,
    ENTRIES_MAX,
    Book,
    Policy,
    approve,
    ask,
    book_of,
    change,
    reject,
    request_id,
    what_differs,
)
from tests.support.failing_stores import Beaten
from tests.support.stored import memory_stores

ANN, BOB = Person("ann"), Person("bob")


def asked() -> Book:
    to = {"approvers": ("ann", "bob"), "audit_parts": 10}
    return ask(Book(), 1000, to=to, who=ANN, reason="a trial")


@pytest.mark.parametrize(("who", "reason"), [(Person(""), "a trial"), (ANN, ""), (ANN, "  ")])
def test_nobody_asks_and_nobody_answers_without_a_name_and_a_reason(
    who: Person, reason: str
) -> None:
    with pytest.raises(InvalidRequest):
        ask(Book(), 1000, to={"audit_parts": 10}, who=who, reason=reason)
    book = asked()
    assert book.request is not None
    for answer in (approve, reject):
        with pytest.raises(InvalidRequest):
            answer(book, 2000, request=request_id(book.request), who=who, reason=reason)


def test_a_change_is_shown_value_by_value() -> None:
    book = asked()
    assert book.request is not None

    assert what_differs(book.policy, book.request.policy) == (
        "audit_parts: 3000 -> 10",
        "approvers: - -> ann, bob",
    )
    assert book.entries[-1].changes == what_differs(book.policy, book.request.policy)

    done = approve(book, 2000, request=request_id(book.request), who=BOB, reason="I looked")
    assert done.policy.approvers == ("ann", "bob")
    assert (done.policy.number, done.policy.gates.audit_parts) == (1, 10)
    assert what_differs(done.policy, done.policy) == ()


def id_of(book: Book) -> str:
    assert book.request is not None
    return request_id(book.request)


def test_what_is_not_named_stays_as_it_was() -> None:
    book = approve(asked(), 2000, request=id_of(asked()), who=BOB, reason="I looked")

    more = ask(book, 3000, to={"audit_runs": 5}, who=ANN, reason="a trial")

    assert more.request is not None
    wanted = more.request.policy
    assert wanted.gates == replace(Thresholds(), audit_parts=10, audit_runs=5)
    assert (wanted.approvers, wanted.vouchers, wanted.release_people) == (("ann", "bob"), (), 1)


def test_each_line_says_who_did_it_who_asked_and_what_changes() -> None:
    ann, bob = Person("ann", "alice"), Person("bob", "robert")
    book = ask(Book(), 1000, to={"audit_parts": 10}, who=ann, reason="a trial")
    named = id_of(book)
    done = approve(book, 2000, request=f" {named} ", who=bob, reason="seen")
    refused = reject(book, 2000, request=named, who=ann, reason="no more")

    def line(of: Book) -> tuple[object, ...]:
        one = of.entries[-1]
        return (one.what, one.number, one.by, one.user, one.asked_by, one.asked_user, one.changes)

    changes = ("audit_parts: 3000 -> 10",)
    assert line(book) == ("requested", 0, "ann", "alice", "", "", changes)
    assert line(done) == ("approved", 1, "bob", "robert", "ann", "alice", changes)
    assert line(refused) == ("rejected", 0, "ann", "alice", "ann", "alice", changes)
    assert (done.request, refused.request, refused.policy) == (None, None, Policy())
    assert {one.request for one in (*done.entries, *refused.entries)} == {named}


@pytest.mark.parametrize("answer", [approve, reject])
def test_an_answer_names_the_request_that_is_open(answer: Any) -> None:
    book = asked()
    other = ask(Book(), 1001, to={"audit_parts": 10}, who=ANN, reason="a trial")

    with pytest.raises(InvalidRequest, match="another request is open"):
        answer(book, 2000, request=id_of(other), who=BOB, reason="seen")


@pytest.mark.parametrize("answer", [approve, reject])
def test_nobody_answers_when_the_days_of_a_request_are_over(answer: Any) -> None:
    book = asked()
    end = 1000 + Thresholds().request_days * DAY_MS
    assert answer(book, end - 1, request=id_of(book), who=BOB, reason="seen").request is None

    with pytest.raises(InvalidRequest, match="no change of the policy is asked for") as refused:
        answer(book, end, request=id_of(book), who=BOB, reason="seen")

    assert refused.value.details["reason"] == "nobody asked"
    again = ask(book, end, to={"audit_parts": 11}, who=BOB, reason="a trial")
    assert [(one.what, one.by) for one in again.entries] == [
        ("requested", "ann"),
        ("lapsed", "nobody"),
        ("requested", "bob"),
    ]
    assert DAY_MS == 24 * 60 * 60 * 1000


def test_a_history_of_the_policy_keeps_its_last_lines() -> None:
    book = Book()
    for at in range(ENTRIES_MAX):
        book = ask(book, at, to={"audit_parts": 10}, who=ANN, reason=f"no. {at}")
        book = reject(book, at, request=id_of(book), who=BOB, reason="no")

    assert len(book.entries) == ENTRIES_MAX == 64
    assert book.entries[-2].reason == f"no. {ENTRIES_MAX - 1}"


# The document.


def test_a_change_is_made_of_the_newest_document_and_again_after_a_lost_race() -> None:
    stores = memory_stores()
    waits: list[float] = []

    def move(book: Book, _now_ms: int) -> Book:
        return replace(book, policy=replace(book.policy, number=book.policy.number + 1))

    assert book_of(stores) == (Book(), None)
    for number in (1, 2):
        assert change(stores, move).policy.number == number
        assert book_of(stores) == (Book(Policy(number=number)), number)

    beaten = replace(stores, consensus=Beaten(stores.consensus, 2))
    assert change(beaten, move, waits.append).policy.number == 3
    assert waits == [0.01, 0.02]

    beaten = replace(stores, consensus=Beaten(stores.consensus, ATTEMPTS))
    with pytest.raises(Conflict) as lost:
        change(beaten, move, waits.append)
    assert lost.value.details["attempts"] == ATTEMPTS == 20
    assert book_of(stores)[0].policy.number == 3

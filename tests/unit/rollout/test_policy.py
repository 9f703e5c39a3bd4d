"""A change of the policy says who wants what and why, in the words that people read."""

import pytest

from strata.errors import InvalidRequest
from strata.rollout.people import Person
from strata.rollout.policy import Book, approve, ask, reject, request_id, what_differs

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

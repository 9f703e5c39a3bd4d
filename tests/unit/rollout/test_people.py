"""Who two people are: what a database knows counts, and a name counts where it knows nobody."""

from collections.abc import Sequence

import pytest

from strata.errors import InvalidRequest
from strata.model.settings import Thresholds
from strata.rollout.people import NAME_MAX, REASON_MAX, Person, are_one, check_said, identity_of
from strata.rollout.policy import Policy

AIRFLOW = ("Airflow ",)  # as somebody typed it

TWO = [
    (Person("ann"), Person("Ann "), (), True),
    (Person("ann"), Person("bert"), (), False),
    # One user is one person, whatever names they type.
    (Person("ann", "alice"), Person("bert", "alice"), (), True),
    (Person("ann", "alice"), Person("bert", "ALICE"), (), True),
    (Person("ann", "alice"), Person("bert", "\u0430lice"), (), True),  # Cyrillic
    (Person("ann", "alice"), Person("bert", "bob"), (), False),
    # One name is one person, whichever user it comes from.
    (Person("ann", "alice"), Person("ANN", "bob"), (), True),
    # Who is a user here and claims the name of that user elsewhere.
    (Person("ann", "alice"), Person("alice"), (), True),
    # A user that speaks for others is no person.
    (Person("ann", "airflow"), Person("bert", "airflow"), (), True),
    (Person("ann", "airflow"), Person("bert", "airflow"), AIRFLOW, False),
    (Person("ann", "airflow"), Person("ann", "airflow"), AIRFLOW, True),
    (Person("alice", "airflow"), Person("bert", "alice"), AIRFLOW, True),
    (Person("ann", "alice"), Person("bert", "alice"), AIRFLOW, True),
]


@pytest.mark.parametrize(("first", "second", "vouchers", "one"), TWO)
def test_who_is_one_person(
    first: Person, second: Person, vouchers: Sequence[str], one: bool
) -> None:
    assert are_one(first, second, vouchers) == are_one(second, first, vouchers) == one
    if one:
        with pytest.raises(InvalidRequest, match="cannot approve"):
            Policy(vouchers=tuple(vouchers)).check_approver(first, second)
    else:
        Policy(vouchers=tuple(vouchers)).check_approver(first, second)


@pytest.mark.parametrize(
    ("who", "said"),
    [
        (Person("bob", "bob"), True),
        (Person("anything", "Bob"), True),
        (Person("bob"), True),
        (Person("bob", "eve"), False),
        (Person("bob", "airflow"), True),
        (Person("airflow", "airflow"), False),
    ],
)
def test_an_approver_is_known_by_the_user_of_the_database(who: Person, said: bool) -> None:
    policy = Policy(Thresholds(), ("bob", "carl"), AIRFLOW)
    if said:
        policy.check_approver(who, Person("ann"))
    else:
        with pytest.raises(InvalidRequest, match="may not approve"):
            policy.check_approver(who, Person("ann"))


@pytest.mark.parametrize(
    ("who", "shown"),
    [
        (Person("ann"), "claimed"),
        (Person("ann", "ANN"), "user of the database"),
        (Person("ann", "eve"), "claimed by eve"),
        (Person("ann", "airflow"), "vouched for by airflow"),
        (Person("airflow", "airflow"), "vouched for by airflow"),
    ],
)
def test_a_history_says_how_far_a_name_is_proved(who: Person, shown: str) -> None:
    assert who.proof(AIRFLOW) == shown


def test_names_and_reasons_end_somewhere() -> None:
    check_said("a step", "a" * NAME_MAX, "b" * REASON_MAX)
    for name, reason in (("a" * (NAME_MAX + 1), "b"), ("a", "b" * (REASON_MAX + 1))):
        with pytest.raises(InvalidRequest, match="of a few sentences"):
            check_said("a step", name, reason)
    assert (NAME_MAX, REASON_MAX) == (256, 4000)


def test_an_id_has_sixteen_digits() -> None:
    """People copy it from a screen."""
    assert len(identity_of(("s", 1))) == 16

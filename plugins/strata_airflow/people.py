"""The people who can log in to this Airflow and answer, as far as a task can know.

A task cannot ask Airflow for its people. The simple auth manager lists them in Airflow's settings;
for every other auth manager, `STRATA_PEOPLE` lists names and ids. Without either list, questions
are assigned to nobody, and the store alone decides who may approve.
"""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from airflow.sdk.execution_time.hitl import HITLUser

VARIABLE: Final = "STRATA_PEOPLE"
ANSWERING: Final = frozenset({"user", "op", "admin"})  # roles; a viewer answers nothing


def known() -> dict[str, str]:
    """Return the ids of the people who can answer, by name; empty if nobody is known.

    Raises: AirflowFailException if `STRATA_PEOPLE` is malformed.
    """
    said = os.environ.get(VARIABLE, "")
    return parsed(said) if said.strip() else _of_simple_auth_manager()


def parsed(said: str) -> dict[str, str]:
    """Return ids by name.

    >>> parsed("Ann Lee=3, bob|robert=7")
    {'Ann Lee': '3', 'bob': '7'}
    """
    return {names[0]: number for names, number in _listed(said)}


def _listed(said: str) -> list[tuple[tuple[str, ...], str]]:
    """Return each person's names, that of the store first, and id.

    Raises: AirflowFailException if a name or an id is missing, or is of two people.
    """
    from airflow.sdk.exceptions import AirflowFailException

    found: list[tuple[tuple[str, ...], str]] = []
    taken: set[str] = set()
    for one in said.split(","):
        before, _, number = (word.strip() for word in one.partition("="))
        names = tuple(name.strip() for name in before.split("|"))
        ids = {its for _, its in found}
        if not (number and all(names)) or number in ids or not taken.isdisjoint(names):
            raise AirflowFailException(
                f"{VARIABLE}: {one.strip()!r} is not a name and an id of its own (cure: NAME=ID,"
                " with commas between, each id as Airflow's auth manager has it, and NAME|OTHER=ID"
                " where Airflow or the database calls a person OTHER)"
            )
        taken.update(names)
        found.append((names, number))
    return found


def named(user: Mapping[str, Any]) -> str:
    """Return the name of the person who answered, by id if known, because names may change.

    >>> named({"id": "ann", "name": "ann"}), named({})
    ('ann', '')
    """
    number, name = str(user.get("id") or ""), str(user.get("name") or "")
    return next((one for one, its in known().items() if its == number), name or number)


def asker(name: str) -> str:
    """Return the name of the person who triggered a run, as answers name them.

    Airflow notes a name with a run, and no id. Where `STRATA_PEOPLE` renames people, one of a name
    that is not there may be any of them, also the one who answers later.

    Raises: AirflowFailException if that lists people, and this is neither a name nor an id of one.
    """
    from airflow.sdk.exceptions import AirflowFailException

    said = os.environ.get(VARIABLE, "")
    people = _listed(said) if said.strip() else []
    found = [names[0] for names, number in people if name in (*names, number)]
    if people and len(found) != 1:
        raise AirflowFailException(
            f"{name!r} asks, whom {VARIABLE} names {'more than once' if found else 'not'}, so"
            " the one who answers may be the same person (cure: NAME|OTHER=ID there, where Airflow"
            " calls a person OTHER, or `strata rollout request`)"
        )
    return found[0] if found else name


def assigned(ids: Mapping[str, str], request: Mapping[str, Any]) -> "list[HITLUser]":
    """Return the people who may answer a request, in Airflow's form.

    Raises: AirflowFailException if no user may answer: the question would wait for ever.
    """
    from airflow.sdk.exceptions import AirflowFailException

    found: list[HITLUser] = [{"id": ids[name], "name": name} for name in request["may_answer"]]
    if not found:
        raise AirflowFailException(
            f"nobody who can answer in Airflow may approve request {request['id']}, which"
            f" {request['by']} asked for; Airflow knows {', '.join(ids)} (cure: `strata rollout"
            " approve` by somebody else, another log-in, or the policy: `strata rollout gates"
            " show` has its approvers and vouchers)"
        )
    return found


def _of_simple_auth_manager() -> dict[str, str]:
    """Return the users in Airflow's settings; none if everybody is an administrator."""
    from airflow.sdk.configuration import conf

    manager = str(conf.get("core", "auth_manager", fallback=""))
    if not manager.endswith(".SimpleAuthManager"):
        return {}
    if conf.getboolean("core", "simple_auth_manager_all_admins", fallback=False):
        return {}
    users = str(conf.get("core", "simple_auth_manager_users", fallback="")).split(",")
    pairs = [user.strip().split(":") for user in users if ":" in user]  # teams may follow
    return {name: name for name, role, *_ in pairs if name and role.lower() in ANSWERING}

"""A name that is typed is a claim: where the database knows its users, these are the people."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner

from strata.cli.app import whole
from strata.rollout.people import Person, are_one
from strata.store import open as stores
from strata.store.interface import Consensus
from tests.support.postgres import MissingError, fresh_database

USERS = ("alice", "bob", "airflow")
Run = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def address() -> str:
    try:
        address = fresh_database()
    except MissingError as error:
        pytest.skip(f"no PostgreSQL: {error}")
    engine = sa.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as owner:
        for user in USERS:
            owner.execute(sa.text(f"DROP ROLE IF EXISTS {user}"))
            owner.execute(sa.text(f"CREATE ROLE {user} LOGIN"))
    engine.dispose()
    return address


@pytest.fixture(scope="module")
def strata(address: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return what runs a command as a user of the database."""
    root, real = tmp_path_factory.mktemp("store"), stores._open_consensus

    def run(user: str, *words: str, fails: str = "") -> dict[str, Any]:
        file = root / f"{user}.toml"
        mine = address.replace("strata@", f"{user}@")
        file.write_text(f'[store]\nblob = "file://{root}/blob"\nconsensus = "{mine}"\n')
        opened: list[Consensus] = []

        def kept(url: str) -> Consensus:
            opened.append(real(url))
            return opened[-1]

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stores, "_open_consensus", kept)
            done = CliRunner().invoke(whole(), [*words, "--json", "--config", str(file)])
        for one in opened:  # a process of its own would end here
            one.close()  # type: ignore[attr-defined]
        if fails:
            assert done.exit_code != 0, done.output
            assert fails in str(done.exception) + done.output
            return {}
        assert done.exit_code == 0, f"{done.output} {done.exception}"
        document: dict[str, Any] = json.loads(done.stdout)
        return document

    declared = root / "s.yaml"
    declared.write_text(json.dumps({"columns": [{"name": "id", "type": "int64"}]}))
    for name in ("one", "two", "three", "four"):
        run("strata", "create", name, "--spec", str(declared))
    engine = sa.create_engine(address.replace("postgresql:", "postgresql+psycopg:"))
    with engine.begin() as owner:
        users = ", ".join(USERS)
        owner.execute(sa.text(f"GRANT SELECT, INSERT, DELETE ON strata_consensus TO {users}"))
        owner.execute(sa.text(f"GRANT SELECT ON strata_schema TO {users}"))
    engine.dispose()
    return run


def ask(strata: Run, user: str, shard: str, *by: str) -> str:
    done = strata(user, "rollout", "request", shard, "--reason", "due", *by)
    return str(done["request"]["id"])


def test_one_user_under_two_names_is_one_person(strata: Run) -> None:
    seen = ask(strata, "alice", "one", "--by", "anna")
    answer = ("rollout", "approve", "one", "--request", seen, "--reason", "seen")
    strata("alice", *answer, "--by", "bert", fails="cannot approve")
    strata("alice", *answer, fails="cannot approve")
    strata("bob", *answer, "--by", "ANNA", fails="cannot approve")
    shown = strata("bob", *answer)
    approved, requested = shown["history"]
    assert (approved["by"], approved["by_is"]) == ("bob", "user of the database")
    assert (requested["by"], requested["by_is"]) == ("anna", "claimed by alice")
    assert (approved["asked_by"], approved["asked_by_is"]) == ("anna", "claimed by alice")
    assert approved["request"] == requested["request"] == seen


def test_a_name_comes_from_the_database(strata: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = ask(strata, "alice", "two")
    assert strata("bob", "rollout", "show", "two")["request"]["by"] == "alice"
    strata(
        "alice",
        "rollout",
        "approve",
        "two",
        "--request",
        seen,
        "--by",
        "bob",
        "--reason",
        "x",
        fails="cannot approve",
    )


def test_airflow_speaks_for_people_once_two_of_them_have_said_so(strata: Run) -> None:
    seen = ask(strata, "airflow", "three", "--by", "ann")
    answer = ("rollout", "approve", "three", "--request", seen, "--reason", "seen", "--by", "bert")
    strata("airflow", *answer, fails="vouchers")
    gates = ("rollout", "gates")
    change = strata("alice", *gates, "request", "vouchers=airflow", "--reason", "our Airflow")
    wanted = change["request"]["id"]
    strata(
        "alice",
        *gates,
        "approve",
        "--request",
        wanted,
        "--by",
        "bob",
        "--reason",
        "x",
        fails="cannot approve",
    )
    strata("bob", *gates, "approve", "--request", wanted, "--reason", "it asks people to log in")
    strata(
        "airflow",
        *answer[:-1],
        "Ann ",
        fails="cannot approve",
    )
    shown = strata("airflow", *answer)
    assert shown["mode"] == "soft"
    assert shown["history"][0]["by_is"] == "vouched for by airflow"
    # What Airflow says of somebody is that person on the command line as well.
    again = ask(strata, "airflow", "four", "--by", "alice")
    strata(
        "alice",
        "rollout",
        "approve",
        "four",
        "--request",
        again,
        "--reason",
        "x",
        fails="cannot approve",
    )


@pytest.mark.parametrize(
    ("first", "second", "one"),
    [
        (Person("ann"), Person("bob"), False),
        (Person("ann"), Person("ANN "), True),
        (Person("ann", "u"), Person("bob", "u"), True),
        (Person("ann", "u"), Person("ann", "v"), True),
        (Person("ann", "u"), Person("bob", "v"), False),
        (Person("ann", "air"), Person("bob", "air"), False),
        (Person("u", "air"), Person("bob", "u"), True),
        (Person("ann", "U"), Person("bob", "u "), True),
    ],
)
def test_who_is_one_person(first: Person, second: Person, one: bool) -> None:
    assert are_one(first, second, ["air"]) == one
    assert are_one(second, first, ["air"]) == one


def test_a_claim_is_shown_as_one_where_the_database_knows_nobody(tmp_path: Path) -> None:
    file = tmp_path / "c.toml"
    file.write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
    )
    declared = tmp_path / "s.yaml"
    declared.write_text(json.dumps({"columns": [{"name": "id", "type": "int64"}]}))
    for words in (
        ["create", "s", "--spec", str(declared)],
        ["rollout", "request", "s", "--by", "ann", "--reason", "due"],
    ):
        done = CliRunner().invoke(whole(), [*words, "--config", str(file), "--json"])
        assert done.exit_code == 0, done.output
    shown = json.loads(done.stdout)
    assert shown["request"]["by_is"] == "claimed"
    assert shown["history"][0]["by_is"] == "claimed"

"""S4, S5 through the DAG: Airflow knows who asks; an answer belongs to what was shown with it."""

import json
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.standard.operators import hitl
from airflow.sdk.exceptions import AirflowFailException, TaskAwaitingInput
from typer.testing import CliRunner

from strata.cli.app import whole
from strata.errors import InvalidRequest
from strata.rollout.people import Person
from strata.rollout.policy import Policy
from strata_airflow import people
from strata_airflow.question import Question

pytestmark = pytest.mark.dags
PARAMS = {"shard": "s", "reason": "it is time", "percent": None}


class Gate:
    """The tasks of the DAG, called as a worker does, without Airflow around them."""

    def __init__(self, dag: Any) -> None:
        self.dag = dag

    def ask(
        self, who: str | None, *, minutes: float = 0, cleared: int = 0, **params: Any
    ) -> dict[str, str]:
        """Ask by a run that somebody triggered so many minutes ago."""
        run = SimpleNamespace(
            triggering_user_name=who,
            conf=params,
            clear_number=cleared,
            run_after=datetime.now(UTC) - timedelta(minutes=minutes),
        )
        found: dict[str, str] = self.dag.get_task("ask").python_callable(PARAMS | params, run)
        return found

    @property
    def question(self) -> Question:
        """The task that asks, as it is rendered."""
        question = copy(self.dag.get_task("question"))
        question.render_template_fields({"params": PARAMS}, self.dag.get_template_env())
        return question

    def shown(
        self, monkeypatch: pytest.MonkeyPatch, notes: "Notes | None" = None
    ) -> dict[str, Any]:
        """Put the question; return what Airflow is given to keep."""
        kept: dict[str, Any] = {}
        monkeypatch.setattr(hitl, "upsert_hitl_detail", lambda **given: kept.update(given))
        with pytest.raises(TaskAwaitingInput):
            self.tried(notes)
        return kept

    def tried(self, notes: "Notes | None") -> Any:
        """Begin a try of the question; `notes`: what Airflow keeps for all its tries."""
        instance = SimpleNamespace(id="1")
        return self.question.execute({"task_instance": instance, "task_state_store": notes})

    def answer(
        self,
        chosen: str,
        who: str | None,
        reason: str | None = "I looked",
        notes: "Notes | None" = None,
    ) -> Any:
        given = {
            "chosen_options": [chosen],
            "params_input": {} if reason is None else {"approver_reason": reason},
            "responded_by_user": None if who is None else {"id": who, "name": who},
            "responded_at": datetime.now(UTC),
        }
        return self.question.execute_complete({"task_state_store": notes}, given)


class Notes(dict[str, Any]):
    """What Airflow keeps for all tries of a task."""

    def set(self, key: str, value: Any) -> None:
        self[key] = json.loads(json.dumps(value))


def strata(*words: str) -> dict[str, Any]:
    done = CliRunner().invoke(whole(), [*words, "--json"])
    if done.exception is not None:
        raise AirflowFailException(str(done.exception)) from done.exception
    document: dict[str, Any] = json.loads(done.output)
    return document


@pytest.fixture
def gate(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    from airflow.dag_processing.dagbag import DagBag

    file = tmp_path / "strata.toml"
    file.write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
    )
    monkeypatch.setenv("STRATA_CONFIG", str(file))
    spec = tmp_path / "s.yaml"
    spec.write_text(json.dumps({"columns": [{"name": "id", "type": "int64"}]}))
    strata("create", "s", "--spec", str(spec))
    dag = DagBag(str(project / "dags" / "rollout_gate.py")).dags["rollout_gate"]
    asks = dag.get_task("ask").python_callable.__globals__
    monkeypatch.setitem(asks, "run_strata", strata)
    monkeypatch.setattr("strata_airflow.question.run_strata", strata)
    return Gate(dag)


def mode() -> str:
    return str(strata("rollout", "show", "s")["mode"])


def refused(said: str, call: Callable[[], Any]) -> None:
    with pytest.raises(AirflowFailException, match=said):
        call()
    assert mode() == "off"


def test_a_field_of_the_form_names_no_asker(gate: Gate) -> None:
    """Mallory triggers the run, claims that Alice asks, and answers herself."""
    asked = gate.ask("mallory", asked_by="alice")
    assert strata("rollout", "show", "s")["request"]["by"] == "mallory"
    refused("cannot approve", lambda: gate.answer(f"Approve {asked['request']}", "Mallory "))


@pytest.mark.parametrize("nobody", [None, ""])
def test_a_run_that_nobody_triggered_asks_for_nothing(gate: Gate, nobody: str | None) -> None:
    refused("who asks is not known", lambda: gate.ask(nobody, asked_by="alice"))
    assert strata("rollout", "show", "s")["request"] is None


def test_a_cleared_answer_approves_no_later_request(gate: Gate) -> None:
    old = f"Approve {gate.ask('alice')['request']}"
    assert gate.answer(old, "bob")["mode"] == "soft"
    strata("rollout", "step-down", "s", "--by", "carl", "--reason", "something is wrong")
    refused("no step is asked for", lambda: gate.answer(old, "bob"))
    new = gate.ask("mallory")
    refused("another request is open", lambda: gate.answer(old, "bob"))
    assert gate.answer(f"Approve {new['request']}", "bob")["mode"] == "soft"


@pytest.mark.parametrize("reason", [None, "", "  ", "\n"])
def test_an_approval_without_a_reason_is_none(gate: Gate, reason: str | None) -> None:
    asked = gate.ask("alice")
    refused("needs a reason", lambda: gate.answer(f"Approve {asked['request']}", "bob", reason))
    assert strata("rollout", "show", "s")["request"]["id"] == asked["request"], "it stays open"


@pytest.mark.parametrize("chosen", ["Approve", "Approve ", "approve", "", "Approved"])
def test_an_answer_that_names_no_request_approves_nothing(gate: Gate, chosen: str) -> None:
    gate.ask("alice")
    refused("another request is open", lambda: gate.answer(chosen, "bob"))


def test_the_options_are_those_of_the_request_that_is_shown(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow keeps them with the question, and takes no other answer."""
    asked = gate.ask("alice")["request"]
    kept = gate.shown(monkeypatch)
    assert kept["options"] == [f"Approve {asked}", f"Reject {asked}"]
    assert kept["defaults"] == [f"Reject {asked}"]
    assert asked in kept["subject"]
    assert f"| Request | {asked} |" in kept["body"]


def test_nothing_is_asked_where_no_step_is_asked_for(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(AirflowFailException, match="no step is asked for"):
        gate.shown(monkeypatch)


def test_the_approvers_reason_begins_empty_and_is_not_the_askers(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    question = gate.dag.get_task("question")
    assert [*question.params] == ["approver_reason"]
    assert question.params["approver_reason"] == ""
    assert not set(question.params) & set(gate.dag.params)
    assert "asked_by" not in gate.dag.params
    assert gate.dag.params.get_param("reason").value is None
    gate.ask("alice")
    question.params["approver_reason"] = "I looked"  # as Airflow does with what a run was given
    assert gate.shown(monkeypatch)["params"]["approver_reason"]["value"] == ""


@pytest.mark.parametrize("repeated", [{"cleared": 1}, {"minutes": 61}])
def test_a_repeated_run_asks_in_nobodys_name(gate: Gate, repeated: dict[str, Any]) -> None:
    """Mallory clears an old run of Alice, which asks for her, and answers herself."""
    refused("no longer speaks for alice", lambda: gate.ask("alice", **repeated))
    assert strata("rollout", "show", "s")["request"] is None


def test_a_run_asks_once_even_where_clearing_leaves_no_trace(gate: Gate) -> None:
    asked = gate.ask("alice", minutes=5)
    assert gate.ask("alice", minutes=5) == asked, "it is taken up again"
    gate.answer(f"Reject {asked['request']}", "bob", "not yet")
    refused("no longer speaks for alice", lambda: gate.ask("alice", minutes=5))
    assert gate.ask("alice")["request"] != asked["request"], "a new run"


def test_nothing_that_tasks_hand_on_is_believed(gate: Gate) -> None:
    """Whoever may trigger may write what Airflow hands from task to task."""
    assert [task.task_id for task in gate.dag.topological_sort()] == ["ask", "question"]
    fields = [str(getattr(gate.dag.get_task("question"), name)) for name in ("shard", "body")]
    assert "xcom" not in " ".join(fields).lower()


SIMPLE = "airflow.api_fastapi.auth.managers.simple.simple_auth_manager.SimpleAuthManager"


@pytest.fixture
def airflow_of(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return what says which people Airflow has."""

    def say(users: str, people: str = "", manager: str = SIMPLE, admins: str = "False") -> None:
        core = "AIRFLOW__CORE__"
        monkeypatch.setenv(f"{core}AUTH_MANAGER", manager)
        monkeypatch.setenv(f"{core}SIMPLE_AUTH_MANAGER_USERS", users)
        monkeypatch.setenv(f"{core}SIMPLE_AUTH_MANAGER_ALL_ADMINS", admins)
        monkeypatch.setenv("STRATA_PEOPLE", people)

    return say


def ids(kept: dict[str, Any]) -> list[str] | None:
    users = kept["assigned_users"]
    return None if users is None else [user["id"] for user in users]


def test_the_question_is_for_those_who_may_answer(
    gate: Gate, airflow_of: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    gate.ask("alice")
    users = "alice:admin, Bob:user,eve:viewer,olga:op:team|two,ALICE:op"
    airflow_of(users)
    assert ids(gate.shown(monkeypatch)) == ["Bob", "olga"], "no viewer, nor who asks"
    asked = strata(
        "rollout", "gates", "request", "approvers=bob,alice", "--by", "x", "--reason", "y"
    )
    wanted = asked["request"]["id"]
    strata("rollout", "gates", "approve", "--request", wanted, "--by", "z", "--reason", "y")
    assert ids(gate.shown(monkeypatch)) == ["Bob"], "whom the policy names"
    airflow_of("alice:admin,olga:op")
    with pytest.raises(AirflowFailException, match=r"nobody .* may approve .* alice, olga"):
        gate.shown(monkeypatch)
    airflow_of(users, people="bob=7, olga=8, alice=9")
    assert ids(gate.shown(monkeypatch)) == ["7"], "numbers of another auth manager"


@pytest.mark.parametrize("of", [{"admins": "True"}, {"manager": "some.where.FabAuthManager"}])
def test_where_nobody_is_known_the_question_is_for_nobody_in_particular(
    gate: Gate, airflow_of: Callable[..., None], monkeypatch: pytest.MonkeyPatch, of: dict[str, str]
) -> None:
    asked = gate.ask("alice")["request"]
    airflow_of("alice:admin,bob:user", **of)
    assert not ids(gate.shown(monkeypatch))
    refused("cannot approve", lambda: gate.answer(f"Approve {asked}", "alice"))


def test_who_answers_under_a_new_name_is_known_by_the_id(
    gate: Gate, airflow_of: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mallory asks, and then changes her name in her profile."""
    asked = gate.ask("mallory")["request"]
    airflow_of("", people="mallory=7,bob=8")
    given = {"chosen_options": [f"Approve {asked}"], "params_input": {"approver_reason": "x"}}
    user = {"id": "7", "name": "Bob B."}
    refused("cannot approve", lambda: gate.question.answered({**given, "responded_by_user": user}))


def test_a_role_of_the_database_and_another_name_in_airflow_are_one_person(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Mallory asks as her role of PostgreSQL and approves in Airflow, or the other way round."""
    policy = Policy(vouchers=("strata_airflow",))
    role = Person("x", "mallory_pg")  # under any name that she types

    def in_airflow() -> tuple[Person, Person]:
        asks, answers = people.asker("malle"), people.named({"id": "7", "name": "malle"})
        return Person(asks, "strata_airflow"), Person(answers, "strata_airflow")

    monkeypatch.setenv("STRATA_PEOPLE", "")
    for person in in_airflow():
        policy.check_approver(person, role)  # nobody has said that they are one
    monkeypatch.setenv("STRATA_PEOPLE", "mallory_pg|malle=7, bob=8")
    for person in in_airflow():
        for pair in ((person, role), (role, person)):
            with pytest.raises(InvalidRequest, match="cannot approve"):
                policy.check_approver(*pair)


@pytest.mark.parametrize(
    "said",
    [
        *("bob", "bob=", "=7", "bob=7,eve=7", "bob=7,bob=8", "bob=7,,"),
        *("bob|=7", "|bob=7", "bob|eve=7,eve=8", "eve=8,bob|eve=7", "bob|eve=7,al|eve=8"),
    ],
)
def test_people_that_are_not_said_well_stop_the_question(
    gate: Gate, airflow_of: Callable[..., None], monkeypatch: pytest.MonkeyPatch, said: str
) -> None:
    gate.ask("alice")
    airflow_of("", people=said)
    with pytest.raises(AirflowFailException, match="STRATA_PEOPLE"):
        gate.shown(monkeypatch)

"""S4, S5 through the DAG: Airflow knows who asks; an answer belongs to what was shown with it."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from strata.cli.app import app

pytestmark = pytest.mark.dags
PARAMS = {"shard": "s", "reason": "it is time", "percent": None}


class Gate:
    """The tasks of the DAG, called as a worker does, without Airflow around them."""

    def __init__(self, dag: Any) -> None:
        self.dag = dag

    def ask(self, who: str | None, **params: Any) -> dict[str, str]:
        run = SimpleNamespace(triggering_user_name=who, conf=params)
        found: dict[str, str] = self.dag.get_task("ask").python_callable(PARAMS | params, run)
        return found

    def answer(self, chosen: str, who: str | None, reason: str | None = "I looked") -> Any:
        given = {
            "chosen_options": [chosen],
            "params_input": {} if reason is None else {"approver_reason": reason},
            "responded_by_user": None if who is None else {"id": who, "name": who},
        }
        return self.dag.get_task("answer").python_callable(PARAMS, given)


def strata(*words: str) -> dict[str, Any]:
    from airflow.sdk.exceptions import AirflowFailException

    done = CliRunner().invoke(app, [*words, "--json"])
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
    for name in ("ask", "answer"):
        monkeypatch.setitem(dag.get_task(name).python_callable.__globals__, "run_strata", strata)
    return Gate(dag)


def mode() -> str:
    return str(strata("rollout", "show", "s")["mode"])


def refused(said: str, call: Callable[[], Any]) -> None:
    from airflow.sdk.exceptions import AirflowFailException

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


def test_the_options_are_those_of_the_request_that_was_shown(gate: Gate) -> None:
    """Airflow keeps them with the question, and takes no other answer."""
    question = gate.dag.get_task("question")
    asked = gate.ask("alice")
    ti = SimpleNamespace(xcom_pull=lambda task_ids: asked)
    question.render_template_fields({"ti": ti}, gate.dag.get_template_env())
    assert question.options == [f"Approve {asked['request']}", f"Reject {asked['request']}"]
    assert question.defaults == [f"Reject {asked['request']}"]
    assert asked["request"] in question.body
    with pytest.raises(ValueError, match="not in"):
        question.validate_chosen_options(["Approve 0123456789abcdef"])


def test_the_approvers_reason_begins_empty_and_is_not_the_askers(gate: Gate) -> None:
    question = gate.dag.get_task("question")
    assert [*question.params] == ["approver_reason"]
    assert question.params["approver_reason"] == ""
    assert not set(question.params) & set(gate.dag.params)
    assert "asked_by" not in gate.dag.params
    assert gate.dag.params.get_param("reason").value is None

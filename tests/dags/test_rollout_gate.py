"""The approval in Airflow: what is asked, what is shown, and that no answer is a rejection."""

import json
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.standard.operators.hitl import HITLOperator
from airflow.sdk.exceptions import AirflowFailException
from typer.testing import CliRunner

from strata.cli.app import whole
from strata_airflow import approval
from strata_airflow.commands import run_strata

pytestmark = pytest.mark.dags


@pytest.fixture(scope="module")
def gate(project: Path) -> Any:
    bag = DagBag(str(project / "dags" / "rollout_gate.py"))
    assert bag.import_errors == {}
    return bag.dags["rollout_gate"]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the settings of a store with one new shard."""
    file = tmp_path / "strata.toml"
    file.write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
    )
    spec = tmp_path / "s.yaml"
    spec.write_text(json.dumps({"columns": [{"name": "id", "type": "int64"}]}))
    made = CliRunner().invoke(whole(), ["create", "s", "--spec", str(spec), "--config", str(file)])
    assert made.exit_code == 0, made.output
    monkeypatch.setenv("STRATA_CONFIG", str(file))
    return file


def test_the_question_rejects_by_itself_and_needs_no_worker(gate: Any) -> None:
    question = gate.get_task("question")
    assert isinstance(question, HITLOperator)
    assert question.options == [approval.APPROVE, approval.REJECT]
    assert question.defaults == [approval.REJECT]
    assert question.response_timeout.days == 3
    assert question.execution_timeout is None
    assert [*question.params] == ["approver_reason"]
    assert not question.params["approver_reason"]
    assert "asked_by" not in gate.params
    assert [t.task_id for t in gate.topological_sort()] == ["ask", "question"]
    assert "May I run it again, or clear it?" in gate.doc_md
    assert gate.max_active_runs > 1


def in_process(*words: str) -> dict[str, Any]:
    """Run the command line as `run_strata` does, without a process of its own."""
    done = CliRunner().invoke(whole(), [*words, "--json"])
    if done.exception is not None:
        raise AirflowFailException(str(done.exception)) from done.exception
    document: dict[str, Any] = json.loads(done.output)
    return document


@pytest.fixture
def tasks(gate: Any, config: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return how a task of the DAG is called, as a worker does, without Airflow around it."""
    asks = gate.get_task("ask").python_callable
    monkeypatch.setitem(asks.__globals__, "run_strata", in_process)
    monkeypatch.setattr("strata_airflow.question.run_strata", in_process)

    def call(name: str, *words: Any) -> Any:
        if name == "ask":
            return asks(*words)
        question = copy(gate.get_task("question"))
        question.render_template_fields({"params": PARAMS}, gate.get_template_env())
        return question.execute_complete({}, *words)

    return call


PARAMS = {"shard": "s", "reason": "it is time", "percent": None}


def run_of(who: str) -> SimpleNamespace:
    """Return a run that somebody has just triggered."""
    return SimpleNamespace(triggering_user_name=who, run_after=datetime.now(UTC), clear_number=0)


def given(option: str, user: dict[str, str] | None) -> dict[str, Any]:
    """Return what Airflow keeps of an answer to the open request."""
    request = (in_process("rollout", "show", "s")["request"] or {"id": "gone"})["id"]
    return {
        "chosen_options": [f"{option} {request}"],
        "params_input": {"approver_reason": "I looked"},
        "responded_by_user": user,
        "responded_at": datetime.now(UTC),
    }


def test_ask_approve_and_what_is_shown(tasks: Callable[..., Any]) -> None:
    asked = tasks("ask", PARAMS, run_of("ann"))
    shown = in_process("rollout", "show", "s")
    assert approval.subject(shown) == f"s: off to soft? {asked['request']}"
    assert "| Asked by | ann \\(claimed\\) |" in approval.body(shown)
    assert asked == {"shard": "s", "to": "soft", "request": shown["request"]["id"]}
    assert tasks("ask", PARAMS, run_of("ann")) == asked  # cleared: the request is taken up again
    with pytest.raises(AirflowFailException, match="cannot approve"):
        tasks("answer", given(approval.APPROVE, {"id": "1", "name": "ann"}))

    done = tasks("answer", given(approval.APPROVE, {"id": "2", "name": "bob"}))

    assert (done["mode"], done["by"], done["answer"]) == ("soft", "bob", "approve")
    assert in_process("rollout", "show", "s")["changed_by"] == "bob"


def test_a_person_whom_the_policy_names_otherwise_asks_under_that_name(
    tasks: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Airflow calls Ann Lee `alee`: an answer counts by the id, so a question must as well."""
    monkeypatch.setenv("STRATA_PEOPLE", "Ann Lee=3, bob=7, carl=dave, dave=9")
    for name in ("alee", "Ann", "dave"):  # of nobody, and of two
        with pytest.raises(AirflowFailException, match="may be the same person"):
            tasks("ask", PARAMS, run_of(name))
    assert in_process("rollout", "show", "s")["request"] is None
    monkeypatch.setenv("STRATA_PEOPLE", "Ann Lee|alee=3, bob=7")
    tasks("ask", PARAMS, run_of("alee"))
    assert in_process("rollout", "show", "s")["request"]["by"] == "Ann Lee"
    with pytest.raises(AirflowFailException, match="cannot approve"):
        tasks("answer", given(approval.APPROVE, {"id": "3", "name": "alee"}))
    assert tasks("answer", given(approval.APPROVE, {"id": "7", "name": "x"}))["by"] == "bob"


@pytest.mark.parametrize("option", [approval.APPROVE, approval.REJECT])
def test_no_answer_in_time_is_a_rejection(tasks: Callable[..., Any], option: str) -> None:
    tasks("ask", PARAMS, run_of("ann"))
    done = tasks("answer", given(option, None))
    shown = in_process("rollout", "show", "s")
    assert (done["mode"], done["answer"]) == ("off", "reject")
    assert (shown["mode"], shown["request"]) == ("off", None)
    assert [line["what"] for line in shown["history"]] == ["rejected", "requested"]


def test_a_step_without_evidence_fails_for_good_and_names_what_is_lacking(
    tasks: Callable[..., Any],
) -> None:
    tasks("ask", PARAMS, run_of("ann"))
    tasks("answer", given(approval.APPROVE, {"id": "2", "name": "bob"}))
    with pytest.raises(AirflowFailException, match="audited parts: 0, wanted at least 3000"):
        tasks("ask", PARAMS, run_of("ann"))


def test_the_command_line_answers_a_task_and_its_bad_requests_are_final(config: Path) -> None:
    assert run_strata("rollout", "show", "s", config=str(config))["mode"] == "off"
    with pytest.raises(AirflowFailException, match="InvalidRequest: no such shard"):
        run_strata("rollout", "show", "nobody")

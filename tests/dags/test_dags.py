"""The DAG files, as Airflow loads them."""

import copy
import importlib
import inspect
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.exceptions import ParamValidationError

from strata_airflow import places
from strata_airflow.spark import POOL, StrataJobOperator

pytestmark = pytest.mark.dags

EXPECTED = {
    "shard_ingest",
    "shard_compact",
    "stats_backfill",
    "soft_evaluation",
    "garbage_collection",
}
PARSE_SECONDS = 2.0  # a file, Airflow itself already imported
HEAVY = {
    "boto3",
    "great_expectations",
    "numpy",
    "pandas",
    "pyarrow",
    "pyspark",
}
# The one reader of settings, which needs nothing but the standard library.
LIGHT = {
    "strata",
    "strata.config",
    "strata.config.settings",
    "strata.errors",
    "strata.model",
    "strata.model.declared",
    "strata.model.loaded",  # notes the files of the engine, and loads none
    "strata.model.near",
    "strata.model.settings",
    "strata.store",
    "strata.store.cures",  # what errors of a file mean
    "strata.store.small_file",  # reads settings within bounds
}


@pytest.fixture(scope="module")
def bag(project: Path) -> DagBag:
    folder = project / "dags"
    assert folder.is_absolute()
    assert folder.is_dir()
    return DagBag(str(folder))


@pytest.fixture(params=sorted(EXPECTED))
def dag(bag, request):
    return bag.dags[request.param]


def test_five_dags_load_without_error(bag):
    # The number first: a folder that is not there has no DAGs and no errors either.
    assert len(bag.dags) >= 5
    assert bag.import_errors == {}
    assert set(bag.dags) >= EXPECTED


def test_each_file_parses_in_time(bag):
    slow = {s.file: s.duration.total_seconds() for s in bag.dagbag_stats}
    assert len(slow) >= 5
    assert {file: s for file, s in slow.items() if s > PARSE_SECONDS} == {}


def test_a_dag_explains_itself(dag):
    assert len(dag.doc_md) > 300
    assert "May I run it again, or clear it?" in dag.doc_md
    assert "strata" in dag.tags
    assert dag.owner == "strata"


def test_one_run_of_a_dag_at_a_time(dag):
    assert dag.max_active_runs == 1
    assert not dag.catchup


def test_a_run_that_is_late_is_told_of(dag):
    (alert,) = dag.deadline
    assert alert.interval.total_seconds() >= 3600
    module, _, name = alert.callback.path.rpartition(".")
    signature = inspect.signature(getattr(importlib.import_module(module), name))
    signature.bind(**alert.callback.kwargs, context={})
    assert "queued" in type(alert.reference).__name__.lower()


def test_missed_days_are_run_where_a_first_day_is_given(project, monkeypatch):
    monkeypatch.setenv("STRATA_INGEST_SINCE", "2026-11-01")
    bag = DagBag(str(project / "dags" / "shard_ingest.py"))
    dag = bag.dags["shard_ingest"]
    assert dag.catchup
    assert str(dag.start_date.date()) == "2026-11-02"  # the tick of the run about the first day


def test_every_task_is_retried_and_a_job_waits_in_the_pool(dag):
    (job,) = (task for task in dag.tasks if isinstance(task, StrataJobOperator))
    assert job.pool == POOL
    assert Path(job.application).is_file()
    for task in dag.tasks:
        assert task.retries >= 1
        assert task.retry_delay.total_seconds() > 0


@pytest.mark.parametrize("dag_id", ["soft_evaluation", "stats_backfill"])
def test_a_hold_is_taken_before_the_job_and_given_back_after_it_however_it_ends(bag, dag_id):
    tasks = bag.dags[dag_id].task_dict
    (job,) = (task for task in tasks.values() if isinstance(task, StrataJobOperator))
    taken, given_back = tasks["take_hold"], tasks["give_back_hold"]
    assert taken.is_setup
    assert given_back.is_teardown
    assert job.upstream_task_ids == {"take_hold"}
    assert given_back.upstream_task_ids == {"take_hold", job.task_id}
    assert not given_back.on_failure_fail_dagrun  # a hold that is left behind expires
    assert given_back.trigger_rule == "all_done_setup_success"


def test_a_scheduled_run_needs_no_answers(dag):
    dag.params.validate()
    assert dag.params.dump()["shards"] == []


def test_every_field_of_a_form_is_explained(dag):
    for name in dag.params:
        param = dag.params.get_param(name)
        assert param.schema.get("title"), name
        assert param.schema.get("section"), name
        assert param.schema.get("type"), name
        assert param.description or param.schema.get("enum"), name


def test_whoever_triggers_what_changes_a_shard_rehearses_first(dag):
    assert "dry_run" in dag.params or dag.dag_id == "soft_evaluation"  # which only looks
    if "dry_run" in dag.params:
        assert dag.params.dump()["dry_run"] is True
        (job,) = (task for task in dag.tasks if isinstance(task, StrataJobOperator))
        assert "{{ rehearsed(params, dag_run) }}" in job.arguments.values()


def test_selections_offer_what_is_declared(dag, project):
    offered = dag.params.get_param("shards").schema["examples"]
    assert offered == sorted(f.stem for f in (project / "config" / "shards").glob("*.yaml"))
    assert offered


def test_selections_follow_the_settings_of_the_jobs(tmp_path, monkeypatch):
    for folder, name in (("here", "orders"), ("there", "orders-late")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.yaml").touch()
    config = tmp_path / "strata.toml"
    config.write_text(f'shards_dir = "{tmp_path}/here"\n[validate]\nreport_dir = "r"\n')
    monkeypatch.setenv("STRATA_CONFIG", str(config))
    monkeypatch.setenv("STRATA__FILTERS_DIR", str(tmp_path / "there"))
    assert places.declared_shards() == ["orders"]
    assert places.registered_filters() == ["late"]
    assert places.report_dir() == places.PROJECT / "r"


@pytest.mark.parametrize(
    ("dag_id", "answers"),
    [
        ("shard_ingest", {"write_format": "avro"}),
        ("shard_ingest", {"every": "weekly"}),
        ("shard_ingest", {"from_time": "yesterday"}),
        ("shard_ingest", {"shards": ["../etc"]}),
        ("shard_compact", {"full": "maybe"}),
        ("stats_backfill", {"action": "drop"}),
        ("stats_backfill", {"budget_bytes": -1}),
        ("stats_backfill", {"version": 0}),
        ("stats_backfill", {"columns": ["two words"]}),
        ("stats_backfill", {"columns": ["--config"]}),
        ("stats_backfill", {"max_parts": "all"}),
        ("soft_evaluation", {"filters": "all"}),
    ],
)
def test_a_wrong_answer_is_refused(bag, dag_id, answers):
    params = copy.deepcopy(bag.dags[dag_id].params)
    with pytest.raises(ParamValidationError):
        params.update(answers)


def test_parsing_imports_no_data_library(project):
    """In a process of its own: the tests around have imported everything already."""
    code = (
        "import json, runpy, sys\n"
        "for file in sys.argv[1:]: runpy.run_path(file)\n"
        "print(json.dumps(sorted(sys.modules)))\n"
    )
    files = sorted(map(str, (project / "dags").glob("*.py")))
    assert len(files) >= 5
    done = subprocess.run(
        [sys.executable, "-c", code, *files],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": f"{project}/plugins:{project}", "PATH": "", **_airflow_environment()},
    )
    modules = json.loads(done.stdout.splitlines()[-1])
    loaded = {name.partition(".")[0] for name in modules}
    assert "airflow" in loaded
    assert loaded & HEAVY == set()
    assert {name for name in modules if name.partition(".")[0] == "strata"} <= LIGHT


def _airflow_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("AIRFLOW")}

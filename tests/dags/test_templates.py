"""What the DAGs' templates turn the answers of a form into: the command line of a job."""

import copy
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from airflow import plugins_manager
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization
from airflow.utils.types import DagRunType

from strata_airflow.spark import StrataJobOperator, flags

DAILY = {"shard_ingest", "stats_backfill", "soft_evaluation", "garbage_collection"}

pytestmark = pytest.mark.dags


@pytest.fixture(scope="module")
def bag(project: Path) -> DagBag:
    return DagBag(str(project / "dags"))


def command_line(  # noqa: PLR0917 - what a worker renders with
    bag: DagBag,
    dag_id: str,
    answers: dict,
    partition_key: str | None = None,
    run_type: str = "manual",
    done: Sequence[str] = (),
    conf: dict | None = None,
):
    """Return the words that the job of `dag_id` gets, as a worker would render them."""
    dag = bag.dags[dag_id]
    params = copy.deepcopy(dag.params)
    params.update(answers)
    dag_run = SimpleNamespace(
        partition_key=partition_key, run_id="manual__1", run_type=run_type, conf=conf
    )
    context = {
        "inlet_events": [[SimpleNamespace(partition_key=key) for key in done]],
        **(dag.user_defined_macros or {}),
        "params": params.validate(),
        "dag_run": dag_run,
        "run_id": dag_run.run_id,
        "ti": SimpleNamespace(map_index=-1),
    }
    (task,) = (task for task in dag.tasks if isinstance(task, StrataJobOperator))
    environment = dag.get_template_env()
    command = [task.render_template(word, context, environment) for word in task.command]
    arguments = task.render_template(task.arguments, context, environment)
    assert task.render_template(task.name, context, environment).startswith(f"strata {task.job}")
    return [*command, *flags(arguments)]


def test_a_scheduled_ingest_is_about_the_day_of_its_key(bag):
    assert command_line(bag, "shard_ingest", {}, "2013-02-28T00:00:00", "scheduled") == [
        "--from-time",
        "2013-02-28T00:00:00Z",
        "--to-time",
        "2013-03-01T00:00:00Z",
    ]


def test_answers_win_over_the_key(bag):
    answers = {
        "shards": ["flights", "planes"],
        "from_time": "2013-01-01T00:00:00Z",
        "to_time": "2013-02-01T00:00:00Z",
        "every": "P7D",
        "write_format": "row",
        "dry_run": True,
    }
    assert command_line(bag, "shard_ingest", answers, "2013-02-28T00:00:00") == [
        "--shard", "flights", "--shard", "planes",
        "--from-time", "2013-01-01T00:00:00Z", "--to-time", "2013-02-01T00:00:00Z",
        "--every", "P7D", "--write-format", "row", "--dry-run",
    ]  # fmt: skip


def test_without_key_and_answers_the_job_is_asked_for_no_interval(bag):
    assert command_line(bag, "shard_ingest", {}) == ["--dry-run"]


def test_compaction_plans_on_a_dry_run(bag):
    assert command_line(bag, "shard_compact", {"full": True}) == ["--full", "--plan"]
    assert command_line(bag, "shard_compact", {"dry_run": False}) == []
    assert command_line(bag, "shard_compact", {}, run_type="asset_triggered") == []


@pytest.mark.parametrize("action", ["backfill", "trim"])
def test_the_action_comes_before_the_flags(bag, action):
    answers = {"action": action, "budget_bytes": 768, "dry_run": False}
    assert command_line(bag, "stats_backfill", answers) == [action, "--budget", "768"]


def test_the_form_of_a_backfill_reaches_the_job(bag):
    answers = {
        "shards": ["flights"],
        "from_time": "2013-01-01T00:00:00Z",
        "columns": ["carrier", "7"],
        "version": 1,
        "max_parts": 0,
    }
    assert command_line(bag, "stats_backfill", answers) == [
        "backfill", "--shard", "flights", "--from-time", "2013-01-01T00:00:00Z",
        "--column", "carrier", "--column", "7", "--version", "1", "--max-parts", "0", "--dry-run",
    ]  # fmt: skip


@pytest.mark.parametrize("dag_id", ["shard_ingest", "shard_compact", "garbage_collection"])
def test_a_person_who_materializes_an_asset_rehearses(bag, dag_id):
    """Airflow gives the run a type of its own, and no form need have been seen."""
    by_hand = command_line(bag, dag_id, {}, run_type="manual")
    assert command_line(bag, dag_id, {}, run_type="asset_materialization") == by_hand
    real = command_line(bag, dag_id, {"dry_run": False}, run_type=DagRunType.ASSET_MATERIALIZATION)
    assert real == [word for word in by_hand if word not in ("--dry-run", "--plan")]


@pytest.mark.parametrize(
    "run_type", [kind for kind in DagRunType if kind not in ("manual", "scheduled")]
)
def test_a_dry_run_that_another_dag_asks_for_is_one(bag, run_type):
    asked = {"dry_run": True}
    assert "--plan" in command_line(bag, "shard_compact", asked, run_type=run_type, conf=asked)


@pytest.mark.parametrize("run_type", ["scheduled", "backfill", DagRunType.SCHEDULED])
def test_only_a_person_rehearses_the_statistics(bag, run_type):
    """The form's default is a dry run; nobody would look at that of a schedule."""
    key = "2013-02-28T00:00:00"
    words = command_line(bag, "stats_backfill", {}, key, run_type)
    assert words == [
        "backfill",
        "--from-time",
        "2013-02-28T00:00:00Z",
        "--to-time",
        "2013-03-01T00:00:00Z",
    ]
    assert command_line(bag, "stats_backfill", {}, key)[-1] == "--dry-run"
    assert command_line(bag, "stats_backfill", {"dry_run": True})[-1] == "--dry-run"


@pytest.mark.parametrize(
    ("run_type", "done", "expected"),
    [
        ("backfill", ["2013-02-28T00:00:00"], True),
        ("backfill", ["2013-02-27T00:00:00", None], False),
        ("backfill", [], False),
        ("scheduled", ["2013-02-28T00:00:00"], False),  # cleared: what is done is passed over
    ],
)
def test_a_backfill_that_reprocesses_a_day_collects_again(bag, run_type, done, expected):
    words = command_line(bag, "stats_backfill", {}, "2013-02-28T00:00:00", run_type, done)
    assert ("--again" in words) is expected
    assert "--again" in command_line(bag, "stats_backfill", {"again": True}, done=done)


@pytest.mark.parametrize("nothing", [[], None])
def test_a_selection_that_was_emptied_means_all(bag, nothing):
    answers = {"shards": nothing, "columns": nothing, "dry_run": False}
    assert command_line(bag, "stats_backfill", answers) == ["backfill"]
    chosen = {"shards": nothing, "filters": nothing}
    always = ["--run", "manual__1", "--console", "/strata/"]
    assert command_line(bag, "soft_evaluation", chosen) == always


def test_garbage_is_collected_for_real_by_the_schedule_alone(bag):
    assert command_line(bag, "garbage_collection", {}, None, "scheduled") == ["--sweep"]
    assert command_line(bag, "garbage_collection", {"shards": ["a"]}) == [
        "--sweep",
        "--shard",
        "a",
        "--plan",
    ]
    assert command_line(bag, "garbage_collection", {"dry_run": False}) == ["--sweep"]


def test_a_scheduled_evaluation_takes_the_end_of_its_day_for_now(bag):
    assert command_line(bag, "soft_evaluation", {"filters": ["a", "b"]}, "2013-12-31T00:00:00") == [
        "--filter",
        "a",
        "--filter",
        "b",
        "--now",
        "2014-01-01T00:00:00Z",
        "--run",
        "manual__1",
        "--console",
        "/strata/",
    ]


def test_jobs_know_every_flag_that_a_dag_gives(bag, project):
    """Compared with the jobs' source: importing them would load Spark and Great Expectations."""
    jobs = project / "strata" / "jobs"
    of_shards = (jobs / "chosen.py").read_text("utf-8")
    for dag in bag.dags.values():
        for task in (t for t in dag.tasks if isinstance(t, StrataJobOperator)):
            source = "".join(file.read_text("utf-8") for file in (jobs / task.job).glob("*.py"))
            if "add_shards(parser)" in source:
                source += of_shards
            for flag in [*task.arguments, "--config", "--result"]:
                assert f'"{flag}"' in source, f"{task.job} {flag}"


def test_a_partition_of_batches_wakes_compaction_for_the_same_day(bag):
    """Mappers that do not fit never fire and say nothing; so a sample key goes through both."""
    made = bag.dags["shard_ingest"].timetable
    taken = bag.dags["shard_compact"].timetable
    key = datetime(2013, 2, 28).strftime(made.key_format)  # noqa: DTZ001 - a label, not a time
    assert key == "2013-02-28T00:00:00"
    assert type(taken.default_partition_mapper).__name__ == "IdentityMapper"


def test_the_switch_leaves_every_dag_to_people(project, monkeypatch):
    monkeypatch.setenv("STRATA_SCHEDULES", "off")
    bag = DagBag(str(project / "dags"))
    assert len(bag.dags) >= 5
    assert {str(dag.schedule) for dag in bag.dags.values()} == {"None"}


@pytest.fixture
def ending(project, monkeypatch):
    """Return the scheduled DAGs where the data ends with 2013, as Airflow's scheduler has them."""
    monkeypatch.setenv("STRATA_SCHEDULES_END", "2013-12-31")
    bag = DagBag(str(project / "dags"))
    assert bag.import_errors == {}
    ends = [dag for dag in bag.dags.values() if "Ending" in type(dag.schedule).__name__]
    dags = {dag.dag_id: stored(dag) for dag in ends}
    assert set(dags) == DAILY
    return dags


def stored(dag):
    """Return a DAG as the scheduler reads it from the database; the plugin knows its timetable."""
    with warnings.catch_warnings():
        # Airflow asks a library for the pattern of its ignore files by the library's old name.
        warnings.filterwarnings("ignore", "GitWildMatchPattern", DeprecationWarning)
        plugins_manager.get_timetables_plugins()
    return DagSerialization.from_dict(DagSerialization.to_dict(dag))


def test_no_run_is_scheduled_after_the_last_day(ending):
    for name, dag in ending.items():
        assert dag.next_dagrun_info(last_automated_run_info=None) is None, name


def test_a_year_that_is_replayed_day_by_day_ends_with_its_last_day(project, monkeypatch):
    monkeypatch.setenv("STRATA_SCHEDULES_END", "2013-12-31")
    monkeypatch.setenv("STRATA_INGEST_SINCE", "2013-01-01")
    dag = stored(DagBag(str(project / "dags" / "shard_ingest.py")).dags["shard_ingest"])
    keys, info = [], None
    while (info := dag.next_dagrun_info(last_automated_run_info=info)) is not None:
        keys.append(info.partition_key)
        assert len(keys) < 400
    assert len(keys) == 365
    assert (keys[0], keys[-1]) == ("2013-01-01T00:00:00", "2013-12-31T00:00:00")


def test_the_days_of_a_replayed_year_can_be_backfilled(ending):
    first, last = datetime(2013, 1, 1, tzinfo=UTC), datetime(2013, 1, 3, 23, tzinfo=UTC)
    for name, dag in ending.items():
        assert dag.timetable.periodic, name
        keys = [info.partition_key for info in dag.iter_dagrun_infos_between(first, last)]
        assert keys == [f"2013-01-0{n}T00:00:00" for n in (1, 2, 3)], name
        assert dag.end_date is None, name  # else a run that a person triggers today never starts


def test_a_list_of_dags_says_when_a_schedule_ends(ending):
    for dag in ending.values():
        assert dag.timetable.summary.endswith("until 2013-12-31")


def test_a_last_day_that_is_none_is_refused(project, monkeypatch):
    monkeypatch.setenv("STRATA_SCHEDULES_END", "2013")
    bag = DagBag(str(project / "dags" / "shard_ingest.py"))
    assert "2013" in str(bag.import_errors)

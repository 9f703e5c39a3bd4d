"""Scheduler, API server and DAG processor really run: what people do there, in its order.

Each test goes on where the one before it ended; Airflow and Spark are slow to start. With
`STRATA_GROUP_SHARDS=1` in the environment each shard of a run has a Spark application of its own.
"""

import os
import time
from collections.abc import Iterator

import pytest

from demo.api import ApiError
from strata.config.settings import load_settings
from strata.machine.machine import Machine
from strata.maintain.backfill import backfill_shard
from strata.maintain.trim import trim_shard
from strata.rollout import ladder
from strata.state.state import State
from strata.store.open import Stores, open_stores
from tests.integration.world import DAYS, ROWS, SHARDS, World, day, take_in, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

ASKED = ("deferred", "awaiting_input", "success")  # states of a task that has put its question
HUMAN_S = 10  # nobody reads a question and answers it in less
GROUPED = bool(os.environ.get("STRATA_GROUP_SHARDS"))
WAITING: list[str] = []  # the run whose question nobody answers


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with world(tmp_path_factory.mktemp("world")) as made:
        for shard in SHARDS:
            for ago in range(1, DAYS + 1):
                made.land(shard, day(ago))
        take_in(load_settings(str(made.config), {}), day(DAYS), day(1))
        yield made


@pytest.fixture
def stores(here: World) -> Stores:
    return open_stores(load_settings(str(here.config), {}).store)


def state(stores: Stores, shard: str) -> State:
    return Machine(stores).load(shard)


def updates(stores: Stores, shard: str) -> int:
    return sum(batch.updates for batch in state(stores, shard).batches)


def newest(here: World, dag: str, run_type: str) -> list[str]:
    runs = here.airflow.api.runs(dag)
    return [run["dag_run_id"] for run in runs if run["run_type"] == run_type]


def test_a_scheduled_run_comes_by_itself_and_wakes_compaction(here: World, stores: Stores) -> None:
    api = here.airflow.api
    for dag in ("shard_compact", "shard_ingest"):
        api.pause(dag, paused=False)

    here.wait("a scheduled run", lambda: bool(newest(here, "shard_ingest", "scheduled")))
    (run,) = newest(here, "shard_ingest", "scheduled")
    here.ends("shard_ingest", run)

    for shard in SHARDS:
        assert updates(stores, shard) == DAYS * ROWS
        assert state(stores, shard).upper == int(day(0).timestamp() * 1000)
    (event,) = here.events("strata_batches", f"{day(1):%Y-%m-%d}T00:00:00")
    assert event["extra"]["shards"] == len(SHARDS)
    assert event["extra"]["updates"] == len(SHARDS) * ROWS
    assert len(here.results("shard_ingest", run, "ingest")) == (len(SHARDS) if GROUPED else 1)
    here.wait("compaction", lambda: len(api.runs("shard_compact")) == 1)
    (woken,) = api.runs("shard_compact")
    assert woken["partition_key"] == event["partition_key"]
    here.ends("shard_compact", woken["dag_run_id"])


def test_a_question_that_nobody_answers_is_asked(here: World) -> None:
    """It is looked at in the last test."""
    here.airflow.api.pause("rollout_gate", paused=False)
    form = {"shard": "letters", "reason": "to see whether anybody answers"}
    WAITING.append(here.airflow.api.trigger("rollout_gate", form))


def test_a_form_is_checked_rehearsed_and_obeyed(here: World, stores: Stores) -> None:
    api = here.airflow.api
    here.land("events", day(2), "b", rows=50)
    before = updates(stores, "events")
    form = {
        "shards": ["events"],
        "from_time": day(2).isoformat(),
        "to_time": day(1).isoformat(),
        "write_format": "row",
    }
    with pytest.raises(ApiError, match=r"every"):
        api.trigger("shard_ingest", {**form, "every": "weekly"})

    rehearsal = api.trigger("shard_ingest", form)  # unless the form says otherwise
    here.ends("shard_ingest", rehearsal)
    assert updates(stores, "events") == before
    real = api.trigger("shard_ingest", {**form, "dry_run": False})
    here.ends("shard_ingest", real)

    assert updates(stores, "events") == before + 50
    assert here.result("shard_ingest", real, "ingest")["events"]["updates"] == 50
    assert list(here.result("shard_ingest", real, "ingest")) == ["events"]


def test_a_step_is_approved_by_somebody_else(here: World, stores: Stores) -> None:
    api, gate = here.airflow.as_user("ann"), "rollout_gate"
    run = api.trigger(gate, {"shard": "events", "reason": "it was watched"})
    # Answered before the scheduler knows that the task was put aside, it is asked once more.
    here.wait("the question", lambda: api.tasks(gate, run)["question"]["state"] in ASKED)
    time.sleep(HUMAN_S)
    asked = api.question(gate, run, "question")
    request = state(stores, "events").rollout.request
    assert request is not None
    assert asked["subject"].endswith(ladder.request_id("events", request))
    assert [user["id"] for user in asked["assigned_users"]] == ["bob"]
    assert "| Asked by | ann " in asked["body"]

    bob = here.airflow.as_user("bob")
    bob.answer(gate, run, "question", "Approve", "I looked at the gates")
    here.ends(gate, run)

    rollout = state(stores, "events").rollout
    assert rollout.mode == "soft"
    assert rollout.changed_by == "bob"


def test_a_step_without_evidence_fails_at_once(here: World, stores: Stores) -> None:
    api, gate = here.airflow.as_user("ann"), "rollout_gate"
    approved = state(stores, "events").rollout
    here.airflow.api.pause(gate, paused=False)
    # Without evidence there is nothing to ask: a bad request is final, and not tried again.
    run = api.trigger(gate, {"shard": "events", "reason": "too early"})
    here.ends(gate, run, "failed")
    assert "not enough evidence" in here.log(gate, run)
    assert state(stores, "events").rollout.mode == approved.mode


def test_a_backfill_is_previewed_runs_and_reprocesses(here: World, stores: Stores) -> None:
    api, dag = here.airflow.api, "stats_backfill"
    first, last = day(3).isoformat(), day(2).isoformat()
    keys = [f"{day(ago):%Y-%m-%d}T00:00:00" for ago in (3, 2)]
    assert api.backfill(dag, first, last, preview=True) == keys

    api.backfill(dag, first, last, max_active_runs=1, dag_run_conf={"shards": ["events"]})
    api.pause(dag, paused=False)
    here.wait("two runs", lambda: len(newest(here, dag, "backfill")) == 2)
    for run in newest(here, dag, "backfill"):
        here.ends(dag, run)
    assert api.backfill(dag, first, last, preview=True) == []
    assert api.backfill(dag, first, last, preview=True, reprocess_behavior="completed") == keys

    whole = state(stores, "events").batches[0].stats_bytes  # of these days; others came since
    trim_shard(stores, "events", budget_bytes=0)
    backfill_shard(stores, "events")  # passes over what is done
    assert state(stores, "events").batches[0].stats_bytes < whole

    done = set(newest(here, dag, "backfill"))
    api.backfill(
        dag,
        first,
        last,
        max_active_runs=1,
        reprocess_behavior="completed",
        dag_run_conf={"shards": ["events"]},
    )
    here.wait("two more", lambda: len(newest(here, dag, "backfill")) == 4)
    redone = [run for run in newest(here, dag, "backfill") if run not in done]
    for run in redone:
        here.ends(dag, run)
    # The statistics are back: the parts were read anew.
    assert state(stores, "events").batches[0].stats_bytes == whole
    counts = [here.result(dag, run, "stats")["events"]["parts_changed"] for run in redone]
    assert sum(counts) > 0


def test_a_marker_starts_the_ingest_of_its_day_and_wakes_compaction(
    here: World, stores: Stores
) -> None:
    """The day is not over, but its files are complete; Airflow's triggerer sees the marker."""
    api, dag = here.airflow.api, "shard_arrival"
    before = {shard: updates(stores, shard) for shard in SHARDS}
    api.pause(dag, paused=False)
    for shard in SHARDS:
        here.land(shard, day(0), rows=30)
    marker = here.folder / "arrived" / f"{day(0):%Y-%m-%d}.done"
    marker.touch()

    here.wait("a run", lambda: bool(api.runs(dag)))
    (run,) = api.runs(dag)
    here.ends(dag, run["dag_run_id"])
    assert run["run_type"] == "asset_triggered"
    assert not marker.exists()
    for shard in SHARDS:
        assert updates(stores, shard) == before[shard] + 30
        assert state(stores, shard).upper == int(day(-1).timestamp() * 1000)
    key = f"{day(0):%Y-%m-%d}T00:00:00"
    (event,) = here.events("strata_batches", key)
    assert event["extra"]["updates"] == 30 * len(SHARDS)
    here.wait("compaction", lambda: key in {r["partition_key"] for r in api.runs("shard_compact")})
    (woken,) = (r for r in api.runs("shard_compact") if r["partition_key"] == key)
    here.ends("shard_compact", woken["dag_run_id"])


def test_a_hold_is_given_back_also_when_the_job_failed(here: World, stores: Stores) -> None:
    """A column that there is not ends the job as a bad request, after the hold was taken."""
    api, dag = here.airflow.api, "stats_backfill"
    run = api.trigger(dag, {"shards": ["events"], "columns": ["unknown"], "dry_run": False})
    here.ends(dag, run, "failed")
    states = {name: task["state"] for name, task in api.tasks(dag, run).items()}
    around = {"groups": "success", "stats_sum": "upstream_failed"} if GROUPED else {}
    job = {"take_hold": "success", "stats": "failed", "give_back_hold": "success"}
    assert states == job | around
    assert not [hold for hold in state(stores, "events").holds if hold.name.startswith(dag)]


def test_a_question_that_nobody_answered_was_rejected(here: World, stores: Stores) -> None:
    (run,) = WAITING
    here.ends("rollout_gate", run)
    rollout = state(stores, "letters").rollout
    assert (rollout.mode, rollout.request) == ("off", None)
    assert here.airflow.api.returned("rollout_gate", run, "question")["answer"] == "reject"

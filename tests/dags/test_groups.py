"""A run in several Spark applications: how its shards are cut, and what becomes of the results."""

from itertools import pairwise
from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.definitions.mappedoperator import MappedOperator
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors
from hypothesis import given
from hypothesis import strategies as st

from strata_airflow import groups
from strata_airflow.assets import BATCHES, tell
from strata_airflow.groups import Caps, add_up, cut, pack
from strata_airflow.spark import POOL, StrataJobOperator, flags

pytestmark = pytest.mark.dags

OUTLETS = {
    "shard_ingest": ("ingest", "strata_batches"),
    "shard_arrival": ("ingest", "strata_batches"),
    "shard_compact": ("compact", "strata_runs"),
    "soft_evaluation": ("validate", "strata_verdicts"),
    "stats_backfill": ("stats", "strata_statistics"),
}


@pytest.fixture(scope="module")
def bag(project: Path, tmp_path_factory: pytest.TempPathFactory) -> DagBag:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(groups.SHARDS, "10")
        patch.setenv("STRATA_ARRIVALS", str(tmp_path_factory.mktemp("arrived")))
        return DagBag(str(project / "dags"))


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Let `strata shards` list fifty shards; return what it was asked with."""
    asked: list[tuple[str, ...]] = []

    def answer(*words: str) -> dict[str, list[dict[str, object]]]:
        asked.append(words)
        return {"shards": [{"shard": f"s{n:02}", "bytes": n} for n in range(50)]}

    monkeypatch.setattr(groups, "run_strata", answer)
    return asked


@given(
    st.dictionaries(st.text("abcdef", min_size=1), st.integers(0, 50), max_size=30),
    st.none() | st.integers(1, 9),
    st.none() | st.integers(1, 90),
)
def test_every_shard_is_in_one_group_and_no_group_is_over_its_caps(
    sizes: dict[str, int], most: int | None, room: int | None
) -> None:
    packed = pack(sizes, Caps(most, room))
    assert sorted(name for group in packed for name in group) == sorted(sizes)
    for group in packed:
        assert 1 <= len(group) <= (most or len(group))
        assert len(group) == 1 or sum(sizes[name] for name in group) <= (room or 10**9)
    if room is not None and most is None:  # no two groups would have fitted into one
        sums = sorted(sum(sizes[name] for name in group) for group in packed)
        assert all(a + b > room for a, b in pairwise(sums))


def test_a_run_over_fifty_shards_becomes_five_tasks(listed: list[tuple[str, ...]]) -> None:
    made = cut((), groups.STORED_AND_JOURNALS, Caps(shards=10))
    assert [len(group.split()) for group in made] == [10] * 5
    assert listed == [("shards", "--journals")]


def test_a_form_that_names_shards_cuts_those_and_no_others(
    listed: list[tuple[str, ...]],
) -> None:
    """One that is not there yet goes to the job, which says so if it is not declared either."""
    made = cut(("s40", "s07", "new"), groups.STORED, Caps(size_bytes=45))
    assert made == ["s40 new", "s07"]


def test_no_shard_at_all_is_one_task_and_not_a_skipped_one(monkeypatch) -> None:
    monkeypatch.setattr(groups, "run_strata", lambda *words: {"shards": []})
    assert cut((), groups.DECLARED, Caps(shards=3)) == [""]


@pytest.mark.parametrize("dag_id", sorted(OUTLETS))
def test_the_groups_are_wired_between_a_cut_and_a_sum_that_tells_the_asset_once(
    bag: DagBag, dag_id: str
) -> None:
    assert bag.import_errors == {}
    tasks = bag.dags[dag_id].task_dict
    name, asset = OUTLETS[dag_id]
    job, last = tasks[name], tasks[f"{name}_sum"]
    assert isinstance(job, MappedOperator)
    assert issubclass(job.operator_class, StrataJobOperator)
    assert (job.pool, job.map_index_template) == (POOL, "{{ task.group }}")
    assert job.upstream_task_ids == {"groups"}
    assert last.upstream_task_ids == {name}
    # An event of each group would wake compaction once for each.
    assert [[one.name for one in task.outlets] for task in (job, last)] == [[], [asset]]
    assert last.trigger_rule == "all_success"
    if "take_hold" in tasks:
        assert tasks["groups"].upstream_task_ids == {"take_hold"}
        assert tasks["give_back_hold"].upstream_task_ids == {"take_hold", last.task_id}


def test_garbage_is_collected_without_spark_and_needs_no_groups(bag: DagBag) -> None:
    assert list(bag.dags["garbage_collection"].task_dict) == ["compact"]


def test_a_group_gets_its_own_shards_and_the_rest_of_the_form(bag: DagBag, monkeypatch) -> None:
    task = bag.dags["stats_backfill"].task_dict["stats"].unmap({"shards": "a b"})
    words = flags(task.arguments | {"--shard": task.shards})
    assert words[:4] == ["--shard", "a", "--shard", "b"]
    assert "--again" in task.arguments
    assert task.group == "a and 1 more"
    assert task.inlets


@pytest.mark.parametrize(("asked", "found"), [([], True), (["a", "b"], False)])
def test_only_names_of_a_form_have_to_be_there_when_a_group_begins(
    bag: DagBag, asked: list[str], *, found: bool
) -> None:
    """A shard that the run listed may be dropped before its group, which failed for good then."""
    task = bag.dags["shard_compact"].task_dict["compact"].unmap({"shards": "a b"})
    words = flags(task.of_group({"params": {"shards": asked}}))
    assert words == ["--shard", "a", "--shard", "b", *(["--found"] if found else [])]
    task.shards = ""
    assert task.of_group({"params": {"shards": asked}}) == {}


def test_the_groups_results_are_added_up_and_told_once() -> None:
    done = [
        {"job": "ingest", "counts": {"shards": 10, "rows": 3, "files": 1}, "result": "x"},
        {"job": "ingest", "counts": {"shards": 2, "rows": 4}, "result": "y"},
    ]
    total = add_up(done)
    assert total == {
        "counts": {"shards": 12, "rows": 7, "files": 1},
        "results": ["x", "y"],
        "dry_run": False,
    }
    with pytest.raises(AirflowFailException, match="no result"):
        add_up([*done, {}])
    events = OutletEventAccessors()
    tell(events, [BATCHES], total["counts"], "2026-11-20T00:00:00 2026-11-21T00:00:00")
    assert events[BATCHES].extra == total["counts"]
    assert events[BATCHES].partition_keys == {"2026-11-20T00:00:00", "2026-11-21T00:00:00"}


@pytest.mark.parametrize("said", ["0", "-3", "ten", "1.5"])
def test_a_cap_that_is_none_is_refused_by_name(said: str) -> None:
    with pytest.raises(ValueError, match="STRATA_GROUP_BYTES is a whole number"):
        groups.caps({groups.BYTES: said})


def test_without_caps_a_run_is_one_task(project: Path, monkeypatch) -> None:
    for variable in (groups.SHARDS, groups.BYTES):
        monkeypatch.delenv(variable, raising=False)
    bag = DagBag(str(project / "dags" / "shard_compact.py"))
    assert list(bag.dags["shard_compact"].task_dict) == ["compact"]

"""Snapshots of connectors without positions: the first fills the shard, another is not mixed in."""

from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest
from tests.unit.ingest.changes.test_tasks import event, put, run, table_at, world_of
from tests.unit.ingest.test_engine import DAY


def of(op: str, key: int, name: str, snapshot: str = "false") -> dict[str, Any]:
    found = event(op, key, None if op == "d" else (name, None), 1)
    found["source"] |= {"connector": "mysql", "pos": 5, "snapshot": snapshot}
    return found


FIRST = [of("r", 1, "a", "first"), of("r", 2, "b", "true"), of("r", 3, "c", "last")]
CHANGES = [of("u", 2, "B"), of("c", 4, "d")]
ANOTHER = [of("r", 2, "B", "first"), of("r", 4, "d", "last")]  # 1 and 3 were deleted meanwhile


@pytest.mark.parametrize("policy", ["refuse", "replace"])
@pytest.mark.parametrize("days", [1, 2])
def test_another_snapshot_is_refused(tmp_path: Path, policy: str, days: int) -> None:
    """Rows that were deleted before it stayed under any declaration."""
    world = world_of(tmp_path, "debezium", snapshots=policy)
    put(world, 1, FIRST + CHANGES)
    put(world, days, ANOTHER, "y")

    with pytest.raises(InvalidRequest, match="another snapshot of the table begins") as refused:
        run(world, 1, 2)

    assert "source.snapshots: merge" in str(refused.value.cure)
    assert str(refused.value.details["file"]).endswith("y.jsonl")


def test_another_snapshot_may_be_put_in(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium", snapshots="merge")
    put(world, 1, FIRST + CHANGES)
    put(world, 2, ANOTHER)

    run(world, 1, 2)

    assert table_at(world, 2 * DAY - 1).keys() == {1, 2, 3, 4}


def test_the_first_snapshot_may_begin_anew_and_come_in_several_batches(tmp_path: Path) -> None:
    world = world_of(tmp_path, "debezium")
    put(world, 1, FIRST[:2])
    put(world, 2, [*FIRST, *CHANGES, of("r", 9, "x", "incremental")])

    run(world, 1, 2)

    assert table_at(world, 2 * DAY - 1).keys() == {1, 2, 3, 4, 9}

"""A value that the database did not send stays as it was, whichever form says so."""

from base64 import b64encode
from pathlib import Path
from typing import Any

import orjson
import pytest

from strata.decide.plan import plan_read
from strata.ingest.readers.debezium import UNSENT
from strata.read.scan import scan
from tests.unit.ingest.changes.test_flattened import columns, world_of
from tests.unit.ingest.changes.test_tasks import put, run

LETTERS = [*UNSENT.encode()]
DIGITS = [b64encode(bytes([letter])).decode() for letter in LETTERS]
HSTORE = {UNSENT: UNSENT}


def after_an_update(root: Path, kind: str, first: Any, second: Any) -> Any:
    """Return the value after an insert with `first` and an update with `second`."""
    world = world_of(root, "debezium", columns=columns("id int64", f"v {kind}"), key=["id"])
    told = (("c", first), ("u", second))
    put(world, 1, [{"op": op, "ts_ms": 1, "after": {"id": 1, "v": v}} for op, v in told])
    run(world, 1, 1)
    state = world.state
    plan = plan_read(world.stores, state, as_of=state.upper - 1)
    [row] = [r for b in scan(world.stores, state, plan, consolidate=True) for r in b.to_pylist()]
    return row["v"]


@pytest.mark.parametrize(
    ("kind", "value", "unsent", "seen"),
    [
        ("map<string>", {"a": "b"}, HSTORE, [("a", "b")]),
        ("jsonb", '{"a":"b"}', orjson.dumps(HSTORE).decode(), '{"a":"b"}'),
        ("string", '{"a":"b"}', orjson.dumps(HSTORE).decode(), '{"a":"b"}'),
        ("list<float64>", [0.5], [float(letter) for letter in LETTERS], [0.5]),
        ("list<int32>", [5], LETTERS, [5]),
        ("list<numeric(9,2)>", [0.5], DIGITS, None),
        ("list<numeric(9,2)>", [0.5], [{"scale": 0, "value": one} for one in DIGITS], None),
    ],
)
def test_what_was_not_sent_stays(
    tmp_path: Path, kind: str, value: Any, unsent: Any, seen: Any
) -> None:
    found = after_an_update(tmp_path, kind, value, unsent)
    assert found == seen if seen is not None else [float(one) for one in found] == [0.5]


@pytest.mark.parametrize("value", [[0.5] * 28, [1e300] * 28, [95.5, *LETTERS[1:]]])
def test_a_list_of_that_length_is_a_list(tmp_path: Path, value: list[float]) -> None:
    assert len(value) == len(LETTERS)
    assert after_an_update(tmp_path, "list<float64>", [0.5], value) == value


def test_a_map_with_more_than_the_placeholder_is_a_map(tmp_path: Path) -> None:
    more = {**HSTORE, "a": "b"}
    assert dict(after_an_update(tmp_path, "map<string>", {}, more)) == more

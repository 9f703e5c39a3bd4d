"""Logs and rejected rows that mention a person go, the others stay, and what goes is noted."""

import io

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.erase.history import History, _shows
from strata.erase.notes import Cleared
from strata.erase.texts import Terms
from strata.store import keys
from tests.support.garbage import World

BOB = "bob@example.org"
PART = "shards/s/parts/ab.parquet"


def table(**columns: list[str | None]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(
        pa.table({name: pa.array(some, pa.string()) for name, some in columns.items()}), sink
    )
    return sink.getvalue()


VERDICT = keys.verdict_key("s", "run/ab")
WHOLE = {"part": [PART, "other"], "bound": ["bob", None], "error": [None, None]}


@pytest.mark.parametrize(
    ("key", "data", "shown"),
    [
        (VERDICT, table(**WHOLE), True),
        (VERDICT, table(**WHOLE, more=["x", "y"]), True),
        (VERDICT, table(part=[PART], bound=[None], error=["no number: bob"]), True),
        (VERDICT, table(part=[PART], bound=[None], error=[None]), False),
        (VERDICT, table(part=["other"], bound=["bob"], error=[None]), False),
        (VERDICT, table(part=[PART], bound=["bob"]), False),  # another table
        ("shards/s/verdicts/run/ab.json", PART.encode(), True),
        ("shards/s/verdicts/run/ab.json", b"another part", False),
        ("shards/s/usage/2026-01-01/001.json", PART.encode(), False),
    ],
)
def test_a_table_with_a_value_of_a_part_shows_it(key: str, data: bytes, shown: bool) -> None:
    assert _shows(key, data, [PART]) == shown
    assert not _shows(key, data, [])


def history(world: World) -> tuple[History, Cleared]:
    return History(world.stores, "s", Terms((BOB,))), Cleared(world.stores, "s", "e1")


def test_rejected_rows_that_mention_a_person_are_noted_before_they_go() -> None:
    world = World()
    rows = [orjson.dumps({"raw": text}) for text in (f"1,{BOB}", "2,carol")]
    data = b"".join(row + b"\n" for row in rows)
    key = keys.quarantine_key("s", f"t/{keys.content_hash(data)}")
    world.blob.set(key, data)
    found, cleared = history(world)

    found.erase_rejected(cleared)

    assert cleared.total().blobs == {"rejected rows": (1, len(data))}
    assert key not in world.stored()
    left = [world.blob.get(one) for one in world.stored("quarantine")]
    assert rows[1] + b"\n" in left
    assert not any(BOB.encode() in (one or b"") for one in left)


def test_logs_that_mention_a_person_are_noted_by_kind_and_others_stay() -> None:
    world = World()
    for number, text in enumerate((BOB, "carol")):
        for key in (
            keys.usage_key("s", "2026-01-01", f"00{number}"),
            f"shards/s/verdicts/r{number}.json",
        ):
            world.blob.set(key, orjson.dumps({"filter": text}))
    found, cleared = history(world)

    found.erase_logs((), cleared)

    assert {what: blobs for what, (blobs, _) in cleared.total().blobs.items()} == {
        "logged filters": 1,
        "verdicts": 1,
    }
    assert len(world.stored("usage")) == len(world.stored("verdicts")) == 1

"""Law: a folder, a bucket or a table has each change once, however often who fills it is killed."""

import io
import random
import time
from collections import Counter
from functools import partial
from pathlib import Path

import psycopg
import pyarrow.parquet as pq
import pytest

from strata.compact import compact_shard
from strata.errors import Fenced, InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.read.bucket_sink import ParquetBucket
from strata.read.folder_sink import ParquetFolder
from strata.read.subscription import Sink
from strata.read.table_sink import PostgresTable
from strata.shard import Shard
from strata.state.consumers import consumers_of
from strata.state.transitions import advance_since
from strata.store.open import open_blob, open_stores
from tests.laws.test_changes import fixed_history
from tests.support import seaweed
from tests.support.killing import killed_at_work
from tests.support.postgres import fresh_database
from tests.support.stored import append, create, memory_stores, settings
from tests.support.updates import table

ROUNDS = 30
ROWS = 40


class Folder:
    """Parquet files."""

    def __init__(self, root: Path) -> None:
        self.root = root / "all"

    def sink(self) -> Sink:
        return ParquetFolder(self.root)

    def stored(self) -> Counter[tuple[int, int]]:
        return stored(self.root)


class Bucket:
    """Parquet files on S3."""

    def __init__(self, root: Path) -> None:
        try:
            self.address = seaweed.fresh_prefix()
        except seaweed.MissingError as error:
            pytest.skip(f"no S3 server: {error}")

    def sink(self) -> Sink:
        return ParquetBucket(self.address)

    def stored(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        blob = open_blob(StoreSettings(blob=self.address))
        for info in blob.list("changes."):
            for row in pq.read_table(io.BytesIO(blob.get(info.key) or b"")).to_pylist():
                found[row["id"], row["t"]] += row["d"]
        return found


class Table:
    """A table of PostgreSQL."""

    def __init__(self, root: Path) -> None:
        self.address = fresh_database()

    def sink(self) -> Sink:
        return PostgresTable(self.address, "changes")

    def stored(self) -> Counter[tuple[int, int]]:
        found: Counter[tuple[int, int]] = Counter()
        with psycopg.connect(self.address) as connection:
            for row, t, d in connection.execute("SELECT id, t, d FROM changes"):
                found[row, t] += d
        return found


def deliver(shard: Shard, sink: Sink, where: str | None = None) -> None:
    shard.subscribe("c", sink, where=where, step_ms=3).into(sink)


def seconds_of(shard: Shard, place: Folder | Bucket | Table) -> float:
    """Deliver; return how long it takes with new stores."""
    began = time.monotonic()
    deliver(Shard(open_stores(shard.stores.settings), shard.name), place.sink())
    return time.monotonic() - began


def killed_after(seconds: float, shard: Shard, place: Folder | Bucket | Table) -> bool:
    """Deliver in a child, kill it after some time; return whether it was still at work."""
    return killed_at_work(
        lambda: deliver(Shard(open_stores(shard.stores.settings), shard.name), place.sink()),
        seconds,
    )


def stored(folder: Path) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for file in folder.glob("changes.*.parquet"):
        for row in pq.read_table(file).to_pylist():
            found[row["id"], row["t"]] += row["d"]
    return found


@pytest.mark.parametrize("kind", [Folder, Bucket, Table])
def test_a_killed_delivery_is_made_once(
    tmp_path: Path, kind: type[Folder | Bucket | Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in seaweed.IDENTITY.items():
        monkeypatch.setenv(name, value)
    draw = random.Random(3)
    relation, _ = fixed_history()
    settled = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/c.db")
    shard, place = Shard(open_stores(settled), "shard"), kind(tmp_path)
    create(shard.stores, relation)
    expected: Counter[tuple[int, int]] = Counter()
    kills, took = 0, 0.0

    rounds = ROUNDS // 3 if kind is Bucket else ROUNDS  # S3 is slow
    for number in range(rounds):
        rows = [(number * ROWS + i, number * 5 + i % 5, draw.choice((1, 2))) for i in range(ROWS)]
        append(shard.stores, "shard", number * 5, number * 5 + 5, [table(relation, rows)])
        expected.update({(row, t): d for row, t, d in rows})
        if number == 0:
            took = seconds_of(shard, place)  # from now on, history waits for the consumer
        killed = killed_after(draw.uniform(0.0, took), shard, place)
        took *= 1.1 if killed else 0.8  # about half should die at work, however busy the machine
        kills += killed
        if number % 4 == 3:
            Machine(shard.stores).apply(
                "shard", partial(advance_since, since=shard.state().upper - 1)
            )
            compact_shard(shard.stores, "shard", settings(history_ms=None), full=True)
        found = place.stored()
        assert found == Counter({key: expected[key] for key in found})
        [consumer] = consumers_of(shard.state())
        assert all(key in found for key in expected if key[1] < consumer.position)
    assert kills > rounds // 4

    deliver(shard, place.sink())
    assert place.stored() == expected


def test_a_sink_that_lacks_changes_is_refused(tmp_path: Path) -> None:
    relation, batches = fixed_history()
    place = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/c.db")
    shard = Shard(open_stores(place), "shard")
    create(shard.stores, relation)
    for lower, upper, runs in batches:
        append(shard.stores, "shard", lower, upper, runs)
    deliver(shard, ParquetFolder(tmp_path / "one"), "id >= 10")
    assert sorted(stored(tmp_path / "one")) == [(10, 10), (11, 15)]
    one, two = (ParquetFolder(tmp_path / name) for name in ("one", "two"))
    assert shard.subscribe("c", one, where="id >= 10").into(one) == (0, 0)
    with pytest.raises(InvalidRequest, match="lacks changes"):
        shard.subscribe("c", two)
    file, *_ = one.folder.glob("*.parquet")
    assert pq.read_schema(file).names == ["id", "t", "d"]


def test_a_folder_that_another_session_has_filled_is_left_alone(tmp_path: Path) -> None:
    relation, batches = fixed_history()
    shard = Shard(memory_stores(), "shard")
    create(shard.stores, relation)
    for lower, upper, runs in batches:
        append(shard.stores, "shard", lower, upper, runs)
    sink = ParquetFolder(tmp_path / "all")
    overtaken = shard.subscribe("c", sink, step_ms=10).pending()
    late = next(overtaken)
    shard.subscribe("c", sink).into(sink)
    before = stored(sink.folder)

    with pytest.raises(Fenced, match="another program"):
        sink.take(late)

    assert stored(sink.folder) == before
    assert sum(before.values()) == 4

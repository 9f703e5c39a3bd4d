"""Numbered files in a bucket: of two sessions one gets the next name, and none loses an update."""

import io
import os
import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import Corrupt, Fenced, InvalidRequest, Unavailable
from strata.machine.machine import Machine
from strata.read import bucket_sink
from strata.read.bookmark import Bookmark
from strata.read.bucket_sink import ParquetBucket
from strata.read.subscription import Wish, following
from strata.state.consumers import consumers_of
from strata.store.open import Stores
from tests.laws.test_changes import fixed_history
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION, BATCHES = fixed_history()
ALL = Counter({(0, 0): 1, (1, 5): 1, (10, 10): 1, (11, 15): 1})


@pytest.fixture
def stores() -> Stores:
    stores = memory_stores()
    create(stores, RELATION)
    for lower, upper, runs in BATCHES:
        append(stores, "shard", lower, upper, runs)
    return stores


@pytest.fixture
def sink(tmp_path: Path) -> ParquetBucket:
    return ParquetBucket(f"file://{tmp_path}/bucket")


def deliver(stores: Stores, sink: ParquetBucket, **wish: int) -> tuple[int, int]:
    return following(stores, "shard", "c", sink, Wish(**wish)).into(sink)


def keys(sink: ParquetBucket, prefix: str) -> list[str]:
    return [info.key for info in sink._blob.list(prefix)]


def stored(sink: ParquetBucket) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for key in keys(sink, "changes."):
        for row in pq.read_table(io.BytesIO(sink._blob.get(key) or b"")).to_pylist():
            found[row["id"], row["t"]] += row["d"]
    return found


def test_files_are_numbered_and_one_bookmark_is_left(stores: Stores, sink: ParquetBucket) -> None:
    assert deliver(stores, sink, step_ms=10) == (2, 4)
    assert stored(sink) == ALL
    assert keys(sink, "changes.") == ["changes.0000000001.parquet", "changes.0000000002.parquet"]
    assert keys(sink, "bookmark.") == ["bookmark.0000000002.20"]
    assert deliver(stores, sink) == (0, 0)

    append(stores, "shard", 20, 30, [])
    assert deliver(stores, sink) == (1, 0)
    assert keys(sink, "bookmark.") == ["bookmark.0000000002.30"]


def test_a_prefix_goes_on_behind_files_that_were_moved_away(
    stores: Stores, sink: ParquetBucket
) -> None:
    deliver(stores, sink)
    sink._remove("changes.0000000001.parquet")
    append(stores, "shard", 20, 30, [table(RELATION, [(7, 25, 1)])])
    assert deliver(stores, sink) == (1, 1)
    assert keys(sink, "changes.") == ["changes.0000000002.parquet"]


@pytest.mark.parametrize("footer", [bucket_sink._FOOTER, 9, 4096])
def test_a_file_whose_bookmark_was_not_written_counts(
    stores: Stores, sink: ParquetBucket, monkeypatch: pytest.MonkeyPatch, footer: int
) -> None:
    deliver(stores, sink)
    text, [note] = sink.bookmark(), keys(sink, "bookmark.")
    sink._remove(note)
    monkeypatch.setattr(bucket_sink, "_FOOTER", footer)

    assert sink.bookmark() == text
    assert Bookmark.of(text or "").position == 20
    assert deliver(stores, sink) == (0, 0)


def test_a_file_that_is_moved_away_while_it_is_read_is_looked_for_again(
    stores: Stores, sink: ParquetBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its footer was asked for again without end."""
    deliver(stores, sink)
    [note] = keys(sink, "bookmark.")
    sink._remove(note)
    get, asked = sink._blob.get, [0]

    def gone(key: str, *piece: int) -> bytes | None:
        asked[0] += 1
        assert asked[0] < 20
        return None if key.startswith("changes.") else get(key, *piece)

    monkeypatch.setattr(sink._blob, "get", gone)
    with pytest.raises(Unavailable, match="move this sink on"):
        sink.bookmark()
    monkeypatch.undo()
    for key in keys(sink, "changes."):
        sink._remove(key)
    assert sink.bookmark() is None


FOOTERS = [mark + b"\x99" * 200 + b"\xc8\0\0\0" + mark for mark in (b"PAR1", b"PARE")]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"\xff" * 100, *FOOTERS], ids=range(5))
def test_a_file_of_somebody_else_is_named(sink: ParquetBucket, data: bytes) -> None:
    sink._blob.set("changes.0000000004.parquet", data)
    with pytest.raises(Corrupt, match="not one of a delivery") as caught:
        sink.bookmark()
    assert "bucket/changes.0000000004.parquet" in str(caught.value)


def test_plain_parquet_is_not_one_of_a_delivery(sink: ParquetBucket) -> None:
    file = io.BytesIO()
    pq.write_table(pa.table({"id": [1]}), file)
    sink._blob.set("changes.0000000001.parquet", file.getvalue())
    with pytest.raises(Corrupt, match="not one of a delivery"):
        sink.bookmark()


def test_what_killed_deliveries_were_writing_goes_a_day_later(
    stores: Stores, sink: ParquetBucket, tmp_path: Path
) -> None:
    left = tmp_path / "bucket" / ".tmp"
    left.mkdir(parents=True)
    for name, hours in (("old", 25), ("young", 23)):
        (left / name).write_bytes(b"PAR1")
        at = time.time() - hours * 3600
        os.utime(left / name, (at, at))
    deliver(stores, sink)
    assert [path.name for path in left.iterdir()] == ["young"]


def test_an_overtaken_session_stops(stores: Stores, sink: ParquetBucket) -> None:
    overtaken = following(stores, "shard", "c", sink, Wish(step_ms=10)).pending()
    late = next(overtaken)
    deliver(stores, sink)
    with pytest.raises(Fenced, match="another program"):
        sink.take(late)
    assert stored(sink) == ALL


def test_who_looked_before_the_other_wrote_does_not_get_the_name(
    stores: Stores, sink: ParquetBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    overtaken = following(stores, "shard", "c", sink, Wish(step_ms=10)).pending()
    late = next(overtaken)
    before = sink._found()
    deliver(stores, ParquetBucket(f"file://{sink.address.removeprefix('file://')}"))
    monkeypatch.setattr(sink, "_found", lambda: before)
    with pytest.raises(Fenced, match="another program"):
        sink.take(late)
    assert stored(sink) == ALL


def test_a_bookmark_that_vanishes_while_it_is_read_is_looked_for_again(
    stores: Stores, sink: ParquetBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    deliver(stores, sink)
    whole, looks = sink.bookmark(), [0]
    get = sink._blob.get

    def late(key: str, *piece: int) -> bytes | None:
        looks[0] += key.startswith("bookmark")
        return None if key.startswith("bookmark") and looks[0] < 3 else get(key, *piece)

    monkeypatch.setattr(sink._blob, "get", late)
    assert sink.bookmark() == whole
    looks[0] = -99
    with pytest.raises(Unavailable, match="move this sink on"):
        sink.bookmark()


def test_many_sessions_at_once_store_each_update_once(tmp_path: Path, stores: Stores) -> None:
    address = f"file://{tmp_path}/bucket"

    def some(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(8):
            sink = ParquetBucket(address)
            with suppress(Fenced):
                deliver(stores, sink, step_ms=draw.choice((2, 3, 7)))

    expected = Counter(ALL)
    with ThreadPoolExecutor(4) as pool:
        sessions = [pool.submit(some, seed) for seed in range(4)]
        for lower in range(20, 140, 10):
            rows = [(lower + i, lower + i, 1) for i in range(0, 10, 1 + lower // 10 % 4)]
            append(stores, "shard", lower, lower + 10, [table(RELATION, rows)])
            expected.update({(row, t): d for row, t, d in rows})
        for session in sessions:
            session.result()
    sink = ParquetBucket(address)
    deliver(stores, sink)

    assert stored(sink) == expected
    [consumer] = consumers_of(Machine(stores).load("shard"))
    assert consumer.position == 140


def test_an_address_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        ParquetBucket("s3://")

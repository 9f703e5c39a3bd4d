"""Runs are cut by encoded bytes, whatever the chunks, and the manifest says what is in them."""

import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.format.columns import updates_schema
from strata.format.manifest import decode_manifest, part_refs
from strata.format.part import Description, read_part
from strata.model.runner import on_cores
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.parts.part_facts import KEY_BYTES
from strata.parts.write import WrittenPart, write_batch, write_parts
from strata.store import keys
from strata.store.disk import DiskBlob
from strata.store.interface import Blob
from strata.store.memory import MemoryBlob
from strata.updates.consolidate import consolidate
from strata.updates.order import encode_keys, sort_updates
from tests.support.failing_stores import Faults, FaultyBlob, Outcome
from tests.support.updates import beginnings, contents, relations, split, updates

RELATION = Relation(
    0,
    (
        Column(1, "id", parse_type("int64"), nullable=False),
        Column(2, "name", parse_type("string")),
        Column(3, "data", parse_type("jsonb")),
    ),
    (1,),
    (),
)


def rows(count: int, seed: int = 1, width: int = 20, first: int = 0) -> pa.Table:
    """Return `count` sorted updates whose bytes hardly compress."""
    draw = random.Random(seed)
    names = [draw.randbytes(width // 2).hex() for _ in range(count)]
    columns = {
        "1": pa.array(range(first, first + count), pa.int64()),
        "2": pa.array(names),
        "3": pa.array([f'{{"n":{n}}}' for n in range(count)]),
        "t": pa.array([draw.randrange(10) for _ in range(count)], pa.int64()),
        "d": pa.array([1] * count, pa.int64()),
    }
    return pa.table(columns).cast(updates_schema(RELATION))


def write(
    blob: Blob,
    chunks: Sequence[pa.Table],
    relation: Relation = RELATION,
    layout: str = "both",
    part_bytes: int = 40_000,
    run: int = 0,
    *,
    row_group_bytes: int = 10_000,
) -> list[WrittenPart]:
    return write_parts(
        blob,
        keys.part_prefix("s"),
        iter(chunks),
        relation,
        layout=layout,
        description=Description(0, 10, -5),
        part_bytes=part_bytes,
        row_group_bytes=row_group_bytes,
        stats_spec=StatsSpec(),
        run=run,
    )


def stored(blob: Blob, parts: Sequence[WrittenPart], relation: Relation) -> list[pa.RecordBatch]:
    found = []
    for part in parts:
        data = blob.get(part.ref.key)
        assert data is not None
        found += list(read_part(data, relation))
    return found


def test_parts_are_cut_near_the_wanted_bytes() -> None:
    parts = write(MemoryBlob(), [rows(20_000)])

    sizes = [part.ref.size_bytes for part in parts]
    assert len(sizes) > 10
    assert max(sizes) <= 60_000
    assert min(sizes[1:-1]) >= 25_000
    assert [part.ref.run for part in parts] == [0] * len(parts)


def test_rows_that_grow_wider_are_cut_again() -> None:
    narrow, wide = rows(6000, width=4), rows(500, width=800, first=6000)
    parts = write(MemoryBlob(), [pa.concat_tables([narrow, wide])])

    assert max(part.ref.size_bytes for part in parts) <= 60_000


def test_a_row_bigger_than_a_part_stands_alone() -> None:
    huge = rows(1, width=2_000_000, first=500)
    run = pa.concat_tables([rows(500), huge, rows(500, first=501)])
    blob = MemoryBlob()

    parts = write(blob, [run])

    assert max(part.ref.size_bytes for part in parts if part.ref.rows > 1) <= 60_000
    assert [part.ref.rows for part in parts if part.ref.size_bytes > 60_000] == [1]
    assert len(parts) < 20
    assert pa.Table.from_batches(stored(blob, parts, RELATION)) == run


def test_equal_parts_of_a_run_have_keys_of_their_own() -> None:
    """A row whose sum leaves int64 is several equal updates, and each may fill a part."""
    huge = rows(1, width=100_000)
    place = huge.schema.get_field_index("d")
    huge = huge.set_column(place, huge.schema.field("d"), pa.array([2**63 - 1], pa.int64()))
    blob = MemoryBlob()

    parts = write(blob, [pa.concat_tables([huge] * 4)])

    assert [part.ref.rows for part in parts] == [1] * 4
    assert len({part.ref.key for part in parts}) == 4
    assert sum(table.num_rows for table in stored(blob, parts, RELATION)) == 4


@pytest.mark.long
def test_rows_of_fifty_mebibytes_are_written_and_read() -> None:
    run = pa.concat_tables([rows(3), rows(3, width=50 << 20, first=3), rows(3, first=6)])
    blob = MemoryBlob()

    parts = write(blob, [run], part_bytes=16 << 20)

    assert [part.ref.rows for part in parts if part.ref.size_bytes > 16 << 20] == [1, 1, 1]
    assert sum(part.ref.rows for part in parts) == 9
    assert max(part.stats.nbytes for part in parts if part.stats is not None) < 10_000
    assert pa.Table.from_batches(stored(blob, parts, RELATION)) == run


def test_where_a_run_is_cut_does_not_depend_on_its_chunks() -> None:
    table = rows(9000)
    whole = write(MemoryBlob(), [table])
    chunked = write(MemoryBlob(), [table.slice(n, 700) for n in range(0, 9000, 700)])

    assert [part.ref for part in whole] == [part.ref for part in chunked]


def test_a_run_that_breaks_off_leaves_whole_parts_and_nothing_else(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.Table]:
        yield rows(3000)
        raise RuntimeError("the source is gone")

    blob = DiskBlob(tmp_path)
    with pytest.raises(RuntimeError, match="the source is gone"):
        write_parts(
            blob,
            keys.part_prefix("s"),
            broken(),
            RELATION,
            layout="both",
            description=Description(0, 10, -5),
            part_bytes=40_000,
            row_group_bytes=10_000,
            stats_spec=StatsSpec(),
        )

    whole = {part.ref.key for part in write(MemoryBlob(), [rows(3000)])}
    found = {info.key for info in blob.list("")}
    assert found
    assert found < whole
    assert list((tmp_path / ".tmp").iterdir()) == []


def test_rows_that_cannot_be_written_leave_nothing(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="a part's interval is empty"):
        write_parts(
            DiskBlob(tmp_path),
            keys.part_prefix("s"),
            [rows(3)],
            RELATION,
            layout="both",
            description=Description(10, 10, -5),
            part_bytes=40_000,
            row_group_bytes=10_000,
            stats_spec=StatsSpec(),
        )

    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


FULL_DISK = """
import resource, signal, sys
from strata.errors import Unavailable
from strata.store.disk import DiskBlob
from tests.unit.parts.test_write import rows, write

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
try:
    write(DiskBlob(sys.argv[1]), [rows(300)])
except Unavailable as error:
    print(error)
"""


@pytest.mark.parametrize(
    "room",
    [0, pytest.param(3, marks=pytest.mark.long), pytest.param(500, marks=pytest.mark.long), 9000],
)
def test_a_part_for_which_the_disk_has_no_room_says_so(tmp_path: Path, room: int) -> None:
    """The system refuses bytes beyond a limit, as it does where a disk is full."""
    command = [sys.executable, "-c", FULL_DISK, str(tmp_path), str(room)]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)

    assert found.stdout.startswith("the blob folder cannot be used: File too large path=")
    assert found.stderr == ""
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_rows_are_looked_at_in_a_thread_only_where_a_core_is_free_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun: list[int] = []

    def noted(count: int, **options: str) -> ThreadPoolExecutor:
        begun.append(count)
        return ThreadPoolExecutor(count, **options)

    monkeypatch.setattr("strata.parts.write.ThreadPoolExecutor", noted)
    found = [on_cores(cores, partial(write, MemoryBlob()), [rows(3000)]) for cores in (1, 2)]

    assert begun == [1]
    assert found[0] == found[1]


def test_the_same_bytes_go_to_every_store(tmp_path: Path) -> None:
    blobs = [MemoryBlob(), DiskBlob(tmp_path)]
    for table in (rows(9000), rows(3, width=1 << 20)):
        assert write(blobs[0], [table]) == write(blobs[1], [table])
    keys_of = [[info.key for info in blob.list("")] for blob in blobs]
    assert keys_of[0] == keys_of[1]
    assert [blobs[0].get(key) for key in keys_of[0]] == [blobs[1].get(key) for key in keys_of[0]]


def test_writing_twice_stores_the_same_blobs() -> None:
    blob = MemoryBlob()
    first = write(blob, [rows(3000)])
    before = [info.key for info in blob.list("")]

    assert write(blob, [rows(3000)]) == first
    assert [info.key for info in blob.list("")] == before


@given(st.data())
def test_what_is_written_is_read_back_in_order(data: st.DataObject) -> None:
    relation = data.draw(relations())
    table = consolidate(sort_updates(data.draw(updates(relation)), relation), relation)
    layout = data.draw(st.sampled_from(["row", "both", "structured"]))
    chunks = [
        pa.Table.from_batches([b], table.schema)
        for b in split(table, data.draw(st.lists(st.integers(0, 40), max_size=3)))
    ]
    blob = MemoryBlob()

    parts = write(blob, chunks, relation, layout, part_bytes=2000)

    found = stored(blob, parts, relation)
    assert contents(found, relation) == contents([table], relation)
    assert sum(part.ref.rows for part in parts) == table.num_rows
    for before, after in pairwise(parts):
        assert before.ref.key_low <= after.ref.key_low


@given(st.data())
def test_key_bounds_and_splits_enclose_the_rows_of_their_part(data: st.DataObject) -> None:
    relation = data.draw(relations())
    table = consolidate(sort_updates(data.draw(updates(relation)), relation), relation)
    blob = MemoryBlob()

    for part in write(blob, [table], relation, part_bytes=2000):
        batch = pa.Table.from_batches(stored(blob, [part], relation))
        row_keys = encode_keys(batch, relation).to_pylist()
        assert len(part.ref.key_low) <= KEY_BYTES
        assert all(part.ref.key_low <= key for key in row_keys)
        assert part.ref.key_high is None or all(key <= part.ref.key_high for key in row_keys)
        assert part.ref.splits[0].row == 0
        firsts = [row_keys[s.row] for s in part.ref.splits]
        assert [s.key for s in part.ref.splits] == beginnings(firsts)
        assert part.ref.t_low == pc.min(batch["t"]).as_py()
        assert part.ref.t_high == pc.max(batch["t"]).as_py()
        assert part.ref.diffs_sum == sum(batch["d"].to_pylist())
        assert part.ref.retractions == any(d < 0 for d in batch["d"].to_pylist())


def test_the_row_layout_has_no_statistics_and_the_others_have() -> None:
    assert all(part.stats is None for part in write(MemoryBlob(), [rows(100)], layout="row"))
    for layout in ("both", "structured"):
        [part] = write(MemoryBlob(), [rows(100)], layout=layout)
        assert part.stats is not None
        assert part.ref.stats_version is not None
        assert 0 < part.ref.stats_bytes <= 1024


def test_an_empty_run_has_no_parts_and_an_empty_batch_no_manifest() -> None:
    blob = MemoryBlob()

    assert write(blob, [rows(0), rows(0)]) == []
    batch = write_batch(blob, "s", [], 0, 10, -5)
    assert (batch.manifest, batch.parts, batch.lower, batch.upper, batch.since) == (
        None,
        0,
        0,
        10,
        -5,
    )
    assert list(blob.list("")) == []


def test_a_batch_sums_up_its_manifest() -> None:
    blob = MemoryBlob()
    parts = write(blob, [rows(3000)]) + write(blob, [rows(50, seed=3)], layout="row", run=1)

    batch = write_batch(blob, "s", parts, 0, 10, -5)

    assert batch.manifest is not None
    data = blob.get(batch.manifest)
    assert data is not None
    refs = part_refs(decode_manifest(data))
    assert refs == [part.ref for part in parts]
    assert batch.parts == len(refs)
    assert batch.updates == sum(ref.rows for ref in refs) == 3050
    assert batch.size_bytes == sum(ref.size_bytes for ref in refs)
    assert batch.digest == sum(ref.digest for ref in refs) % 2**64
    assert dict(batch.layouts) == {"both": len(refs) - 1, "row": 1}
    assert batch.stats_parts == len(refs) - 1
    assert [(run.parts, run.updates) for run in batch.runs] == [(len(refs) - 1, 3000), (1, 50)]
    assert batch.stats_union is None  # one part has none


def test_the_union_of_statistics_encloses_every_part() -> None:
    blob = MemoryBlob()

    batch = write_batch(blob, "s", write(blob, [rows(9000)]), 0, 10, -5)

    assert batch.stats_union is not None
    [union] = pa.ipc.open_stream(batch.stats_union).read_all().to_pylist()
    assert union["rows"] == 9000
    assert (union["s.1"]["low"], union["s.1"]["high"]) == (0, 8999)


@pytest.mark.parametrize("outcome", [Outcome.REPLY_LOST, Outcome.REQUEST_LOST, Outcome.REFUSED])
def test_a_failing_blob_store_is_tried_again(outcome: Outcome) -> None:
    inner = MemoryBlob()
    faulty = FaultyBlob(inner, Faults([outcome, outcome]))

    parts = write(faulty, [rows(100)])

    assert stored(inner, parts, RELATION)


def no_longer_repeating() -> pa.Table:
    before, behind = rows(8_000), rows(12_000, seed=2, first=8_000)
    names = pa.array([f"{n // 100:020d}" for n in range(before.num_rows)])
    return pa.concat_tables([before.set_column(1, "2", names), behind])


def test_where_texts_no_longer_repeat_a_new_part_begins() -> None:
    table, blob = no_longer_repeating(), MemoryBlob()
    layout = {"layout": "structured", "part_bytes": 400_000, "row_group_bytes": 150_000}
    parts = write(blob, [table], **layout)
    found = [encodings(blob, part) for part in parts]

    assert ["RLE_DICTIONARY" in kinds for kinds in found] == [True, False]
    assert 8_000 <= parts[0].ref.rows < 15_000
    assert pa.Table.from_batches(stored(blob, parts, RELATION)).equals(table)


def test_texts_of_few_rows_do_not_end_a_part() -> None:
    table, blob = no_longer_repeating(), MemoryBlob()
    first, *_ = write(blob, [table], layout="structured", part_bytes=400_000)

    assert "RLE_DICTIONARY" in encodings(blob, first)
    assert first.ref.rows > 15_000


def encodings(blob: Blob, part: WrittenPart) -> set[str]:
    """Return how the names of a part are encoded."""
    data = blob.get(part.ref.key)
    assert data is not None
    metadata = pq.ParquetFile(pa.BufferReader(data)).metadata
    columns = [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]
    return {kind for c in columns if c.path_in_schema == "v_s.2" for kind in c.encodings}

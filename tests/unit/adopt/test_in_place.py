"""Files that stay where they are: which can, what they cost, and what becomes of them later."""

import math
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from strata.adopt.delta import DeltaPeer
from strata.adopt.in_place import InPlace
from strata.adopt.run import Adopted
from strata.backup import Backup, back_up, restore, verify_shard
from strata.compact import compact_shard
from strata.erase import Eraser, ErasureRequest
from strata.errors import Corrupt, InvalidRequest, Unavailable
from strata.expr.filter import Filter
from strata.expr.nodes import Opaque
from strata.format.manifest import PartRef, part_refs
from strata.format.splice import LAYOUT
from strata.gc import collect
from strata.kernels.arrays import Ints
from strata.machine.machine import Machine
from strata.maintain.own import referred_files, take_in
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.parts.manifests import load_manifest_of
from strata.publish.catalogs import FilesTable
from strata.publish.iceberg import Publication
from strata.publish.place import open_folder
from strata.read.scan import read_updates
from strata.state.state import State
from strata.store.disk import DiskBlob
from strata.store.keys import is_reference, reference_prefix
from strata.store.open import open_stores
from strata.store.reference import OutsideFile, outside_address, read_outside
from tests.support.adopted import NAME, Mirror
from tests.support.erasing import AT_ONCE, WHO
from tests.support.failing_stores import Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.support.garbage import SETTINGS as GARBAGE
from tests.support.stored import copied_stores

ROWS = 20_000
DAY_MS = 86_400_000


def lake(at: Path, ids: Sequence[Any], **how: Any) -> DeltaPeer:
    """Append rows with these ids to a table, as one file; return the table."""
    table = pa.table({"id": pa.array(ids, pa.int64()), "s": [f"s{n % 50}" for n in ids]})
    write_deltalake(str(at), table, mode="append", **how)
    return DeltaPeer.open(str(at))


@pytest.fixture
def mirror() -> Mirror:
    made = Mirror()
    made.create()
    return made


def adopt(mirror: Mirror, peer: DeltaPeer, **how: Any) -> Adopted:
    return mirror.adopt(peer, in_place=InPlace(), **how)


def stored_bytes(mirror: Mirror) -> int:
    return sum(info.size_bytes for info in mirror.stores.blob.list(reference_prefix(NAME)))


def files(at: Path) -> list[Path]:
    return [Path(unquote(urlsplit(uri).path)) for uri in DeltaTable(str(at)).file_uris()]


def parts_of(mirror: Mirror) -> list[PartRef]:
    state = Machine(mirror.stores).load(NAME)
    return [
        ref
        for batch in state.batches
        if batch.manifest is not None
        for ref in part_refs(load_manifest_of(mirror.stores.blob, NAME, batch))
    ]


def ids_of(mirror: Mirror) -> Counter[Any]:
    return Counter({dict(row)["id"]: n for row, n in mirror.read().items()})


def test_sorted_files_stay_and_others_are_written_anew(tmp_path: Path, mirror: Mirror) -> None:
    lake(tmp_path, range(ROWS))
    peer = lake(tmp_path, range(2 * ROWS, ROWS, -1))

    done = adopt(mirror, peer)

    assert done.in_place is not None
    assert done.in_place.files == 1
    assert dict(done.in_place.reasons) == {"its rows are in another order, or repeat": 1}
    assert ids_of(mirror) == Counter(range(2 * ROWS + 1)) - Counter([ROWS])
    refs = parts_of(mirror)
    assert sorted(is_reference(ref.key) for ref in refs) == [False, True]
    assert stored_bytes(mirror) < 0.2 * done.in_place.size_bytes
    assert {ref.layout for ref in refs if is_reference(ref.key)} == {LAYOUT}


def test_statistics_skip_such_parts_and_their_bounds_are_true(
    tmp_path: Path, mirror: Mirror
) -> None:
    lake(tmp_path, range(ROWS))
    adopt(mirror, lake(tmp_path, range(ROWS, 2 * ROWS)))
    for ref in parts_of(mirror):
        assert ref.stats_version is not None
        assert ref.splits


def test_files_whose_whole_folder_is_away_are_unavailable(tmp_path: Path, mirror: Mirror) -> None:
    """A disk that is not mounted is no damage: another try may succeed, and nothing is taken in."""
    table, aside = tmp_path / "table", tmp_path / "unmounted"
    adopt(mirror, lake(table, range(ROWS)))
    table.rename(aside)
    for read in (mirror.read, partial(verify_shard, mirror.stores, NAME, Settings())):
        with pytest.raises(Unavailable, match="mount its disk") as caught:
            read()
        assert caught.value.details["path"] == str(table)
    aside.rename(table)
    assert ids_of(mirror) == Counter(range(ROWS))


def test_a_partition_that_was_removed_is_no_disk_that_is_away(tmp_path: Path) -> None:
    for folder, kind in ((tmp_path / "t", Corrupt), (tmp_path / "gone", Unavailable)):
        file = OutsideFile(outside_address(f"{folder}/day=2024-01-01/h=1/a.parquet"), 4, "1")
        (tmp_path / "t").mkdir(exist_ok=True)
        with pytest.raises(kind):
            read_outside(file, 0, 4)


@pytest.mark.parametrize("kind", ["gone", "other bytes", "longer"])
def test_a_file_that_its_owner_changed_is_named(kind: str, tmp_path: Path, mirror: Mirror) -> None:
    adopt(mirror, lake(tmp_path, range(ROWS)))
    [file] = files(tmp_path)
    data = file.read_bytes()
    if kind == "gone":
        file.unlink()
    else:
        file.write_bytes(data[:-1] + b"!" if kind == "other bytes" else data + b"!")

    with pytest.raises(Corrupt, match="changed or removed by its owner") as caught:
        mirror.read()
    assert file.name in str(caught.value.details["file"])
    assert caught.value.cure
    [wrong] = verify_shard(mirror.stores, NAME, Settings()).wrong
    assert is_reference(wrong.key)
    assert file.name in wrong.what
    with pytest.raises(Corrupt, match=rf"cannot be saved: .*{file.name}"):
        back_up(mirror.stores, DiskBlob(tmp_path / "backup"), Settings())

    file.write_bytes(data)  # brought back, at another time
    assert ids_of(mirror) == Counter(range(ROWS))


def test_what_the_table_drops_is_taken_in_before_it_goes(tmp_path: Path, mirror: Mirror) -> None:
    lake(tmp_path, range(ROWS))
    adopt(mirror, lake(tmp_path, range(ROWS, 2 * ROWS)))
    before = files(tmp_path)
    DeltaTable(str(tmp_path)).optimize.compact()

    done = adopt(mirror, DeltaPeer.open(str(tmp_path)))

    assert len(done.taken_in) == 2
    for file in before:
        file.unlink()
    assert ids_of(mirror) == Counter(range(2 * ROWS))
    assert adopt(mirror, DeltaPeer.open(str(tmp_path))).taken_in == ()


def test_a_version_that_changes_no_file_changes_nothing(tmp_path: Path, mirror: Mirror) -> None:
    adopt(mirror, lake(tmp_path, range(ROWS)))
    table = DeltaTable(str(tmp_path))
    table.alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    done = adopt(mirror, DeltaPeer.open(str(tmp_path)))
    assert (done.version, done.in_place) == ("1", InPlace())
    assert ids_of(mirror) == Counter(range(ROWS))


def test_all_can_be_taken_in_at_any_time(tmp_path: Path, mirror: Mirror) -> None:
    peer = lake(tmp_path, range(ROWS))
    adopt(mirror, peer)
    assert [one.file for one in take_in(mirror.stores, NAME)] == [
        outside_address(str(file)) for file in files(tmp_path)
    ]
    assert not referred_files(mirror.stores.blob, NAME)
    assert mirror.adopt(peer).already_adopted
    for file in files(tmp_path):
        file.unlink()
    assert ids_of(mirror) == Counter(range(ROWS))
    assert not verify_shard(mirror.stores, NAME, Settings()).wrong


def test_a_merge_reads_them_and_needs_them_no_more(tmp_path: Path, mirror: Mirror) -> None:
    lake(tmp_path, range(0, 2 * ROWS, 2))
    adopt(mirror, lake(tmp_path, range(1, 2 * ROWS, 2)))
    compact_shard(mirror.stores, NAME, Settings(), full=True)
    assert ids_of(mirror) == Counter(range(2 * ROWS))
    refs = parts_of(mirror)
    assert not any(is_reference(ref.key) for ref in refs)


def test_a_column_that_a_part_stores_otherwise_comes_along(tmp_path: Path) -> None:
    """Nanoseconds look like microseconds in a file, and a decimal of five digits is no int64."""
    mirror = Mirror()
    mirror.create(["id int64", "s string", "at timestamp", "n numeric(25,2)"])
    moments = (np.arange(ROWS) * 1000).astype("datetime64[us]")
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "s": [f"text {n}" for n in range(ROWS)],
            "at": pa.array(moments),
            "n": pa.array(range(ROWS), pa.int64())
            .cast(pa.decimal128(20, 0))
            .cast(pa.decimal128(25, 2)),
        }
    )
    write_deltalake(str(tmp_path), table)
    done = adopt(mirror, DeltaPeer.open(str(tmp_path)))
    assert done.in_place is not None
    assert done.in_place.files == 1
    rows = {dict(row)["id"]: dict(row) for row in mirror.read()}
    assert rows[7]["at"] == moments[7].item()
    assert rows[7]["n"] == 7


def test_rejected_rows_are_no_run(tmp_path: Path) -> None:
    mirror = Mirror()
    mirror.create(["id int64", "s varchar(3)"], max_rejected=1.0)
    done = adopt(mirror, lake(tmp_path, [1, 2, 300_000_000, *range(10**9, 10**9 + ROWS)]))
    assert done.in_place is not None
    assert done.in_place.files == 1  # s7 and the like fit

    mirror = Mirror()
    mirror.create(["id int64", "s varchar(2)"], max_rejected=1.0)
    done = adopt(mirror, lake(tmp_path / "b", [1, 2, 3, *range(10, 10 + ROWS)]))
    assert done.in_place is not None
    assert dict(done.in_place.reasons) == {"some of its rows are not taken in": 1}
    assert done.report is not None
    assert done.report.counts.rejected


def test_a_shard_of_rows_without_columns_refers_to_nothing(tmp_path: Path) -> None:
    mirror = Mirror()
    columns = [{"name": "id", "type": "int64"}, {"name": "s", "type": "string"}]
    spec = {"name": NAME, "columns": columns, "key": ["id"]}
    rows = {"write_format": "row", "read_format": "row"}
    Machine(mirror.stores).create(parse_spec(spec | rows))

    done = adopt(mirror, lake(tmp_path, range(ROWS)))

    assert done.in_place is not None
    assert dict(done.in_place.reasons) == {"the shard's parts are rows without columns": 1}
    assert ids_of(mirror) == Counter(range(ROWS))


def test_other_engines_are_not_shown_a_tail(tmp_path: Path) -> None:
    stores = open_stores(
        StoreSettings(f"file://{tmp_path}/blobs", f"sqlite:///{tmp_path}/consensus.db")
    )
    mirror = Mirror(stores)
    mirror.create()
    peer = lake(tmp_path / "lake", range(ROWS))
    adopt(mirror, peer)
    folder = open_folder(f"file://{tmp_path}/iceberg")
    published = Publication(stores, NAME, folder, FilesTable(folder), DAY_MS)
    with pytest.raises(InvalidRequest, match="refers to a file of another table") as caught:
        published.publish()
    assert "strata own" in str(caught.value.cure)

    take_in(stores, NAME)
    assert published.publish()


def test_a_backup_holds_their_bytes(tmp_path: Path, mirror: Mirror) -> None:
    adopt(mirror, lake(tmp_path / "lake", range(ROWS)))
    target = DiskBlob(tmp_path / "backup")
    assert back_up(mirror.stores, target, Settings()).copied
    assert not back_up(mirror.stores, target, Settings()).copied
    [held] = target.root.rglob("parts/r*/*.parquet")
    assert held.stat().st_size > files(tmp_path / "lake")[0].stat().st_size
    assert held.read_bytes().startswith(b"PAR1")


def test_a_restored_shard_has_them_whole(tmp_path: Path, mirror: Mirror) -> None:
    adopt(mirror, lake(tmp_path / "lake", range(ROWS)))
    target = DiskBlob(tmp_path / "backup")
    back_up(mirror.stores, target, Settings())
    again = Mirror()
    restore(again.stores, Backup(target), **WHO)
    for file in files(tmp_path / "lake"):
        file.unlink()
    assert ids_of(again) == Counter(range(ROWS))
    assert not take_in(again.stores, NAME)


def erase(mirror: Mirror, id: int) -> dict[str, Any]:
    def finder(state: State, refs: Sequence[PartRef]) -> dict[str, Ints]:
        rows = ((ref.key, read_updates(mirror.stores, state, ref)["1"].to_numpy()) for ref in refs)
        return {key: np.flatnonzero(ids == id) for key, ids in rows}

    filter = Filter(Opaque("a test finds the rows", "boolean"), f"id = {id}", 0, 0)
    work = Eraser(mirror.stores, ErasureRequest(NAME, filter.sql), filter, finder, patience=AT_ONCE)
    return work.erase(at_ms=mirror.stores.clock(), **WHO)


def test_erased_rows_go_with_the_reference(tmp_path: Path, mirror: Mirror) -> None:
    adopt(mirror, lake(tmp_path, range(ROWS)))

    certificate = erase(mirror, 7)

    assert certificate["complete"]
    assert any("adopted" in str(one) for one in certificate["not_reached"])
    assert ids_of(mirror) == Counter(range(ROWS)) - Counter([7])
    assert not [*mirror.stores.blob.list(reference_prefix(NAME))]
    assert files(tmp_path)[0].exists()


def test_what_is_taken_in_beside_an_erasure_brings_no_erased_row_back(tmp_path: Path) -> None:
    peer, faults, ended, refused = lake(tmp_path, range(9)), Faults(), 0, 0
    begun = Mirror()
    begun.create()
    begun.adopt(peer, in_place=InPlace(math.inf))
    for at in range(40):
        mirror = Mirror(copied_stores(begun.stores))

        def beside(mirror: Mirror = mirror) -> None:
            nonlocal ended
            with suppress(Unavailable):  # it waits for who takes files in
                ended += erase(mirror, 7)["complete"]

        faults.interlude = beside
        faults.plan([*[Outcome.WORKS] * at, Outcome.INTERRUPTED])
        stores = replace(
            mirror.stores,
            blob=FaultyBlob(mirror.stores.blob, faults),
            consensus=FaultyConsensus(mirror.stores.consensus, faults),
        )
        with suppress(Unavailable):
            take_in(stores, NAME)
        if faults.drawn[Outcome.INTERRUPTED] <= at:
            break
        if Machine(mirror.stores).load(NAME).erasing is not None:
            if referred_files(mirror.stores.blob, NAME):
                refused += 1
                with pytest.raises(Unavailable, match="while rows are erased"):
                    take_in(mirror.stores, NAME)
            assert erase(mirror, 7)["complete"]
        assert ids_of(mirror) == Counter(range(9)) - Counter([7])
        assert not [*mirror.stores.blob.list(reference_prefix(NAME))], at
    assert min(ended, refused) > 0
    assert at > 8


def test_a_sweep_removes_the_reference_and_never_the_file(tmp_path: Path, mirror: Mirror) -> None:
    lake(tmp_path, range(0, 2 * ROWS, 2))
    adopt(mirror, lake(tmp_path, range(1, 2 * ROWS, 2)))
    compact_shard(mirror.stores, NAME, Settings(), full=True)
    for days in (10, 20, 30):
        later = replace(mirror.stores, clock=partial(int, mirror.stores.clock() + days * DAY_MS))
        collect(later, NAME, GARBAGE)
    assert not stored_bytes(mirror)
    assert all(file.exists() for file in files(tmp_path))
    assert ids_of(mirror) == Counter(range(2 * ROWS))


def test_a_touched_file_is_hashed_and_believed(tmp_path: Path, mirror: Mirror) -> None:
    adopt(mirror, lake(tmp_path, range(ROWS)))
    [file] = files(tmp_path)
    os.utime(file, ns=(1, 1))
    assert ids_of(mirror) == Counter(range(ROWS))

"""Columns that no shard can have by their names: the shard's declaration gives them others."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.memory import InMemoryCatalog

from strata.adopt.delta import DeltaPeer
from strata.adopt.iceberg import IcebergPeer
from strata.adopt.in_place import InPlace
from strata.adopt.peer import Peer
from strata.cli.adopt import _undeclared
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.spec import parse_spec
from strata.state.declare import redeclare
from strata.state.schema import RenameColumn
from tests.support.adopted import NAME, Mirror
from tests.support.stored import memory_stores

PAIRS = {"t": "t_", "d": "d_"}


def declared(names: dict[str, str] | None = None, *more: str) -> Mirror:
    """Return a shard for a table of id, t and d, with other names for the last two."""
    mirror = Mirror(memory_stores())
    columns = [{"name": name, "type": "int64"} for name in ("id", "t_", "d_", *more)]
    source = {"names": PAIRS if names is None else names}
    spec = {"name": NAME, "columns": columns, "key": ["id"], "source": source}
    Machine(mirror.stores).create(parse_spec(spec))
    return mirror


def rows(ids: Sequence[int], **more: int) -> pa.Table:
    columns = {"id": list(ids), "t": [n * 2 for n in ids], "d": [n % 3 for n in ids]}
    columns |= {name: [value] * len(ids) for name, value in more.items()}
    return pa.table({name: pa.array(some, pa.int64()) for name, some in columns.items()})


def lake(at: Path, ids: Sequence[int], **how: Any) -> DeltaPeer:
    write_deltalake(str(at), rows(ids), mode="append", **how)
    return DeltaPeer.open(str(at))


def wanted(ids: Sequence[int], t: str = "t_") -> Counter[Any]:
    return Counter(tuple(sorted({"id": n, t: n * 2, "d_": n % 3}.items())) for n in ids)


@pytest.mark.parametrize("feed", ["true", "false"])
def test_a_delta_table_is_mirrored_under_other_names(tmp_path: Path, feed: str) -> None:
    mirror = declared()
    config = {"delta.enableChangeDataFeed": feed}
    mirror.adopt(lake(tmp_path, range(50), configuration=config))
    assert mirror.read() == wanted(range(50))
    lake(tmp_path, range(50, 60))
    DeltaTable(str(tmp_path)).delete("id < 10")
    done = mirror.adopt(DeltaPeer.open(str(tmp_path)))
    assert done.how == ("feed" if feed == "true" else "files")
    assert mirror.read() == wanted(range(10, 60))
    assert mirror.adopt(DeltaPeer.open(str(tmp_path))).already_adopted


def test_an_iceberg_table_is_mirrored_under_other_names(tmp_path: Path) -> None:
    catalog = InMemoryCatalog("c", warehouse=str(tmp_path))
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", rows([0]).schema)
    table.append(rows(range(20)))
    mirror = declared()
    mirror.adopt(IcebergPeer.open(table.metadata_location))
    table.append(rows(range(20, 30)))
    table.delete("id < 5")
    mirror.adopt(IcebergPeer.open(table.metadata_location))
    assert mirror.read() == wanted(range(5, 30))


def test_a_column_that_the_shard_renames_keeps_its_name_in_the_table(tmp_path: Path) -> None:
    """Rows of the version that is held are retracted under the names of then."""
    mirror = declared()
    mirror.adopt(lake(tmp_path, range(9)))
    Machine(mirror.stores).evolve(NAME, RenameColumn("t_", "at"))
    spec = Machine(mirror.stores).load(NAME).spec
    assert ("t", "at") in spec.source.names
    DeltaTable(str(tmp_path)).delete("id < 3")
    mirror.adopt(lake(tmp_path, [11]))
    assert mirror.read() == wanted([3, 4, 5, 6, 7, 8, 11], t="at")
    assert mirror.adopt(DeltaPeer.open(str(tmp_path)), all_anew=True).how == "replace"
    assert mirror.read() == wanted([3, 4, 5, 6, 7, 8, 11], t="at")


def test_files_under_other_names_stay_in_place(tmp_path: Path) -> None:
    """The file's own columns are spliced, and none is copied into the tail."""
    plain = lake(tmp_path / "plain", range(20_000))
    mirror = declared()
    done = mirror.adopt(plain, in_place=InPlace())
    assert done.in_place is not None
    assert (done.in_place.files, dict(done.in_place.reasons)) == (1, {})
    assert done.in_place.stored_bytes < 4_000
    assert mirror.read() == wanted(range(20_000))


def test_names_that_are_exchanged_are_not_mixed_up_in_place(tmp_path: Path) -> None:
    """The file has a column of the shard's name, which is another one."""
    table = rows(range(20_000)).rename_columns(["id", "d_", "t_"])  # t is their d_, d their t_
    write_deltalake(str(tmp_path), table)
    mirror = declared({"t_": "d_", "d_": "t_"})
    done = mirror.adopt(DeltaPeer.open(str(tmp_path)), in_place=InPlace())
    assert done.in_place is not None
    assert done.in_place.files == 1
    assert mirror.read() == wanted(range(20_000))


def test_a_column_of_the_name_that_another_is_given_is_refused(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), rows(range(3), t_=1))
    with pytest.raises(InvalidRequest, match=r"of the name that another one is given.*'t_'"):
        declared().adopt(DeltaPeer.open(str(tmp_path)))


def test_other_pairs_than_those_of_kept_rows_are_refused(tmp_path: Path) -> None:
    """Rows that the table kept are not read again: they would stay those of the former column."""
    mirror = declared()
    mirror.adopt(lake(tmp_path, range(9)))
    spec = Machine(mirror.stores).load(NAME).spec
    other = replace(spec, source=replace(spec.source, names=(("t", "d_"), ("d", "t_"))))
    Machine(mirror.stores).apply(NAME, partial(redeclare, asked=other, seen=spec))
    lake(tmp_path, [9])
    with pytest.raises(InvalidRequest, match="read in another way") as caught:
        mirror.adopt(DeltaPeer.open(str(tmp_path)))
    assert "source.names" in str(caught.value)
    assert "--replace" in str(caught.value)


def test_a_shard_that_lacks_such_a_column_learns_what_declares_it(tmp_path: Path) -> None:
    peer: Peer = lake(tmp_path, range(3))
    with pytest.raises(InvalidRequest) as caught:
        declared({"d": "d_"}).adopt(peer)
    assert "strata schema add mirror t_ int64" in str(caught.value)
    assert 'source.names: {"t": "t_"} in the declaration' in str(caught.value)
    said = str(_undeclared("new", peer, None))
    assert "{name: t_, type: int64}, {name: d_, type: int64}]" in said
    assert "source: {names: {t: t_, d: d_}}" in said

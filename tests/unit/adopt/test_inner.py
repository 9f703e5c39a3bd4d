"""Fields inside columns are followed like columns, also where only these have changed."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.table import Table
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import DoubleType, StringType

from strata.adopt.delta import DeltaPeer
from strata.adopt.iceberg import IcebergPeer
from strata.adopt.inner import field_paths, inside, json_forms, only_grew, undeclared
from strata.errors import InvalidRequest
from strata.model.types import parse_type
from tests.support.adopted import Mirror, rows_of

PAIR = pa.struct({"p": pa.string(), "q": pa.string()})
Deed = Callable[[UpdateSchema], object]


def add_again(change: UpdateSchema) -> object:
    return change.add_column(("pair", "q"), StringType())


SWAPPED: tuple[Deed, ...] = (
    lambda change: change.rename_column("pair.p", "other"),
    lambda change: change.rename_column("pair.q", "p"),
    lambda change: change.rename_column("pair.other", "q"),
)
ANEW: tuple[Deed, ...] = (lambda change: change.delete_column("pair.q"), add_again)
GONE: tuple[Deed, ...] = (lambda change: change.delete_column("pair.q"),)


def rows(number: int, kind: pa.DataType = PAIR) -> pa.Table:
    return pa.table({"id": [number], "pair": pa.array([{"p": "x", "q": "y"}], kind)})


def lake(folder: Path, first: pa.Table) -> Table:
    catalog = InMemoryCatalog("lake", warehouse=f"file://{folder}/lake")
    catalog.create_namespace("shop")
    table = catalog.create_table("shop.rows", schema=first.schema)
    table.append(first)
    return table


def changed(table: Table, deeds: tuple[Deed, ...]) -> None:
    for deed in deeds:
        with table.update_schema() as change:
            deed(change)


def holding(table: Table, *columns: str) -> Mirror:
    mirror = Mirror()
    mirror.create(["id int64", *columns])
    mirror.adopt(peer(table))
    return mirror


def peer(table: Table) -> IcebergPeer:
    return IcebergPeer.open(table.metadata_location)


@pytest.mark.parametrize(
    ("deeds", "words"),
    [
        (SWAPPED, "another one of this name"),
        (ANEW, "another one of this name"),
        (GONE, "does not have pair.q any more"),
    ],
)
def test_fields_are_followed_by_their_numbers(
    tmp_path: Path, deeds: tuple[Deed, ...], words: str
) -> None:
    table = lake(tmp_path, rows(1))
    mirror = holding(table, "pair struct<p:string,q:string>")
    changed(table, deeds)

    with pytest.raises(InvalidRequest, match="other values of this column") as refused:
        mirror.adopt(peer(table))  # the snapshot is the one that the shard holds
    assert words in str(refused.value)
    assert mirror.adopt(peer(table), all_anew=True).how == "replace"
    assert mirror.adopt(peer(table)).already_adopted


def test_a_field_that_the_table_gains_is_declared_first(tmp_path: Path) -> None:
    short = pa.struct({"p": pa.string()})
    table = lake(tmp_path, rows(1, short))
    mirror = holding(table, "pair struct<p:string>")
    changed(table, (add_again,))
    table.append(rows(2))

    for anew in (False, True):
        with pytest.raises(InvalidRequest, match="does not declare") as no:
            mirror.adopt(peer(table), all_anew=anew)
        assert "field='pair.q'" in str(no.value)
    mirror.widen("pair", "struct<p:string,q:string>")
    mirror.adopt(peer(table))
    table.delete("id = 1")
    mirror.adopt(peer(table))
    assert mirror.read() == {(("id", 2), ("pair", (("p", "x"), ("q", "y")))): 1}


@pytest.mark.parametrize("declared", ["jsonb", "struct<p:string,q:jsonb>"])
def test_a_json_text_has_the_fields_of_the_time_at_which_it_was_made(
    declared: str, tmp_path: Path
) -> None:
    deep = pa.struct({"p": pa.string(), "q": pa.struct({"a": pa.int32()})})
    first = pa.table({"id": [1, 2], "pair": pa.array([{"p": "x", "q": {"a": 1}}] * 2, deep)})
    table = lake(tmp_path, first)
    mirror = holding(table, f"pair {declared}")
    changed(table, (lambda change: change.add_column(("pair", "q", "b"), StringType()),))

    with pytest.raises(InvalidRequest, match="other values of this column") as refused:
        mirror.adopt(peer(table))
    assert "the JSON of pair" in str(refused.value)
    mirror.adopt(peer(table), all_anew=True)
    table.delete("id = 1")
    mirror.adopt(peer(table))
    assert list(mirror.read().values()) == [1]


def test_a_field_that_an_earlier_release_left_out_is_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lake(tmp_path, rows(1))
    with monkeypatch.context() as patch:
        patch.setattr("strata.adopt.columns.undeclared", lambda *_: iter(()))
        mirror = holding(table, "pair struct<p:string>")
    table.append(rows(2))
    mirror.widen("pair", "struct<p:string,q:string>")

    with pytest.raises(InvalidRequest, match="when it took them in"):
        mirror.adopt(peer(table))
    mirror.adopt(peer(table), all_anew=True)
    assert mirror.read() == {(("id", n), ("pair", (("p", "x"), ("q", "y")))): 1 for n in (1, 2)}


def test_floats_that_both_widen_are_retracted_as_they_are(tmp_path: Path) -> None:
    """12.8 as float32 is 12.800000190734863; a program that brings 12.8 anew would miss it."""
    table = lake(tmp_path, pa.table({"id": [1, 2], "f": pa.array([12.8, 12.8], pa.float32())}))
    mirror = holding(table, "f float32")
    changed(table, (lambda change: change.update_column("f", DoubleType()),))
    mirror.widen("f", "float64")
    table.append(pa.table({"id": [3], "f": [12.8]}))
    table.delete("id = 1")
    mirror.adopt(peer(table))
    assert mirror.read() == rows_of(table.scan().to_arrow())

    mirror.adopt(peer(table), all_anew=True)
    assert mirror.read() == rows_of(table.scan().to_arrow())


def test_columns_that_changed_without_a_snapshot_are_noticed(tmp_path: Path) -> None:
    first = pa.table({"id": [1], "a": ["x"], "b": ["y"]})
    table = lake(tmp_path, first)
    mirror = holding(table, "a string", "b string")
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        changed(table, (lambda change, old=old, new=new: change.rename_column(old, new),))  # type: ignore[misc]

    with pytest.raises(InvalidRequest, match="other values of this column"):
        mirror.adopt(peer(table))
    for old, new in (("a", "c"), ("b", "a"), ("c", "b")):
        mirror.rename(old, new)
    assert mirror.adopt(peer(table)).already_adopted
    assert mirror.read() == {(("a", "y"), ("b", "x"), ("id", 1)): 1}
    mirror.drop("b")
    with pytest.raises(InvalidRequest, match="does not declare"):
        mirror.adopt(peer(table))


@pytest.mark.parametrize("feed", [True, False])
def test_an_empty_text_in_a_partition_of_delta_is_null_whoever_reads_it(
    feed: bool, tmp_path: Path
) -> None:
    at, how = str(tmp_path / "delta"), "true" if feed else "false"
    made = pa.table({"id": [1, 2], "s": ["", "b"]})
    write_deltalake(at, made, partition_by=["s"], configuration={"delta.enableChangeDataFeed": how})
    mirror, found = Mirror(), DeltaPeer.open(at)
    mirror.create()
    mirror.adopt(found)
    write_deltalake(at, pa.table({"id": [3], "s": [""]}), mode="append")
    mirror.adopt(found)
    assert mirror.read() == {(("id", n), ("s", s)): 1 for n, s in ((1, None), (2, "b"), (3, None))}
    write_deltalake(at, pa.table({"id": [9], "s": ["c"]}), mode="overwrite")

    assert mirror.adopt(found).how == ("feed" if feed else "files")
    assert mirror.read() == {(("id", 9), ("s", "c")): 1}


@pytest.mark.parametrize(
    ("declared", "kind", "left_out"),
    [
        ("struct<p:string,q:string>", PAIR, []),
        ("struct<q:string,p:string,r:string>", PAIR, []),
        ("struct<p:string>", PAIR, [("q",)]),
        ("list<struct<p:string>>", pa.list_(PAIR), [("element", "q")]),
        ("array<struct<p:string>>", pa.large_list(PAIR), [("element", "q")]),
        ("map<struct<q:string>>", pa.map_(pa.string(), PAIR), [("value", "p")]),
        ("struct<a:struct<p:string>>", pa.struct({"a": PAIR}), [("a", "q")]),
        ("jsonb", pa.list_(PAIR), []),
        ("string", pa.string(), []),
    ],
)
def test_what_a_declared_type_leaves_out(
    declared: str, kind: pa.DataType, left_out: list[tuple[str, ...]]
) -> None:
    assert list(undeclared(kind, parse_type(declared))) == left_out


@pytest.mark.parametrize(
    ("before", "now", "grew"),
    [
        ("int64", "int64", True),
        ("string", "date", False),
        ("struct<a:string>", "struct<a:string,b:string>", True),
        ("struct<a:string,b:string>", "struct<a:string>", False),
        ("struct<a:string>", "struct<b:string>", False),
        ("struct<a:string>", "struct<a:date,b:string>", False),
        ("list<struct<a:string>>", "list<struct<a:string,b:int64>>", True),
        ("list<string>", "list<date>", False),
        ("list<string>", "array<string>", False),
        ("struct<a:string>", "jsonb", False),
    ],
)
def test_a_record_may_grow(before: str, now: str, grew: bool) -> None:
    assert only_grew(parse_type(before), parse_type(now)) == grew


def test_what_decides_the_form_of_a_json_text() -> None:
    def forms(declared: str, kind: pa.DataType) -> object:
        return json_forms(kind, parse_type(declared))

    swapped = pa.struct({"q": pa.string(), "p": pa.string()})
    assert forms("jsonb", PAIR) == forms("jsonb", swapped) != forms("jsonb", pa.list_(PAIR))
    assert forms("jsonb", pa.float32()) != forms("jsonb", pa.float64())
    assert forms("struct<p:string,q:string>", PAIR) == {}
    assert set(json_forms(pa.list_(PAIR), parse_type("list<struct<q:jsonb>>"))) == {
        ("element", "q")
    }


def test_each_field_has_a_path() -> None:
    kind = pa.struct({"a": pa.list_(PAIR), "m": pa.map_(pa.string(), pa.int64())})
    inner = {("a",), ("a", "element"), ("a", "element", "p"), ("a", "element", "q")}
    inner |= {("m",), ("m", "key"), ("m", "value")}
    assert set(inside(kind)) == inner
    assert set(field_paths([pa.field("s", kind)])) == {("s",), *(("s", *path) for path in inner)}

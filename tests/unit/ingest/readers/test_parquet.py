"""Parquet files: columns by name, rows counted where others have lines."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.errors import InvalidRequest
from strata.ingest.land.files import FileRange, SourceFile
from strata.ingest.readers.formats import parquet as module
from strata.ingest.readers.formats.parquet import read_parquet
from strata.ingest.readers.guess import guess_arrow
from strata.ingest.readers.source import WantedColumn, rejects, typed_rows
from strata.ingest.readers.spread import row_bytes
from strata.ingest.values.cast import from_arrow
from strata.model.types import parse_type
from tests.support.damaged_pages import write_damaged


def put(folder: Path, table: pa.Table) -> SourceFile:
    path = folder / "x.parquet"
    pq.write_table(table, path, row_group_size=2)
    return SourceFile(str(path), "x.parquet", path.stat().st_size)


def test_bad_rows_are_counted_from_one(tmp_path: Path) -> None:
    file = put(tmp_path, pa.table({"b": ["x", "y", None], "a": [1, 70_000, 3]}))
    [raw] = read_parquet(file, ["a", "b"])
    wanted = [
        WantedColumn("a", parse_type("int16"), True),
        WantedColumn("b", parse_type("string"), False),
    ]

    typed = typed_rows(raw, wanted)

    assert typed.columns["a"].to_pylist() == [1, None, 3]
    assert [(r.line, r.column, r.value, r.raw) for r in rejects(raw, typed.bad)] == [
        (2, "a", "70000", '{"b":"y","a":70000}'),
        (3, "b", None, '{"b":null,"a":3}'),
    ]


def test_a_file_of_the_wrong_shape_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="lacks a declared column"):
        list(read_parquet(put(tmp_path, pa.table({"a": [1]})), ["a", "b"]))

    (tmp_path / "y.parquet").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(InvalidRequest, match="not a readable Parquet file") as error:
        list(read_parquet(SourceFile(str(tmp_path / "y.parquet"), "y.parquet", 8), ["a"]))
    assert error.value.details["file"] == "y.parquet"


@pytest.mark.parametrize("piece", [None, FileRange(0, 1, 1)])
def test_a_page_that_changed_on_its_way_is_refused(tmp_path: Path, piece: FileRange | None) -> None:
    path = tmp_path / "x.parquet"
    write_damaged(path, pa.table({"a": [1_000, 2_000, 3_000]}), "a", 1)
    file = SourceFile(str(path), "x.parquet", path.stat().st_size, piece=piece)

    with pytest.raises(InvalidRequest, match="not a readable Parquet file") as error:
        list(read_parquet(file, ["a"]))

    assert error.value.details["file"] == "x.parquet"
    assert error.value.cure == "fetch it again: a page is damaged"


@pytest.mark.parametrize("columns", [("l",), ("id", "l"), ("l", "id")])
@pytest.mark.parametrize("piece", [None, FileRange(0, 3, 1), FileRange(2, 3, 1)])
def test_rows_that_arrow_does_not_find_are_not_lost(
    tmp_path: Path, columns: tuple[str, ...], piece: FileRange | None
) -> None:
    """It finds no row in a row group with one row, whose list lies in pages of few bytes.

    That raises for whole tables of several columns; one column, or some rows at a time, end there.
    """
    table = pa.table({"id": [1, 2, 3], "l": [["a", "b"]] * 3}).select(columns)
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=1, data_page_size=1)
    file = SourceFile(str(tmp_path / "x.parquet"), "x.parquet", 1, piece=piece)

    with pytest.raises(InvalidRequest) as error:
        list(read_parquet(file, columns))

    assert error.value.details["file"] == "x.parquet"


def test_a_file_of_the_wrong_shape_is_refused_before_its_rows_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its columns may be of any size, and nobody wants them."""
    monkeypatch.delattr(module, "spread")
    file = put(tmp_path, pa.table({"a": [1], "b": ["x" * 1000]}))

    with pytest.raises(InvalidRequest, match="does not declare"):
        list(read_parquet(file, ["a"]))


@pytest.mark.parametrize(
    ("name", "wrap"),
    [
        ("list<string>", lambda texts, ends: pa.ListArray.from_arrays(ends, texts)),
        ("map<string,string>", lambda texts, ends: pa.MapArray.from_arrays(ends, texts, texts)),
        ("string", lambda texts, ends: pa.DictionaryArray.from_arrays(ends[:-1], texts)),
    ],
)
def test_a_text_inside_a_value_that_is_no_utf8_is_bad_alone(
    tmp_path: Path, name: str, wrap: Callable[[pa.Array, pa.Array], pa.Array]
) -> None:
    texts = pa.array([b"a", b"b", b"\xff", b"d", b"e"], pa.binary()).view(pa.string())
    ends = pa.array(range(6), pa.int32())
    pq.write_table(pa.table({"a": wrap(texts, ends)}), tmp_path / "x.parquet")
    [raw] = read_parquet(SourceFile(str(tmp_path / "x.parquet"), "x.parquet", 1), ["a"])

    typed = typed_rows(raw, [WantedColumn("a", parse_type(name), True)])

    assert list(typed.bad) == [2]
    assert [value is None for value in typed.columns["a"].to_pylist()] == [False] * 2 + [True] + [
        False
    ] * 2


@pytest.mark.parametrize("made", [pa.list_view, pa.large_list_view])
def test_views_of_lists_are_lists(
    tmp_path: Path, made: Callable[[pa.DataType], pa.DataType]
) -> None:
    lists = [[1, None], None, [], [2**31]]
    pq.write_table(pa.table({"v": pa.array(lists, made(pa.int64()))}), tmp_path / "x.parquet")
    [read] = pq.read_table(tmp_path / "x.parquet")["v"].chunks

    cast = from_arrow(read, parse_type("list<int32>"))
    texts = from_arrow(read, parse_type("jsonb"))

    assert made(pa.int64()).id == read.type.id
    assert (cast.values.to_pylist(), cast.bad.tolist()) == ([*lists[:3], None], [3])
    assert texts.values.to_pylist() == ["[1,null]", None, "[]", "[2147483648]"]
    assert row_bytes(pa.array([["ab"], None, ["c", "def"]], made(pa.string()))).tolist() == [
        2,
        0,
        4,
    ]
    assert guess_arrow(read.type) == "list<int64>"

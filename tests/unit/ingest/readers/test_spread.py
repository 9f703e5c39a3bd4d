"""Files in which texts repeat: small on disk, large once they are spelled out."""

import io
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile
from strata.ingest.readers.formats.orc import ORC_ROWS, read_orc
from strata.ingest.readers.formats.parquet import read_parquet
from strata.ingest.readers.spread import ROW_BYTES, row_bytes, spread
from strata.ingest.readers.table import PART_BYTES, WHOLE_BYTES

TABLE = pa.table(
    {
        "text": ["x" * 10, None, "", "yy", "x" * 10, "z"],
        "binary": pa.array([b"1", b"\xff", None, b"", b"1", b"1"], pa.binary()),
        "large": pa.array(["a", "b", None, "a", "a", "a"], pa.large_string()),
        "list": [["a", "b"], ["a"], None, [], [None], ["bbb"]],
        "deep": [[["a"], None, []], [], None, [["b", "c"]], [["a"]], [[]]],
        "struct": [{"q": "a", "n": 1}, None, {"q": None, "n": 2}, {"q": "bb", "n": 3}, None, None],
        "inner": [[{"a": "x", "b": 1}], [], None, [{"a": None, "b": 2}] * 2, [], [None]],
        "map": pa.array(
            [[("k", "v")], [], None, [("k", None)], [("l", "w")], []],
            pa.map_(pa.string(), pa.string()),
        ),
        "pair": pa.array([["a", "b"]] * 5 + [None], pa.list_(pa.string(), 2)),
        "json": pa.array(["{}", None, "[]", "1", "2", "{}"], pa.json_()),
        "listed": pa.array(["a", "b", None, "a", "b", "b"]).dictionary_encode(),
        "number": [1, None, 3, 4, 5, 6],
        "numbers": [[1, 2], None, [], [3], [4], [5]],
    }
)


def _stored(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return a table as a Parquet file gives it back: as it is declared, and with dictionaries."""
    sink = io.BytesIO()
    pq.write_table(table, sink)
    plain = pq.ParquetFile(sink)
    leaves = [plain.metadata.schema.column(n) for n in range(plain.metadata.num_columns)]
    texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
    return plain.read(), pq.ParquetFile(sink, read_dictionary=texts).read()


def _spelled(value: object) -> int:
    """Return the bytes of the texts of a value, one after the other."""
    match value:
        case str():
            return len(value.encode())
        case bytes():
            return len(value)
        case list() | tuple():
            return sum(map(_spelled, value))
        case dict():
            return sum(map(_spelled, value.values()))
    return 0


@pytest.mark.parametrize("name", TABLE.column_names)
def test_rows_take_the_bytes_of_their_texts(name: str) -> None:
    for table in _stored(TABLE.select([name])):
        column = table.column(name).combine_chunks()

        counted = row_bytes(column)

        assert counted.dtype == np.int64
        assert counted.tolist() == [_spelled(value) for value in column.to_pylist()]
        assert row_bytes(column.slice(2, 3)).tolist() == counted.tolist()[2:5]


def test_what_rows_take_is_known_of_each_row_group(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(TABLE, path, row_group_size=4)
    metadata = pq.read_metadata(path)

    def opened(texts: list[str]) -> pq.ParquetFile:
        return pq.ParquetFile(path, read_dictionary=texts)

    sizes = [_spelled(list(row.values())) for row in TABLE.to_pylist()]
    for groups in ([0], [1], [0, 1]):
        mine = [size for n in groups for size in sizes[4 * n : 4 * n + 4]]
        found = spread("x", metadata, groups, opened, 0)
        fixed = found.total - sum(mine)
        assert 0 < fixed < 4000
        assert found.largest == max(mine) + fixed // len(mine)
        bound = spread("x", metadata, groups, opened, 1 << 40)
        assert bound.total >= found.total
        assert bound.largest >= found.largest


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_that_arrow_reads_into_no_dictionary_are_read(tmp_path: Path, encoding: str) -> None:
    """DuckDB and parquet-java write them so in the second version of Parquet."""
    path = tmp_path / "x.parquet"
    table = pa.table({"text": [f"text {n}" * (n % 7) for n in range(1000)], "list": [["a"]] * 1000})
    coded = {"text": encoding, "list.list.element": encoding}
    pq.write_table(table, path, use_dictionary=False, column_encoding=coded, row_group_size=700)

    (raw,) = read_parquet(_source(path), ["text", "list"])

    assert raw.columns["text"].to_pylist() == table["text"].to_pylist()
    opened = partial(pq.ParquetFile, path)
    found = spread("x", pq.read_metadata(path), [0, 1], lambda t: opened(read_dictionary=t), 0)
    assert found.total >= sum(map(len, table["text"].to_pylist())) + 1000


def _source(path: Path) -> SourceFile:
    return SourceFile(str(path), path.name, path.stat().st_size)


def _repeated(size: int, count: int) -> pa.Table:
    return pa.table({"id": np.arange(count), "text": pa.array(["x" * size]).take([0] * count)})


def test_a_parquet_file_of_one_long_text_comes_in_slices(tmp_path: Path) -> None:
    path = tmp_path / "bomb.parquet"
    pq.write_table(_repeated(1 << 20, 400), path, dictionary_pagesize_limit=4 << 20)
    assert path.stat().st_size < WHOLE_BYTES // 1000
    before = pa.total_allocated_bytes()

    rows = 0
    for raw in read_parquet(_source(path), ["id", "text"]):
        assert raw.columns["text"].nbytes <= PART_BYTES + 1024
        assert not raw.whole
        assert raw.before == rows
        assert pa.total_allocated_bytes() - before < 4 * PART_BYTES
        rows += raw.count
    assert rows == 400


def test_an_orc_file_of_one_long_text_comes_in_slices(tmp_path: Path) -> None:
    path = tmp_path / "bomb.orc"
    with po.ORCWriter(path, compression="zstd", dictionary_key_size_threshold=1.0) as writer:
        for _ in range(20):
            writer.write(_repeated(1 << 20, 20))
    assert path.stat().st_size < WHOLE_BYTES // 1000

    rows = 0
    for raw in read_orc(_source(path), ["id", "text"]):
        assert raw.columns["text"].nbytes <= PART_BYTES + 2 * ORC_ROWS * (1 << 20)
        assert not raw.whole
        assert raw.before == rows
        rows += raw.count
    assert rows == 400


@pytest.mark.parametrize("reader", [read_parquet, read_orc])
def test_a_file_that_fits_comes_whole(tmp_path: Path, reader: object) -> None:
    path = tmp_path / "small"
    writer = pq.write_table if reader is read_parquet else po.write_table
    writer(_repeated(10, 1000), path)

    (raw,) = reader(_source(path), ["id", "text"])  # type: ignore[operator]

    assert raw.whole
    assert raw.count == 1000


def test_a_row_that_is_too_large_is_named(tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    items = pa.array([["x" * 1000], ["y"], ["x" * 1000] * (ROW_BYTES // 200)])
    pq.write_table(pa.table({"list": items}), path)

    with pytest.raises(InvalidRequest, match="a row is too large") as error:
        list(read_parquet(_source(path), ["list"]))
    assert "row=3" in str(error.value)
    assert "large.parquet" in str(error.value)

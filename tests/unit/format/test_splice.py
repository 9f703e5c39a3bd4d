"""Which columns of a file may stay in it, and what tells parts of the same file apart."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.format.columns import updates_schema
from strata.format.layout import Description, Footer
from strata.format.part import read_part
from strata.format.splice import Splicer, TheirFile, their_file
from strata.model.schema import Column, Relation
from strata.model.types import parse_type

RELATION = Relation(
    0, (Column(1, "n", parse_type("int64")), Column(2, "s", parse_type("string"))), (1,), ()
)


def file_of(**columns: pa.Array) -> tuple[bytes, TheirFile]:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    data = sink.getvalue()
    return data, their_file(len(data), lambda start, length: data[start : start + length])


def test_only_flat_columns_may_stay() -> None:
    pair = pa.array([{"x": 1, "y": "a"}] * 2)
    lists = pa.array([[1], [2]])

    _, found = file_of(pair=pair, n=pa.array([1, 2]), lists=lists, s=pa.array(["a", "b"]))

    assert dict(found.places) == {"n": 2, "s": 4}  # among the leaves x, y, n, an item, s
    assert found.elements.keys() == {"n", "s"}
    assert found.rows == [2]


@pytest.mark.parametrize("run", [0, 3])
def test_a_run_is_named_in_the_footer_unless_it_is_the_first(run: int) -> None:
    data, theirs = file_of(n=pa.array([1, 2]), s=pa.array(["a", None]))
    columns = [pa.array(cells) for cells in ([1, 2], ["a", None], [5, 5], [1, 1])]
    rows = pa.Table.from_arrays(columns, schema=updates_schema(RELATION))
    said = Footer("structured", 0, Description(5, 6, 0), 2)

    part = data + Splicer(theirs, rows, RELATION, said, {1: "n", 2: "s"}, "file:///a", run).tail()

    footer = pq.ParquetFile(io.BytesIO(part)).metadata.metadata
    assert footer.get(b"strata.run") == (str(run).encode() if run else None)
    assert footer[b"strata.file"] == b"file:///a"
    assert pa.Table.from_batches(read_part(part, RELATION)) == rows

"""Parts of huge rows: without Parquet's statistics of texts, the same to readers."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.format import part_write
from strata.format.columns import updates_schema
from strata.format.part import Description, encode_part, read_part
from strata.model.schema import Column, Relation
from strata.model.types import parse_type

RELATION = Relation(
    0, (Column(1, "id", parse_type("int64")), Column(2, "text", parse_type("string"))), (1,), ()
)


@pytest.mark.parametrize("layout", ["both", "structured", "row"])
def test_a_part_of_huge_rows_is_read_like_any_other(
    layout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = {"1": [1, 2, 3], "2": ["x" * 300_000, None, "z"], "t": [0, 0, 0], "d": [1, 1, 1]}
    updates = pa.table(columns, schema=updates_schema(RELATION))
    monkeypatch.setattr(part_write, "HUGE_ROW_BYTES", 50_000)

    made = encode_part(
        updates, RELATION, layout, description=Description(0, 1, 0), row_group_bytes=1000
    )

    assert pa.Table.from_batches(read_part(made.data, RELATION)).cast(updates.schema) == updates
    group = pq.ParquetFile(io.BytesIO(made.data)).metadata.row_group(0)
    found = [group.column(n) for n in range(group.num_columns)]
    kept = {chunk.path_in_schema for chunk in found if chunk.is_stats_set}
    assert kept == {"t", "d"} | ({"k_s.1"} if layout != "row" else set())

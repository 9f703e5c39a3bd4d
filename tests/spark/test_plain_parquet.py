"""Spark reads a part as the plain Parquet file that it is, without anything of Strata."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from strata.format.part import Description, encode_part
from tests.formats.every_type import RELATION, ROWS, TYPES, updates

pytestmark = pytest.mark.spark

# What Spark makes of Parquet where that is not the type's name in the table of
# docs/reference/format.md.
SEEN = {
    "uint8": "smallint", "uint16": "int", "uint64": "decimal(20,0)", "oid": "bigint",
    "numeric(38,9)": "decimal(38,9)", "numeric": "struct<approx:double,binary:binary>",
    "time": "binary", "timestamp": "timestamp_ntz", "timestamptz": "timestamp",
    "interval day to second": "bigint", "interval year to month": "int", "uuid": "binary",
    "aclitem": "binary", "list<list<string>>": "array<array<string>>",
    "range<int32>": "struct<lower:int,upper:int,lower_inclusive:boolean,upper_inclusive:boolean,"
    "empty:boolean>",
    "map<int64>": "map<string,bigint>", "record<>": "struct<_:boolean>",
}  # fmt: skip


@pytest.mark.parametrize("layout", ["structured", "both"])
@pytest.mark.parametrize("vectorised", ["true", "false"])
def test_spark_sees_every_type(
    spark: SparkSession, tmp_path: Path, layout: str, vectorised: str
) -> None:
    made = encode_part(
        updates(), RELATION, layout, description=Description(-5, 1000, 0), row_group_bytes=4000
    )
    (tmp_path / "part.parquet").write_bytes(made.data)
    name = "spark.sql.parquet.enableVectorizedReader"
    before = spark.conf.get(name)
    spark.conf.set(name, vectorised)
    try:
        frame = spark.read.parquet(str(tmp_path)).select("t", "d", "k_s.*", "v_s.*")
        types = {field.name: field.dataType.simpleString() for field in frame.schema}
        for column, text in zip(RELATION.columns, TYPES, strict=True):
            if text in SEEN:
                assert types[str(column.id)] == SEEN[text]
        counts = frame.selectExpr(*(f"count(`{column.id}`)" for column in RELATION.columns))
        assert list(counts.first() or ()) == [ROWS - 1] * len(TYPES)
        row = frame.selectExpr(
            "t", "`37`.lat", "get(`37`.`a.b`, 0)", "`39`.lower", "try_element_at(`35`, 'a')"
        )
        assert tuple(row.orderBy("t").first() or ()) == (-5, 1.5, 1, 1, None)
        texts = frame.selectExpr("to_json(struct(*)) j").collect()
        assert all(text.j for text in texts)
    finally:
        spark.conf.set(name, before or "true")

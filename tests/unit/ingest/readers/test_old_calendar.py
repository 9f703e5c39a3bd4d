"""Files of Spark 2: days before 1582 are by another calendar, and are not taken in."""

import io
from datetime import UTC, date, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile
from strata.ingest.readers.formats.orc import check_orc_days
from strata.ingest.readers.orc_tail import OrcTail, orc_tail
from strata.read.scan import scan
from tests.unit.ingest.test_engine import World

SPARK_2 = {"org.apache.spark.version": "2.4.8"}
SPARK_3 = {"org.apache.spark.version": "3.5.1"}
LEGACY = {**SPARK_3, "org.apache.spark.legacyDateTime": ""}
FIRST = date(1582, 10, 15)
OLD_DAY, OLD_TIME = date(1500, 1, 1), datetime.fromisoformat("1850-06-01T12:00:00")
COLUMNS = [
    {"name": "id", "type": "int64", "nullable": False},
    {"name": "day", "type": "date"},
    {"name": "at", "type": "timestamp"},
    {"name": "days", "type": "list<date>"},
]


def taken(root: Path, marks: dict[str, str], int96: bool = False, **values: Any) -> World:
    """Ingest one file with marks of its writer; `values` of the second of two rows."""
    world = World(root, columns=COLUMNS, source={"format": "parquet"})
    rows = [{"id": 1, "day": date(2024, 1, 1), "days": [date(2000, 1, 1)]}, {"id": 2, **values}]
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("day", pa.date32()),
            ("at", pa.timestamp("us")),
            ("days", pa.list_(pa.date32())),
        ],
        metadata=marks,
    )
    table = pa.Table.from_pylist(rows, schema)
    pq.write_table(table, root / "a.parquet", use_deprecated_int96_timestamps=int96)
    world.ingest("a.parquet")
    return world


def rows(world: World) -> list[dict[str, Any]]:
    plan = plan_read(world.stores, world.state)
    found = [row for batch in scan(world.stores, world.state, plan) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: int(row["id"]))


@pytest.mark.parametrize("marks", [SPARK_2, LEGACY, {"org.apache.spark.version": "odd"}])
@pytest.mark.parametrize(
    ("column", "value"), [("day", OLD_DAY), ("at", OLD_TIME), ("days", [None, OLD_DAY])]
)
def test_a_day_of_the_old_calendar_is_refused_by_name(
    tmp_path: Path, marks: dict[str, str], column: str, value: Any
) -> None:
    """It was stored as it was, some days off."""
    with pytest.raises(InvalidRequest, match="old calendar of Spark") as caught:
        taken(tmp_path, marks, **{column: value})
    assert f"column='{column}'" in str(caught.value)
    assert "a.parquet" in str(caught.value)
    assert "1500-01-01" in str(caught.value) or "1850-06-01" in str(caught.value)


@pytest.mark.parametrize("marks", [SPARK_3, {}])
def test_the_same_days_of_other_writers_are_taken_in(tmp_path: Path, marks: dict[str, str]) -> None:
    first, second = rows(taken(tmp_path, marks, day=OLD_DAY, at=OLD_TIME, days=[OLD_DAY]))
    assert first["day"] == date(2024, 1, 1)
    assert (second["day"], second["at"], second["days"]) == (OLD_DAY, OLD_TIME, [OLD_DAY])


@pytest.mark.parametrize("key", ["writer.date.proleptic"])
def test_hive_says_it_in_words_of_its_own(tmp_path: Path, key: str) -> None:
    with pytest.raises(InvalidRequest, match="old calendar"):
        taken(tmp_path, {key: "false"}, day=OLD_DAY)
    assert len(rows(taken(tmp_path, {key: "true"}, day=OLD_DAY))) == 2


def avro(root: Path, marks: dict[str, str], kind: Any, value: Any) -> World:
    """Ingest one file of Avro; `kind`, `value`: of the second column, in the second row."""
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": kind}]
    out = io.BytesIO()
    schema = {"type": "record", "name": "r", "fields": fields}
    new = (
        date(2024, 1, 1)
        if not isinstance(value, datetime)
        else datetime.fromisoformat("2024-01-01")
    )
    fastavro.writer(out, schema, [{"id": 1, "v": new}, {"id": 2, "v": value}], metadata=marks)
    (root / "a.avro").write_bytes(out.getvalue())
    declared = "jsonb" if len(kind) > 2 else "timestamp" if isinstance(value, datetime) else "date"
    columns = [{"name": "id", "type": "int64"}, {"name": "v", "type": declared}]
    world = World(root, columns=columns, key=["id"], source={"format": "avro"})
    world.ingest(str(root / "a.avro"))
    return world


AVRO_DAY = {"type": "int", "logicalType": "date"}
AVRO_TIME = {"type": "long", "logicalType": "local-timestamp-micros"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (["null", AVRO_DAY], OLD_DAY),
        (["null", AVRO_TIME], OLD_TIME),
        (["null", "string", AVRO_DAY], OLD_DAY),
    ],
)
def test_avro_carries_the_same_marks(tmp_path: Path, kind: Any, value: Any) -> None:
    for marks in (LEGACY, {"writer.proleptic": "false"}):
        with pytest.raises(InvalidRequest, match="old calendar") as caught:
            avro(tmp_path, marks, kind, value)
        assert "a.avro" in str(caught.value)
        assert "column='v'" in str(caught.value)
        assert value.isoformat()[:10] in str(caught.value)
    for marks in ({}, SPARK_3, {"writer.proleptic": "true"}):
        found = rows(avro(tmp_path, marks, kind, value))[1]["v"]
        assert found == (f'"{value}"' if len(kind) > 2 else value)


def orc(
    root: Path, table: pa.Table, declared: str, *, writer: int = 0, zone: bytes = b"GMT"
) -> World:
    """Ingest one file of ORC that says it was written by `writer` (0: Java) in a zone."""
    path = root / "a.orc"
    po.write_table(table, path, compression="uncompressed")
    data = path.read_bytes()
    mine, own = b"H\x01b", bytes([0x48, writer, 0x62])  # field 9 of the footer, before the version
    assert data.count(mine) == 1
    path.write_bytes(data.replace(mine, own).replace(b"GMT", zone))
    columns = [{"name": "id", "type": "int64"}, {"name": "v", "type": declared}]
    world = World(root, columns=columns, key=["id"], source={"format": "orc"})
    world.ingest(str(path))
    return world


@pytest.mark.parametrize("kind", [pa.date32(), pa.list_(pa.date32())])
def test_java_writes_orc_by_the_old_calendar(tmp_path: Path, kind: pa.DataType) -> None:
    """Spark does so to this day; read as they are, days of 1500 are nine days late."""
    nested = kind != pa.date32()
    values = [[OLD_DAY] if nested else OLD_DAY, None]
    table = pa.table({"id": [1, 2], "v": pa.array(values, kind)})
    declared = "list<date>" if nested else "date"
    with pytest.raises(InvalidRequest, match="old calendar") as caught:
        orc(tmp_path, table, declared)
    assert "a.orc" in str(caught.value)
    assert "value='1500-01-01'" in str(caught.value)
    assert rows(orc(tmp_path, table, declared, writer=1))[0]["v"] == values[0]
    late = table.set_column(1, "v", pa.array([None, [FIRST] if nested else FIRST], kind))
    assert len(rows(orc(tmp_path, late, declared))) == 2


def test_iceberg_counts_by_todays_calendar_in_orc(tmp_path: Path) -> None:
    table = pa.table({"v": pa.array([OLD_DAY])})
    schema = table.schema.with_metadata({"iceberg.schema": "{}"})
    opened = SimpleNamespace(writer="ORC_JAVA", schema=schema)
    check_orc_days(SourceFile("a.orc", "a.orc", 0), opened, table, ["v"])


def test_times_by_the_clock_of_a_zone_are_no_moments(tmp_path: Path) -> None:
    """Spark writes moments to ORC as its clock shows them; they were taken for UTC."""
    moment = datetime.fromisoformat("2024-07-01 00:00:00")
    table = pa.table({"id": [1], "v": pa.array([moment], pa.timestamp("us"))})
    with pytest.raises(InvalidRequest, match="by the clock of a zone") as caught:
        orc(tmp_path, table, "timestamptz", zone=b"EST")
    assert "zone='EST'" in str(caught.value)
    assert rows(orc(tmp_path, table, "timestamptz"))[0]["v"] == moment.replace(tzinfo=UTC)
    assert rows(orc(tmp_path, table, "timestamp", zone=b"EST"))[0]["v"] == moment


@pytest.mark.parametrize("codec", ["uncompressed", "zlib", "snappy", "lz4", "zstd"])
def test_the_end_of_an_orc_file_is_read_in_each_codec(tmp_path: Path, codec: str) -> None:
    path = tmp_path / "a.orc"
    names = [f"column_{n}" for n in range(300)]
    po.write_table(pa.table({name: [moment_of(1)] * 5 for name in names}), path, compression=codec)
    with path.open("rb") as stream:
        found = orc_tail(stream, po.ORCFile(path))
    assert found == OrcTail(proleptic=False, zones=("GMT",))


def moment_of(day: int) -> datetime:
    return datetime.fromisoformat(f"2024-01-0{day}")


def test_later_days_of_old_writers_are_taken_in(tmp_path: Path) -> None:
    moment = datetime.fromisoformat("1900-01-01")
    assert len(rows(taken(tmp_path, SPARK_2, day=date(1582, 10, 15), at=moment))) == 2


@pytest.mark.parametrize(
    ("marks", "refused"),
    [
        ({"org.apache.spark.version": "3.0.3"}, True),
        ({**SPARK_3, "org.apache.spark.legacyINT96": ""}, True),
        (LEGACY, False),
        (SPARK_3, False),
    ],
)
def test_int96_has_a_mark_of_its_own(tmp_path: Path, marks: dict[str, str], refused: bool) -> None:
    if refused:
        with pytest.raises(InvalidRequest, match="old calendar of Spark"):
            taken(tmp_path, marks, int96=True, at=OLD_TIME)
    else:
        assert rows(taken(tmp_path, marks, int96=True, at=OLD_TIME))[1]["at"] == OLD_TIME

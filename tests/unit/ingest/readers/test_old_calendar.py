"""Files of Spark 2: days before 1582 are by another calendar, and are not taken in."""

from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.read.scan import scan
from tests.unit.ingest.test_engine import World

SPARK_2 = {"org.apache.spark.version": "2.4.8"}
SPARK_3 = {"org.apache.spark.version": "3.5.1"}
LEGACY = {**SPARK_3, "org.apache.spark.legacyDateTime": ""}
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

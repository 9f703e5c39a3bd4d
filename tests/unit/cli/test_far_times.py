"""Commands show days and moments that Python's calendar does not reach."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from strata.model.schema import Column, Relation
from strata.model.settings import StoreSettings
from strata.model.types import parse_type
from strata.store.open import open_stores
from tests.support.stored import append, create
from tests.support.updates import table
from tests.unit.cli.test_commands import Cli

RELATION = Relation(
    0, (Column(1, "day", parse_type("date")), Column(2, "at", parse_type("timestamptz"))), (1,), ()
)


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Cli:
    cli = Cli(tmp_path, capsys)
    place = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db")
    stores = open_stores(place)
    create(stores, RELATION, name="events")
    days = pa.array([2**31 - 1, 0, -(2**31)], pa.int32()).view(pa.date32())
    moments = pa.array([2**63 - 1, 0, -(2**63)], pa.int64()).view(pa.timestamp("us", "UTC"))
    rows = table(RELATION, [(None, None, 0, 1)] * 3)
    for at, values in enumerate((days, moments)):
        rows = rows.set_column(at, rows.schema.field(at), values)
    append(stores, "events", 0, 1, [rows])
    return cli


def test_rows_with_far_times_are_shown(cli: Cli) -> None:
    code, out, err = cli.run("read", "events", "--format", "json")
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [(row["day"], row["at"]) for row in rows] == [
        ("-5877641-06-23", "-290308-12-21T19:59:05.224192Z"),
        ("1970-01-01", "1970-01-01T00:00:00Z"),
        ("+5881580-07-11", "+294247-01-10T04:00:54.775807Z"),
    ]
    for kind in ("csv", "table"):
        assert "+5881580-07-11" in cli.run("read", "events", "--format", kind)[1]


def test_far_times_are_extremes_and_different_values(cli: Cli) -> None:
    assert cli.json("max", "events", "day")["value"] == "+5881580-07-11"
    assert cli.json("min", "events", "at")["value"] == "-290308-12-21T19:59:05.224192Z"
    assert cli.json("distinct", "events", "day")["values"][1:] == ["1970-01-01", "+5881580-07-11"]

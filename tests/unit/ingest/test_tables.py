"""Rows that a program has in hand become one batch, once."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy
import polars
import pyarrow as pa
import pytest

from strata.errors import InvalidRequest
from strata.ingest.quarantine import rejected
from strata.ingest.steps import interval_token
from strata.ingest.tables import Rows, commit_tables, open_batch, table_task
from strata.ingest.task import IngestReport
from strata.ingest.write import write as write_rows
from strata.model.spec import parse_spec
from tests.unit.ingest.test_engine import SPEC, World


def write(world: World, rows: Rows, *tables: pa.Table, table_bytes: int = 1 << 20) -> IngestReport:
    opened = open_batch(world.stores, world.settings, "s", rows)
    if opened.report is not None:
        return opened.report
    results = [
        result
        for number, table in enumerate(tables)
        for result in table_task(opened.task, [table], number, table_bytes, world.stores.blob)
    ]
    return commit_tables(world.stores, world.settings, opened, results)


def table(*rows: Any, names: str = "id name") -> pa.Table:
    return pa.table(dict(zip(names.split(), zip(*rows, strict=True), strict=True)))


def test_tables_become_one_batch_once(tmp_path: Path) -> None:
    world = World(tmp_path)
    first, second = table((2, "b"), (1, "a")), table((3, None))

    report = write(world, Rows(5, 9), first, second)
    again = write(world, Rows(5, 9), first)

    assert world.rows() == {(1, "a", 5): 1, (2, "b", 5): 1, (3, None, 5): 1}
    assert (report.updates, report.already_committed, again.already_committed) == (3, False, True)
    assert report.token == interval_token("s", 5, 9)
    assert len(world.state.batches[-1].runs) == 2
    with pytest.raises(InvalidRequest, match="already written"):
        write(world, Rows(6, 12), first)
    with pytest.raises(InvalidRequest, match="another interval"):
        write(world, Rows(9, 12, report.token), first)


def test_rows_bring_their_time_and_their_diff(tmp_path: Path) -> None:
    world = World(tmp_path)
    names = "id name n at"

    write(
        world,
        Rows(0, 10, envelope="diff", time_column="at", diff_column="n"),
        table((1, "a", 2, 3), (2, "b", -1, 4), names=names),
    )

    assert world.rows() == {(1, "a", 3): 2, (2, "b", 4): -1}


def test_rows_are_not_written_as_the_csv_of_their_shard_is(tmp_path: Path) -> None:
    marks = {"decimal": ",", "thousands": ".", "header": ["id", "name"], "escape": "\\"}
    marks |= {"skip_blanks": True}
    world = World(tmp_path, source={"format": "csv", "encoding": "cp1252", **marks})

    write(world, Rows(0, 10), table(("1234", "ä"), ("2", "b")))

    assert world.rows() == {(1234, "ä", 0): 1, (2, "b", 0): 1}


def test_tables_may_replace_rows_by_key(tmp_path: Path) -> None:
    world = World(tmp_path)
    write(world, Rows(0, 10), table((1, "a"), (2, "b")))

    rows = table((1, None, True), (2, "c", False), (2, "d", None), names="id name gone")
    write(world, Rows(10, 20, envelope="upsert", deleted_column="gone"), rows)

    assert world.rows() == {
        (1, "a", 0): 1,
        (2, "b", 0): 1,
        (1, "a", 10): -1,
        (2, "b", 10): -1,
        (2, "d", 10): 1,
    }


def test_bad_rows_go_to_the_quarantine_and_bad_tables_are_refused(tmp_path: Path) -> None:
    world = World(tmp_path)

    report = write(world, Rows(0, 10), table((1, "a"), (None, "b")))

    assert report.counts.rejected == 1
    assert next(rejected(world.stores, "s")).rows[0]["raw"] == b'{"id":null,"name":"b"}'
    with pytest.raises(InvalidRequest, match="lacks a declared column"):
        write(world, Rows(10, 20), table((1,), names="id"))
    with pytest.raises(InvalidRequest, match="no such envelope"):
        write(world, Rows(10, 20, envelope="debezium"), table((1, "a")))


@pytest.mark.parametrize(
    "given",
    [
        table((2, "b"), (1, "a")),
        table((2, "b"), (1, "a")).to_reader(),
        table((2, "b"), (1, "a")).to_batches()[0],
        polars.DataFrame({"id": [2, 1], "name": ["b", "a"]}),
        polars.DataFrame({"id": [2, 1], "name": ["b", "a"]}).cast({"name": polars.Categorical}),
        duckdb.from_arrow(table((2, "b"), (1, "a"))),
    ],
    ids=lambda given: type(given).__name__,
)
def test_whatever_has_an_arrow_stream_is_written_once(given: Any, tmp_path: Path) -> None:
    world = World(tmp_path)
    report = write_rows(given, "s", lower=5, upper=9, config=world.settings)
    again = write_rows(table((7, "x")), "s", lower=5, upper=9, config=world.settings)

    assert (report.updates, again.already_committed) == (2, True)
    assert world.rows() == {(1, "a", 5): 1, (2, "b", 5): 1}


def test_what_has_no_arrow_stream_is_refused(tmp_path: Path) -> None:
    world = World(tmp_path)
    with pytest.raises(InvalidRequest, match="no Arrow stream type='list'"):
        write_rows([{"id": 1}], "s", lower=0, upper=1, config=world.settings)
    wide = polars.DataFrame({"id": [1]}, schema={"id": polars.Int128})
    with pytest.raises(InvalidRequest, match=r"type='DataFrame'.*cure: cast the column"):
        write_rows(wide, "s", lower=0, upper=1, config=world.settings)


@pytest.mark.parametrize(
    "rows",
    [pa.table({"zz": pa.array([], pa.int64())}), table((1, "a"), names="id nam"), pa.table({})],
)
def test_rows_of_other_columns_are_refused_also_without_a_row(
    rows: pa.Table, tmp_path: Path
) -> None:
    world = World(tmp_path)
    with pytest.raises(InvalidRequest, match=r"lacks a declared column file='rows/0'"):
        write_rows(rows, "s", lower=0, upper=1, config=world.settings)
    assert world.state.batches == ()
    none = table((1, "a")).slice(0, 0)
    assert write_rows(none, "s", lower=0, upper=1, config=world.settings).updates == 0


@pytest.mark.parametrize("bound", [datetime(2024, 1, 1, tzinfo=UTC), 0.5, True, "0", None])
def test_bounds_that_are_no_whole_numbers_are_refused(bound: Any, tmp_path: Path) -> None:
    world = World(tmp_path)
    for bounds in ({"lower": bound, "upper": 9}, {"lower": -1, "upper": bound}):
        with pytest.raises(InvalidRequest, match=r"gives a time as an int.*cure: milliseconds"):
            write_rows(table((1, "a")), "s", **bounds, config=world.settings)


def test_bounds_of_numpy_are_whole_numbers(tmp_path: Path) -> None:
    world = World(tmp_path)
    lower, upper = numpy.array([5, 9])
    report = write_rows(table((1, "a")), "s", lower=lower, upper=upper, config=world.settings)

    assert (report.token, world.rows()) == (interval_token("s", 5, 9), {(1, "a", 5): 1})


def test_no_program_fills_a_shard_that_strata_writes_about_itself(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.machine.create(parse_spec({**SPEC, "name": "strata_verdicts"}), journal=True)
    with pytest.raises(InvalidRequest, match="Strata alone writes"):
        write_rows(table((1, "a")), "strata_verdicts", lower=0, upper=1, config=world.settings)

"""The checks of `benchmarks.peers` notice a reader that is wrong, and its tables print losses."""

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from benchmarks import peers, peers_tables, today
from benchmarks.peers_data import SHAPES, asked, digest

ROWS = 2000
EVENTS = SHAPES["events"]


def table() -> pa.Table:
    return EVENTS.table(np.arange(ROWS), ROWS)


def swapped(rows: pa.Table, column: str) -> pa.Table:
    """Return the rows with two values of a column in each other's place."""
    order = np.arange(ROWS)
    order[[1, 2]] = [2, 1]
    return rows.set_column(rows.column_names.index(column), column, rows[column].take(order))


FAULTS: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a row is missing": lambda rows: rows.slice(1),
    "a row is there twice": lambda rows: pa.concat_tables([rows, rows.slice(7, 1)]),
    "a row stands for another": lambda rows: pa.concat_tables([rows.slice(1), rows.slice(7, 1)]),
    "a value is in the wrong row": lambda rows: swapped(rows, "hits"),
    "a cent is lost": lambda rows: rows.set_column(
        rows.column_names.index("price"), "price", pa.chunked_array([_less(rows["price"])])
    ),
}


def _less(prices: pa.ChunkedArray) -> pa.Array:
    values = prices.to_pylist()
    values[3] -= Decimal("0.01")
    return pa.array(values, prices.type)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_reader_ends_the_run_and_names_it(fault: str) -> None:
    truth = digest(table(), EVENTS)
    with pytest.raises(peers.Wrong, match="DuckDB, full"):
        peers.check("full", "DuckDB", truth, digest(FAULTS[fault](table()), EVENTS))


def test_equal_rows_in_any_order_and_any_batches_pass() -> None:
    shuffled = table().take(np.random.default_rng(3).permutation(ROWS))
    batches = shuffled.to_batches(max_chunksize=97)
    peers.check("full", "DuckDB", digest(table(), EVENTS), digest(batches, EVENTS))


def test_the_expected_rows_are_those_that_the_conditions_name() -> None:
    last = peers.expected(EVENTS, ROWS, "last")
    lookups = peers.expected(EVENTS, ROWS, "lookup")
    assert last["rows"] == ROWS // 100 * len(asked(ROWS)["last"])
    assert lookups["rows"] == len(asked(ROWS)["lookup"])


def test_an_upsert_changes_what_is_expected() -> None:
    first, second = (peers.upserted(EVENTS, ROWS, turn) for turn in (0, 1))
    plain = digest(table(), EVENTS)
    assert first["rows"] == second["rows"] == ROWS
    assert first["id"] == plain["id"]
    assert len({first["hits"], second["hits"], plain["hits"]}) == 3


def test_a_loss_is_printed_bold_and_a_missing_operation_has_no_words() -> None:
    by = {"Strata": {"cpu": 3.0}, "DuckDB": {"cpu": 2.0}, "Spark": {"cpu": 9.0}}
    assert peers_tables.beside(by) == "**1.50 times DuckDB**"
    assert peers_tables.beside({**by, "Strata": {"cpu": 1.0}}) == "0.50 times DuckDB"
    page = peers_tables.tables(today.PEERS.read_text("utf-8"))
    assert "no words" in page
    assert "events: compact them" in page

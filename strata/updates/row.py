"""Single rows compared with one another: where runs end, where they are cut."""

from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from strata.format.sortable import sortable_bytes
from strata.updates.order import one_chunk

Cell: TypeAlias = tuple[int, Any]  # (0, value, or bytes of a nested one) | (1, NaN) | (2, null)


class Row:
    """The sort columns of one row, compared like the row; each is looked at only when it decides.

    So that of huge rows whose keys differ no value is copied.
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray], row: int) -> None:
        """Keep the columns; nothing is looked at yet."""
        self._columns, self._row = columns, row
        self._cells: list[Cell] = []

    def cell(self, number: int) -> Cell:
        """Return the value of one sort column."""
        while len(self._cells) <= number:
            self._cells.append(_cell(self._columns[len(self._cells)], self._row))
        return self._cells[number]

    def compare(self, other: "Row") -> int:
        """Return -1, 0 or 1."""
        for number in range(len(self._columns)):
            mine, theirs = self.cell(number), other.cell(number)
            if mine != theirs:
                return -1 if mine < theirs else 1  # ranks differ, or values of one type
        return 0

    def __lt__(self, other: "Row") -> bool:
        """Tell whether this row sorts before another."""
        return self.compare(other) < 0

    def __le__(self, other: "Row") -> bool:
        """Tell whether this row sorts before another, or equals it."""
        return self.compare(other) <= 0


def row_at(table: pa.Table, row: int, names: Sequence[str]) -> Row:
    """Return the sort columns of one row."""
    return Row([table.column(name).slice(row, 1) for name in names], 0)


def rows_until(table: pa.Table, cut: Row, names: Sequence[str], count: int) -> int:
    """Return how many of the first `count` sorted rows sort at or before `cut`."""
    columns = [table.column(name) for name in names]
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if Row(columns, middle) <= cut:
            low = middle + 1
        else:
            high = middle
    return low


def _cell(column: pa.ChunkedArray, row: int) -> Cell:
    scalar = column[row]
    if not scalar.is_valid:
        return (2, None)
    if pa.types.is_nested(scalar.type):
        return (0, sortable_bytes(one_chunk(column.slice(row, 1)))[0].as_py())
    # Times as integers: Python's own do not reach as far as Arrow's.
    value = scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
    return (1, None) if value != value else (0, value)  # noqa: PLR0124  # NaN is not itself

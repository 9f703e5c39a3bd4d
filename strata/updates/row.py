"""Compare single rows: where runs end, where they are cut."""

from collections.abc import Sequence
from functools import total_ordering
from typing import Any, Final, TypeAlias

import pyarrow as pa

from strata.format.values.coded import decoded, is_coded
from strata.format.values.physical import number_dtype, numbers, offsets
from strata.format.values.sortable import sortable_bytes
from strata.updates.order import one_chunk

# (0, value, or bytes of a nested one, [rest of a text]) | (1, NaN) | (2, null)
Cell: TypeAlias = tuple[Any, ...]

# Bytes of a text that are copied; if they do not decide, the rest does
BEGINNING: Final = 64 * 1024
STEP: Final = 1024 * 1024  # bytes of the rest compared at once


class Row:
    """The sort columns of one row, which compare like the row; each is read only when it decides.

    So no value of a huge row is copied, nor read if keys differ earlier.
    """

    def __init__(self, columns: Sequence[pa.ChunkedArray], row: int) -> None:
        """Keep the columns; nothing is read yet."""
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
        """Return whether this row sorts before another."""
        return self.compare(other) < 0

    def __le__(self, other: "Row") -> bool:
        """Return whether this row sorts before another, or equals it."""
        return self.compare(other) <= 0


def row_at(table: pa.Table, row: int, names: Sequence[str]) -> Row:
    """Return the sort columns of one row."""
    return Row([table.column(name).slice(row, 1) for name in names], 0)


def rows_until(table: pa.Table, cut: Row, names: Sequence[str], count: int) -> int:
    """Return how many of the first `count` sorted rows sort at or before `cut`.

    NumPy searches whole numbers in the first column, in a tenth of the time; only rows with the
    number of `cut` are compared one by one. Twin: all rows one by one (`tests/laws/test_order.py`).
    """
    columns = [table.column(name) for name in names]
    low, high = _tied(columns[0].slice(0, count), cut.cell(0))
    while low < high:
        middle = (low + high) // 2
        if Row(columns, middle) <= cut:
            low = middle + 1
        else:
            high = middle
    return low


def _tied(column: pa.ChunkedArray, cell: Cell) -> tuple[int, int]:
    """Return the half-open range of rows of a sorted column that may have a value.

    The range is all rows if the values are not whole numbers.
    """
    dtype = number_dtype(column.type)
    if dtype is None or dtype.kind == "f":
        return 0, len(column)
    low = high = 0
    for chunk in column.chunks:
        values = numbers(chunk, dtype)[: len(chunk) - chunk.null_count]  # nulls come last
        if cell[0]:
            low, high = low + len(values), high + len(chunk)
        else:
            low += int(values.searchsorted(dtype.type(cell[1]), "left"))
            high += int(values.searchsorted(dtype.type(cell[1]), "right"))
    return low, high


@total_ordering
class _Rest:
    """The rest of a text after its beginning, compared in place, a step at a time."""

    def __init__(self, data: memoryview) -> None:
        """Keep a view; nothing is read yet."""
        self._data = data

    def __eq__(self, other: object) -> bool:
        """Return whether two texts end alike."""
        return isinstance(other, _Rest) and self._compare(other) == 0

    def __lt__(self, other: "_Rest") -> bool:
        """Return whether this text sorts before another that begins alike."""
        return self._compare(other) < 0

    __hash__ = None  # type: ignore[assignment]  # compared, never looked up

    def _compare(self, other: "_Rest") -> int:
        mine, theirs = self._data, other._data
        for start in range(0, min(len(mine), len(theirs)), STEP):
            a, b = bytes(mine[start : start + STEP]), bytes(theirs[start : start + STEP])
            if a != b:
                return -1 if a < b else 1
        return len(mine) - len(theirs)


def _cell(column: pa.ChunkedArray, row: int) -> Cell:
    if is_coded(column.type):
        return _text(decoded(one_chunk(column.slice(row, 1))))
    if pa.types.is_string(column.type) or pa.types.is_binary(column.type):
        return _text(one_chunk(column.slice(row, 1)))
    scalar = column[row]
    if not scalar.is_valid:
        return (2, None)
    if pa.types.is_nested(scalar.type):
        return (0, sortable_bytes(one_chunk(column.slice(row, 1)))[0].as_py())
    # Times as integers: Python's own do not reach as far as Arrow's.
    value = scalar.value if pa.types.is_temporal(scalar.type) else scalar.as_py()
    return (1, None) if value != value else (0, value)  # noqa: PLR0124  # NaN is not itself


def _text(one: pa.Array) -> Cell:
    """Return the cell of a text, copying only its beginning."""
    if one.null_count:
        return (2, None)
    start, end = offsets(one)
    data = memoryview(one.buffers()[2] or b"")[start:end]
    return (0, bytes(data[:BEGINNING]), _Rest(data[BEGINNING:]))

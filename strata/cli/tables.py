"""Tables that answer people: drawn on a terminal, tab-separated lines everywhere else.

A drawn table is never cut: long prose is folded, and a table that would not fit the terminal is
drawn as one block a row. Elsewhere (a pipe, a file, a log) each row is one line, cells are
separated by tabs, numbers are plain, and empty tables are left out.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from strata.cli.visible import is_time, shown_time
from strata.model.shown import visible

if TYPE_CHECKING:
    from rich.console import Console

NARROW: Final = 72  # a terminal that claims less is treated as this wide
PROSE: Final = 24  # a cell with more characters and a space in it may be folded
GAP: Final = 2  # spaces between columns
NONE: Final = "none"  # the value of a name that has none
_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")


@dataclass(frozen=True)
class Table:
    """Rows under a title. Without a head it is a list of names and values."""

    title: str
    columns: tuple[str, ...]
    lines: tuple[tuple[object, ...], ...]
    head: bool = True
    data: bool = False  # values of others, which are shown as they are

    def name_of(self, line: Sequence[object], column: int) -> str:
        """Return what the value in a cell is called."""
        return self.columns[column] if self.head else str(line[0])

    def headline(self, column: int) -> str:
        """Return the name of a column as people read it."""
        name = visible(self.columns[column])
        return name if self.data else name.replace("_", " ")

    def cells(self, *, drawn: bool) -> Iterator[list[str]]:
        """Yield the texts of each row."""
        for line in self.lines:
            names = [self.name_of(line, at) for at in range(len(line))]
            cell = drawn_cell if drawn and not self.data else plain_cell
            texts = [
                cell(value, "" if self.data else name)
                for value, name in zip(line, names, strict=True)
            ]
            yield texts if self.head else [text or NONE for text in texts]


def pairs(title: str, document: Mapping[str, Any]) -> Table:
    """Return a table of the plain entries of a document."""
    plain = [(k, v) for k, v in document.items() if not isinstance(v, list | dict | tuple)]
    return Table(title, ("name", "value"), tuple(plain), head=False)


def rows(title: str, items: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> Table:
    """Return a table with a line for each item and the named columns."""
    lines = tuple(tuple(item.get(column) for column in columns) for item in items)
    return Table(title, tuple(columns), lines)


def plain_cell(value: object, name: str = "") -> str:
    """Return a value as programs read it: numbers as they are, times as ISO 8601."""
    if is_time(name, value) and isinstance(value, int):
        return shown_time(value)
    return "" if value is None else visible(_yes_or_no(value))


def drawn_cell(value: object, name: str = "") -> str:
    """Return a value as people read it.

    >>> drawn_cell(1234567, "rows"), drawn_cell(24_600_000, "bytes"), drawn_cell(True)
    ('1,234,567', '23.5 MiB', 'yes')
    """
    if is_time(name, value) and isinstance(value, int):
        return shown_time(value).removesuffix("T00:00:00Z")
    if isinstance(value, bool) or not isinstance(value, int | float):
        return "" if value is None else visible(_yes_or_no(value))
    if isinstance(value, int) and "bytes" in name.split("_"):
        return shown_bytes(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def shown_bytes(count: int) -> str:
    """Return a number of bytes in the largest unit that leaves at least 1.

    >>> shown_bytes(999), shown_bytes(2048), shown_bytes(-3 * 2**30)
    ('999 B', '2.0 KiB', '-3.0 GiB')
    """
    if abs(count) < 1024:
        return f"{count} B"
    power = min((abs(count).bit_length() - 1) // 10, len(_UNITS))
    return f"{count / 1024**power:,.1f} {_UNITS[power - 1]}"


def _yes_or_no(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def write_tables(shown: Sequence[Table | str]) -> None:
    """Write tables and texts to standard output, as it can show them."""
    if sys.stdout.isatty():
        _draw(shown)
        return
    full = [one for one in shown if isinstance(one, str) or one.lines]
    tables = full or list(shown)[:1]  # what is empty shows at least its head
    titled = sum(isinstance(one, Table) for one in tables) > 1
    for number, one in enumerate(tables):
        if isinstance(one, str):
            sys.stdout.write(visible(one, lines=True))
            continue
        if titled:
            title = f"# {visible(one.title)}\n" if one.title else ""
            sys.stdout.write("\n" * bool(number) + title)
        head = [[visible(name) for name in one.columns]] if one.head else []
        for line in (*head, *one.cells(drawn=False)):
            sys.stdout.write("\t".join(line) + "\n")


def _draw(shown: Sequence[Table | str]) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.width = max(console.width, NARROW)
    for number, one in enumerate(shown):
        if isinstance(one, str):
            sys.stdout.write(visible(one, lines=True))
            continue
        if number:
            console.print()
        _draw_table(console, one)


def _draw_table(console: "Console", table: Table) -> None:
    from rich import box
    from rich.table import Table as Drawn
    from rich.text import Text

    title = visible(table.title)
    if not table.lines:
        console.print(Text(f"{title or 'rows'}: none", style="dim"))
        return
    cells = list(table.cells(drawn=True))
    kinds = _columns(table, cells)
    widths = [(20 if prose else width) + GAP for width, prose, _ in kinds]
    if table.head and sum(widths) > console.width:
        _draw_blocks(console, table, cells, title)
        return
    if title:
        console.print(Text(title, style="bold"))
    drawn = Drawn(
        box=box.SIMPLE_HEAD if table.head else None,
        show_header=table.head,
        pad_edge=False,
        show_edge=False,
        padding=(0, GAP, 0, 0),
        header_style="bold",
    )
    for at, (_, prose, right) in enumerate(kinds):
        drawn.add_column(
            Text(table.headline(at)),
            no_wrap=table.head and not prose,
            overflow="fold",
            max_width=None if table.head or at else console.width // 2,
            justify="right" if right else "left",
            style="" if table.head else None,
        )
    for line in cells:
        drawn.add_row(*(Text(cell) for cell in line))
    console.print(drawn)


def _columns(table: Table, cells: Sequence[Sequence[str]]) -> list[tuple[int, bool, bool]]:
    """Return of each column its width, whether it may be folded, and whether it holds numbers."""
    from rich.cells import cell_len  # of what takes two columns, such as Chinese

    found = []
    for at, name in enumerate(table.columns):
        texts = [line[at] for line in cells]
        width = max(cell_len(name) if table.head else 0, *(cell_len(text) for text in texts))
        prose = any(len(text) > PROSE and " " in text for text in texts)
        values = [line[at] for line in table.lines if line[at] is not None]
        numbers = (
            table.head
            and bool(values)
            and all(
                isinstance(v, int | float) and not isinstance(v, bool) and not is_time(name, v)
                for v in values
            )
        )
        found.append((width, prose or (not table.head and at == 1), numbers))
    return found


def _draw_blocks(
    console: "Console", table: Table, cells: Sequence[Sequence[str]], title: str
) -> None:
    """Draw each row as a block of names and values, because the table is too wide."""
    from rich.table import Table as Drawn
    from rich.text import Text

    if title:
        console.print(Text(title, style="bold"))
    for number, line in enumerate(cells):
        if number:
            console.print()
        drawn = Drawn.grid(padding=(0, GAP, 0, 0))
        drawn.add_column(overflow="fold", max_width=console.width // 2)  # the rest is the value's
        drawn.add_column(overflow="fold")
        for at, cell in enumerate(line):
            if cell:
                drawn.add_row(Text(table.headline(at), style="dim"), Text(cell))
        console.print(drawn)

"""Generate the table of types in docs/reference/format.md from the table of encodings.

    python -m strata.format.reference [docs/reference/format.md]    rewrite it in place

A test compares the page with `types_table()`, so code and page cannot differ.
"""

import sys
from pathlib import Path
from typing import Final

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.format.encodings import ENCODINGS, encoding
from strata.model.types import ColumnType, parse_type

BEGIN: Final = "<!-- types: made by `python -m strata.format.reference`, do not edit -->"
END: Final = "<!-- end of types -->"
HEAD: Final = (
    "| Type | Arrow | Datum field | Order, nulls last | Statistics | Spark |",
    "|---|---|---|---|---|---|",
)


def types_table() -> str:
    """Return a Markdown table with a row per kind of type, in the order of the encodings."""
    rows = ENCODINGS.values()
    types = [parse_type(text) for row in rows for text in row.examples or (row.kind,)]
    return "\n".join([*HEAD, *map(_row, types)])


def _row(column_type: ColumnType) -> str:
    row = encoding(column_type)
    order = row.order if row.by_value else f"{row.order} (not the order of SQL)"
    cells = (
        _code(str(column_type)),
        _code(arrow_text(row.arrow(column_type))),
        f"`{row.datum}` {row.number}",
        order,
        row.stats,
        _code(row.spark(column_type).replace("`", "")),
    )
    return f"| {' | '.join(cells)} |"


def _code(text: str) -> str:
    return f"`{text}`"


def arrow_text(kind: pa.DataType) -> str:
    """Return an Arrow type as people write it."""
    if pa.types.is_struct(kind):
        return f"struct<{', '.join(f'{f.name}: {arrow_text(f.type)}' for f in kind)}>"
    if pa.types.is_map(kind):
        return f"map<{arrow_text(kind.key_type)}, {arrow_text(kind.item_type)}>"
    if pa.types.is_list(kind):
        return f"list<{arrow_text(kind.value_type)}>"
    return str(kind).replace("[day]", "").replace("fixed_size_binary", "fixed")


def with_table(page: str) -> str:
    """Return a page with the table between its marks generated again.

    Raises: InvalidRequest for a page without the marks.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InvalidRequest("the page has no marks for the table of types", marks=[BEGIN, END])
    return f"{before}{BEGIN}\n{types_table()}\n{END}{after}"


def main(path: Path) -> None:
    """Rewrite the table in the page at `path`."""
    path.write_text(with_table(path.read_text()))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/reference/format.md"))

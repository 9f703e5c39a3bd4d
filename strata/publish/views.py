"""Texts of views over a published table, one for each dialect of SQL.

The table has every update: a row counts as often as its diffs add up to. The view `NAME_now` adds
them; `NAME_rows` has each row as many times as it counts. `NAME_plain` reads rows without adding
anything up. It exists only if each row of a snapshot counts once, and names that snapshot, because
a later one may take rows back.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from strata.publish.fields import Fields, Shown

Quote = Callable[[str], str]


def _double(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _backtick(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class SqlDialect:
    """How one engine spells what the views need."""

    name: str
    quote: Quote
    field: str  # a field of a struct: {side}, {name} quoted, {text} as a text
    table: str  # the table: {name} quoted by its parts, {address}
    pinned: str  # the table at a snapshot; "" if the engine has no way
    copies: str  # what follows the grouped rows to have each as often as it counts


DIALECTS: Final = (
    SqlDialect("spark", _backtick, "{side}.{name}", "{name}",
            "{name} VERSION AS OF {snapshot}",
            "LATERAL VIEW explode(sequence(1L, {d})) copies AS copy"),
    SqlDialect("trino", _double, "{side}.{name}", "{name}",
            "{name} FOR VERSION AS OF {snapshot}",
            "CROSS JOIN UNNEST(sequence(1, {d})) AS copies (copy)"),
    SqlDialect("duckdb", _double, "struct_extract({side}, {text})", "iceberg_scan('{address}')",
            "iceberg_scan('{address}', snapshot_from_id = {snapshot})",
            "CROSS JOIN LATERAL (SELECT unnest(range({d})) AS copy) AS copies"),
    SqlDialect("snowflake", _double, "{side}:{name}", "{name}", "",
            "CROSS JOIN LATERAL FLATTEN(input => ARRAY_GENERATE_RANGE(0, {d})) AS copies"),
)  # fmt: skip
_HEAD: Final = """\
-- Views over the published shard, for {dialect}. `strata publish` writes this text anew each time.
-- Put the catalog's name before {table} where the engine needs it.
-- Rows as of an earlier time X, from strata.since in the summary of the snapshot on: add
-- WHERE {t} <= X before GROUP BY.
"""


def views_of(table: str, address: str, fields: Fields, plain: int | None) -> dict[str, str]:
    """Return the texts by file name.

    `plain`: the snapshot in which each row counts once; None if it is not proven.
    """
    return {f"{one.name}.sql": _text(one, table, address, fields, plain) for one in DIALECTS}


def _text(dialect: SqlDialect, table: str, address: str, fields: Fields, plain: int | None) -> str:
    quote = dialect.quote
    by_name = "://" not in table
    base = table.rpartition(".")[2] if by_name else address.rstrip("/").rpartition("/")[2]
    name = ".".join(map(quote, table.split("."))) if by_name else quote(base)
    source = dialect.table.format(name=name, address=address.replace("'", "''"))
    columns = [_column(dialect, one) for one in fields.shown]
    names = [quote(one.column.name) for one in fields.shown]
    d = quote(_free("d", fields))
    named = (f"{column} AS {given}" for column, given in zip(columns, names, strict=True))
    selected = ",\n  ".join(named)
    grouped = ", ".join(columns)
    now, rows, alone = (quote(f"{base}_{what}") for what in ("now", "rows", "plain"))
    counted = quote("d")
    each = ", ".join(f"{now}.{given}" for given in names)  # copies have columns, too
    texts = [
        _HEAD.format(dialect=dialect.name, table=source, t=quote("t")),
        f"CREATE VIEW {now} AS\nSELECT\n  {selected},\n"
        f"  CAST(sum({counted}) AS BIGINT) AS {d}\nFROM {source}\n"
        f"GROUP BY {grouped}\nHAVING sum({counted}) <> 0;\n",
        f"CREATE VIEW {rows} AS\nSELECT {each}\nFROM {now}\n"
        f"{dialect.copies.format(d=f'{now}.{d}')}\nWHERE {now}.{d} > 0;\n",
    ]
    if plain is not None and dialect.pinned:
        pinned = dialect.pinned.format(
            name=name, address=address.replace("'", "''"), snapshot=plain
        )
        texts.append(f"CREATE VIEW {alone} AS\nSELECT\n  {selected}\nFROM {pinned};\n")
    return "\n".join(texts)


def _column(dialect: SqlDialect, shown: Shown) -> str:
    name = shown.column.name
    return dialect.field.format(
        side=dialect.quote(shown.side),
        name=dialect.quote(name),
        text="'" + name.replace("'", "''") + "'",
    )


def _free(wanted: str, fields: Fields) -> str:
    """Return a name that no column has in any case: the wanted one, if it is free."""
    taken = {one.column.name.lower() for one in fields.shown}
    while wanted in taken:
        wanted += "_"
    return wanted

"""The tables whose changes a stream brings: one, unless the declaration names others.

Events of two tables mix silently where their columns fit: a key of one would replace that of the
other, and a truncation of one would empty the shard.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Any, Final

import numpy as np

from strata.errors import InvalidRequest
from strata.ingest.values.cast import Rows

# Where connectors of Debezium say which table a change is of; each has some of these.
PLACE: Final = ("db", "database_id", "keyspace", "schema", "table")
SHOWN: Final = 5  # tables in an error


@dataclass(frozen=True, slots=True)
class StreamTables:
    """The tables that the events of one file are of."""

    of_number: tuple[str | None, ...]  # None: the event does not say it
    of_row: Rows  # the number of its table

    @staticmethod
    def of(tables: Sequence[str | None]) -> "StreamTables":
        """Return the tables of events, given that of each."""
        numbers: dict[str | None, int] = {}
        of_row = [numbers.setdefault(table, len(numbers)) for table in tables]
        return StreamTables(tuple(numbers), np.array(of_row, np.int64))

    @property
    def known(self) -> frozenset[str]:
        """Return the tables that some event says."""
        return frozenset(table for table in self.of_number if table is not None)


NO_TABLES: Final = StreamTables((), np.empty(0, np.int64))


def table_of(origin: Any) -> str | None:
    """Return the table of an event by its `source`, as db.schema.table; None: it says none."""
    if not isinstance(origin, dict) or not isinstance(origin.get("table"), str):
        return None
    parts = [origin.get(name) for name in PLACE]
    return ".".join(part for part in parts if isinstance(part, str) and part)


def check_tables(
    tables: Collection[str],
    declared: Sequence[str],
    *,
    before: Collection[str] = (),
    placed: bool = False,
    **where: Any,
) -> None:
    """Refuse changes of a table that is not declared, or of several if only one may come.

    `before`: tables whose changes came earlier. `placed`: changes have positions in a log.
    Raises: InvalidRequest, naming the tables, and `where` they are.
    """
    others = sorted(name for name in tables if not _is_declared(name, declared))
    found = others or sorted({*tables, *(n for n in before if _is_declared(n, declared))})
    cure = (
        "give each table a folder and a shard of its own (Debezium has a topic for each); or, if "
    )
    cure += "their rows belong together, as those of shards and partitions do, name them: "
    cure += f'source.tables: ["{_pattern(found)}"]; a renamed table by its new name'
    if others:
        problem = "changes of a table that source.tables does not name"
    elif len(found) > 1 and not of_several_tables(declared):
        problem = "changes of several tables come as one"
    elif placed and len({name.partition(".")[0] for name in found}) > 1:
        problem = "changes of several databases come as one, and each has positions of its own"
        cure = "give each database a folder and a shard of its own; if it is one that was renamed, "
        cure += 'name the tables by its new name: source.tables: ["NAME.*.*"]'
    else:
        return
    raise InvalidRequest(problem, **where, tables=found[:SHOWN], cure=cure)


def _is_declared(name: str, declared: Sequence[str]) -> bool:
    return not declared or any(_is_meant(name, one) for one in declared)


def of_several_tables(declared: Sequence[str]) -> bool:
    """Return whether several tables may fill the shard."""
    return len(declared) > 1 or any(mark in name for name in declared for mark in "*?[")


def check_truncated_table(declared: Sequence[str], **where: Any) -> None:
    """Refuse a truncation where several tables may fill the shard: it would empty all of them.

    Raises: InvalidRequest.
    """
    if of_several_tables(declared):
        raise InvalidRequest(
            "one of several tables was truncated, and the shard does not know which rows are its",
            **where,
            tables=list(declared[:SHOWN]),
            cure="delete the rows of that table instead of the truncation; or give it a shard",
        )


def _is_meant(name: str, pattern: str) -> bool:
    """Return whether a pattern means a table: part by part, by the end of its name."""
    wanted = pattern.split(".")
    parts = name.split(".")[-len(wanted) :]
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _pattern(names: Sequence[str]) -> str:
    """Return a pattern of the names, for an example."""
    columns = zip(*(name.split(".") for name in names), strict=False)
    return ".".join(part[0] if len({*part}) == 1 else f"{_shared(*part)}*" for part in columns)


def _shared(first: str, *others: str) -> str:
    """Return the beginning that texts have in common."""
    pairs = takewhile(lambda at: len({*at}) == 1, zip(first, *others, strict=False))
    return "".join(letters[0] for letters in pairs)

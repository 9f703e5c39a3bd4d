"""A recording goes into shards, round by round; each time they must be the tables."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from strata.ingest.task import IngestReport
from strata.maintain.schema import change_schema
from strata.model.runner import Runner, serial
from strata.model.types import parse_type
from strata.state.schema import AddColumn, Change, DropColumn
from tests.debezium.shards import Row, Shards


@dataclass
class Replay:
    """A recording and the shards that follow it."""

    folder: Path
    store: Path | None = None
    runner: Runner = serial
    reports: list[IngestReport] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read the recording and create the shards."""
        self.rounds: list[dict[str, Any]] = orjson.loads((self.folder / "rounds.json").read_bytes())
        tables = tuple(self.rounds[0]["files"])  # an older recording has fewer
        self.shards = Shards(self.folder / "landing", self.store, tables)

    def run(self) -> None:
        """Take all rounds in and compare, each time and at the end."""
        for one in self.rounds:
            for change in one["changes"]:
                change_schema(self.shards.machine, change[0], _change(*change[1:]))
            for table in self.shards.tables:
                self.take(table, one)
            self.check(one)
        for one in self.rounds:
            self.check(one)

    def take(self, table: str, one: dict[str, Any]) -> None:
        """Take a table's files of a round in."""
        report = self.shards.ingest(table, one["files"][table], one["at"] + 1, self.runner)
        self.reports.append(report)
        counts = report.counts
        assert (counts.late, counts.rejected, counts.contradictions) == (0, 0, 0), report

    def check(self, one: dict[str, Any]) -> None:
        """Compare all shards with their tables at the end of a round."""
        for table, rows in one["content"].items():
            relation = self.shards.machine.load(table).relation
            kept = [name for name in (rows[0] if rows else []) if name in relation.by_name]
            told = sorted(({name: row[name] for name in kept} for row in rows), key=_order)
            columns = kept or [relation.columns[0].name]
            found = sorted(self.shards.rows(table, one["at"], columns), key=_order)
            assert found == told, f"{table} after {one['name']}: {_difference(found, told)}"


def _order(row: Row) -> bytes:
    return orjson.dumps(row)


def _difference(found: list[Row], told: list[Row]) -> str:
    more = [row for row in found if row not in told][:2]
    less = [row for row in told if row not in found][:2]
    for a, b in zip(more, less, strict=False):
        return str(
            {name: (str(a[name])[:300], str(b[name])[:300]) for name in a if a[name] != b[name]}
        )
    return f"{len(found)} rows for {len(told)}, more: {str(more)[:600]}, less: {str(less)[:600]}"


def _change(what: str, column: str, kind: str | None, default: object) -> Change:
    if what == "drop":
        return DropColumn(column)
    return AddColumn(column, parse_type(kind or ""), default=default)

"""The tables that end `make demo`: what was taken in, compacted, pruned, validated, how fast."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from demo.landing import Landing
from demo.progress import WIDTH, duration

Shards = Mapping[str, Mapping[str, Any]]  # what `strata shards` says of each, by name


@dataclass(frozen=True, slots=True)
class Figures:
    """What was measured; nothing here is computed from expectations."""

    landing: Landing
    before: Shards  # before compaction
    after: Shards  # at the end
    backfill: Mapping[str, Any]  # the result of jobs/stats backfill
    trim: Mapping[str, Any]  # the result of jobs/stats trim
    validation: Mapping[str, Any]  # the result of jobs/validate

    @property
    def validated(self) -> list[Mapping[str, Any]]:
        """The validation's result of each shard."""
        return list(self.validation.get("shards", []))

    @property
    def mismatches(self) -> int:
        """How many times skipping would have been wrong."""
        return sum(int(shard.get("mismatches", 0)) for shard in self.validated)


def print_summary(
    figures: Figures, times: Mapping[str, float], peak_bytes: int, seconds: float
) -> None:
    """Print the tables on standard output."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    makers = (_shards, _statistics, _filters, _formats)
    for table in (*(make(figures) for make in makers), _times(times)):
        console.print()
        console.print(table)
    console.print(
        f"\nmismatches   {figures.mismatches}"
        f"\nreport       {figures.validation.get('report', 'none')}"
        f"\ntime         {duration(seconds)}"
        f"\npeak memory  {mib(peak_bytes)} (Airflow, Spark and the demo together)\n",
        soft_wrap=True,
    )


def mib(size: float) -> str:
    """Return a size for people, in binary units.

    >>> mib(1536), mib(5 * 2**20), mib(3 * 2**30)
    ('1.5 KiB', '5.0 MiB', '3.0 GiB')
    """
    units = ("B", "KiB", "MiB", "GiB")
    number = 0
    while size >= 1024 and number < len(units) - 1:
        size, number = size / 1024, number + 1
    return f"{size:.0f} B" if number == 0 else f"{size:.1f} {units[number]}"


def _shards(figures: Figures) -> Table:
    table = _table(
        "Shards, before → after compaction",
        "shard",
        "files",
        "rows in",
        "updates",
        "batches",
        "runs",
        "parts",
        "size",
    )
    landing = figures.landing
    for name, after in figures.after.items():
        before = figures.before.get(name, {})
        table.add_row(
            name,
            _number(landing.files.get(name)),
            _number(landing.rows.get(name)),
            _change(before.get("updates"), after["updates"]),
            _change(before.get("batches"), after["batches"]),
            _change(before.get("runs"), after["runs"]),
            _change(before.get("parts"), after["parts"]),
            f"{mib(before.get('bytes', 0))} → {mib(after['bytes'])}",
        )
    return table


def _statistics(figures: Figures) -> Table:
    table = _table(
        "Statistics, in the manifests",
        "shard",
        "parts without",
        "backfilled",
        "bytes",
        "over budget",
        "bytes, trimmed",
    )
    trimmed = by_name(figures.trim.get("shards", []))
    for shard in figures.backfill.get("shards", []):
        after = trimmed.get(str(shard["shard"]), {})
        table.add_row(
            shard["shard"],
            _number(shard["parts_selected"]),
            _number(shard["parts_changed"]),
            _number(after.get("stats_bytes_before")),
            _number(after.get("parts_changed")),
            _number(after.get("stats_bytes_after")),
        )
    return table


def _filters(figures: Figures) -> Table:
    table = _table(
        "Soft evaluation: parts that a filter would skip were read all the same",
        "filter",
        "parts",
        "skipped",
        "size",
        "skipped",
        "audited",
        "rows read",
        "mismatches",
    )
    for shard in figures.validated:
        for found in shard.get("filters", []):
            table.add_row(
                f"{shard['shard']}: {found['check']}",
                _number(found["parts_total"]),
                _number(found["parts_skipped"]),
                mib(found["bytes_total"]),
                mib(found["bytes_skipped"]),
                _number(found["audited_parts"]),
                _number(found["rows"]),
                _number(found["mismatches"]),
            )
    return table


def _formats(figures: Figures) -> Table:
    table = _table(
        "Row codec against columns, bounds against data",
        "shard",
        "parts checked",
        "rows",
        "mismatches",
        "errors",
        "missing",
        "mode",
    )
    for shard in figures.validated:
        checks = shard.get("format", [])
        table.add_row(
            shard["shard"],
            *(
                _number(sum(check[name] for check in checks))
                for name in ("audited_parts", "rows", "mismatches", "errors", "missing")
            ),
            str(shard.get("mode_after", "")),
        )
    return table


def _times(times: Mapping[str, float]) -> Table:
    table = _table("How long each stage took", "stage", "time")
    for name, seconds in times.items():
        table.add_row(name, duration(seconds))
    return table


def _table(title: str, first: str, *others: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    table.add_column(first, style="cyan", no_wrap=True)
    for column in others:
        table.add_column(column, justify="right", overflow="fold")
    return table


def _number(value: Any) -> str:
    return "-" if value is None else f"{value:,}"


def _change(before: Any, after: Any) -> str:
    return _number(after) if before == after else f"{_number(before)} → {_number(after)}"


def by_name(shards: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the documents of `strata shards` by the shard's name."""
    return {str(shard["shard"]): shard for shard in shards}

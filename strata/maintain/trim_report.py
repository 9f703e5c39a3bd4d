"""Report the effect of trimming on each statistics column and on each filter's skips."""

from dataclasses import dataclass
from typing import Any, Literal

from strata.expr.filter import Filter
from strata.model.shown import json_of


@dataclass(frozen=True, slots=True)
class Named:
    """An analysed filter that weighs statistics."""

    name: str
    source: Literal["registered", "log"]
    filter: Filter
    reads: int = 1  # its weight


@dataclass(frozen=True, slots=True)
class ColumnEffect:
    """The effect of trimming on one statistics column. Units: bytes, over all selected parts."""

    column: str  # for people: column name, or name and path
    parts: int  # selected parts that had it
    dropped: int  # selected parts that lost it
    shortened: int  # selected parts in which its bounds became looser
    bytes_before: int
    bytes_after: int
    usefulness: float


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """The effect of trimming on one filter: parts that it skipped and no longer skips."""

    name: str
    source: str
    filter: str
    reads: int
    parts_total: int  # in the batches that hold selected times
    skipped_before: int
    skipped_after: int


@dataclass(frozen=True, slots=True)
class TrimShardReport:
    """The effect of one run on one shard. Units: bytes, of all parts in the selected times."""

    shard: str
    dry_run: bool
    parts_selected: int  # above the budget
    parts_changed: int  # 0 in a dry run
    stats_bytes_before: int
    stats_bytes_after: int
    filters_skipped_before: int  # parts, over all filters
    filters_skipped_after: int
    columns: tuple[ColumnEffect, ...] = ()  # parts that lost something
    filters: tuple[FilterEffect, ...] = ()
    parts_dropped: int = 0  # merged away, or given other statistics, before the result arrived
    batches_gone: int = 0
    bytes_read: int = 0  # no part is read
    action: Literal["trim"] = "trim"

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        return json_of(self)

    def lines(self) -> list[str]:
        """See `Report`."""
        would = "would change" if self.dry_run else "changed"
        parts = self.parts_selected if self.dry_run else self.parts_changed
        return [
            f"{self.shard}: trim {would} {parts:,} of {self.parts_selected:,} parts above the "
            f"budget, statistics {self.stats_bytes_before:,} -> {self.stats_bytes_after:,} bytes; "
            f"{len(self.filters)} filters skip {self.filters_skipped_before:,} -> "
            f"{self.filters_skipped_after:,} parts"
        ]

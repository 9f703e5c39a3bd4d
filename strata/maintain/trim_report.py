"""What trimming a shard did: to each statistics column, and to what each filter skips."""

from dataclasses import dataclass
from typing import Any, Literal

from strata.expr.filter import Filter
from strata.model.shown import json_of


@dataclass(frozen=True, slots=True)
class Named:
    """A filter to weigh statistics with, analysed."""

    name: str
    source: Literal["registered", "log"]
    filter: Filter
    reads: int = 1  # its weight


@dataclass(frozen=True, slots=True)
class ColumnEffect:
    """What trimming did to one statistics column. Units: bytes, all selected parts together."""

    column: str  # as people know it: name, or name and path
    parts: int  # selected parts that had it
    dropped: int  # of these, parts that lost it
    shortened: int  # parts in which its bounds became looser
    bytes_before: int
    bytes_after: int
    usefulness: float


@dataclass(frozen=True, slots=True)
class FilterEffect:
    """What trimming does to one filter: parts that it skipped and does not skip any more."""

    name: str
    source: str
    filter: str
    reads: int
    parts_total: int  # in the batches that hold selected times
    skipped_before: int
    skipped_after: int


@dataclass(frozen=True, slots=True)
class TrimShardReport:
    """What one run did to one shard. Units: bytes, of all parts in the selected times."""

    shard: str
    dry_run: bool
    parts_selected: int  # above the budget
    parts_changed: int  # 0 in a dry run
    stats_bytes_before: int
    stats_bytes_after: int
    filters_skipped_before: int  # parts, over all filters
    filters_skipped_after: int
    columns: tuple[ColumnEffect, ...] = ()  # those that lost something
    filters: tuple[FilterEffect, ...] = ()
    parts_dropped: int = 0  # merged away, or given others, before the result was in
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

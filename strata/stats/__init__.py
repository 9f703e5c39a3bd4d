"""Statistics of parts: collected, aligned, united and trimmed; never tighter than the data."""

from strata.stats.collect import collect
from strata.stats.size import encoded_size, encoded_sizes
from strata.stats.table import concat, row_stream, union
from strata.stats.trim import TrimReport, trim, trim_table, trim_together
from strata.stats.wire import STATS_VERSION

__all__ = [
    "STATS_VERSION",
    "TrimReport",
    "collect",
    "concat",
    "encoded_size",
    "encoded_sizes",
    "row_stream",
    "trim",
    "trim_table",
    "trim_together",
    "union",
]

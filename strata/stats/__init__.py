"""Statistics of parts: collected, aligned, united and trimmed; never tighter than the data."""

from strata.stats.collect import collect
from strata.stats.table import concat, union
from strata.stats.wire import STATS_VERSION

__all__ = ["STATS_VERSION", "collect", "concat", "union"]

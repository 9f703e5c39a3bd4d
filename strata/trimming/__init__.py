"""Trim: statistics of stored parts made to fit a budget, losing what helped readers least."""

from strata.trimming.report import ColumnEffect, FilterEffect, Named, TrimShardReport
from strata.trimming.shard import trim_shard

__all__ = ["ColumnEffect", "FilterEffect", "Named", "TrimShardReport", "trim_shard"]

"""Pruning: statistics meet a filter, and each part is kept or proven not to matter."""

from strata.prune.decide import Decision, decide, needed_columns
from strata.prune.explain import explain

__all__ = ["Decision", "decide", "explain", "needed_columns"]

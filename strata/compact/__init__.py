"""Compaction: replace batches by one that says the same from since on, in fewer updates.

    advance since -> plan (state only) -> merge (anywhere) -> check -> compare-and-set

`plan` is a pure function of the state and decides everything; `compact_shard` executes exactly
that. A merge that lost its race is dropped. Its parts stay where they are: they are named by
their content, and the faster merge has written, and uses, the same ones; what nobody uses is
left to garbage collection, which alone knows. Source: docs/explanation/compaction.md.
"""

from strata.compact.history import history
from strata.compact.plan import CompactPlan, plan
from strata.compact.report import CompactReport, RequestReport
from strata.compact.run import compact_shard, manifests_of, preview

__all__ = [
    "CompactPlan",
    "CompactReport",
    "RequestReport",
    "compact_shard",
    "history",
    "manifests_of",
    "plan",
    "preview",
]

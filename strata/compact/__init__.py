"""Compaction: replace batches by one that is equivalent from since on, with fewer updates.

    advance since -> plan (state only) -> merge (anywhere) -> check -> compare-and-set

`plan` is a pure function of the state and decides everything; `compact_shard` executes exactly
that. A merge that loses its race is dropped, but its parts stay: they are named by their content,
and the faster merge has written and uses the same ones. Unused parts are left to garbage
collection, which alone can recognise them. Source: docs/explanation/compaction.md.
"""

from strata.compact.debt import pay_debt
from strata.compact.history import merge_history
from strata.compact.plan import CompactPlan, plan
from strata.compact.report import CompactReport, RequestReport
from strata.compact.run import compact_shard, manifests_of, preview

__all__ = [
    "CompactPlan",
    "CompactReport",
    "RequestReport",
    "compact_shard",
    "manifests_of",
    "merge_history",
    "pay_debt",
    "plan",
    "preview",
]

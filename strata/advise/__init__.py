"""Advice on a shard: what would have skipped more of the reads of late, and what it costs.

Advice is never guessed. Each candidate is applied to a copy of the shard's parts in memory, by the
functions that apply it to the shard, and the same reads are planned before and after. What skips
nothing more is not given.
"""

from strata.advise.follow import bring_all_along, carry_out
from strata.advise.measure import Advice, Advised, advise

__all__ = ["Advice", "Advised", "advise", "bring_all_along", "carry_out"]

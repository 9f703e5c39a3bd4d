"""What a shard's page says of JSON paths that have no statistics."""

from typing import Final

from strata.maintain.worth import newest_statistics
from strata.model.types import Kind
from strata.state.state import State
from strata.stats.counted import most_left_out
from strata.store.open import Stores

LOOKED_AT: Final = 256  # newest parts: a page does not wait for more


def capped_paths(stores: Stores, state: State) -> list[str]:
    """Return a sentence for each JSON column whose paths are left out in some of the newest parts.

    Shape: in the relation's order. Cost: the manifests of the newest parts, and none for a shard
    without a JSON column.
    """
    columns = [one for one in state.relation.columns if one.type.kind is Kind.JSONB]
    if not columns:
        return []
    counts = most_left_out(newest_statistics(stores, state, LOOKED_AT))
    return [
        counts[one.id].said(one.name)
        for one in columns
        if one.id in counts and counts[one.id].left_out
    ]

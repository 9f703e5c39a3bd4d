"""The statistics of a shard's newest parts, to weigh columns by (`strata.stats.worth`)."""

from typing import Final

import pyarrow as pa

from strata.format.manifest import stats_columns, unify
from strata.maintain.exchange import some_of_manifest
from strata.state.state import State
from strata.store.open import Stores

PARTS: Final = 1000  # of the newest batches: enough to see what differs


def newest_statistics(stores: Stores, state: State, most: int | None = None) -> pa.Table:
    """Return the statistics of the newest parts, a row a part; `most`: other than `PARTS` of them.

    Cost: reads the pieces of manifests that hold them.
    """
    found: list[pa.Table] = []
    most = PARTS if most is None else most
    for batch in reversed(state.batches):
        wanted = most - sum(table.num_rows for table in found)
        if wanted <= 0:
            break
        found += some_of_manifest(stores, state.name, batch, wanted)
    known = unify([stats_columns(table) for table in found])
    return known.slice(0, most) if known.num_rows > most else known

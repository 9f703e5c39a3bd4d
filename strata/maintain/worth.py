"""The statistics of a shard's newest parts, to weigh columns by (`strata.stats.worth`)."""

from typing import Final

import pyarrow as pa

from strata.format.manifest import stats_columns, unify
from strata.maintain.exchange import manifest_of
from strata.state.state import State
from strata.store.open import Stores

PARTS: Final = 1000  # of the newest batches: enough to see what differs


def newest_statistics(stores: Stores, state: State) -> pa.Table:
    """Return the statistics of the newest parts, a row a part.

    Cost: reads the manifests of the batches that hold them.
    """
    tables: list[pa.Table] = []
    for batch in reversed(state.batches):
        if sum(table.num_rows for table in tables) >= PARTS:
            break
        table = manifest_of(stores, state.name, batch)
        if table is not None:
            tables.append(stats_columns(table).slice(0, PARTS))
    return unify(tables)

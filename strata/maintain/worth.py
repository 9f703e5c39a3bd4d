"""What statistics of a shard are worth (`strata.stats.worth`): by its log of filters, and by parts.

A driver asks once for a job, and hands the answer to its tasks.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from strata.errors import StrataError
from strata.format.encodings import encoding
from strata.format.manifest import stats_columns, unify
from strata.history import usage
from strata.maintain.exchange import some_of_manifest
from strata.model.settings import UsageSettings
from strata.state.state import Batch, State
from strata.stats.worth import NO_WORTH, StatsWorth, worth_of
from strata.store.open import Stores

PARTS: Final = 1000  # of the newest batches: enough to see what differs


def newest_statistics(stores: Stores, state: State, most: int | None = None) -> pa.Table:
    """Return the statistics of the newest parts, a row a part; `most`: other than `PARTS` of them.

    Cost: reads the pieces of manifests that hold them.
    """
    return _statistics(stores, state.name, reversed(state.batches), most)


def paths_used(stores: Stores, state: State, settings: UsageSettings) -> Mapping[str, float]:
    """Return how useful statistics are to the filters of the log; nothing without a JSON column.

    Only paths of JSON are chosen by it as a part is written. A log that nobody can read says
    nothing.
    Cost: as `strata.history.usage.recent`.
    """
    if not any(encoding(one.type).stats == "json" for one in state.relation.columns):
        return {}
    try:
        return usage.usefulness(usage.recent(stores, state.name, settings, roll=True), {})
    except StrataError:  # statistics are chosen by less
        return {}


def merged_worth(
    stores: Stores, state: State, batches: Iterable[Batch], used: Mapping[str, float]
) -> StatsWorth:
    """Return the worth of statistics to a merge of these batches; `used`: as of `paths_used`.

    Cost: as of `newest_statistics`, and nothing for a shard without a JSON column.
    """
    if not any(encoding(one.type).stats == "json" for one in state.relation.columns):
        return NO_WORTH
    return worth_of(used, _statistics(stores, state.name, batches))


def _statistics(
    stores: Stores, shard: str, batches: Iterable[Batch], most: int | None = None
) -> pa.Table:
    most = PARTS if most is None else most
    found: list[pa.Table] = []
    for batch in batches:
        wanted = most - sum(table.num_rows for table in found)
        if wanted <= 0:
            break
        found += some_of_manifest(stores, shard, batch, wanted)
    known = unify([stats_columns(table) for table in found])
    return known.slice(0, most) if known.num_rows > most else known

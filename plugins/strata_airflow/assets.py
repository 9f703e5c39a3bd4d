"""The assets that the DAGs make and wait for, one for each kind of thing; and those of shards.

Counts travel in the events' `extra` (`strata_airflow.results.counts`); the Assets page shows them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow.sdk import Asset

BATCHES: Final = Asset(name="strata_batches", uri="strata://batches", group="strata")
RUNS: Final = Asset(name="strata_runs", uri="strata://runs", group="strata")
STATISTICS: Final = Asset(name="strata_statistics", uri="strata://statistics", group="strata")
SUMS: Final = Asset(name="strata_sums", uri="strata://sums", group="strata")
VERDICTS: Final = Asset(name="strata_verdicts", uri="strata://verdicts", group="strata")


def shard_asset(shard: str, strata_conn_id: str = "strata_default") -> Asset:
    """Return the asset of one shard of a connection's stores, for outlets and schedules.

    >>> shard_asset("orders").name
    'strata_default/orders'
    """
    name = f"{strata_conn_id}/{shard}"
    return Asset(name=name, uri=f"strata://{name}", group="strata")


def tell(events: Any, assets: Iterable[Any], counts: Mapping[str, int], partitions: str) -> None:
    """Add counts to the assets' events, and partitions if the run itself has none."""
    for asset in assets:
        event = events[asset]
        event.extra = {**counts}
        if keys := partitions.split():
            event.add_partitions(keys)


def tell_nobody(ti: Any) -> None:
    """Suppress this task's asset events: it made nothing, and events start other DAGs.

    Events also count as finished work: a backfill that finds one for its day does the day again.
    """
    ti.task.outlets = []

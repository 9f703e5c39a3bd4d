"""The assets that the DAGs make and wait for: one for each kind of thing, not one a shard.

Counts travel in the events' `extra` (`strata_airflow.results.counts`); the Assets page shows them.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from airflow.sdk import Asset

BATCHES: Final = Asset(name="strata_batches", uri="strata://batches", group="strata")
RUNS: Final = Asset(name="strata_runs", uri="strata://runs", group="strata")
STATISTICS: Final = Asset(name="strata_statistics", uri="strata://statistics", group="strata")
VERDICTS: Final = Asset(name="strata_verdicts", uri="strata://verdicts", group="strata")


def tell(events: Any, assets: Iterable[Any], counts: Mapping[str, int], partitions: str) -> None:
    """Put the counts, and the partitions if the run has none itself, into the assets' events."""
    for asset in assets:
        event = events[asset]
        event.extra = {**counts}
        if keys := partitions.split():
            event.add_partitions(keys)


def tell_nobody(ti: Any) -> None:
    """Have Airflow send no event of this task: it made nothing, and events wake other DAGs.

    They also count as work done: a backfill that finds one for its day does the day anew.
    """
    ti.task.outlets = []

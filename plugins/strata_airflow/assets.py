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


def tell(
    events: Any,
    assets: Iterable[Any],
    counts: Mapping[str, int],
    partitions: str,
    *,
    dry: bool = False,
) -> None:
    """Put the counts, and the partitions if the run has none itself, into the assets' events.

    `dry`: nothing was made; the event, which Airflow sends all the same, says so.
    """
    for asset in assets:
        event = events[asset]
        event.extra = {"dry_run": True, **counts} if dry else {**counts}
        if keys := partitions.split():
            event.add_partitions(keys)

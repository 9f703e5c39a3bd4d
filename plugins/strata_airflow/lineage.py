"""What OpenLineage calls the assets of Strata.

Airflow imports this module while `strata_airflow.assets` makes the first asset, so it may not
import that one.
"""

from typing import Any
from urllib.parse import urlsplit


def as_dataset(asset: Any, lineage_context: object) -> Any:
    """Return an asset as OpenLineage names datasets: by namespace and name.

    A shard has the namespace `strata://CONNECTION` and its own name. What the DAGs make for all
    shards is in the namespace `strata`. `apache-airflow-providers-openlineage`, where installed,
    calls it, and passes a context that is not needed.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset

    del lineage_context
    place = urlsplit(asset.uri)
    if shard := place.path.strip("/"):
        return Dataset(namespace=f"strata://{place.netloc}", name=shard)
    return Dataset(namespace="strata", name=place.netloc)

"""Statistics of JSON columns: recursive, per path and per kind."""

import pyarrow as pa

from strata.stats.flat import Values, struct_row
from strata.stats.wire import COUNTED, column_name


def collect_json(values: Values, column_id: int) -> dict[str, pa.Array]:
    """Return the statistics columns of one JSON column (paths follow)."""
    return {column_name(column_id): struct_row(COUNTED, {"nulls": int(values.null_count)})}

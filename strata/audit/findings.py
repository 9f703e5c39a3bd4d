"""The findings of the last validations of a shard: what was not clean, newest first."""

from collections.abc import Iterator
from functools import partial
from io import BytesIO
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strata.audit.verdict import Verdict
from strata.errors import Corrupt
from strata.state.state import State
from strata.store.open import Stores
from strata.store.retry import retry


def findings(stores: Stores, state: State, limit: int) -> list[Verdict]:
    """Return up to `limit` verdicts that are not clean, of the newest validations first.

    Those come from the tables that the state names; a table that was swept is left out.
    Raises: Corrupt for a table that cannot be read; Unavailable.
    Cost: reads the tables, newest first, until there are enough.
    """
    return list(islice(_found(stores, state), limit))


def _found(stores: Stores, state: State) -> Iterator[Verdict]:
    for key in reversed(state.verdicts):
        data = retry(partial(stores.blob.get, key))
        if data is None:
            continue
        try:
            table = pq.read_table(BytesIO(data))
            rows = table.filter(pc.not_equal(table["outcome"], "clean")).to_pylist()
            yield from (Verdict(**row) for row in rows)
        except (pa.ArrowException, OSError, TypeError, KeyError) as error:
            raise Corrupt(
                "a table of verdicts cannot be read",
                shard=state.name,
                key=key,
                reason=str(error),
                cure="restore it from a backup, or let the sweep forget it",
            ) from error

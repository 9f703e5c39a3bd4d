"""Refuses retractions by value after a column was widened to a type that reads texts differently.

12.8 as float32 is 12.800000190734863 and keeps that value when the column is widened to float64;
the same text read now is 12.8. A retraction would not match the stored row, and both would stay.
"""

from itertools import pairwise

from strata.errors import InvalidRequest
from strata.format.values.migrate import reads_otherwise
from strata.state.schema import met_by_value
from strata.state.state import State


def check_widened(state: State) -> None:
    """Refuse to match stored rows by values that are now read differently.

    `state` has the declaration that ingest uses: rows may bring another envelope.
    Raises: InvalidRequest naming the column.
    """
    for number in sorted(met_by_value(state.spec, state.relation)):
        versions = [r for r in state.relations if number in r.by_id]
        for old, new in pairwise(versions):
            before, after = old.by_id[number], new.by_id[number]
            reason = reads_otherwise(before.type, after.type)
            if reason is not None:
                raise InvalidRequest(
                    "rows would be retracted by a value that is read otherwise than it was stored",
                    shard=state.name,
                    column=state.relation.by_id[number].name,
                    envelope=state.spec.source.envelope,
                    widened=f"{before.type} to {after.type}",
                    version=new.version,
                    reason=reason,
                    cure="create a shard of the wider type and ingest into it; or append only",
                )

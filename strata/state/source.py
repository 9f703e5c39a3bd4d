"""Trip the source of a shard when a value was about to be stored wrong.

While a source is tripped nothing is ingested, neither from files nor from DataFrames nor from the
quarantine. A person who has found the reason releases it.
"""

from strata.errors import Corrupt, InvalidRequest
from strata.state.state import State, Trip
from strata.state.step import step


def trip(state: State, now_ms: int, found: Trip) -> tuple[State, Trip]:
    """Stop ingest into a shard; the first trip stays until it is released."""
    if state.tripped is not None:
        return state, state.tripped
    return step(state, now_ms, tripped=found), found


def release(state: State, now_ms: int) -> tuple[State, Trip]:
    """Let ingest continue and return the trip that stopped it.

    Raises: InvalidRequest when the source is not tripped.
    """
    if state.tripped is None:
        raise InvalidRequest("the source of this shard is not tripped", shard=state.name)
    return step(state, now_ms, tripped=None), state.tripped


def check_source(state: State) -> None:
    """Refuse to ingest from a source that is tripped.

    Raises: Corrupt, naming the value.
    """
    found = state.tripped
    if found is not None:
        raise Corrupt(
            "the source of this shard is tripped: a value would have been stored as another",
            shard=state.name,
            at_ms=found.at_ms,
            **found.place(),
            cure="find out which of the two values is right; then strata source release "
            f"{state.name} --reason ...",
        )

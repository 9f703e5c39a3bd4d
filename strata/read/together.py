"""One time at which several shards can be read, so that what is joined belongs together."""

from collections.abc import Sequence

from strata.errors import InvalidRequest
from strata.model.time import format_time
from strata.state.state import State


def common_time(states: Sequence[State]) -> int:
    """Return the newest time at which all of these shards can be read.

    It is one before the least upper: each shard is complete up to it, and a shard that is ahead is
    read as it was then. Unit: milliseconds since 1970.
    Raises: InvalidRequest if there are no shards, or no such time, naming the two shards.
    """
    if not states:
        raise InvalidRequest("no shard is named", cure="name at least one")
    behind = min(states, key=lambda state: state.upper)
    ahead = max(states, key=lambda state: state.since)
    at = behind.upper - 1
    if at >= ahead.since:
        return at
    raise InvalidRequest(
        "there is no time at which all these shards can be read",
        behind=behind.name,
        upper=f"{behind.upper} ({format_time(behind.upper)})",
        ahead=ahead.name,
        since=f"{ahead.since} ({format_time(ahead.since)})",
        cure=f"ingest more of {behind.name}, or leave one of the two out",
    )

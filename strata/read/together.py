"""One time at which several shards can be read, so that what is joined belongs together."""

from collections.abc import Sequence

from strata.errors import InvalidRequest
from strata.model.time import format_time
from strata.read.moments import CLOCK, Moment, resolve_moment
from strata.state.state import State
from strata.store.open import Stores


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


def common_moment(stores: Stores, states: Sequence[State], moment: Moment | None) -> int:
    """Return the one time that is meant on several shards; None is `common_time`.

    By the clock on the wall (`clock:2026-11-20T10:00`) it is the newest time that all of them had
    at that moment. Unit: milliseconds since 1970.
    Raises: as `common_time` and `resolve_moment`; InvalidRequest for a label that means different
    times on them.
    """
    if moment is None or not states:
        return common_time(states)
    times = {state.name: resolve_moment(stores, state, moment) or 0 for state in states}
    first, last = min(times, key=lambda name: times[name]), max(times, key=lambda name: times[name])
    if times[first] == times[last] or str(moment).strip().startswith(CLOCK):
        return times[first]
    raise InvalidRequest(
        "this label means different times on these shards",
        label=str(moment),
        **{name: format_time(times[name]) for name in (first, last)},
        cure="a time, or a moment by the clock",
    )

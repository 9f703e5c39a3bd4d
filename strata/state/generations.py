"""Generations distinguish garbage from blobs that a slow writer is about to commit.

Blobs are named by their content, so a writer may find that its blob already exists, although it has
long been dead, and rely on it. Deleting the blob then would lose data, and neither states nor ages
reveal that. Therefore the key of a part or manifest carries the generation in which its writer
began, and a state accepts new manifests only from its fence on:

    blob of a generation >= fence      somebody may still commit it: never deleted
    blob of a generation <  fence      it is in the newest state now, or will never be again

A garbage sweep begins by closing the current generation. The fence follows one sweep later, and
never passes the generation of a writer whose lease lives. So a writer without a lease has the time
between two sweeps, and a writer with a lease has as long as it likes. A writer that wakes up later
is fenced and has to begin again.
"""

from dataclasses import replace
from typing import Final

from strata.errors import Fenced, InvalidRequest
from strata.state.state import State, Writer
from strata.state.step import check_alive, step

LONGEST_MS: Final = 7 * 86_400_000  # no lease is taken for longer; clocks differ by less


def begin_sweep(state: State, now_ms: int, *, grace_ms: int) -> tuple[State, int]:
    """Close the generation and raise the fence behind it; return the fence.

    Nothing changes while the generation is younger than `grace_ms`, the least time of a writer
    without a lease. Expired leases are dropped here. A generation from the future was begun by a
    clock that was wrong: it begins now, or no sweep would do anything until then.
    """
    check_alive(state)
    if state.generation_ms > now_ms:
        return step(state, now_ms, generation_ms=max(now_ms, 1)), state.fence
    if now_ms - state.generation_ms < grace_ms:
        return state, state.fence
    live = live_writers(state, now_ms)
    fence = max(state.fence, min([state.generation, *(w.generation for w in live)]))
    following = step(
        state,
        now_ms,
        generation=state.generation + 1,
        generation_ms=max(now_ms, 1),
        fence=fence,
        writers=live,
    )
    return following, fence


def register(
    state: State, now_ms: int, *, name: str, lease_ms: int, purpose: str = ""
) -> tuple[State, Writer]:
    """Take a writer's lease, in the current generation; the same name again prolongs it.

    Expired leases are dropped here, too, so that repeatedly killed runs do not pile them up. An
    attempt with a name of its own (`strata.machine.writer_lease`) is fenced even while its
    successor works.
    """
    if lease_ms <= 0:
        raise InvalidRequest("a lease must last", lease_ms=lease_ms)
    others = tuple(w for w in state.writers if w.expires_ms > now_ms and w.name != name)
    found = next((w for w in state.writers if w.expires_ms > now_ms and w.name == name), None)
    generation, expires_ms = state.generation, now_ms + lease_ms
    if found is not None:
        generation, expires_ms = found.generation, max(expires_ms, found.expires_ms)
    new = Writer(name, generation, expires_ms, purpose)
    writers = tuple(sorted((*others, new), key=lambda w: w.name))
    return step(state, now_ms, writers=writers), new


def heartbeat(state: State, now_ms: int, *, name: str, lease_ms: int) -> tuple[State, Writer]:
    """Prolong a writer's lease.

    Raises: Fenced when it has expired, since its blobs may have been collected.
    """
    found = check_writer(state, now_ms, name)
    new = replace(found, expires_ms=now_ms + lease_ms)
    writers = tuple(new if w == found else w for w in state.writers)
    return step(state, now_ms, writers=writers), new


def finish(state: State, now_ms: int, *, name: str) -> tuple[State, bool]:
    """Give up a writer's lease; False if there is none."""
    rest = tuple(w for w in state.writers if w.name != name)
    if rest == state.writers:
        return state, False
    return step(state, now_ms, writers=rest), True


def live_writers(state: State, now_ms: int) -> tuple[Writer, ...]:
    """Return the writers whose lease has not expired, as sweeps and erasures wait for them.

    A lease that lasts far longer than any was taken by a clock that was ahead, and would keep them
    waiting until then. A writer that is still at work shortens it with its next beat.
    """
    return tuple(w for w in state.writers if now_ms < w.expires_ms <= now_ms + LONGEST_MS)


def check_writer(state: State, now_ms: int, name: str) -> Writer:
    """Return the live writer of this name.

    Raises: Fenced when there is none with this name.
    """
    found = next((w for w in state.writers if w.expires_ms > now_ms and w.name == name), None)
    if found is None:
        raise Fenced(
            "this writer's lease has expired",
            writer=name,
            shard=state.name,
            cure="begin again; what is committed stays committed",
        )
    return found

"""What a reader asks at plan time: whether this code may leave parts out now."""

from strata.rollout.basis import basis_of
from strata.rollout.kill import is_killed
from strata.state.state import Mode, State
from strata.store.open import Stores

SKIPPING = ("audit", "on")


def mode_of(state: State) -> Mode:
    """Return the mode that holds for this code: what was approved for other code is `soft`."""
    rollout = state.rollout
    if rollout.mode in SKIPPING and rollout.basis not in ("", basis_of(state)):
        return "soft"
    return rollout.mode


def obeyed(stores: Stores, chosen: str, *, kill: bool) -> str:
    """Return the mode that a reader applies who chose `chosen`; the kill switch wins over all.

    Cost: one question to the consensus where parts would be skipped.
    """
    return "off" if kill or (chosen in SKIPPING and is_killed(stores)) else chosen

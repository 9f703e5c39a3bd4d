"""What a reader asks at plan time: whether this code may leave parts out now."""

from typing import Final

from strata.rollout.basis import basis_of
from strata.rollout.kill import is_killed
from strata.state.state import Mode, State
from strata.store.open import Stores

SKIPPING: Final = ("audit", "on")  # modes in which readers leave parts out


def mode_of(state: State) -> Mode:
    """Return the mode that holds for this code: what was approved for other code is `soft`.

    So is a mode without an approval: a declaration alone lets no reader leave out parts.
    """
    mode = state.rollout.mode
    return "soft" if mode in SKIPPING and not is_approved(state) else mode


def is_approved(state: State) -> bool:
    """Return whether the mode was approved for this code."""
    return state.rollout.basis == basis_of(state)


def obeyed(stores: Stores, chosen: str) -> str:
    """Return the mode that a reader applies who chose `chosen`; the kill switch wins over all.

    Cost: one question to the consensus where parts would be skipped.
    """
    asks = chosen in SKIPPING or stores.settings.kill
    return "off" if asks and is_killed(stores) else chosen

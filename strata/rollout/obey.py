"""Decide at plan time whether this code may skip parts now."""

from typing import Final

from strata.rollout.basis import basis_of
from strata.rollout.kill import is_killed
from strata.state.state import Mode, State
from strata.store.open import Stores

SKIPPING: Final = ("audit", "on")  # modes in which readers skip parts


def mode_of(state: State) -> Mode:
    """Return the mode that holds for this code; a mode approved for other code becomes `soft`.

    So does a mode without an approval: a declaration alone lets no reader skip parts.
    """
    mode = state.rollout.mode
    return "soft" if mode in SKIPPING and not is_approved(state) else mode


def is_approved(state: State) -> bool:
    """Return whether the mode was approved for this code."""
    return state.rollout.basis == basis_of(state)


def obeyed(stores: Stores, chosen: str) -> str:
    """Return the mode that a reader of mode `chosen` applies; the kill switch overrides it.

    Cost: one request to the consensus if parts would be skipped.
    """
    asks = chosen in SKIPPING or stores.settings.kill
    return "off" if asks and is_killed(stores) else chosen

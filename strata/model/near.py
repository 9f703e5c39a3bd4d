"""The cure for a name that does not exist: the nearest names that do."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

LISTED: Final = 12  # names in a cure; more would hide what is wrong


def one_of(
    name: object, known: Iterable[str], none: str = "there is none yet", listed: int = LISTED
) -> str:
    """Return a cure that names the nearest of the `known` names first, then the first of all.

    At most `listed` names are listed. `none` is the cure where nothing is known.

    >>> one_of("fligths", ["airports", "flights", "planes"])
    "did you mean 'flights'? one of: airports, flights, planes"
    """
    names = list(dict.fromkeys(known))
    if not names:
        return f"one of: {none}"
    spelt = {n.lower(): n for n in names}
    best = [spelt[n] for n in get_close_matches(str(name).lower(), spelt, n=2, cutoff=0.6)]
    meant = f"did you mean {' or '.join(map(repr, best))}? " if best else ""
    shown = names[:listed]
    more = len(names) - len(shown)
    rest = f" and {more} more" if more else ""
    return f"{meant}one of: {', '.join(shown)}{rest}"

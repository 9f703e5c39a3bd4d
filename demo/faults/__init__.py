"""A catalogue of faults that soft evaluation and the format check have to find: law 9.

Each fault is injected the way a faulty program, or a failing disk, would leave it: in the
statistics of a manifest, in what a manifest says of its parts, in stored bytes, in the state.
The tests inject every one; `make demo-lie` draws one.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from demo.faults import recorded, stated, statistics, stored
from demo.faults.site import Injected, Site

Fault = Callable[[Site, Random], Injected | None]  # None: nothing here can be broken that way

CATALOGUE: Final[dict[str, Fault]] = {
    **statistics.FAULTS,
    **recorded.FAULTS,
    **stored.FAULTS,
    **stated.FAULTS,
}

__all__ = ["CATALOGUE", "Fault", "Injected", "Site"]

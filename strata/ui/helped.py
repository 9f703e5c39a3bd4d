"""What would skip more of a filter's reads, as a page shows it.

It is measured on a copy of the parts by who makes the pages (`strata.advise`): that takes seconds
and memory, so people ask for it, one at a time, and the answers of late are kept.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from strata.expr.filter import Filter
from strata.state.state import State
from strata.ui.one_by_one import OneByOne

KEPT: Final = 16  # measurements that are remembered
MEASURED_BYTES: Final = 64 << 20  # of parts that are copied into memory for a page

Measure = Callable[[State, Filter], Mapping[str, Any]]
"""Returns the document of `strata advise --json` about one filter."""


class Measured:
    """Measures what would help, and remembers it; safe for threads."""

    def __init__(self, measure: Measure) -> None:
        self._measure = measure
        self._worker = OneByOne[Mapping[str, Any]]("a measurement")
        self._known: OrderedDict[tuple[str, int, str], Mapping[str, Any]] = OrderedDict()

    def close(self) -> None:
        """Forget what waits, and wait for the measurement under way."""
        self._worker.close()

    def of(self, state: State, filter: Filter, patience: float | None = None) -> Mapping[str, Any]:
        """Return what would skip more of a state's parts.

        Units: `patience` in seconds; None waits.
        Raises: StillAsking when it takes longer; InvalidRequest; Corrupt for a damaged part.
        """
        place = (state.name, state.seqno, filter.sql)
        found = self._known.get(place)
        if found is None:
            found = self._worker.result(place, partial(self._measure, state, filter), patience)
            self._known[place] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found

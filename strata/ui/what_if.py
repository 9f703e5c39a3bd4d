"""What a filter would skip: its analysis, and what the statistics of a shard say to it.

A filter is analysed once. One that a validation or a reader has used is taken from what they left,
and a plain one is parsed, both without Spark; any other is analysed by the home of the console, on
a laptop by one Spark session that stays. Filters for Spark wait for each other, and no other filter
waits for them.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from strata.audit.receipts import kept_receipts
from strata.decide.explain import Explanation, explain_filter
from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.expr.exprjson import load_filter
from strata.expr.filter import Filter
from strata.history import usage
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.settings import Settings
from strata.plain.parse import plain_or_none
from strata.state.state import State
from strata.store.open import Stores
from strata.ui.one_by_one import OneByOne
from strata.ui.svg import Mark, Marks

LONGEST: Final = 4_000  # characters of a filter
KEPT: Final = 64  # analysed filters that are remembered

Analyse = Callable[[Relation, str], Filter]
_Place = tuple[str, str, str]  # shard, its relation in words, text


@dataclass(frozen=True)
class WhatIf:
    """What one filter does to one state."""

    where: str
    explanation: Explanation
    document: dict[str, Any]

    @property
    def marks(self) -> Marks:
        """Return how each part is drawn."""
        return {
            part.ref.key: Mark(
                f"cause-{part.reason.cause.rank}" if part.reason.keep else "skip",
                part.reason.text,
            )
            for part in self.explanation.parts
        }

    @property
    def causes(self) -> list[tuple[int, str]]:
        """Return the causes that keep parts, as their numbers and names."""
        found = {part.reason.cause for part in self.explanation.parts if part.reason.keep}
        return [(cause.rank, str(cause)) for cause in sorted(found, key=lambda c: c.rank)]


class Analyst:
    """Analyses filters and remembers them; safe for threads."""

    def __init__(self, stores: Stores, settings: Settings, analyse: Analyse | None = None) -> None:
        """`analyse` None: only filters that are plain or known already."""
        self._stores, self._settings, self._analyse = stores, settings, analyse
        self._lock = threading.Lock()
        self._known: OrderedDict[_Place, Filter] = OrderedDict()
        self._spark = OneByOne[Filter]("Spark")  # whose session is shared

    def close(self) -> None:
        """Forget the filters that wait for Spark, and wait for the one that it works on."""
        self._spark.close()

    @property
    def takes_any(self) -> bool:
        """Return whether any filter may be asked, or only plain and known ones."""
        return self._analyse is not None

    def known(self, state: State) -> dict[str, Filter]:
        """Return filters that validations and readers have used, by their text.

        Those whose columns have other names or types by now are left out.
        """
        found: dict[str, Filter] = {}
        with suppress(StrataError):  # what is damaged is reported by those whose task it is
            for filter in self._kept(state):
                if usage.reads_columns_of(state.relation, filter):
                    found.setdefault(filter.sql, filter)
        return found

    def _kept(self, state: State) -> Iterator[Filter]:
        for _, receipt in kept_receipts(self._stores, state):
            yield load_filter(orjson.dumps(receipt["filter"]).decode())
        for used in usage.recent(self._stores, state.name, self._settings.usage):
            yield used.filter

    def filter(self, state: State, where: str, patience: float | None = None) -> Filter:
        """Return a filter in the engine's form.

        Units: `patience` in seconds, how long to wait for Spark; None waits for it.
        Raises: StillAsking when Spark takes longer; InvalidRequest for a text that is too long,
        refused by Spark, more than an expression, or neither plain nor known where no Spark is.
        """
        if len(where) > LONGEST:
            raise InvalidRequest("a filter this long is not taken", most=LONGEST)
        # Another shard of the name may have had as many versions before
        place = (state.name, repr(state.relation), where)
        with self._lock:
            if place in self._known:
                self._known.move_to_end(place)
                return self._known[place]
        found = self.known(state).get(where) or plain_or_none(state.relation, where)
        if found is None:
            found = self._of_spark(place, state.relation, patience)
        with self._lock:
            self._known[place] = found
            while len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found

    def _of_spark(self, place: _Place, relation: Relation, patience: float | None) -> Filter:
        """Return what Spark makes of a filter. Raises: as `filter`."""
        analyse = self._analyse
        if analyse is None:
            raise InvalidRequest(
                "this page takes columns that are compared with constants, and filters that "
                "validations or readers have used",
                cure="ask `strata ui` or `strata explain`",
            )
        return self._spark.result(place, lambda: analyse(relation, place[-1]), patience)

    def answer(self, state: State, where: str, patience: float | None = None) -> WhatIf:
        """Return what a filter skips in a state at the clock of now. Units, Raises: as `filter`.

        Raises also: InvalidRequest for a former state whose manifests were swept; Corrupt.
        """
        now = 1000 * self._stores.clock()  # not that of a read, or of a page, of days ago
        filter = replace(self.filter(state, where, patience), now_low=now, now_high=now)
        try:
            explained = explain_filter(self._stores, state, filter, every_part=False)
        except Corrupt as error:
            if state.seqno == Machine(self._stores).load(state.name).seqno:
                raise
            raise InvalidRequest(
                "a manifest of this former state was swept",
                seqno=state.seqno,
                cure="ask the newest state",
            ) from error
        return WhatIf(where, explained, explained.to_json())

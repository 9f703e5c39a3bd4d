"""Follow a shard under a name: deliveries of changes, and a position that the shard keeps.

    for delivery in Subscription(stores, "flights", "billing", Wish()).pending():
        load(delivery.rows)  # record batches
        delivery.done()

A program that dies between a delivery and its `done` gets the same updates again, perhaps in one
delivery with later ones. So each update comes at least once; a sink that stores the position with
the rows has each exactly once (`folder_sink`, `table_sink`), and says where it is when it
subscribes.
"""

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state, kept_while
from strata.model.settings import ReadSettings
from strata.model.time import MIN_TIME
from strata.read.changes import Planned, changes, planned_stretch
from strata.read.scan import DEFAULTS, scan_schema
from strata.state.consumers import KEEP_MS, Consumer, attach, consumers_of, move_on
from strata.state.state import State
from strata.store.open import Stores

_a_second: Final = partial(time.sleep, 1.0)


@dataclass(frozen=True, slots=True)
class Wish:
    """What a consumer wants of the changes."""

    where: Callable[[State], Filter] | None = None  # makes the plain filter for a relation
    columns: Sequence[str] | None = None  # None: all
    step_ms: int | None = None  # most time in one delivery; None: all that is complete


@dataclass(frozen=True, slots=True)
class Delivery:
    """The updates lower <= t < upper."""

    lower: int
    upper: int
    schema: pa.Schema
    rows: Iterator[pa.RecordBatch]  # the wanted columns, t as written, d; once
    _subscription: "Subscription"

    def done(self) -> None:
        """Count these updates, and all before them, as done.

        Raises: Fenced when another session of the consumer has taken over: then undo what was done
        with the rows, if that is possible.
        """
        self._subscription.move_to(self.upper)


class Sink(Protocol):
    """Stores deliveries, each once."""

    def position(self) -> int | None:
        """Return the time before which it has everything; None: it has nothing yet."""
        ...

    def take(self, delivery: Delivery) -> int:
        """Store a delivery together with its `upper`, or nothing; return how many rows it had."""
        ...


class Subscription:
    """One session of a consumer."""

    def __init__(  # noqa: PLR0913 - what to read, and how
        self,
        stores: Stores,
        shard: str,
        consumer: str,
        wish: Wish,
        *,
        start: int | None = None,
        keep_ms: int = KEEP_MS,
        planned: Planned = lambda *_: None,
        settings: ReadSettings = DEFAULTS,
    ) -> None:
        """Take the consumer over from any other session.

        `start`: where a new consumer begins, None for the beginning; a known one goes forward to
        it. After a snapshot at `as_of` the changes begin at as_of + 1.
        Raises: InvalidRequest when compaction has passed its position.
        """
        if wish.step_ms is not None and wish.step_ms <= 0:
            raise InvalidRequest("a delivery needs some time", step_ms=wish.step_ms)
        self._stores, self._shard, self._name, self._wish = stores, shard, consumer, wish
        self._keep_ms, self._planned, self._settings = keep_ms, planned, settings
        self._machine = Machine(stores)
        self._session = secrets.token_hex(8)
        take = partial(attach, name=consumer, session=self._session, start=start, keep_ms=keep_ms)
        self._found: Consumer = self._machine.apply(shard, take)
        self._next = self._found.position

    @property
    def position(self) -> int:
        """Return the time before which everything is done; MIN_TIME: nothing yet."""
        return self._found.position

    def pending(self) -> Iterator[Delivery]:
        """Yield deliveries until the shard has nothing newer.

        Raises: InvalidRequest when a filter or a column no longer fits the relation.
        """
        while (found := self._delivery()) is not None:
            delivery, rows = found
            with closing(rows):  # who stops early gives back what keeps the parts stored
                yield delivery

    def endless(self, wait: Callable[[], object] = _a_second) -> Iterator[Delivery]:
        """Yield deliveries for ever; `wait` is called while nothing is new."""
        while True:
            yield from self.pending()
            wait()

    def into(self, sink: Sink) -> tuple[int, int]:
        """Hand all pending deliveries to a sink; return how many there were, and their rows."""
        deliveries = rows = 0
        for delivery in self.pending():
            rows += sink.take(delivery)
            delivery.done()
            deliveries += 1
        return deliveries, rows

    def move_to(self, position: int) -> None:
        """Count everything before `position` as done. Raises: as `consumers.move_on`."""
        move = partial(
            move_on,
            name=self._name,
            session=self._session,
            position=position,
            keep_ms=self._keep_ms,
        )
        self._found = self._machine.apply(self._shard, move)

    def _renew(self) -> None:
        """Renew the lease once half of it is over."""
        if self._found.expires_ms - self._stores.clock() < self._keep_ms / 2:
            self.move_to(MIN_TIME)

    def _delivery(self) -> tuple[Delivery, Generator[pa.RecordBatch]] | None:
        self._renew()
        lower = self._next
        state = self._machine.load(self._shard)
        if state.upper <= lower:
            return None
        state = held_state(self._stores, self._shard, self._settings)
        upper, wish = self._end(state, lower), self._wish
        filter = None if wish.where is None else wish.where(state)
        stretch, plan = planned_stretch(self._stores, state, lower, upper, filter)
        self._planned(state, plan, filter)
        found = changes(
            self._stores,
            state,
            stretch,
            filter=filter,
            columns=wish.columns,
            settings=self._settings,
        )
        rows = kept_while(self._stores, state, self._settings, "consumer", found)
        self._next = upper
        schema = scan_schema(state.relation, wish.columns)
        return Delivery(lower, upper, schema, rows, self), rows

    def _end(self, state: State, lower: int) -> int:
        """Return where a delivery from `lower` ends: at the upper, or a step behind its start."""
        if self._wish.step_ms is None:
            return state.upper
        if lower > MIN_TIME:
            return min(state.upper, lower + self._wish.step_ms)
        # What since has passed is one moment, and before the first batch there is nothing.
        first = next(b.upper for b in state.batches if b.upper > state.since)
        return min(state.upper, first)


def following(  # noqa: PLR0913 - what to read, and how
    stores: Stores,
    shard: str,
    consumer: str,
    sink: Sink,
    wish: Wish,
    *,
    start: int | None = None,
    keep_ms: int = KEEP_MS,
    planned: Planned = lambda *_: None,
    settings: ReadSettings = DEFAULTS,
) -> Subscription:
    """Return a session of a consumer that goes on where its sink is.

    `start`: where it begins if the sink has nothing yet.
    Raises: InvalidRequest when the sink lacks what the consumer has had, for example because it is
    another sink; and as `Subscription`.
    """
    at = sink.position()
    begin = start if at is None else at
    state = Machine(stores).load(shard)
    known = next((c for c in consumers_of(state) if c.name == consumer), None)
    if known is not None and known.position > (MIN_TIME if begin is None else begin):
        raise InvalidRequest(
            "this sink lacks changes that the consumer has had",
            consumer=consumer,
            consumer_position=known.position,
            sink_position=at,
            cure="use the sink of before, or a new consumer",
        )
    return Subscription(
        stores,
        shard,
        consumer,
        wish,
        start=begin,
        keep_ms=keep_ms,
        planned=planned,
        settings=settings,
    )

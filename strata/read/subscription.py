"""Follow a shard under a name: deliveries of changes, and a position that the shard keeps.

    for delivery in Subscription(stores, "flights", "billing", Wish()).pending():
        load(delivery.rows)  # record batches
        delivery.done()

A program that dies between a delivery and its `done` gets the same updates again, perhaps in one
delivery with later ones. So each update comes at least once. A sink that stores the bookmark of a
delivery with its rows has each exactly once (`folder_sink`, `bucket_sink`, `table_sink`): it says
where it is when it subscribes.
"""

import secrets
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol

import pyarrow as pa

from strata.errors import Fenced, InvalidRequest
from strata.expr.filter import Filter
from strata.machine.ledger import commit_ms_before
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state, kept_while
from strata.model.settings import ReadSettings
from strata.model.time import MIN_TIME
from strata.read.bookmark import (
    Bookmark,
    check_same_wish,
    joined_ids,
    wanted_ids,
    what_is_wanted,
)
from strata.read.changes import Planned, changes, planned_stretch
from strata.read.scan import DEFAULTS, scan_schema
from strata.state.consumers import (
    KEEP_MS,
    Consumer,
    attach,
    consumers_of,
    detach,
    move_on,
    moved_by,
)
from strata.state.state import State
from strata.store.open import Stores

_a_second: Final = partial(time.sleep, 1.0)
_AGAIN: Final = "subscribe anew; what keeps the values by name begins anew as well"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a consumer wants of the changes."""

    where: Callable[[State], Filter] | None = None  # makes the plain filter for a relation
    columns: Sequence[str] | None = None  # None: all
    step_ms: int | None = None  # most time in one delivery; None: all that is complete


@dataclass(slots=True)
class Delivery:
    """The updates lower <= t < upper."""

    lower: int
    upper: int
    schema: pa.Schema
    rows: Iterator[pa.RecordBatch]  # the wanted columns, t as written, d; once
    bookmark: str  # a sink stores it with the rows, after `check_follows`
    first: bool  # of the session
    _subscription: "Subscription"

    def check_follows(self, there: str | None) -> None:
        """Refuse a sink that is elsewhere; `there` is what it has stored, None if it is new.

        From then on the bookmark names the columns that the sink has had, too.
        Raises: Fenced when another program has filled it meanwhile, or it has lost what it had;
        InvalidRequest when it has the changes of another consumer, or another column by a name.
        """
        at = None
        if there is not None:
            known = Bookmark.of(there)
            self.bookmark = check_same_wish(known, Bookmark.of(self.bookmark)).to_text()
            at = known.position
        if at == self.lower or (at is None and self.first):
            return
        raise Fenced(
            "another program has filled this sink meanwhile"
            if at is not None and at > self.lower
            else "this sink has lost changes that it had",
            position=at,
            lower=self.lower,
        )

    def done(self) -> None:
        """Count these updates, and all before them, as done.

        Raises: Fenced when another session of the consumer has taken over: then undo what was done
        with the rows, if that is possible.
        """
        self._subscription.move_to(self.upper)


class _Rows:
    """The rows of a delivery, which end when its session goes on.

    A later read of the rest is an error: an empty rest would pass for a delivery without it.
    """

    def __init__(self, batches: Generator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._whole = self._closed = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        if self._closed and not self._whole:
            raise InvalidRequest(
                "the rows of a delivery can no longer be read",
                cure="read them before the session goes on to the next delivery",
            )
        try:
            return next(self._batches)
        except StopIteration:
            self._whole = True
            raise

    def close(self) -> None:
        """Give back what keeps the parts stored."""
        self._closed = True
        self._batches.close()


class Sink(Protocol):
    """Stores deliveries, each once."""

    def bookmark(self) -> str | None:
        """Return the bookmark of the last delivery that it has; None: it has none yet."""
        ...

    def take(self, delivery: Delivery) -> int:
        """Store a delivery together with its bookmark, or nothing; return how many rows it had.

        It has to call `delivery.check_follows` first, where no other program can come between.
        """
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
        self._first = True
        self._ids: dict[str, int] = {}  # of the columns of this session, by name

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

    def leave(self) -> None:
        """Remove the consumer, unless another session has taken it over."""

        def leaving(state: State, now_ms: int) -> tuple[State, bool]:
            moved_by(state, self._name, self._session)
            return detach(state, now_ms, name=self._name)

        with suppress(Fenced):
            self._machine.apply(self._shard, leaving)

    def _renew(self) -> None:
        """Renew the lease once half of it is over."""
        if self._found.expires_ms - self._stores.clock() < self._keep_ms / 2:
            self.move_to(MIN_TIME)

    def _delivery(self) -> tuple[Delivery, _Rows] | None:
        self._renew()
        lower = self._next
        state = self._machine.load(self._shard)
        if state.upper <= lower:
            return None
        state = held_state(self._stores, self._shard, self._settings)
        moved_by(state, self._name, self._session)  # a shard that was created again has others
        upper, wish = self._end(state, lower), self._wish
        filter = None if wish.where is None else wish.where(state)
        self._ids = joined_ids(self._ids, wanted_ids(state, wish.columns, filter), _AGAIN)
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
        rows = _Rows(kept_while(self._stores, state, self._settings, "deliver", found))
        schema = scan_schema(state.relation, wish.columns)
        mark = Bookmark(
            upper,
            self._shard,
            self._name,
            commit_ms_before(self._stores.blob, state, upper),
            *what_is_wanted(state, wish.columns, filter),
        )
        found_now = Delivery(lower, upper, schema, rows, mark.to_text(), self._first, self)
        self._next, self._first = upper, False
        return found_now, rows

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
    another sink, and when what it has comes from elsewhere; and as `Subscription`.
    """
    state, there = Machine(stores).load(shard), sink.bookmark()
    at = None if there is None else _checked(stores, state, consumer, wish, Bookmark.of(there))
    begin = start if at is None else at
    known = next((c for c in consumers_of(state) if c.name == consumer), None)
    if known is not None and known.position > (MIN_TIME if begin is None else begin):
        raise InvalidRequest(
            "this sink lacks changes that the consumer has had",
            consumer=consumer,
            consumer_position=known.position,
            sink_position=at,
            cure="use the sink of before, or a new consumer and a new sink",
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


def _checked(stores: Stores, state: State, consumer: str, wish: Wish, there: Bookmark) -> int:
    """Return where a sink is. Raises: InvalidRequest if what it has is not from this consumer."""
    filter = None if wish.where is None else wish.where(state)
    wanted = what_is_wanted(state, wish.columns, filter)
    check_same_wish(there, Bookmark(there.position, state.name, consumer, 0, *wanted))
    now = commit_ms_before(stores.blob, state, there.position)
    if there.position > state.upper or (there.commit_ms and now != there.commit_ms):
        raise InvalidRequest(
            "this sink has changes that the shard does not have: it was restored or created again",
            shard=state.name,
            position=there.position,
            upper=state.upper,
            cure="begin anew with a new consumer and a new sink",
        )
    return there.position

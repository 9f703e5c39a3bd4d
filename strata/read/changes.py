"""Read the changes of a shard: the updates of a stretch of time, as they were written.

Consecutive stretches hold each update exactly once, even if compaction runs between them, as long
as each begins after `since`: compaction moves earlier times up to `since`. The first stretch, from
the beginning on, may hold moved times. Equal updates may have been added up; their sums are right.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.descent import load_manifest
from strata.errors import InvalidRequest
from strata.format.columns import D, T, child
from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.format.values.view import to_view
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state, kept_while
from strata.model.settings import ReadSettings
from strata.model.time import MIN_TIME, format_time
from strata.parts.fetch import source_of
from strata.parts.prefetch import Wanted, parts_ahead
from strata.read.scan import DEFAULTS, chosen_columns, scan_schema
from strata.state.state import State
from strata.store.open import Stores


@dataclass(frozen=True, slots=True)
class Stretch:
    """The parts with the updates of [lower, upper); they may also hold other updates."""

    lower: int
    upper: int
    parts: tuple[PartRef, ...]

    def within(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows whose time, in column t, lies in the stretch."""
        times = batch.column(T)
        if not batch.num_rows:
            return batch
        ends = pc.min_max(times).as_py()
        if self.lower <= ends["min"] and ends["max"] < self.upper:
            return batch
        inside = pc.and_(pc.greater_equal(times, self.lower), pc.less(times, self.upper))
        return batch.filter(inside)


def plan_changes(
    stores: Stores, state: State, lower: int = MIN_TIME, upper: int | None = None
) -> Stretch:
    """Return the parts with the updates lower <= t < upper; None is the shard's upper.

    Raises: InvalidRequest when these times are not complete yet, or when compaction may have
    moved them.
    """
    upper = state.upper if upper is None else upper
    _check(state, lower, upper)
    parts: list[PartRef] = []
    for batch in state.batches:
        if batch.manifest is not None and batch.upper > lower and batch.lower < upper:
            listed = load_manifest(stores, state, batch, SCHEMA.names)
            inside = pc.and_(
                pc.greater_equal(listed["t_high"], lower), pc.less(listed["t_low"], upper)
            )
            parts += part_refs(listed.filter(inside))
    return Stretch(lower, upper, tuple(parts))


def _check(state: State, lower: int, upper: int) -> None:
    told_apart = upper if lower == MIN_TIME else lower
    shown = {"shard": state.name, "lower": lower, "upper": upper}
    if not lower <= upper <= state.upper:
        raise InvalidRequest(
            "changes end at the shard's upper, and begin before they end",
            **shown,
            cure=f"choose lower <= upper <= {state.upper} ({format_time(state.upper)})",
        )
    if lower < upper and told_apart <= state.since:
        since = f"{state.since} ({format_time(state.since)})"
        raise InvalidRequest(
            "compaction may have moved these times: changes would come twice, or not at all",
            **shown,
            since=state.since,
            cure=f"begin behind since {since}, or anew with a snapshot; keep more history",
        )


def changes(
    stores: Stores,
    state: State,
    stretch: Stretch,
    *,
    columns: Sequence[str] | None = None,
    settings: ReadSettings = DEFAULTS,
) -> Iterator[pa.RecordBatch]:
    """Yield the updates of a stretch, part by part.

    Shape: the chosen columns by name (all if None) as readers see them, then t as written and d.
    Raises: InvalidRequest for an unknown column; Corrupt naming shard and part.
    """
    chosen = chosen_columns(state.relation, columns)
    schema = scan_schema(state.relation, columns)
    source = source_of(stores.blob, state)
    wanted = Wanted(None if columns is None else frozenset(c.id for c in chosen))
    for _, batches in parts_ahead(source, stretch.parts, wanted, settings):
        for batch in map(stretch.within, batches):
            seen = [to_view(batch.column(child(c.id)), c.type) for c in chosen]
            if batch.num_rows:
                arrays = [*seen, batch.column(T), batch.column(D)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def listen(
    stores: Stores,
    name: str,
    lower: int = MIN_TIME,
    *,
    columns: Sequence[str] | None = None,
    wait: Callable[[], object],
    settings: ReadSettings = DEFAULTS,
) -> Iterator[tuple[Stretch, Iterator[pa.RecordBatch]]]:
    """Yield consecutive stretches with their updates, for ever, from `lower` on.

    A stretch ends at the shard's upper of that moment. A listener that keeps this upper can resume
    there later without losing or doubling an update. `wait` is called while nothing is new; an
    exception from it ends the listening.
    Raises: as `plan_changes`, when compaction has overtaken the listener.
    """
    while True:
        state = Machine(stores).load(name)
        if state.upper > lower:
            state = held_state(stores, name, settings)
            stretch = plan_changes(stores, state, lower)
            rows = changes(stores, state, stretch, columns=columns, settings=settings)
            yield stretch, kept_while(stores, state, settings, "listen", rows)
            lower = stretch.upper
        else:
            wait()

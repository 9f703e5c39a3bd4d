"""Read the changes of a shard: the updates of a stretch of time, as they were written.

Consecutive stretches hold each update exactly once, even if compaction runs between them, as long
as each begins after `since`: compaction moves earlier times up to `since`. The first stretch, from
the beginning on, may hold moved times. Equal updates may have been added up; their sums are right.

With a filter a stretch holds the updates whose row satisfies it. It chooses parts as it does for
a snapshot: by the shard's mode, by the same way down through the manifests.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.format.columns import D, T, child
from strata.format.manifest import PartRef, part_refs
from strata.format.values.view import to_view
from strata.machine.ledger import commit_ms_before
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state, kept_while
from strata.model.settings import ReadSettings
from strata.model.time import MIN_TIME, format_time, time_given
from strata.parts.fetch import source_of
from strata.parts.prefetch import Wanted, parts_ahead
from strata.plain.clock import settled
from strata.plain.rows import accepted_rows, filter_columns
from strata.read.bookmark import joined_ids, wanted_ids
from strata.read.scan import DEFAULTS, chosen_columns, scan_schema
from strata.state.state import Spine, State
from strata.store.open import Stores

Planned = Callable[[State, ReadPlan, Filter | None], object]  # hears of each plan, to log it


@dataclass(frozen=True, slots=True)
class Stretch:
    """The parts with the updates of [lower, upper); they may also hold other updates."""

    lower: int
    upper: int
    parts: tuple[PartRef, ...]
    groups: Mapping[str, tuple[int, ...]] = field(default_factory=dict)  # of parts: those to read

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


def plan_changes(  # noqa: PLR0913 - options, by name
    stores: Stores,
    state: State,
    lower: int = MIN_TIME,
    upper: int | None = None,
    *,
    filter: Filter | None = None,
    pushdown: str | None = None,
    mode: str | None = None,
) -> Stretch:
    """Return the parts with the updates lower <= t < upper; None is the shard's upper.

    `filter`: only updates whose row satisfies it are wanted; its parts are chosen as those of a
    snapshot. `pushdown` and `mode` as of `strata.decide.plan.plan_read`.
    Raises: InvalidRequest when these times are not complete yet, or when compaction may have
    moved them.
    """
    upper = state.upper if upper is None else upper
    return planned_stretch(stores, state, lower, upper, filter, pushdown, mode)[0]


def planned_stretch(  # noqa: PLR0913, PLR0917 - options of a read
    stores: Stores,
    state: State,
    lower: int,
    upper: int,
    filter: Filter | None,
    pushdown: str | None = None,
    mode: str | None = None,
) -> tuple[Stretch, ReadPlan]:
    """Return the same with its plan: a read of the batches that hold updates of the stretch."""
    _check(state, lower, upper)
    if lower == upper:
        return Stretch(lower, upper, ()), ReadPlan(state.name, upper, "off")
    slots = (
        replace(slot, batches=tuple(b for b in slot.batches if b.upper > lower and b.lower < upper))
        for slot in state.spine.slots
    )
    near = replace(state, spine=Spine(tuple(slots), state.spine.next_id))
    plan = plan_read(stores, near, as_of=upper - 1, filter=filter, pushdown=pushdown, mode=mode)
    parts: list[PartRef] = []
    for listed in plan.parts.tables():
        inside = pc.and_(pc.greater_equal(listed["t_high"], lower), pc.less(listed["t_low"], upper))
        parts += part_refs(listed.filter(inside))
    return Stretch(lower, upper, tuple(parts), plan.groups), plan


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


def check_same_life(stores: Stores, state: State, read: int, commit_ms: int) -> None:
    """Refuse to go on behind changes of another life of the shard, all before the time `read`.

    `commit_ms`: when the last of them were committed; 0: unknown, or none was read.
    Raises: InvalidRequest.
    """
    if not commit_ms:
        return
    if commit_ms_before(stores.blob, state, read) != commit_ms:
        raise InvalidRequest(
            "this query has read changes that the shard does not have: it was restored or created "
            "again",
            shard=state.name,
            read=read,
            upper=state.upper,
            cure="begin anew, with a new checkpoint and a new target",
        )


def changes(
    stores: Stores,
    state: State,
    stretch: Stretch,
    *,
    filter: Filter | None = None,
    columns: Sequence[str] | None = None,
    settings: ReadSettings = DEFAULTS,
) -> Iterator[pa.RecordBatch]:
    """Yield the updates of a stretch, part by part; with a plain filter those that it accepts.

    `filter`: the one that the stretch was planned for, or None to get all rows of its parts.
    Shape: the chosen columns by name (all if None) as readers see them, then t as written and d.
    Raises: InvalidRequest for an unknown column; Corrupt naming shard and part.
    """
    schema = scan_schema(state.relation, columns)
    if filter is None:
        yield from _updates(stores, state, stretch, columns, settings)
        return
    wanted = columns
    if columns is not None:
        read = (column.name for column in filter_columns(filter.expr))
        wanted = list(dict.fromkeys([*columns, *read]))
    rows = _updates(stores, state, stretch, wanted, settings)
    yield from accepted_rows(rows, settled(filter), schema.names)


def _updates(
    stores: Stores,
    state: State,
    stretch: Stretch,
    columns: Sequence[str] | None,
    settings: ReadSettings,
) -> Iterator[pa.RecordBatch]:
    chosen = chosen_columns(state.relation, columns)
    schema = scan_schema(state.relation, columns)
    source = source_of(stores.blob, state)
    ids = None if columns is None else frozenset(c.id for c in chosen)
    wanted = Wanted(ids, stretch.groups)
    for _, batches in parts_ahead(source, stretch.parts, wanted, settings):
        for batch in map(stretch.within, batches):
            seen = [to_view(batch.column(child(c.id)), c.type) for c in chosen]
            if batch.num_rows:
                arrays = [*seen, batch.column(T), batch.column(D)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def listen(  # noqa: PLR0913 - what to read, and how it is shown
    stores: Stores,
    name: str,
    lower: int = MIN_TIME,
    *,
    where: Callable[[State], Filter] | None = None,
    columns: Sequence[str] | None = None,
    wait: Callable[[], object],
    planned: Planned = lambda *_: None,
    settings: ReadSettings = DEFAULTS,
) -> Iterator[tuple[Stretch, Iterator[pa.RecordBatch]]]:
    """Yield consecutive stretches with their updates, for ever, from `lower` on.

    A stretch ends at the shard's upper of that moment. A listener that keeps this upper can resume
    there later without losing or doubling an update. `wait` is called while nothing is new; an
    exception from it ends the listening. `where` makes the plain filter for the relation of a
    state; each stretch has the relation of its moment. `planned` hears of each plan.
    Raises: as `plan_changes`, when compaction has overtaken the listener; InvalidRequest when the
    filter or a column no longer fits the relation, when another column gets the name of one, and
    when the shard was restored or created anew.
    """
    lower = time_given(lower)
    committed = 0  # when what was read last was
    ids: dict[str, int] = {}
    while True:
        state = Machine(stores).load(name)
        check_same_life(stores, state, lower, committed)
        if state.upper > lower:
            state = held_state(stores, name, settings)
            check_same_life(stores, state, lower, committed)
            filter = None if where is None else where(state)
            cure = f"listen anew from {lower} on"
            ids = joined_ids(ids, wanted_ids(state, columns, filter), cure)
            stretch, plan = planned_stretch(stores, state, lower, state.upper, filter)
            planned(state, plan, filter)
            rows = changes(
                stores, state, stretch, filter=filter, columns=columns, settings=settings
            )
            yield stretch, kept_while(stores, state, settings, "listen", rows)
            lower, committed = stretch.upper, commit_ms_before(stores.blob, state, stretch.upper)
        else:
            wait()

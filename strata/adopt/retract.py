"""Retractions of all that a shard holds, for an adoption that begins anew."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.plan import plan_read
from strata.errors import Conflict, InvalidRequest
from strata.format.columns import D, T
from strata.format.layout import Description
from strata.ingest.tables import NUMBERS, Opened
from strata.ingest.task import RUNS, TaskResult
from strata.machine.reader_hold import reading
from strata.model.settings import Settings
from strata.model.time import MIN_TIME
from strata.parts.fetch import source_of
from strata.parts.write import write_parts
from strata.read.merged import merged_plan
from strata.state.state import State
from strata.store.keys import part_prefix
from strata.store.open import Stores


def retract_all(
    stores: Stores, settings: Settings, opened: Opened, partition: int
) -> Iterator[TaskResult]:
    """Write the opposite of each row that the shard holds as one run; yield it if there is any.

    `partition`: among those of the batch, so that its run has a number of its own.
    Raises: Conflict when the shard is not as it was when the batch was opened.
    Cost: reads the whole shard; no statistics are trusted.
    """
    task, name = opened.task, opened.state.name
    with reading(stores, name, settings.read, "adopt") as state:
        if (state.upper, state.relation) != (opened.state.upper, task.relation):
            raise Conflict("the shard went on meanwhile", shard=name, cure="run again")
        if state.upper == MIN_TIME:
            return
        parts = write_parts(
            stores.blob,
            part_prefix(name, task.generation),
            _negated(stores, state, task.lower),
            task.relation,
            layout=task.layout,
            description=Description(task.lower, task.upper, MIN_TIME),
            part_bytes=task.spec.part_bytes,
            row_group_bytes=task.spec.group_bytes,
            stats_spec=task.spec.stats,
            run=partition * NUMBERS * RUNS,
        )
    if parts:
        yield TaskResult(task.batch, partition * NUMBERS, parts=tuple(parts))


def _negated(stores: Stores, state: State, at: int) -> Iterator[pa.Table]:
    plan = plan_read(stores, state, pushdown="off")
    source = source_of(stores.blob, state)
    for rows in merged_plan(source, state, plan):
        if not rows.num_rows:
            continue
        try:
            diffs = pc.negate_checked(rows.column(D))
        except pa.ArrowInvalid as error:
            raise InvalidRequest(
                "a count cannot be negated: its opposite exceeds 64 bits", shard=state.name
            ) from error
        times = pa.repeat(pa.scalar(at, pa.int64()), rows.num_rows)
        yield _with(_with(rows, T, times), D, diffs)


def _with(rows: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), values)

"""All verdicts ever, as a shard: read, pruned and compacted like any other.

    strata read strata_verdicts --where "shard = 'flights' and outcome <> 'clean'"

Each validation appends its verdicts once; `t` is when. The tables beside the shards stay what the
rollout rests on: this one is for questions.
"""

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Final

import pyarrow as pa

from strata.audit.verdict import Verdict
from strata.errors import Conflict, InvalidRequest
from strata.format.columns import D, T, child, updates_schema
from strata.format.layout import Description
from strata.machine import Machine
from strata.model.spec import ShardSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores
from strata.updates.order import sort_updates
from strata.write import write_batch, write_parts

SHARD: Final = "strata_verdicts"
ATTEMPTS: Final = 10


def spec() -> ShardSpec:
    """Return the declaration of the shard: the fields of a verdict, sorted by shard and outcome."""
    columns = [
        {"name": f.name, "type": "int64" if f.type in (int, "int") else "string", "nullable": False}
        for f in fields(Verdict)
    ]
    return parse_spec({
        "name": SHARD, "columns": columns, "key": ["shard", "outcome", "check", "run", "part"],
        "write_format": "structured",
    })  # fmt: skip


def publish(stores: Stores, run: str, verdicts: Sequence[Verdict]) -> int:
    """Append the verdicts of one run; return how many there were. A repetition changes nothing.

    Raises: Conflict when other runs were faster every time.
    """
    if not verdicts:
        return 0
    machine = Machine(stores)
    machine.create(spec())
    token = f"verdicts-{keys.content_hash(repr((run, verdicts)).encode())}"
    for _ in range(ATTEMPTS):
        state = machine.load(SHARD)
        if machine.committed(SHARD, token) is not None:
            return len(verdicts)
        if _append(stores, machine, state, token, verdicts):
            return len(verdicts)
    raise Conflict("verdicts could not be appended", shard=SHARD, attempts=ATTEMPTS)


def _append(
    stores: Stores, machine: Machine, state: State, token: str, verdicts: Sequence[Verdict]
) -> bool:
    """Append at the upper that the state has; return whether nobody else was faster."""
    at = max(stores.clock(), state.upper)
    prefix = keys.part_prefix(SHARD, state.generation)
    parts = list(write_parts(
        stores.blob, prefix, [_updates(state, verdicts, at)], state.relation,
        layout="structured", description=Description(state.upper, at + 1, MIN_TIME),
        part_bytes=state.spec.part_bytes, row_group_bytes=state.spec.row_group_bytes,
        stats_spec=state.spec.stats,
    ))  # fmt: skip
    lower = state.upper
    batch = write_batch(stores.blob, SHARD, parts, lower, at + 1, MIN_TIME, state.generation)
    try:
        machine.append(SHARD, token=token, lower=lower, upper=at + 1, batch=batch)
    except (Conflict, InvalidRequest):
        if machine.load(SHARD).upper == lower:
            raise
        return False
    return True


def _updates(state: State, verdicts: Sequence[Verdict], at: int) -> pa.Table:
    rows = [asdict(verdict) for verdict in verdicts]
    schema = updates_schema(state.relation)
    arrays = {
        child(column.id): pa.array([row[column.name] for row in rows], schema.field(i).type)
        for i, column in enumerate(state.relation.columns)
    }
    arrays[T] = pa.array([at] * len(rows), pa.int64())
    arrays[D] = pa.array([1] * len(rows), pa.int64())
    table = pa.Table.from_arrays([arrays[f.name] for f in schema], schema=schema)
    return sort_updates(table, state.relation)

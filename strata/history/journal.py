"""Journals: shards that Strata writes about itself, read, pruned and compacted like any other.

Each append is a batch of its own at the journal's upper; `t` is the time of the append. Many
writers may append: the loser of a race tries again at the new upper. With a token, repeating an
append changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

import pyarrow as pa

from strata.errors import Conflict, InvalidRequest
from strata.format.columns import D, T, child, updates_schema
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.model.spec import ShardSpec, parse_spec
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores
from strata.updates.order import sort_updates

ATTEMPTS: Final = 10
_TYPES: Final = {"int": "int64", "str": "string", "float": "float64"}


def journal_spec(name: str, row: type, key: Sequence[str]) -> ShardSpec:
    """Return the declaration of a journal whose rows are the fields of a dataclass."""
    types = {f.name: _TYPES.get(getattr(f.type, "__name__", ""), "string") for f in fields(row)}
    columns = [{"name": n, "type": kind, "nullable": False} for n, kind in types.items()]
    return parse_spec(
        {
            "name": name,
            "columns": columns,
            "key": list(key),
            "write_format": "structured",
        }
    )


def append_rows(
    stores: Stores, spec: ShardSpec, rows: Sequence[Mapping[str, Any]], token: str
) -> int:
    """Append rows to a journal, and create it if it does not exist; return the number of rows.

    Raises: Conflict when other writers win every race.
    """
    if not rows:
        return 0
    machine = Machine(stores)
    machine.create(spec, journal=True)
    for _ in range(ATTEMPTS):
        state = machine.load(spec.name)
        if machine.committed(spec.name, token) is not None:
            return len(rows)
        if _append(stores, machine, state, token, rows):
            return len(rows)
    raise Conflict("a journal could not be written", shard=spec.name, attempts=ATTEMPTS)


def _append(
    stores: Stores,
    machine: Machine,
    state: State,
    token: str,
    rows: Sequence[Mapping[str, Any]],
) -> bool:
    """Append at the state's upper; return False if another writer was faster."""
    name, lower = state.name, state.upper
    at = max(stores.clock(), lower)
    parts = list(
        write_parts(
            stores.blob,
            keys.part_prefix(name, state.generation),
            [_updates(state, rows, at)],
            state.relation,
            layout="structured",
            description=Description(lower, at + 1, MIN_TIME),
            part_bytes=state.spec.part_bytes,
            row_group_bytes=state.spec.group_bytes,
            stats_spec=state.spec.stats,
        )
    )
    batch = write_batch(stores.blob, name, parts, lower, at + 1, MIN_TIME, state.generation)
    try:
        machine.append(name, token=token, lower=lower, upper=at + 1, batch=batch)
    except (Conflict, InvalidRequest):
        if machine.load(name).upper == lower:
            raise
        return False
    return True


def _updates(state: State, rows: Sequence[Mapping[str, Any]], at: int) -> pa.Table:
    schema = updates_schema(state.relation)
    arrays = {
        child(column.id): pa.array([row[column.name] for row in rows], schema.field(i).type)
        for i, column in enumerate(state.relation.columns)
    }
    arrays[T] = pa.array([at] * len(rows), pa.int64())
    arrays[D] = pa.array([1] * len(rows), pa.int64())
    table = pa.Table.from_arrays([arrays[f.name] for f in schema], schema=schema)
    return sort_updates(table, state.relation)

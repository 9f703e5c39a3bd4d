"""The journal of operations for a process that shows it again and again: each part is read once.

A part never changes, so what was read of one is kept for as long as the journal names it. A page
therefore reads what was appended since the last one; behind a merge, the merged part.
"""

import threading
from collections.abc import Sequence
from functools import cached_property
from operator import itemgetter
from typing import Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.plan import plan_read
from strata.format.columns import child
from strata.history.operations import SHARD, Operation
from strata.machine.machine import Machine
from strata.model.journals import EVERY_SHARD
from strata.model.settings import ReadSettings
from strata.parts.fetch import source_of
from strata.parts.prefetch import Wanted, parts_ahead
from strata.state.state import State
from strata.store.open import Stores

DETAILED: Final = (
    "validate"  # the operation whose details are kept; of others only the bill is, or why it failed
)
BILL: Final = ("s3_puts", "s3_gets", "s3_bytes_in", "s3_bytes_out")
_BILL_OF: Final = itemgetter(*BILL)
_BILLED: Final = {*BILL}
_FREE: Final = (-1,) * len(BILL)  # no requests were counted
_FIELDS: Final = tuple(Operation.__dataclass_fields__)
_NUMBERS: Final = {"seconds": pa.float64(), **dict.fromkeys(("at_ms", "rows", "bytes"), pa.int64())}
SCHEMA: Final = pa.schema(
    [(name, _NUMBERS.get(name, pa.string())) for name in _FIELDS]
    + [(name, pa.int64()) for name in BILL]
)


class Operations:
    """The operations on all shards at one time, newest first.

    Shape: columns as `SCHEMA`. `details` are those of validations and failures, and `{}` for
    others; the columns of `BILL` are null where no requests were counted.
    Units: `at_ms` milliseconds since 1970; `seconds` seconds; `bytes` and the bill's bytes, bytes.
    """

    def __init__(self, rows: pa.Table) -> None:
        """Take rows in any order."""
        ordered = rows.sort_by([("at_ms", "descending"), ("what", "ascending")])
        self._rows = ordered.combine_chunks()

    def latest(self, shard: str, limit: int) -> list[Operation]:
        """Return the last operations on a shard, also those on all shards."""
        mine = pc.is_in(self._rows["shard"], pa.array([shard, EVERY_SHARD]))
        return _operations(self._rows.take(pc.indices_nonzero(mine)[:limit]))

    def validations(self, shard: str) -> list[Operation]:
        """Return the validations of a shard."""
        return _operations(self._validations.filter(pc.equal(self._validations["shard"], shard)))

    @cached_property
    def last_validations(self) -> dict[str, Operation]:
        """Return the last validation of each shard."""
        rows = self._validations
        at = rows.append_column("at", pa.array(np.arange(rows.num_rows)))
        firsts = at.group_by("shard").aggregate([("at", "min")])["at_min"]
        return {one.shard: one for one in _operations(rows.take(firsts))}

    def on(self, shard: str) -> pa.Table:
        """Return the operations on a shard alone, as `SCHEMA`."""
        return self._rows.filter(pc.equal(self._rows["shard"], shard))

    @cached_property
    def _validations(self) -> pa.Table:
        return self._rows.filter(pc.equal(self._rows["what"], DETAILED)).combine_chunks()


class OperationLog:
    """Keeps what was read of the journal of one pair of stores; safe for threads.

    Memory: about 200 bytes for an operation, and the details of validations and failures.
    """

    def __init__(self) -> None:
        """Nothing is read yet."""
        self._lock = threading.Lock()
        self._place: tuple[str, str] | None = None
        self._parts: dict[str, pa.Table] = {}
        self._manifests: tuple[str | None, ...] | None = None
        self._shown = Operations(SCHEMA.empty_table())

    def read(self, stores: Stores) -> Operations:
        """Return the operations of now.

        Raises: Corrupt for a damaged journal; Unavailable.
        Cost: reads the journal's state, and what was appended or merged since the last call.
        """
        machine = Machine(stores)
        if SHARD not in machine.names():
            return Operations(SCHEMA.empty_table())
        state = machine.load(SHARD)
        place = (stores.settings.blob, stores.settings.consensus)
        manifests = tuple(batch.manifest for batch in state.batches)
        with self._lock:
            if place != self._place:
                self._place, self._parts, self._manifests = place, {}, None
            if manifests != self._manifests:
                self._parts = _parts_of(stores, state, self._parts)
                self._manifests = manifests
                tables = [SCHEMA.empty_table(), *self._parts.values()]
                self._shown = Operations(pa.concat_tables(tables))
            return self._shown


def as_table(rows: Sequence[Operation]) -> pa.Table:
    """Return operations as `SCHEMA`."""
    named = {name: [getattr(one, name) for one in rows] for name in _FIELDS}
    return _digest(pa.table(named, schema=pa.schema([SCHEMA.field(name) for name in _FIELDS])))


def _parts_of(stores: Stores, state: State, known: dict[str, pa.Table]) -> dict[str, pa.Table]:
    """Return the rows of each part of the journal; parts that are not known are read."""
    refs = plan_read(stores, state).fetched
    missing = [ref for ref in refs if ref.key not in known]
    ids = {name: state.relation.column(name).id for name in _FIELDS}
    source, wanted = source_of(stores.blob, state), Wanted(frozenset(ids.values()))
    found = dict(known)
    for ref, batches in parts_ahead(source, missing, wanted, ReadSettings()):
        named = [
            pa.table([rows.column(child(i)) for i in ids.values()], names=list(ids))
            for rows in batches
        ]
        found[ref.key] = _digest(pa.concat_tables(named)) if named else SCHEMA.empty_table()
    return {ref.key: found[ref.key] for ref in refs}


def _digest(rows: pa.Table) -> pa.Table:
    """Return what is kept of rows: details of validations and failures, of others the bill."""
    details = rows["details"]
    billed = pc.indices_nonzero(pc.match_substring(details, f'"{BILL[0]}"'))
    counted = map(orjson.loads, details.take(billed).to_pylist())
    spent = [_BILL_OF(one) if one.keys() >= _BILLED else _FREE for one in counted]
    bill = np.full((len(BILL), rows.num_rows), _FREE[0])
    bill[:, billed.to_numpy()] = np.array(spent, np.int64).reshape(-1, len(BILL)).T
    wanted = pc.or_(pc.equal(rows["what"], DETAILED), pc.not_equal(rows["outcome"], "done"))
    short = pc.if_else(wanted, details, "{}")
    arrays = [short if name == "details" else rows[name] for name in _FIELDS]
    return pa.table([*arrays, *(pa.array(one, mask=one < 0) for one in bill)], schema=SCHEMA)


def _operations(rows: pa.Table) -> list[Operation]:
    return [Operation(**row) for row in rows.select(_FIELDS).to_pylist()]

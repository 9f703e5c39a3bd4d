"""Erasures in tests: a finder without Spark, and a slow look into everything that is stored."""

import gzip
import io
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from strata.decide.plan import plan_read
from strata.erase import Eraser, ErasureRequest, Waiting
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.format.manifest import PartRef
from strata.format.pack import unpack
from strata.kernels.arrays import Ints
from strata.machine.machine import Machine
from strata.read.scan import read_updates, scan
from strata.state.state import State
from strata.store.memory import MemoryBlob, MemoryConsensus
from strata.store.open import Stores

AT_ONCE = Waiting(0.0, sleep=lambda _: None)
WHO = {"by": "ann", "reason": "article 17"}


@dataclass(frozen=True)
class ByValue:
    """Finds the rows in which a column has a value, by reading every part."""

    stores: Stores
    column: str
    value: object

    def __call__(self, state: State, refs: Sequence[PartRef], /) -> dict[str, Ints]:
        place = [c.name for c in state.relation.columns].index(self.column)
        found = {}
        for ref in refs:
            values = read_updates(self.stores, state, ref).column(place).to_pylist()
            found[ref.key] = np.array([n for n, v in enumerate(values) if v == self.value], int)
        return found


def filter_of(state: State, column: str, value: object) -> Filter:
    """Return the filter `column = 'value'`, as Spark's front end makes it."""
    known = state.relation.column(column)
    kind = "string" if isinstance(value, str) else "long"
    both = (Column(known.id, known.name, kind), Literal(value, kind))
    return Filter(Call("equal_to", both, "boolean"), f"{column} = {value!r}", 0, 0)


def eraser(
    stores: Stores, name: str, column: str, value: object, *terms: str, **how: Any
) -> Eraser:
    """Return an erasure of the rows of a shard in which a column has a value."""
    state = Machine(stores).load(name)
    filter = filter_of(state, column, value)
    request = ErasureRequest(name, filter.sql, terms)
    patience = how.pop("patience", AT_ONCE)
    return Eraser(stores, request, filter, ByValue(stores, column, value), patience=patience, **how)


def erased(stores: Stores, name: str, column: str, value: object, *terms: str) -> dict[str, Any]:
    """Erase, and return the certificate."""
    return eraser(stores, name, column, value, *terms).erase(at_ms=stores.clock(), **WHO)


def all_rows(stores: Stores, name: str) -> Counter[tuple[Any, ...]]:
    """Return how often each row is in a shard at its newest time."""
    state = Machine(stores).load(name)
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in scan(stores, state, plan_read(stores, state), consolidate=True):
        for *row, _, d in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            found[tuple(row)] += d
    return found


def places_of(stores: Stores, text: str) -> list[str]:
    """Return where a text is in anything that memory stores hold, in the obvious way."""
    assert isinstance(stores.blob, MemoryBlob)
    assert isinstance(stores.consensus, MemoryConsensus)
    blobs = {**stores.blob.live, **{f"aside {k}": v for k, v in stores.blob.deleted.items()}}
    found = [key for key, (data, _) in blobs.items() if text in shown(key, data)]
    for key, log in stores.consensus.log.items():
        found += [f"{key} {v.seqno}" for v in log if text in v.data.decode()]
    return found


def shown(key: str, data: bytes) -> str:
    """Return everything in a blob as text."""
    tries: list[Callable[[], object]] = [
        lambda: pq.read_table(io.BytesIO(data)).to_pylist(),
        lambda: [*_tables(unpack(data))],
        lambda: gzip.decompress(data).decode(),
    ]
    for attempt in tries:
        try:
            return str(attempt())
        except (pa.ArrowException, OSError, EOFError):
            continue
    return data.decode(errors="replace")


def _tables(data: bytes) -> Iterator[object]:
    if data.startswith(b"ARROW1"):
        yield pa.ipc.open_file(pa.BufferReader(data)).read_all().to_pylist()
        return
    source = pa.BufferReader(data)
    while source.tell() < len(data):
        yield pa.ipc.open_stream(source).read_all().to_pylist()

"""Shards whose manifests are in pages, of parts that nobody has to read."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest

from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.parts import pages
from strata.parts.batch import BatchWriter
from strata.parts.pages import PageSizes
from strata.state.state import Batch, State
from strata.stats import STATS_VERSION, collect, encoded_size
from strata.store.keys import part_prefix
from strata.store.open import Stores
from tests.support.stored import create
from tests.support.updates import table

RELATION = Relation(
    0,
    (Column(1, "n", parse_type("int64")), Column(2, "s", parse_type("string"))),
    (1,),
    (1,),
)


@dataclass(frozen=True)
class Invented:
    """A part that does not exist: its numbers, and when they came."""

    low: int
    high: int
    t: int = 0
    run: int = 0
    known: bool = True  # it has statistics
    spread: int = 0  # its times end so much later


@contextmanager
def cut(page_parts: int, index_rows: int = 100, paged_parts: int = 0) -> Iterator[None]:
    """Write manifests in pages of this size, unless `paged_parts` or a page hold all."""
    with pytest.MonkeyPatch.context() as patch:
        most = max(page_parts, paged_parts)
        patch.setattr(pages, "SIZES", PageSizes(page_parts, index_rows, most))
        yield


def part(number: int, one: Invented) -> tuple[PartRef, pa.RecordBatch | None]:
    """Return what a manifest says of a part."""
    rows = [(n, f"{n:05}", one.t, 1) for n in (one.low, one.high)]
    stats = collect(table(RELATION, rows), RELATION) if one.known else None
    ref = PartRef(
        f"{part_prefix('shard')}{number:040x}.parquet", 1000 + number, 2, one.run, "both", 0, (1,),
        one.t, one.t + one.spread, 2, number, False, one.low.to_bytes(8), one.high.to_bytes(8),
        stats_version=STATS_VERSION if one.known else None,
        stats_bytes=0 if stats is None else encoded_size(stats),
    )  # fmt: skip
    return ref, stats


def batch_of(stores: Stores, parts: Sequence[Invented], lower: int, upper: int) -> Batch:
    """Store the manifest of a batch of such parts."""
    writer = BatchWriter(stores.blob, "shard", 0)
    for number, one in enumerate(parts, lower * 1000):
        writer.add(*part(number, one))
    return writer.finish(lower, upper, MIN_TIME)


def shard_of(stores: Stores, *batches: Sequence[Invented], mode: str = "on") -> State:
    """Return a shard of such batches, each of ten times; its batches have no union of their own."""
    create(stores, RELATION)
    for number, parts in enumerate(batches):
        bounds = {"lower": 10 * number, "upper": 10 * number + 10}
        batch = batch_of(stores, parts, **bounds)
        batch = replace(batch, stats_union=None, stats_digest=None)
        Machine(stores).append("shard", token=f"t{number}", batch=batch, **bounds)
    state = Machine(stores).load("shard")
    return replace(state, rollout=replace(state.rollout, mode=mode))

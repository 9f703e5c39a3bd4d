"""Verifies ingest: compares rows of the source with their typed rows and with the stored rows.

The slow twin (`strata.ingest.twin`), which shares no code with the readers, reads some rows of a
file again. They are compared value by value with the typed rows. The written parts are read back
from the store, and their digest is compared with the digest of the rows that went in. A difference
ends the run before anything is committed, and trips the source (`strata.state.source`).

A hash of the batch's token and of the file chooses files and rows, so that a repeated run examines
the same ones.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Final

import numpy as np
import pyarrow as pa

from strata.errors import Fenced
from strata.format.columns import D, T
from strata.format.digest import content_digest
from strata.format.part import read_part
from strata.ingest import twin
from strata.ingest.readers.rejects import SHOWN
from strata.ingest.readers.source import RawFile, TypedRows
from strata.ingest.reread import Again, reader_of, reread
from strata.ingest.twin import Undecided, Unreadable
from strata.ingest.values.collector import uncollected
from strata.ingest.values.column import NONE_BAD, Rows
from strata.ingest.values.shown import FAILS
from strata.kernels.arrays import Words
from strata.model.schema import Relation
from strata.model.settings import IngestSettings
from strata.model.spec import ShardSpec
from strata.model.types import ColumnType
from strata.parts.write import WrittenPart
from strata.state.state import State
from strata.store.interface import Blob
from strata.store.retry import retry

DAY_MS: Final = 86_400_000
MOST: Final = 20  # differences that one task reports
FRACTION: Final = 2.0**-64
HASHED: Final = frozenset({type(None), bool, bytes, str, twin.Number})  # types of fields


@dataclass(frozen=True, slots=True)
class Sampling:
    """How much of a batch is verified."""

    token: str  # of the batch; seeds the draw
    share: float  # of the files, or pieces of one: 0 to 1
    rows: int  # of each of these, at most


@dataclass(frozen=True, slots=True)
class Difference:
    """One value that differs from its source."""

    file: str
    line: int | None
    column: str
    source: str  # as the twin reads it
    stored: str


@dataclass(frozen=True, slots=True)
class Verified:
    """How many rows were read twice, and where the two readings disagree."""

    rows: int = 0
    differences: tuple[Difference, ...] = ()


NOTHING: Final = Verified()


def sampling(settings: IngestSettings, state: State, now_ms: int, token: str) -> Sampling | None:
    """Return how much of a batch is verified; None: nothing.

    A source is new until `verify_days` after its first file. The source of a shard from before that
    time was recorded is old.
    """
    wish, rows = state.spec.source.verify, settings.verify_rows
    if wish == "never" or not rows:
        return None
    began = state.walltime_ms if state.consumed is None else state.consumed.began_ms
    new = now_ms < began + settings.verify_days * DAY_MS
    share = 1.0 if wish == "always" or new else settings.verify_percent / 100
    return Sampling(token, share, rows) if share else None


def _chosen(how: Sampling | None, *facts: object) -> int | None:
    """Return a seed if the file or piece that `facts` name is verified; None: it is not."""
    if how is None:
        return None
    text = chr(1).join(map(str, (how.token, *facts))).encode(errors="surrogateescape")
    drawn = int.from_bytes(blake2b(text, digest_size=16).digest(), "big")
    return drawn >> 64 if (drawn % 2**64) * FRACTION < how.share else None


def verify_rows(
    how: Sampling | None,
    spec: ShardSpec,
    raw: RawFile,
    typed: TypedRows,
    types: Mapping[str, ColumnType],
    without: Rows = NONE_BAD,
) -> Verified:
    """Compare some rows of a file with their typed rows, in the columns `types`.

    Rejected rows are not compared, because they are not stored; nor are the rows `without`, which
    have no columns. Values that the twin cannot judge are left out.
    """
    seed = _chosen(how, raw.file, raw.before)
    if how is None or seed is None:
        return NOTHING
    compared = np.ones(raw.count, np.bool_)
    compared[without] = False
    compared[np.fromiter(typed.bad, np.int64, len(typed.bad))] = False
    good = np.flatnonzero(compared)
    if not len(good):
        return NOTHING
    random = np.random.default_rng(seed)
    rows: Rows = np.sort(random.choice(good, min(how.rows, len(good)), replace=False))
    found: list[Difference] = []
    with uncollected():
        again = reread(raw, rows, spec)
        for name, kind in types.items():
            if name in typed.columns:
                made = typed.columns[name].take(pa.array(rows))
                if not _all_same(name, kind, again, made, spec):
                    found += _different(raw.file, name, kind, again, twin.stored(made, kind))
    return Verified(len(rows), tuple(found[:MOST]))


def _all_same(
    name: str, kind: ColumnType, again: Sequence[Again], made: pa.Array, spec: ShardSpec
) -> bool:
    """Return whether a column surely is what the twin reads; False: look at each value.

    The twin reads each value here as well; only the comparison is of the whole column.
    """
    found = [row.fields for row in again if row.fields and name in row.present]
    if len(found) < len(again):
        return False
    fields = [row[name] for row in found]
    read = reader_of(name, kind, spec)
    try:
        return twin.holds(made, kind, _read_each(read, fields))
    except (Unreadable, *FAILS):
        return False


def _read_each(read: Callable[[object], object], fields: Sequence[object]) -> list[object]:
    """Return what a reader makes of fields; equal fields are read once."""
    if not HASHED.issuperset(map(type, fields)):
        return [read(field) for field in fields]
    known = {field: read(field) for field in set(fields)}
    return [known[field] for field in fields]


def _different(
    file: str, name: str, kind: ColumnType, again: Sequence[Again], made: Sequence[object]
) -> Iterator[Difference]:
    for row, value in zip(again, made, strict=True):
        if name not in row.present:
            continue
        try:
            meant = row.value(name, kind)
        except (Undecided, *FAILS):  # the twin cannot judge what its libraries cannot hold
            continue
        except Unreadable as error:
            yield Difference(file, row.line, name, f"no {kind}: {error}"[:SHOWN], _shown(value))
        else:
            if not _same(meant, value):
                yield Difference(file, row.line, name, _shown(meant), _shown(value))


def _same(one: object, other: object) -> bool:
    return type(one) is type(other) and one == other


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"


def verify_stored(
    how: Sampling | None,
    store: Blob,
    relation: Relation,
    rows: pa.Table,
    written: Sequence[WrittenPart],
) -> tuple[Difference, ...]:
    """Compare the stored run with the rows that went in: by digest, diffs and times.

    Raises: Corrupt for a part whose bytes cannot be read, or whose halves differ; Fenced for one
    that others removed.
    """
    if _chosen(how, *(part.ref.key for part in written)) is None:
        return ()
    expected, found = _sums([rows], relation), np.zeros(3, np.uint64)
    for part in written:
        data = retry(partial(store.get, part.ref.key))
        if data is None:
            raise Fenced(
                "a part that was just written is missing: an erasure or a sweep removed it",
                key=part.ref.key,
                cure="run again, with a writer's lease; if it happens without either, the store "
                "loses what is written",
            )
        batches = read_part(data, relation, read_format="row_with_validate", threads=False)
        tables = (pa.Table.from_batches([batch]) for batch in batches)
        found = found + _sums(tables, relation)
    if (expected == found).all():
        return ()
    first = written[0].ref.key if written else "no part"
    names = ("digest", "diffs", "times")
    at = int(np.argmax(expected != found))
    return (Difference(first, None, names[at], str(expected[at]), str(found[at])),)


def _sums(tables: Iterable[pa.Table], relation: Relation) -> Words:
    """Return the digest, the sum of diffs, and the sum of each diff times its time; modulo 2**64.

    They do not depend on order, split or consolidation.
    """
    total = np.zeros(3, np.uint64)
    for table in tables:
        diffs = _words(table[D])
        digest = np.uint64(content_digest(table, relation))
        moments = np.sum(diffs * _words(table[T]), dtype=np.uint64)
        total += np.array([digest, np.sum(diffs, dtype=np.uint64), moments], np.uint64)
    return total


def _words(column: pa.ChunkedArray) -> Words:
    found: Words = column.to_numpy().view(np.uint64)
    return found

"""Give stored parts new statistics: select the parts, and exchange their manifests.

Statistics live in manifests, so new ones rewrite a manifest and no part. The exchange is one
compare-and-set on the state, and happens only while the same parts are still in the shard.
Statistics are addressed by the part's key, the hash of its bytes: they stay true in any batch that
has the part, and become meaningless once it is merged away.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import Corrupt, InvalidRequest
from strata.format.manifest import SCHEMA, stats_columns, stats_rows, unify
from strata.kernels.arrays import Bools
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.sums import wrapped
from strata.parts.manifests import StoredManifest, StoredPiece, load_manifest_of
from strata.parts.pages import PageTarget, leaves_of
from strata.state.seal import digest_of
from strata.state.state import Batch, State
from strata.state.transitions import replace_manifests
from strata.stats import STATS_VERSION, concat, encoded_sizes, row_stream, union
from strata.stats.wire import PREFIX, ROWS, parse_name, parse_pair, place_of
from strata.store.interface import Blob
from strata.store.open import Stores

PARTIAL: Final = 0  # stats_version of a part with statistics of only some columns
Read = TypeVar("Read")
TRIES: Final = 8  # attempts while others rewrite the same manifest


@dataclass(frozen=True, slots=True)
class Selection:
    """A choice of parts, and of their statistics. The default: all."""

    lower: int | None = None  # parts with an update at or after this time; None: from the first
    upper: int | None = None  # parts with an update before this time; None: to the last
    columns: tuple[str, ...] = ()  # names or ids: only the statistics of these; empty: all
    version: int | None = None  # parts with statistics older than this version
    parts_max: int | None = None  # at most this many parts, earliest batches first
    bytes_max: int | None = None  # parts of at most this many bytes together, but at least one part
    again: bool = False  # in a backfill: also parts that have the requested statistics
    sets: tuple[str, ...] = ()  # in a backfill: places beyond those declared, as `stats.sets`
    blooms: tuple[str, ...] = ()  # likewise, as `stats.blooms`

    def __post_init__(self) -> None:
        """Refuse a future version: such a selection would never be exhausted."""
        if self.version is not None and not 0 < self.version <= STATS_VERSION:
            raise InvalidRequest(
                "no such version of statistics",
                version=self.version,
                cure=f"1 to {STATS_VERSION}, the newest",
            )
        if self.again and (self.parts_max, self.bytes_max, self.version) != (None, None, None):
            raise InvalidRequest(
                "what is collected again has no rest for a later run",
                cure="a range of time instead of a number of parts, of bytes, or a version",
            )
        if self.lower is not None and self.upper is not None and self.lower >= self.upper:
            raise InvalidRequest(
                "nothing lies between these times", lower=self.lower, upper=self.upper
            )

    def covers(self, batch: Batch) -> bool:
        """Return whether a batch may hold parts in the selected times."""
        last = max(batch.upper - 1, batch.since)  # advanced times may lie beyond the upper
        return (
            batch.manifest is not None
            and (self.lower is None or last >= self.lower)
            and (self.upper is None or batch.lower < self.upper)
        )

    def in_time(self, manifest: pa.Table) -> Bools:
        """Return which parts of a manifest overlap the selected times."""
        mask: Bools = np.ones(manifest.num_rows, bool)
        if self.lower is not None:
            mask &= manifest["t_high"].to_numpy() >= self.lower
        if self.upper is not None:
            mask &= manifest["t_low"].to_numpy() < self.upper
        return mask

    def ids(self, relation: Relation) -> tuple[int, ...]:
        """Return the ids of the chosen columns; empty for all.

        Raises: InvalidRequest for an unknown column.
        """
        names = {column.name for column in relation.columns}
        return tuple(
            int(word)
            if word not in names and word.isdecimal() and int(word) in relation.by_id
            else relation.column(word).id
            for word in self.columns
        )


class Limit:
    """The remainder of `parts_max` and `bytes_max`, batch after batch."""

    def __init__(self, selection: Selection) -> None:
        """Start with the full limits."""
        self._parts, self._bytes = selection.parts_max, selection.bytes_max

    def take(self, rows: Sequence[int], sizes: Sequence[int]) -> list[int]:
        """Return the first of `rows` that fit, and count them."""
        taken = []
        for row, size in zip(rows, sizes, strict=True):
            spent = self._bytes is not None and self._bytes <= 0
            if spent or (self._parts is not None and self._parts <= 0):
                break
            taken.append(row)
            self._parts = None if self._parts is None else self._parts - 1
            self._bytes = None if self._bytes is None else self._bytes - size
        return taken


@dataclass(frozen=True, slots=True)
class Fresh:
    """New statistics of one part."""

    stats: pa.RecordBatch
    version: int  # STATS_VERSION, or PARTIAL


@dataclass(frozen=True, slots=True)
class KnownStatistics:
    """The statistics of one part in a manifest."""

    stats: pa.RecordBatch | None
    version: int | None


@dataclass(frozen=True, slots=True)
class Exchanged:
    """A batch after an exchange."""

    batch: Batch
    changed: int  # parts with changed statistics
    bytes_added: int  # size of the statistics after minus before


# Takes a part's key and its current statistics; returns new ones, or None to keep the current ones.
Change = Callable[[str, KnownStatistics], Fresh | None]


def exchange(
    stores: Stores,
    shard: str,
    batch: Batch,
    part_keys: Collection[str],
    change: Change,
    *,
    writer: str | None = None,
) -> Exchanged | None:
    """Give some parts of a batch new statistics; None if the batch is gone.

    If another writer has rewritten the manifest of the same parts meanwhile, `change` is called
    again with the current statistics. Parts that are no longer in the shard are left out.
    Raises: Corrupt for a damaged manifest; Fenced when the lease of `writer` has expired.
    Cost: reads one manifest and writes it; of a manifest in pages, only the pages with such parts.
    """
    machine = Machine(stores)
    state = machine.load(shard)
    current = live(state, batch)
    for _ in range(TRIES):
        if current is None:
            return None
        manifest = _stored(stores, shard, current)
        if manifest is not None:
            new, changed = _rewritten(stores.blob, state, current, manifest, part_keys, change)
            if not changed:
                return Exchanged(current, 0, 0)
            assert current.manifest is not None
            move = partial(replace_manifests, replacements={current.manifest: new}, writer=writer)
            if new.manifest == current.manifest or machine.apply(shard, move):
                return Exchanged(new, changed, new.stats_bytes - current.stats_bytes)
        state = machine.load(shard)
        current = live(state, current)
    return None


def live(state: State, batch: Batch) -> Batch | None:
    """Return the batch of the state that has the same parts as `batch`; None if it is gone.

    Its bounds may have moved over empty time. Batches of other times may hold the same rows and
    then have the same digests, since digests do not cover times.
    """
    here = [b for b in state.batches if b.lower < batch.upper and batch.lower < b.upper]
    same = [b for b in here if b.manifest and b.manifest == batch.manifest]
    alike = [b for b in here if b.manifest and _fingerprint(b) == _fingerprint(batch)]
    return next(iter(same or alike), None)


def manifest_of(
    stores: Stores, shard: str, batch: Batch, columns: Sequence[str] | None = None
) -> pa.Table | None:
    """Return the manifest of a batch, or None if it was replaced and collected.

    Raises: Corrupt for a manifest that the state still refers to.
    """
    return _unless_gone(
        stores, shard, batch, lambda: load_manifest_of(stores.blob, shard, batch, columns)
    )


def some_of_manifest(stores: Stores, shard: str, batch: Batch, most: int) -> list[pa.Table]:
    """Return at least `most` rows of a batch's manifest, or all; none if it was collected.

    Raises: Corrupt for a manifest that the state still refers to.
    """

    def read() -> list[pa.Table]:
        found: list[pa.Table] = []
        for piece in StoredManifest(stores.blob, shard, batch).pieces():
            found.append(piece.read())
            if sum(table.num_rows for table in found) >= most:
                break
        return found

    return (_unless_gone(stores, shard, batch, read) or []) if batch.manifest else []


def _stored(stores: Stores, shard: str, batch: Batch) -> StoredManifest | None:
    """Return a manifest with only its first blob read, as `manifest_of`."""
    return _unless_gone(stores, shard, batch, lambda: StoredManifest(stores.blob, shard, batch))


def _unless_gone(stores: Stores, shard: str, batch: Batch, read: Callable[[], Read]) -> Read | None:
    try:
        return read()
    except Corrupt:
        if any(b.manifest == batch.manifest for b in Machine(stores).load(shard).batches):
            raise
        return None


def with_statistics(table: pa.Table, fresh: Mapping[int, Fresh]) -> pa.Table:
    """Return a manifest with new statistics in some rows. Shape: `fresh` by row number.

    A statistics column that is unknown for every part is left out.
    """
    rows = sorted(fresh)
    new = concat([fresh[row].stats for row in rows], [1] * len(rows))
    old = stats_columns(table)
    kept = np.setdiff1d(np.arange(table.num_rows), rows)
    order = np.argsort(np.concatenate([kept, np.array(rows, kept.dtype)]))
    # `rows` stays until the join: even a part without any statistics has a row.
    stats = unify([old.take(pa.array(kept)), new]).combine_chunks().take(pa.array(order))
    versions = _placed(table["stats_version"], rows, [fresh[row].version for row in rows])
    sizes = _placed(table["stats_bytes"], rows, encoded_sizes(new).tolist())
    result = table.select(SCHEMA.names)
    for name, values in (("stats_version", versions), ("stats_bytes", sizes)):
        place = SCHEMA.get_field_index(name)
        result = result.set_column(place, SCHEMA.field(name), values)
    for field in stats.schema:
        if field.name != ROWS and stats[field.name].null_count < stats.num_rows:
            result = result.append_column(field, stats[field.name])
    return result


def statistics_label(name: str, relation: Relation) -> str:
    """Return a statistics column's name for people: `payload$.a`, `code (set)`, `a ~ b (pair)`."""
    if (pair := parse_pair(name)) is not None:
        return f"{' ~ '.join(statistics_label(side, relation) for side in pair)} (pair)"
    place = place_of(name)
    parsed = parse_name(place)
    if parsed is None or parsed[0] not in relation.by_id:
        return name
    label = relation.by_id[parsed[0]].name + place.removeprefix(f"{PREFIX}{parsed[0]}")
    return label if name == place else f"{label} ({name.split('.')[1]})"


def id_of(name: str) -> int | None:
    """Return the column id in a statistics name; None for `rows`."""
    parsed = parse_name(place_of(name))
    return parsed[0] if parsed else None


def ids_of(name: str) -> frozenset[int]:
    """Return the column ids in a statistics name: two of a pair, none of `rows`."""
    return frozenset(i for side in parse_pair(name) or (name,) if (i := id_of(side)) is not None)


def _changes(table: pa.Table, part_keys: Collection[str], change: Change) -> dict[int, Fresh]:
    wanted = pc.is_in(table["key"], value_set=pa.array(list(part_keys), pa.string()))
    rows = np.flatnonzero(wanted.to_numpy())
    some = table.take(pa.array(rows))
    known = map(KnownStatistics, stats_rows(some), some["stats_version"].to_pylist())
    found = {
        int(row): change(key, old)
        for row, key, old in zip(rows, some["key"].to_pylist(), known, strict=True)
    }
    return {row: fresh for row, fresh in found.items() if fresh is not None}


def _rewritten(
    blob: Blob,
    state: State,
    batch: Batch,
    manifest: StoredManifest,
    part_keys: Collection[str],
    change: Change,
) -> tuple[Batch, int]:
    """Write the manifest with new statistics; return the batch, and how many parts have changed."""
    target = PageTarget(blob, state.name, state.generation)
    if manifest.in_pages:
        rows, changed = _pages_rewritten(target, manifest, part_keys, change)
        if not changed:
            return batch, 0
        key, whole = target.put_tree(rows), union(stats_columns(rows))
        known, size = (pc.sum(rows[name]).as_py() for name in ("stats_parts", "stats_bytes"))
    else:
        table = manifest.read()
        manifest.check_parts(table.num_rows)
        fresh = _changes(table, part_keys, change)
        if not fresh:
            return batch, 0
        table, changed = with_statistics(table, fresh), len(fresh)
        key, whole = target.put(table)
        known = table.num_rows - table["stats_version"].null_count
        size = pc.sum(table["stats_bytes"]).as_py()
    stats_union = row_stream(whole)
    new = replace(
        batch,
        manifest=key,
        stats_parts=known,
        stats_bytes=size,
        stats_union=stats_union,
        stats_digest=digest_of(stats_union),
        union=None,  # that of the statistics before, which may be why they are collected again
    )
    return new, changed


def _pages_rewritten(
    target: PageTarget, manifest: StoredManifest, part_keys: Collection[str], change: Change
) -> tuple[pa.Table, int]:
    """Write the pages with parts that change; return the rows of all pages, and parts changed."""
    rows, changed = leaves_of(manifest), 0
    manifest.check_parts(pc.sum(rows["parts"]).as_py())
    found: list[pa.Table] = []
    wanted = pa.array(list(part_keys), pa.string())
    for number in range(rows.num_rows):
        row = rows.slice(number, 1)
        stored, fresh = StoredPiece(manifest, pages=row), {}
        if pc.any(pc.is_in(stored.read(["key"])["key"], value_set=wanted)).as_py():
            page = stored.read()
            fresh = _changes(page, part_keys, change)
        found.append(target.put_page(with_statistics(page, fresh)) if fresh else row)
        changed += len(fresh)
    return unify(found), changed


def _placed(column: pa.ChunkedArray, rows: Sequence[int], values: Sequence[int]) -> pa.Array:
    """Return a column with new values in some rows."""
    found = column.to_pylist()
    for row, value in zip(rows, values, strict=True):
        found[row] = value
    return pa.array(found, column.type)


def _fingerprint(batch: Batch) -> tuple[Any, ...]:
    return (
        batch.updates,
        batch.parts,
        batch.size_bytes,
        wrapped(batch.diffs_sum),
        batch.digest,
        batch.since,
    )

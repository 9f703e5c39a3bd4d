"""Write manifests: one blob, or pages below indexes where there are many parts.

Every blob is named by its content, so pages that do not change are shared with the manifest before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.format.manifest import encode_manifest, stats_columns, unify
from strata.format.pages import (
    INDEX_ROWS,
    INDEX_SCHEMA,
    PAGE_PARTS,
    PAGED_PARTS,
    Index,
    encode_index,
)
from strata.parts.manifests import StoredManifest
from strata.stats import trim, union
from strata.store import keys
from strata.store.interface import Blob
from strata.store.retry import retry

UNION_BYTES: Final = 4096  # of the union of a page's statistics, as `encoded_size` counts
_SUMS: Final = (
    "pages",
    "stored_bytes",
    "parts",
    "size_bytes",
    "rows",
    "stats_parts",
    "stats_bytes",
    "unknown_bytes",
)


@dataclass(frozen=True, slots=True)
class PageSizes:
    """How manifests are cut."""

    page_parts: int = PAGE_PARTS
    index_rows: int = INDEX_ROWS
    paged_parts: int = PAGED_PARTS  # at least a page; up to this many, a manifest is one blob


SIZES = PageSizes()  # tests put smaller ones here


@dataclass(frozen=True, slots=True)
class PageTarget:
    """Where the blobs of a manifest go."""

    blob: Blob
    shard: str
    generation: int
    sizes: PageSizes = field(default_factory=lambda: SIZES)

    def put_manifest(self, table: pa.Table) -> str:
        """Store a manifest in one blob; return its key."""
        return self._put(keys.manifest_key, encode_manifest(table))

    def put_page(self, table: pa.Table) -> pa.Table:
        """Store a page; return its row in an index."""
        data = encode_manifest(table, packed=False)
        return row_of_parts(table, self._put(keys.page_key, data), len(data))

    def put_tree(self, rows: pa.Table) -> str:
        """Store the indexes of a manifest whose pages have these rows; return the uppermost key."""
        level = 1
        while rows.num_rows > self.sizes.index_rows:
            pieces = _slices(rows, self.sizes.index_rows)
            rows = unify([self._put_index(Index(level, piece)) for piece in pieces])
            level += 1
        return self._put(keys.manifest_key, encode_index(Index(level, rows)))

    def put(self, table: pa.Table) -> tuple[str, pa.RecordBatch | None]:
        """Store a manifest; return its key and the union of its statistics, None if unknown."""
        if table.num_rows <= self.sizes.paged_parts:
            return self.put_manifest(table), union(stats_columns(table))
        rows = unify([self.put_page(page) for page in _slices(table, self.sizes.page_parts)])
        return self.put_tree(rows), union(stats_columns(rows))

    def _put_index(self, index: Index) -> pa.Table:
        data = encode_index(index)
        return row_of_pages(index.table, self._put(keys.page_key, data), len(data))

    def _put(self, named: Any, data: bytes) -> str:
        key: str = named(self.shard, keys.content_hash(data), self.generation)
        retry(partial(self.blob.set, key, data))
        return key


def leaves_of(manifest: StoredManifest) -> pa.Table:
    """Return the rows of all pages of a manifest in pages, with their unions.

    Memory: about a kilobyte a page.
    """
    return unify(list(manifest.leaves(manifest.root(), None)))


def row_of_parts(page: pa.Table, key: str, size: int) -> pa.Table:
    """Return the row of an index for a page that lists parts."""
    known = pc.is_valid(page["stats_version"])
    ends = pc.min_max(page["run"]).as_py()
    plain = pc.sum(pc.if_else(known, 0, page["size_bytes"])).as_py()
    return _row(page, {
        "key": key, "pages": 1, "blob_bytes": size, "stored_bytes": size, "parts": page.num_rows,
        "size_bytes": _sum(page, "size_bytes"), "rows": _sum(page, "rows"),
        "run_low": ends["min"], "run_high": ends["max"],
        "t_last": pc.max(page["t_low"]).as_py(), "stats_parts": pc.sum(known).as_py(),
        "stats_bytes": _sum(page, "stats_bytes"), "unknown_bytes": plain,
    })  # fmt: skip


def row_of_pages(index: pa.Table, key: str, size: int) -> pa.Table:
    """Return the row of an index for an index with these rows."""
    values = {name: _sum(index, name) for name in _SUMS}
    values["pages"] += 1
    values["stored_bytes"] += size
    return _row(
        index,
        {
            **values,
            "key": key,
            "blob_bytes": size,
            "run_low": pc.min(index["run_low"]).as_py(),
            "run_high": pc.max(index["run_high"]).as_py(),
            "t_last": pc.max(index["t_last"]).as_py(),
        },
    )


def _row(below: pa.Table, values: dict[str, Any]) -> pa.Table:
    """Return a row of an index; the facts that parts and pages have alike come from `below`."""
    orders = {None if one is None else tuple(one) for one in below["order"].to_pylist()}
    highs = below["key_high"]
    row = {
        **values,
        "relation_version": pc.max(below["relation_version"]).as_py(),
        "order": orders.pop() if len(orders) == 1 else None,
        "t_low": pc.min(below["t_low"]).as_py(),
        "t_high": pc.max(below["t_high"]).as_py(),
        "diffs_sum": int(below["diffs_sum"].to_numpy().sum(dtype=np.int64)),  # wraps
        "digest": int(below["digest"].to_numpy().sum(dtype=np.uint64)),
        "retractions": pc.any(below["retractions"]).as_py(),
        "key_low": pc.min(below["key_low"]).as_py(),
        "key_high": None if highs.null_count else pc.max(highs).as_py(),
    }
    table = pa.Table.from_pylist([row], schema=INDEX_SCHEMA)
    stats = union(stats_columns(below))
    if stats is None:
        return table
    stats, _ = trim(stats, None, UNION_BYTES, ())
    for name, column in zip(stats.schema.names, stats.columns, strict=True):
        if name != "rows":
            table = table.append_column(name, column)
    return table


def _sum(table: pa.Table, name: str) -> int:
    return int(pc.sum(table[name]).as_py() or 0)


def _slices(table: pa.Table, rows: int) -> Sequence[pa.Table]:
    return [table.slice(start, rows) for start in range(0, table.num_rows, rows)]

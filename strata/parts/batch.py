"""Collect the parts of a batch one by one, and write its manifest, page by page."""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa

from strata.format.manifest import PartRef, manifest_table, stats_columns, unify
from strata.model.sums import MODULUS, wrapped
from strata.parts.pages import PageTarget
from strata.state.seal import digest_of
from strata.state.state import Batch, RunSummary
from strata.stats import concat, row_stream, union
from strata.store.interface import Blob


class BatchWriter:
    """The batch so far. Memory: the parts of a small manifest, or of a page; a row a page."""

    def __init__(self, blob: Blob, shard: str, generation: int) -> None:
        """Begin without parts. `generation` is that of the manifest's blobs."""
        self._target = PageTarget(blob, shard, generation)
        self._refs: list[PartRef] = []
        self._stats: list[pa.RecordBatch | None] = []
        self._rows: list[pa.Table] = []  # of the pages that are written
        self._sums: Counter[str] = Counter()
        self._layouts: Counter[str] = Counter()
        self._runs: dict[int, Counter[str]] = {}
        self._orders: dict[int, tuple[int, ...]] = {}
        self._versions: set[int] = set()

    @property
    def parts(self) -> int:
        """Return how many parts were added."""
        return self._sums["parts"]

    def add(self, ref: PartRef, stats: pa.RecordBatch | None) -> None:
        """Add the next part, in the order of the manifest."""
        known = {
            "parts": 1,
            "rows": ref.rows,
            "size_bytes": ref.size_bytes,
            "stats_parts": int(ref.stats_version is not None),
            "stats_bytes": ref.stats_bytes,
            "diffs_sum": ref.diffs_sum,
            "digest": ref.digest,
            "retractions": int(ref.retractions),
        }
        self._sums.update(known)
        self._layouts[ref.layout] += 1
        self._versions.add(ref.relation_version)
        run = self._runs.setdefault(ref.run, Counter())
        run.update({name: known[name] for name in ("parts", "rows", "size_bytes")})
        self._orders.setdefault(ref.run, ref.order)
        self._refs.append(ref)
        self._stats.append(stats)
        sizes = self._target.sizes
        full = sizes.page_parts if self._rows else sizes.paged_parts + 1
        if len(self._refs) >= full:
            self._write_pages()

    def finish(self, lower: int, upper: int, since: int) -> Batch:
        """Write the rest of the manifest; return the batch of this time. Without parts it is empty.

        More parts may be added, and the batch finished again: pages that are full stay.
        """
        if not self.parts:
            return Batch(lower, upper, since)
        if self._rows:
            rest = self._page(self._refs, self._stats) if self._refs else []
            rows = unify([*self._rows, *rest])
            manifest, whole = self._target.put_tree(rows), union(stats_columns(rows))
        else:
            manifest = self._target.put_manifest(manifest_table(self._refs, self._stats))
            whole = union(concat(self._stats, [ref.rows for ref in self._refs]))
        stats_union, sums = row_stream(whole), self._sums
        return Batch(
            lower,
            upper,
            since,
            updates=sums["rows"],
            size_bytes=sums["size_bytes"],
            parts=sums["parts"],
            runs=self._run_summaries(),
            manifest=manifest,
            layouts=tuple(sorted(self._layouts.items())),
            stats_parts=sums["stats_parts"],
            stats_bytes=sums["stats_bytes"],
            stats_union=stats_union,
            diffs_sum=wrapped(sums["diffs_sum"]),
            digest=sums["digest"] % MODULUS,
            retractions=sums["retractions"] > 0,
            versions=tuple(sorted(self._versions)),
            stats_digest=digest_of(stats_union),
        )

    def _write_pages(self) -> None:
        count = self._target.sizes.page_parts
        while len(self._refs) >= count:
            self._rows += self._page(self._refs[:count], self._stats[:count])
            del self._refs[:count], self._stats[:count]

    def _page(
        self, refs: Sequence[PartRef], stats: Sequence[pa.RecordBatch | None]
    ) -> list[pa.Table]:
        return [self._target.put_page(manifest_table(refs, stats))]

    def _run_summaries(self) -> tuple[RunSummary, ...]:
        """Return one summary a run, in run order."""
        return tuple(
            RunSummary(run["parts"], run["rows"], run["size_bytes"], self._orders[number])
            for number, run in sorted(self._runs.items())
        )

"""Leaves out the rows that were erased from the shard, in whichever file they come again.

What is left out is counted (`Counts.suppressed`), so that nobody looks for it in vain.
"""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from strata.ingest.counts import Counts
from strata.ingest.task import IngestTask, JudgedRows
from strata.kernels.arrays import Bools
from strata.parts.suppressed import Suppressed, load_suppressed
from strata.store.interface import Blob


def without_suppressed(
    store: Blob, task: IngestTask, rows: pa.Table, judged: JudgedRows
) -> tuple[pa.Table, JudgedRows]:
    """Return the updates or changes of a file, and what became of its rows, without erased ones.

    Raises: Corrupt when the list of erased rows is missing or damaged: it is never ignored.
    """
    if task.suppressed is None:
        return rows, judged
    erased = load_suppressed(store, task.suppressed)
    hit = _hits(rows, erased, task)
    texts = [r.raw.encode() if r.data is None else r.data for r in judged.rejected]
    # A row that was read again may have no text; such rows have nothing else in common.
    gone = erased.raw_hits(texts) & np.array([bool(text) for text in texts], np.bool_)
    counts = Counts(rejected=-int(gone.sum()), suppressed=int(hit.sum()) + int(gone.sum()))
    left = [one for one, out in zip(judged.rejected, gone.tolist(), strict=True) if not out]
    if hit.any():
        rows = rows.filter(pa.array(~hit))
    return rows, replace(judged, counts=judged.counts + counts, rejected=left)


def _hits(rows: pa.Table, erased: Suppressed, task: IngestTask) -> Bools:
    found = [erased.hits(batch, task.relation) for batch in rows.to_batches()]
    hits: Bools = np.concatenate([np.zeros(0, np.bool_), *found])
    return hits

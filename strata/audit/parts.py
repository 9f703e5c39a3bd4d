"""Check parts against everything that is recorded of them, one part at a time.

What the state and the manifest say of a part is compared with what its bytes hold: that the
blob exists and is as long as recorded, rows, times, sum of diffs, content digest, order, key
bounds, that the row codec and the columns decode to equal rows, and that every statistic
encloses the data. The function is handed to a runner as it is; its tasks are picklable.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from strata import __version__
from strata.audit.blame import Lie, find_lies
from strata.audit.verdict import FORMAT_CHECK, Verdict
from strata.crossing import migrated
from strata.errors import Corrupt, StrataError
from strata.format.columns import D, T
from strata.format.digest import content_digest
from strata.format.manifest import PartRef
from strata.format.part import read_part, validate_part
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.stats.collect import collect
from strata.store.open import open_stores
from strata.updates.order import encode_keys, is_sorted


@dataclass(frozen=True, slots=True)
class PartTask:
    """One part to check."""

    run: str
    shard: str
    store: StoreSettings
    ref: PartRef
    relations: tuple[Relation, ...]
    stats: bytes | None  # the part's statistics: one row, Arrow IPC; None: it has none


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement."""

    what: str  # the column or property at fault
    statement: str  # recorded against found


def check_part(task: PartTask) -> Verdict:
    """Return the verdict on one part.

    Errs: a part that cannot be read because the outside failed is `failed`, not a mismatch.
    """
    rows = 0
    outcome, error = "clean", ""
    findings: list[Finding] = []
    try:
        data = open_stores(task.store).blob.get(task.ref.key)
        if data is None:
            raise Corrupt("a referenced part does not exist", part=task.ref.key)
        rows, findings = _compare(task, data)
        outcome = "mismatch" if findings else "clean"
    except Corrupt as problem:
        outcome, findings, error = "mismatch", [Finding("part", "its bytes")], str(problem)
    except StrataError as problem:
        outcome, error = "failed", str(problem)
    return Verdict(
        run=task.run, shard=task.shard, check=FORMAT_CHECK, sql="", part=task.ref.key,
        outcome=outcome,  # type: ignore[arg-type]
        rows=rows, accepted=0, size_bytes=task.ref.size_bytes, layout=task.ref.layout,
        stats_version=task.ref.stats_version or 0, code_version=__version__,
        stratum=f"format × {task.ref.layout}",
        column=findings[0].what if findings else "",
        bound="; ".join(finding.statement for finding in findings), error=error,
        replay=f"strata validate {task.shard} --part {task.ref.key}",
    )  # fmt: skip


def _compare(task: PartTask, data: bytes) -> tuple[int, list[Finding]]:
    relation = next(r for r in task.relations if r.version == task.ref.relation_version)
    batches = list(read_part(data, relation, relations=task.relations))
    updates = pa.Table.from_batches(batches) if batches else None
    if updates is None:
        return 0, [] if task.ref.rows == 0 else [Finding("rows", f"recorded {task.ref.rows}, 0")]
    findings = [
        Finding(what, f"{what} recorded {recorded}, the part has {found}")
        for what, recorded, found in _figures(task.ref, updates, relation, len(data))
        if recorded != found
    ]
    findings += _order(task.ref, updates, relation)
    if task.ref.layout == "both":
        check = validate_part(data, relation, relations=task.relations)
        findings += [
            Finding(
                relation.by_id[number].name,
                f"{relation.by_id[number].name}: row codec and columns differ in {rows} rows",
            )
            for number, rows in check.invalid.items()
            if rows
        ]
    if task.stats is not None:
        recorded = pa.ipc.open_stream(task.stats).read_next_batch()
        lies = find_lies(recorded, collect(updates, relation), relation)
        lies += _younger_lies(recorded, updates, relation, task.relations[-1])
        findings += [Finding(lie.column, str(lie)) for lie in lies]
    return updates.num_rows, findings


def _younger_lies(
    recorded: pa.RecordBatch, updates: pa.Table, written: Relation, newest: Relation
) -> list[Lie]:
    """Return the lies about columns that the part predates, which a backfill may have collected."""
    younger = tuple(c for c in newest.columns if c.id not in written.by_id)
    if not younger:
        return []
    rows = migrated(updates, written, newest)
    only = Relation(newest.version, younger, (), ())
    return find_lies(recorded, collect(rows, only), only)


def _figures(
    ref: PartRef, updates: pa.Table, relation: Relation, size: int
) -> Iterator[tuple[str, object, object]]:
    yield "size_bytes", ref.size_bytes, size
    yield "rows", ref.rows, updates.num_rows
    yield "diffs_sum", ref.diffs_sum, pc.sum(updates[D]).as_py() or 0
    yield "digest", ref.digest, content_digest(updates, relation)
    yield "retractions", ref.retractions, bool(pc.any(pc.less(updates[D], 0)).as_py())
    if updates.num_rows:
        times = pc.min_max(updates[T]).as_py()
        yield "t_low", ref.t_low, times["min"]
        yield "t_high", ref.t_high, times["max"]


def _order(ref: PartRef, updates: pa.Table, relation: Relation) -> Iterator[Finding]:
    if not updates.num_rows or ref.order != relation.sort_ids:
        return
    if not is_sorted(updates, relation):
        yield Finding("order", "the rows are not sorted as recorded")
        return
    ends = updates.take([0, updates.num_rows - 1])
    first, last = encode_keys(ends.combine_chunks(), relation).to_pylist()
    if ref.key_low > first:
        yield Finding("key_low", "key_low lies above the first row")
    if ref.key_high is not None and ref.key_high < last:
        yield Finding("key_high", "key_high lies below the last row")

"""Compare the recorded facts of one part with its bytes, one by one.

Every figure of the manifest is computed anew from the decoded rows; the row codec and the columns
are decoded separately and compared; statistics are collected anew. No filter takes part.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from strata.audit.blame import find_lies
from strata.audit.members import find_member_lies
from strata.errors import Corrupt
from strata.format.columns import D, T
from strata.format.digest import content_digest, diffs_sum
from strata.format.manifest import PartRef
from strata.format.part import read_footer, read_part, validate_part
from strata.model.schema import Relation
from strata.parts.relation_change import migrated
from strata.stats.collect import collect
from strata.stats.protected import kept_names
from strata.stats.wire import parse_name
from strata.updates.order import encode_keys, is_sorted


@dataclass(frozen=True, slots=True)
class Finding:
    """One disagreement."""

    what: str  # the column or property at fault
    statement: str  # recorded against found
    suspect: str = ""  # the id of the column whose statistics lied; empty: the part itself


@dataclass(frozen=True, slots=True)
class ColumnCount:
    """The comparisons of one column, and how many failed; adds up over parts."""

    column: str
    parts: int = 0
    values: int = 0  # values compared between row codec and columns
    differing: int = 0  # of these
    statistics: int = 0  # recorded places of the column: itself and what is inside it
    lies: int = 0  # recorded fields of these places that do not enclose the rows
    kept_missing: int = 0  # missing places that the shard's keep list protects


@dataclass(frozen=True, slots=True)
class Checked:
    """The result of checking one part."""

    rows: int
    findings: tuple[Finding, ...]
    columns: tuple[ColumnCount, ...]


@dataclass(frozen=True, slots=True)
class Recorded:
    """The recorded facts of a part: its reference, its statistics, and the shard's keep list."""

    ref: PartRef
    # One row, with the bits of bloom filters if these are checked, too; None: no statistics
    stats: pa.RecordBatch | None
    relations: tuple[Relation, ...]
    keep: tuple[str, ...]


def compare_part(recorded: Recorded, data: bytes) -> Checked:
    """Return every disagreement between the recorded facts of a part and its bytes.

    Raises: Corrupt for bytes that cannot be read.
    """
    ref, footer = recorded.ref, read_footer(data)
    relation = _written(recorded, footer.relation_version)
    batches = list(read_part(data, relation, relations=recorded.relations))
    updates = pa.Table.from_batches(batches) if batches else None
    if updates is None or not updates.num_rows:
        return Checked(0, () if ref.rows == 0 else (_said("rows", ref.rows, 0),), ())
    said = (
        ("layout", ref.layout, footer.layout),
        ("relation_version", ref.relation_version, footer.relation_version),
        *_figures(ref, updates, relation, len(data)),
    )
    findings = [_said(*one) for one in said if one[1] != one[2]]
    findings += _order(ref, updates, relation)
    findings += _splits(ref, updates, relation, data)
    counts = {column.id: Counter(parts=1) for column in relation.columns}
    if footer.layout == "both":
        findings += _halves(recorded, data, relation, counts)
    if recorded.stats is not None:
        findings += _statistics(recorded, recorded.stats, updates, relation, counts)
    names = {c.id: c.name for r in recorded.relations for c in r.columns}
    columns = tuple(ColumnCount(names[i], **count) for i, count in counts.items())
    return Checked(updates.num_rows, tuple(findings), columns)


def _written(recorded: Recorded, version: int) -> Relation:
    for relation in recorded.relations:
        if relation.version == version:
            return relation
    raise Corrupt("a part is of a relation version that the shard does not have", version=version)


def _said(what: str, recorded: object, found: object) -> Finding:
    return Finding(what, f"{what} recorded {recorded}, the part has {found}")


def _figures(
    ref: PartRef, updates: pa.Table, relation: Relation, size: int
) -> Iterator[tuple[str, object, object]]:
    yield "size_bytes", ref.size_bytes, size
    yield "rows", ref.rows, updates.num_rows
    yield "diffs_sum", ref.diffs_sum, diffs_sum(updates)
    yield "digest", ref.digest, content_digest(updates, relation)
    yield "retractions", ref.retractions, bool(pc.any(pc.less(updates[D], 0)).as_py())
    times = pc.min_max(updates[T]).as_py()
    yield "t_low", ref.t_low, times["min"]
    yield "t_high", ref.t_high, times["max"]


def _order(ref: PartRef, updates: pa.Table, relation: Relation) -> Iterator[Finding]:
    if ref.order != relation.sort_ids:
        return
    if not is_sorted(updates, relation):
        yield Finding("order", "the rows are not sorted as recorded")
        return
    first, last = _keys(updates, [0, updates.num_rows - 1], relation)
    if ref.key_low > first:
        yield Finding("key_low", "key_low lies above the first row")
    if ref.key_high is not None and ref.key_high < last:
        yield Finding("key_high", "key_high lies below the last row")


def _splits(ref: PartRef, updates: pa.Table, relation: Relation, data: bytes) -> Iterator[Finding]:
    """Yield where row groups do not begin at the recorded row, or with the recorded key.

    A key may be cut, so it must be a prefix of the row's own key. Otherwise a reader would look for
    a group's rows between wrong bounds.
    """
    if not ref.splits:
        return
    meta = pq.ParquetFile(pa.BufferReader(data)).metadata
    starts = [0]
    for i in range(meta.num_row_groups - 1):
        starts.append(starts[-1] + meta.row_group(i).num_rows)
    recorded = [split.row for split in ref.splits]
    if recorded != starts:
        yield _said("splits", f"row groups at {recorded}", starts)
        return
    if ref.order != relation.sort_ids:
        return
    keys = _keys(updates, starts, relation)
    wrong = [i for i, split in enumerate(ref.splits) if not keys[i].startswith(split.key)]
    if wrong:
        yield Finding("splits", f"row group {wrong[0]} does not begin with the recorded key")


def _keys(updates: pa.Table, rows: Sequence[int], relation: Relation) -> list[bytes]:
    found: list[bytes] = encode_keys(updates.take(rows).combine_chunks(), relation).to_pylist()
    return found


def _halves(
    recorded: Recorded, data: bytes, relation: Relation, counts: dict[int, Counter[str]]
) -> Iterator[Finding]:
    check = validate_part(data, relation, relations=recorded.relations)
    for number, wrong in check.invalid.items():
        counts[number]["values"] += check.valid.get(number, 0) + wrong
        counts[number]["differing"] += wrong
        if wrong:
            name = relation.by_id[number].name
            yield Finding(name, f"{name}: row codec and columns differ in {wrong} rows")
    for number in check.valid.keys() - check.invalid.keys():
        counts[number]["values"] += check.valid[number]


def _statistics(
    recorded: Recorded,
    stats: pa.RecordBatch,
    updates: pa.Table,
    written: Relation,
    counts: dict[int, Counter[str]],
) -> Iterator[Finding]:
    """Yield the recorded statistics that contradict the rows, also for columns added later."""
    newest = recorded.relations[-1]
    younger = tuple(c for c in newest.columns if c.id not in written.by_id)
    judged = [(updates, written)]
    if younger:
        only = Relation(newest.version, younger, (), ())
        judged.append((migrated(updates, written, newest), only))
    there = {n for n in stats.schema.names if stats.column(n)[0].is_valid}
    for rows, relation in judged:
        truth = collect(rows, relation)
        _count(counts, relation, there, truth, recorded.keep)
        for lie in (*find_lies(stats, truth, relation), *find_member_lies(stats, rows, relation)):
            counts.setdefault(lie.column_id, Counter(parts=1))["lies"] += 1
            yield Finding(lie.column, str(lie), str(lie.column_id))


def _count(
    counts: dict[int, Counter[str]],
    relation: Relation,
    there: set[str],
    truth: pa.RecordBatch,
    keep: Sequence[str],
) -> None:
    for name in there:
        parsed = parse_name(name)
        if parsed is not None and parsed[0] in relation.by_id:
            counts.setdefault(parsed[0], Counter(parts=1))["statistics"] += 1
    possible = [n for n in truth.schema.names if truth.column(n)[0].is_valid]
    for name in kept_names(possible, relation, keep) - there:
        parsed = parse_name(name)
        if parsed is not None:
            counts.setdefault(parsed[0], Counter(parts=1))["kept_missing"] += 1


def total(columns: Sequence[ColumnCount]) -> tuple[ColumnCount, ...]:
    """Return the counts of each column added up, in the order of first appearance."""
    sums: dict[str, Counter[str]] = {}
    for one in columns:
        known = sums.setdefault(one.column, Counter())
        for name in ("parts", "values", "differing", "statistics", "lies", "kept_missing"):
            known[name] += getattr(one, name)
    return tuple(ColumnCount(name, **count) for name, count in sums.items())

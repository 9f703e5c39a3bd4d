"""The tasks of trimming, manifest by manifest, which may run on another machine."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.blooms import judged
from strata.decide.credit import credit
from strata.decide.question import Question, Verdicts
from strata.format.manifest import stats_columns, stats_rows
from strata.kernels.arrays import Bools
from strata.maintain.exchange import Fresh, Selection, id_of, manifest_of
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.model.spec import StatsSpec
from strata.state.state import Batch
from strata.stats import TrimReport, encoded_sizes, trim_table
from strata.stats.protected import protected_names
from strata.stats.size import column_bits
from strata.stats.wire import PREFIX, ROWS, is_budgeted
from strata.store.interface import Blob
from strata.store.open import open_stores

ROW_BYTES: Final = 2048  # of a part in a manifest, with statistics of a usual budget


@dataclass(frozen=True, slots=True)
class JudgedFilter:
    """One filter on some parts."""

    parts: int
    skipped: int
    credit: Mapping[str, int]  # statistics column -> parts skipped through it


@dataclass(frozen=True, slots=True)
class Survey:
    """One batch before trimming."""

    batch: Batch
    rows: tuple[int, ...]  # parts above the budget, by their row in the manifest
    stats_bytes: int  # of all parts in the selected times
    filters: tuple[JudgedFilter, ...]


@dataclass(frozen=True, slots=True)
class SurveyTask:
    """One manifest to survey; picklable."""

    settings: StoreSettings
    state: "Judging"
    batch: Batch
    selection: Selection
    spec: StatsSpec

    @property
    def read_bytes(self) -> int:
        """Return an estimate of the manifest's bytes."""
        return self.batch.parts * ROW_BYTES


@dataclass(frozen=True, slots=True)
class Judging:
    """The facts of a shard that deciding filters needs; picklable."""

    shard: str
    relation: Relation
    questions: tuple[Question, ...]

    def judge(
        self, blob: Blob, manifest: pa.Table, stats: pa.Table | None = None
    ) -> tuple[JudgedFilter, ...]:
        """Return what each filter does to some parts, as a read decides it.

        Shape: `manifest` and `stats` have one row a part; `stats` None takes the manifest's own.
        """
        return tuple(_judged(one, judged(blob, one, manifest, stats)) for one in self.questions)


def _judged(question: Question, verdict: Verdicts) -> JudgedFilter:
    skipped = int(np.count_nonzero(~verdict.keep))
    found = credit(question.filter, verdict.proofs, question.quarantine)
    return JudgedFilter(len(verdict.keep), skipped, found)


def survey_batch(task: SurveyTask) -> Survey | None:
    """Return the parts to trim in a batch, and what its statistics do; None if it is gone."""
    stores = open_stores(task.settings)
    table = manifest_of(stores, task.state.shard, task.batch)
    if table is None:
        return None
    stats = stats_columns(table)
    sizes, in_time = encoded_sizes(stats), task.selection.in_time(table)
    chosen = in_time & (sizes > task.spec.budget_bytes) & _has_free(stats, task)
    chosen &= pc.is_valid(table["stats_version"]).to_numpy()
    if task.selection.version is not None:
        old = pc.less(table["stats_version"], task.selection.version)
        chosen &= pc.fill_null(old, False).to_numpy()
    rows = tuple(int(row) for row in np.flatnonzero(chosen))
    return Survey(task.batch, rows, int(sizes[in_time].sum()), task.state.judge(stores.blob, table))


def _has_free(stats: pa.Table, task: SurveyTask) -> Bools:
    """Return which parts have statistics that are not protected."""
    names = [name for name in stats.column_names if is_budgeted(name)]
    found: Bools = np.zeros(stats.num_rows, bool)
    for name in set(names) - protected_names(names, task.state.relation, task.spec.keep):
        found |= np.asarray(pc.is_valid(stats[name]))
    return found


@dataclass(frozen=True, slots=True)
class TrimTask:
    """Some parts of a manifest to trim; picklable."""

    settings: StoreSettings
    state: Judging
    batch: Batch
    rows: tuple[int, ...]
    spec: StatsSpec
    ids: frozenset[int]  # columns whose statistics may change; empty: all
    weights: Mapping[str, float]

    @property
    def read_bytes(self) -> int:
        """Return an estimate of the bytes of these parts' statistics."""
        return len(self.rows) * ROW_BYTES


@dataclass(frozen=True, slots=True)
class Trimmed:
    """The parts of one task, trimmed."""

    batch: Batch
    stats: Mapping[str, tuple[pa.RecordBatch, Fresh]]  # by part: the statistics before and after
    columns: Mapping[str, "ColumnTally"]  # by statistics column
    skipped: tuple[tuple[int, int], ...]  # for each filter: parts skipped before and after
    bytes_added: int  # size of the statistics after minus before


@dataclass(frozen=True, slots=True)
class ColumnTally:
    """The effect of trimming on one statistics column, counted over parts."""

    parts: int = 0
    dropped: int = 0
    shortened: int = 0
    bits_before: int = 0
    bits_after: int = 0

    def plus(self, other: "ColumnTally") -> "ColumnTally":
        """Return the sum."""
        return ColumnTally(
            self.parts + other.parts,
            self.dropped + other.dropped,
            self.shortened + other.shortened,
            self.bits_before + other.bits_before,
            self.bits_after + other.bits_after,
        )


def trim_rows(task: TrimTask) -> Trimmed | None:
    """Trim some parts of a batch; None if it is gone."""
    stores = open_stores(task.settings)
    whole = manifest_of(stores, task.state.shard, task.batch)
    if whole is None:
        return None
    table = whole.take(pa.array(task.rows, pa.int64()))
    old = stats_columns(table)
    new, reports = trim_parts(old, task)
    changed = [n for n, report in enumerate(reports) if report.dropped or report.shortened]
    before, after = (stats_rows(some.take(pa.array(changed, pa.int64()))) for some in (old, new))
    keys, versions = table["key"].to_pylist(), table["stats_version"].to_pylist()
    pairs = {
        keys[number]: (was, Fresh(_some(row, was), versions[number]))
        for number, was, row in zip(changed, before, after, strict=True)
        if was is not None
    }
    dropped = Counter(name for report in reports for name in report.dropped)
    shortened = Counter(name for report in reports for name in report.shortened)
    return Trimmed(
        task.batch,
        pairs,
        _tallies(old, new, dropped, shortened),
        _skipped(stores.blob, task, table, new),
        int(encoded_sizes(new).sum() - encoded_sizes(old).sum()),
    )


def trim_parts(stats: pa.Table, task: TrimTask) -> tuple[pa.Table, list[TrimReport]]:
    """Return the trimmed statistics of some parts; those of other columns stay unchanged."""
    relation, spec = task.state.relation, task.spec
    rest = [n for n in stats.column_names if task.ids and _is_other(n, task.ids)]
    if not rest:
        return trim_table(stats, relation, spec.budget_bytes, spec.keep, task.weights)
    others = stats.select(rest)
    budgets = np.maximum(0, spec.budget_bytes - encoded_sizes(others)).tolist()
    some = stats.drop_columns(rest)
    new, reports = trim_table(some, relation, budgets, spec.keep, task.weights)
    for name in rest:
        new = new.append_column(name, others[name])
    there = set(new.column_names)
    return new.select([n for n in stats.column_names if n in there]), reports


def _is_other(name: str, ids: Collection[int]) -> bool:
    return name.startswith(PREFIX) and id_of(name) not in ids


def _some(row: pa.RecordBatch | None, was: pa.RecordBatch) -> pa.RecordBatch:
    """Return the remaining statistics of a part: at least its number of rows."""
    return was.select([ROWS]) if row is None else row


def _tallies(
    before: pa.Table, after: pa.Table, dropped: Counter[str], shortened: Counter[str]
) -> dict[str, ColumnTally]:
    return {
        name: ColumnTally(
            parts=before.num_rows - before[name].null_count,
            dropped=dropped[name],
            shortened=shortened[name],
            bits_before=_bits(before, name),
            bits_after=_bits(after, name),
        )
        for name in before.column_names
        if is_budgeted(name)
    }


def _bits(table: pa.Table, name: str) -> int:
    """Return the cost, in bits, of a statistics column in the parts that have it."""
    if name not in table.column_names:
        return 0
    return int(column_bits(table[name].drop_null().combine_chunks()).sum())


def _skipped(
    blob: Blob, task: TrimTask, manifest: pa.Table, after: pa.Table
) -> tuple[tuple[int, int], ...]:
    first, then = task.state.judge(blob, manifest), task.state.judge(blob, manifest, after)
    return tuple((a.skipped, b.skipped) for a, b in zip(first, then, strict=True))

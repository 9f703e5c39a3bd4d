"""Soft evaluation: fetch what would be skipped, and see whether any of it mattered.

A filter is decided for every part, at the level of batches (the union kept in the state) and of
parts (the manifest), exactly as a read decides. The parts that either level would skip are
handed to an evaluator that runs the filter on their rows: an accepted row, or an error, is a
mismatch. The evaluator is a parameter, so that the engine does not know Spark.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from strata import __version__
from strata.audit.blame import Lie, find_lies
from strata.audit.verdict import Verdict
from strata.errors import Corrupt, Unavailable
from strata.expr.calendar import DAY_US
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr
from strata.expr.spec import Flags
from strata.format.manifest import PartRef, part_refs
from strata.groups import row_groups, wants_groups
from strata.plan import batch_stats, load_manifest, may_matter, part_stats, suspects
from strata.prune import decide
from strata.prune.decide import split
from strata.read import read_updates
from strata.state.state import Batch, State
from strata.stats.collect import collect
from strata.stats.wire import column_name
from strata.store.open import Stores

NO_GROUPS: Final[Mapping[str, tuple[int, ...]]] = {}
INSTANTS: Final = 4  # steps in which the span of a clock is judged; each reads the parts again


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What running the filter on the rows of one part gave."""

    part: str
    rows: int
    accepted: int
    error: str = ""  # the error that the filter raised on a row
    failed: str = ""  # why the part could not be read at all
    corrupt: bool = False  # the stored bytes contradict the state


Groups = Mapping[str, tuple[int, ...]]  # row groups by part; all of a part that is not in it


class Evaluator(Protocol):
    """Runs a filter on the rows of parts, or of some row groups of them."""

    def __call__(
        self, filter: Filter, refs: Sequence[PartRef], groups: Groups = NO_GROUPS, /
    ) -> list[Evaluated]:
        """Return what each part gave; a part that is missing in it did not come back."""
        ...


@dataclass(frozen=True, slots=True)
class Skipped:
    """One part that the filter would skip, with the statistics that say so."""

    ref: PartRef
    batch: Batch
    by_batch: bool  # the union in the state already drops the whole batch
    stats: pa.RecordBatch  # one row of the manifest's statistics
    groups: tuple[int, ...] = ()  # the row groups that are left out of a part that is kept

    @property
    def rows(self) -> int:
        """Return how many rows are left out."""
        if not self.groups:
            return self.ref.rows
        ends = [*(split.row for split in self.ref.splits[1:]), self.ref.rows]
        return sum(ends[i] - self.ref.splits[i].row for i in self.groups)

    @property
    def size_bytes(self) -> int:
        """Return the stored bytes of these rows, about."""
        return self.ref.size_bytes * self.rows // max(self.ref.rows, 1)


@dataclass(frozen=True, slots=True)
class Decisions:
    """What a filter would do to a shard."""

    parts_total: int
    bytes_total: int
    skipped: tuple[Skipped, ...]
    parts_without_stats: int
    tightened: tuple[Skipped, ...] = ()  # kept parts of which row groups are left out


def instants(filter: Filter) -> list[int]:
    """Return when the clock of a filter stands where its rows are judged, in microseconds.

    A skip claims the whole span: beside its ends it is judged inside, at even distances and where
    days change in UTC. Evidence, as all of soft evaluation: more instants than these are not tried.
    """
    low, high = filter.now_low, filter.now_high
    even = {low + (high - low) * step // INSTANTS for step in range(INSTANTS + 1)}
    first, last = low // DAY_US + 1, high // DAY_US
    apart = max(last - first, 0) // INSTANTS + 1
    days = {day * DAY_US for day in range(first, last + 1, apart)}
    return sorted(even | days | {day - 1 for day in days if day - 1 >= low})


def decide_all(stores: Stores, state: State, filter: Filter) -> Decisions:
    """Decide a filter for every part of a shard, at both levels.

    Cost: reads every manifest.
    """
    skipped: list[Skipped] = []
    tightened: list[Skipped] = []
    total = size = without = 0
    quarantine = state.rollout.quarantine
    for batch in state.batches:
        if batch.manifest is None:
            continue
        manifest = load_manifest(stores, state, batch)
        refs = part_refs(manifest)
        statistics = part_stats(state, manifest)
        total += len(refs)
        size += sum(ref.size_bytes for ref in refs)
        without += sum(ref.stats_version is None for ref in refs)
        keep = decide(filter, statistics, state.relation, quarantine=quarantine).keep
        suspect = suspects(state, manifest)
        keep |= suspect  # a read fetches them: there is no skip to judge
        by_batch = not may_matter(state, batch, filter)
        for index in range(len(refs)) if by_batch else np.flatnonzero(~keep):
            row = statistics.slice(int(index), 1).combine_chunks().to_batches()[0]
            skipped.append(Skipped(refs[int(index)], batch, by_batch, row))
        if not by_batch:
            known = keep & ~suspect
            tightened += _tightened(state, filter, batch, manifest, statistics, known)
    return Decisions(total, size, tuple(skipped), without, tuple(tightened))


def _tightened(
    state: State, filter: Filter, batch: Batch, manifest: pa.Table, stats: pa.Table, keep: Flags
) -> Iterator[Skipped]:
    """Yield the kept parts of which a read leaves out row groups, as `strata.plan` does."""
    if not keep.any() or not wants_groups(filter, state.relation):
        return
    rows = pa.array(np.flatnonzero(keep))
    some, known = manifest.take(rows), stats.take(rows)
    chosen = row_groups(filter, some, known, state.relations, state.rollout.quarantine)
    for index, ref in enumerate(part_refs(some)) if chosen else ():
        if ref.key in chosen:
            left = tuple(i for i in range(len(ref.splits)) if i not in chosen[ref.key])
            row = known.slice(index, 1).combine_chunks().to_batches()[0]
            yield Skipped(ref, batch, by_batch=False, stats=row, groups=left)


def sample(skipped: Sequence[Skipped], percent: int, salt: str, least: int = 0) -> list[Skipped]:
    """Return a reproducible share of the skipped parts: the same for the same part and salt.

    `least`: so many at least, if there are so many.
    """
    if percent >= 100 or least >= len(skipped):
        return list(skipped)
    draws = np.array([_bucket(s.ref.key, salt) for s in skipped])
    count = max(int((draws < percent).sum()), least)
    return [skipped[i] for i in np.sort(np.argsort(draws, kind="stable")[:count])]


def _bucket(key: str, salt: str) -> float:
    digest = blake2b(f"{salt}\0{key}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64 * 100


def judge(
    stores: Stores,
    state: State,
    filter: Filter,
    pairs: Iterable[tuple[Skipped, Evaluated | None]],
    *,
    run: str,
    check: str,
) -> list[Verdict]:
    """Return one verdict for each would-be-skipped part and what came back of it.

    Cost: reads a part again, all columns, only where there is a mismatch to explain.
    """
    return [
        _verdict(stores, state, filter, skipped, result, _blank(state, filter, skipped, run, check))
        for skipped, result in pairs
    ]


def _blank(state: State, filter: Filter, skipped: Skipped, run: str, check: str) -> Verdict:
    """Return the verdict on a part of which nothing came back."""
    ref = skipped.ref
    return Verdict(
        run, state.name, check, filter.sql, ref.key, "missing", 0, 0, skipped.size_bytes,
        layout=ref.layout, stats_version=ref.stats_version or 0, code_version=__version__,
        stratum=f"{stratum(filter.expr, ref.layout)} × {kind_of(filter.expr, skipped)}",
        error="no result came back",
        replay=replay_command(state.name, filter, ref.key),
    )  # fmt: skip


def _verdict(
    stores: Stores,
    state: State,
    filter: Filter,
    skipped: Skipped,
    result: Evaluated | None,
    blank: Verdict,
) -> Verdict:
    if result is None:
        return blank
    read = replace(blank, rows=result.rows, accepted=result.accepted, error=result.error)
    if result.failed:
        if not result.corrupt:
            return replace(read, outcome="failed", error=result.failed)
        return replace(
            read, outcome="mismatch", bound="the part itself", error=result.failed,
            suspects=skipped.ref.key,
        )  # fmt: skip
    if not result.accepted and not result.error:
        if result.rows == skipped.rows:
            return replace(read, outcome="clean")
        return replace(read, error=f"{result.rows} of {skipped.rows} rows came back")
    lies = explain_mismatch(stores, state, filter, skipped)
    if lies:
        words = sorted({str(lie.column_id) for lie in lies})
        return replace(
            read, outcome="mismatch", column=lies[0].column, bound="; ".join(map(str, lies)),
            suspects=" ".join(words),
        )  # fmt: skip
    if skipped.groups:
        return replace(
            read, outcome="mismatch", column="splits", suspects=skipped.ref.key,
            bound=f"row groups {skipped.groups} were left out by their recorded keys",
        )  # fmt: skip
    guilty = proving(state, filter, skipped)
    column, bound = blame_rule(guilty)
    suspects = " ".join(sorted(functions_of(guilty)))
    return replace(read, outcome="mismatch", column=column, bound=bound, suspects=suspects)


def explain_mismatch(stores: Stores, state: State, filter: Filter, skipped: Skipped) -> list[Lie]:
    """Return the statistics of the filter's columns that contradict the part's rows.

    The part's own statistics come first, then the union of its batch. Empty when all of them
    hold: then a rule of the interpreter is at fault.
    """
    used = columns_of(filter.expr)
    try:
        updates = read_updates(stores, state, skipped.ref)
    except (Corrupt, Unavailable):
        return []
    actual = collect(updates, state.relation)
    lies = find_lies(skipped.stats, actual, state.relation)
    union = batch_stats(skipped.batch)
    if not lies and union is not None:
        lies = find_lies_of_union(union.to_batches()[0], actual, state)
    return sorted(lies, key=lambda lie: lie.column_id not in used)


def find_lies_of_union(union: pa.RecordBatch, actual: pa.RecordBatch, state: State) -> list[Lie]:
    """Return the bounds of a batch's union that do not enclose one of its parts.

    Counts of a union cover other parts too, so only bounds can be blamed.
    """
    return [
        Lie(lie.column_id, lie.column, f"batch {lie.field}", lie.recorded, lie.found)
        for lie in find_lies(union, actual, state.relation)
        if lie.field in ("low", "high", "num_low", "num_high", "str_low", "str_high")
    ]


def proving(state: State, filter: Filter, skipped: Skipped) -> Expr:
    """Return the part of a filter that rules a part out by itself; all of it if none does."""
    for conjunct in split(filter.expr, state.rollout.quarantine):
        alone = replace(filter, expr=conjunct)
        decision = decide(alone, skipped.stats, state.relation, quarantine=state.rollout.quarantine)
        if not decision.may_be_true[0]:
            return conjunct
    return filter.expr


def blame_rule(guilty: Expr) -> tuple[str, str]:
    """Return column and statement when every statistic holds: the functions are the suspects."""
    functions = ", ".join(sorted(functions_of(guilty)))
    columns = ", ".join(sorted(columns_of(guilty).values()))
    return columns, f"every statistic holds; a rule is wrong, one of: {functions}"


def columns_of(expr: Expr) -> dict[int, str]:
    """Return the columns an expression reads, id to name."""
    if isinstance(expr, Column):
        return {expr.id: expr.name}
    if isinstance(expr, Call):
        return {i: n for arg in expr.args for i, n in columns_of(arg).items()}
    return {}


def functions_of(expr: Expr) -> set[str]:
    """Return the names of the functions in an expression."""
    if isinstance(expr, Call):
        return {expr.function}.union(*(functions_of(arg) for arg in expr.args))
    return set()


def stratum(expr: Expr, layout: str) -> str:
    """Return the stratum by which evidence is counted: types × functions × layout."""

    def types(node: Expr) -> set[str]:
        if isinstance(node, Column):
            return {node.type}
        if isinstance(node, Call):
            return set().union(*(types(arg) for arg in node.args))
        return set()

    return f"{'+'.join(sorted(types(expr)))} × {'+'.join(sorted(functions_of(expr)))} × {layout}"


def kind_of(expr: Expr, skipped: Skipped) -> str:
    """Return what the statistics were that a part would be skipped by: for the stratum.

    `union`: those of its batch; `row groups`: the keys at which these begin; `partial`: some
    column of the filter has none; `shortened`: some bound is looser than the data; else `exact`.
    """
    if skipped.by_batch or skipped.groups:
        return "union" if skipped.by_batch else "row groups"
    prefixes = {column_name(i) for i in columns_of(expr)}
    used = [n for n in skipped.stats.schema.names if n.split("$")[0].split("/")[0] in prefixes]
    values = [v for n in used if (v := skipped.stats.column(n)[0].as_py()) is not None]
    if len(values) < len(prefixes):
        return "partial"
    loose = any(v is False for value in values for k, v in value.items() if k.endswith("_exact"))
    return "shortened" if loose else "exact"


def replay_command(shard: str, filter: Filter, part: str) -> str:
    """Return the shell command that checks this part against this filter again."""
    # Double quotes: SQL is full of single ones.
    text = re.sub(r'([\\"$`])', r"\\\1", filter.sql)
    return f'strata validate {shard} --filter "{text}" --now {filter.now_low // 1000} --part {part}'


def quarantine_of(verdicts: Collection[Verdict]) -> tuple[str, ...]:
    """Return what lied, as the rollout state names it: column ids, functions, part keys."""
    return tuple(sorted({word for verdict in verdicts for word in verdict.suspects.split()}))

"""Plan a read: decide from statistics alone which parts it needs.

The plan follows `strata.decide.descent`: batches by the union of their statistics, which the state
names, then parts by the manifests, then row groups. A part is skipped only if the filter is proven
neither to be true nor to fail on any of its rows. The filter itself is never executed here; the
caller executes it on rows.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from strata.decide.credit import proofs
from strata.decide.descent import (
    BatchStep,
    Piece,
    WholePages,
    descend,
    narrowed_ahead,
    resolve_as_of,
)
from strata.decide.draw import sampled
from strata.decide.question import Question
from strata.decide.read_plan import LeftOut, Parts, PlannedRun, ReadPlan, Unopened
from strata.decide.whole import Buckets, Tally, Whole, complement
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.format.manifest import SCHEMA, PartRef, part_refs
from strata.format.pages import INDEX_SCHEMA
from strata.kernels.arrays import Ints
from strata.machine.machine import Machine
from strata.machine.replaced import unless_dropped
from strata.model.spec import MODES
from strata.model.time import MIN_TIME
from strata.parts.manifests import StoredPiece
from strata.rollout.obey import SKIPPING, mode_of, obeyed
from strata.state.state import Batch, State
from strata.store.open import Stores

_Found: TypeAlias = tuple[int, pa.Table | Unopened]  # parts that are fetched, and their run


def plan_read(  # noqa: PLR0913 - options, by name
    stores: Stores,
    state: State,
    *,
    as_of: int | None = None,
    filter: Filter | None = None,
    pushdown: str | None = None,
    mode: str | None = None,
    groups: bool = True,
) -> ReadPlan:
    """Return which parts a read at `as_of` fetches; None is the newest readable time.

    A read obeys the shard's rollout: `off` and `soft` fetch everything, `on` skips, `audit` skips
    all but a sample. A mode that was approved for other code counts as `soft`. `pushdown` is the
    reader's choice: "off" fetches everything; "on" is what the shard allows, never more.
    The kill switch (`strata.rollout.kill`) fetches everything in any mode.
    `groups` also chooses row groups of the parts, in modes that skip parts.

    `mode` plans as if the shard were in that mode, in order to explain, check or measure a
    decision. No option of a reader may reach it.

    Errs: may fetch a part without a needed row, never leaves out a part that has one.
    Raises: InvalidRequest for an `as_of` outside [since, upper), an unknown pushdown, and a shard
    that was dropped and swept since; Corrupt for a bad manifest.
    Cost: one manifest for each batch that is not dropped; of a manifest in pages, those that their
    unions cannot rule out, and none if everything is fetched.
    """
    applied = _applied(stores, state, filter, pushdown, mode)
    at = resolve_as_of(state, as_of)
    if at is None:
        return ReadPlan(state.name, MIN_TIME, applied)
    percent = _sample_percent(state, mode, applied)
    search = _Search(_question(state, filter, applied), f"{state.seqno}/{at}", percent, groups)
    with unless_dropped(Machine(stores), state.name):
        search.go(stores, descend(stores, state, search.question, at))
    return search.plan(state, at, applied)


def plan_count(  # noqa: PLR0913 - options, by name
    stores: Stores,
    state: State,
    *,
    as_of: int | None = None,
    filter: Filter | None = None,
    other: Filter | None = None,
    by: str | None = None,
    pushdown: str | None = None,
    mode: str | None = None,
) -> tuple[ReadPlan, Tally]:
    """Return which parts have to be read to count accepted rows, and the count of the others.

    A part on all of whose rows the filter is proven to be true counts by the sum of diffs that its
    manifest records; see `strata.decide.whole`. As skips do, this obeys the shard's rollout: `off`
    and `soft` read everything that a filter asks for, `audit` reads a sample. Without a filter only
    parts with updates at both sides of `as_of`, or of the bounds of a bucket, are read.

    `other`: the filter's complement; None: as `strata.decide.whole.complement` makes it, which
    suits plain filters. `by`: the bucket of times that is counted by itself, one of `BUCKETS`;
    None: none. Other options and errors: as `plan_read`.
    """
    applied = _applied(stores, state, filter, pushdown, mode)
    at = resolve_as_of(state, as_of)
    tally = Tally(Buckets(state.since, by))
    if at is None:
        return ReadPlan(state.name, MIN_TIME, applied), tally
    percent = _sample_percent(state, mode, applied)
    search = _Search(
        _question(state, filter, applied), f"{state.seqno}/{at}", percent, groups=True, tally=tally
    )
    decides = filter is None or search.question is not None
    if filter is not None and other is None:
        other = complement(filter)
    whole = Whole.about(state, other, at, by) if decides else None
    search.go(stores, descend(stores, state, search.question, at, whole))
    return search.plan(state, at, applied), tally


def _applied(
    stores: Stores, state: State, filter: Filter | None, pushdown: str | None, mode: str | None
) -> str:
    """Return the mode of a read: the shard's, unless the caller or the kill switch overrides it."""
    wish = check_pushdown(pushdown)
    chosen = check_mode(mode or ("off" if wish == "off" else mode_of(state)))
    return "off" if filter is None else obeyed(stores, chosen)


def _question(state: State, filter: Filter | None, applied: str) -> Question | None:
    """Return what a read asks of statistics; None: nothing, it fetches everything."""
    decides = filter is not None and applied in SKIPPING
    return Question.about(state, filter) if filter is not None and decides else None


class _Search:
    """What a read has chosen so far, batch by batch and manifest piece by piece."""

    def __init__(
        self,
        question: Question | None,
        salt: str,
        percent: int,
        groups: bool,
        tally: Tally | None = None,
    ) -> None:
        self._salt, self._percent, self._wants_groups = salt, percent, groups
        self.question, self._tally = question, tally
        self.runs: list[PlannedRun] = []
        self.left_out: list[LeftOut] = []
        self.dropped: list[Batch] = []
        self.audited: set[str] = set()
        self.groups: dict[str, tuple[int, ...]] = {}
        # Parts that each conjunct rules out.
        self.proofs = [0] * (0 if question is None else question.conjuncts)

    def plan(self, state: State, at: int, applied: str) -> ReadPlan:
        """Return what was chosen."""
        return ReadPlan(
            state.name,
            at,
            applied,
            tuple(self.runs),
            frozenset(self.audited),
            tuple(self.left_out),
            tuple(self.dropped),
            tuple(self.proofs),
            self.groups,
        )

    def go(self, stores: Stores, steps: Iterator[BatchStep]) -> None:
        """Choose the parts of batches that are fetched."""
        columns = ("size_bytes", "key") if self._percent else ("size_bytes",)
        wanted = (step for step in steps if self._opens(step))
        for step, pieces in narrowed_ahead(stores, wanted, columns, open_all=bool(self._percent)):
            self._take(step, pieces)

    def _opens(self, step: BatchStep) -> bool:
        """Note what is known of a batch as a whole; return whether its manifest is needed."""
        if step.union is not None and step.ruled_out:
            self._count(proofs(step.union, len(self.proofs)), step.batch.parts)
            if not self._percent:
                self.dropped.append(step.batch)
                return False
        if step.counted and not self._percent and self._tally is not None:
            self._tally.batch(step.batch)
            return False
        return True

    def _take(self, step: BatchStep, pieces: Iterable[Piece | WholePages]) -> None:
        """Choose the parts of one batch that are fetched."""
        found: list[_Found] = []
        for some in pieces:
            if isinstance(some, Piece):
                table = self._choose(some)
                found += [] if table is None else _by_run(table)
            elif some.counted and self._tally is not None:
                self._tally.table(some.index.table, some.parts)
            elif some.keep:
                found += _kept_pages(some)
            else:
                self._count(some.proofs)
                self.left_out.append(LeftOut(some.parts, some.size_bytes, some.refs))
        self.runs += _runs(step.batch, found)

    def _choose(self, piece: Piece) -> pa.Table | None:
        """Return the rows of a piece whose parts are fetched."""
        keep = piece.keep
        if piece.proofs:
            self._count(piece.proofs)
        counted = np.zeros(len(keep), np.bool_) if piece.counted is None else piece.counted
        asked = fetched = keep & ~counted
        if self._percent:
            keys = piece.table["key"].to_pylist()
            drawn = ~fetched & sampled(keys, self._salt, self._percent)
            self.audited.update(np.array(keys, object)[drawn])
            fetched = asked | drawn
            counted = counted & ~drawn
        if self._tally is not None and counted.any():
            self._tally.table(piece.table.filter(pa.array(counted)), int(counted.sum()))
        skipped = ~fetched & ~counted
        if skipped.any():
            sizes = piece.table["size_bytes"].to_numpy()[skipped]
            again = partial(_refs_of, piece.stored.forgotten(), piece.rows[skipped])
            self.left_out.append(LeftOut(len(sizes), int(sizes.sum()), again))
        if not fetched.any():
            return None
        details = piece.details(fetched)
        if self._wants_groups and piece.wants_groups:
            # A sampled part is read whole.
            groups = piece.groups(asked, details.filter(pa.array(asked[fetched])))
            self.groups |= {} if groups is None else groups.verdict.chosen()
        return details

    def _count(self, found: Sequence[int], times: int = 1) -> None:
        self.proofs = [old + times * new for old, new in zip(self.proofs, found, strict=True)]


def check_mode(mode: str) -> str:
    """Return `mode` if it is one.

    Raises: InvalidRequest.
    """
    if mode not in MODES:
        raise InvalidRequest("unknown filter mode", mode=mode, cure=f"one of {', '.join(MODES)}")
    return mode


def check_pushdown(pushdown: str | None) -> str | None:
    """Return the reader's choice, "off" or "on"; None leaves it to the shard, as "on" does.

    Raises: InvalidRequest.
    """
    if pushdown not in (None, "off", "on"):
        raise InvalidRequest("unknown pushdown", value=pushdown, cure="on, off, or leave it out")
    return pushdown


def _sample_percent(state: State, asked: str | None, applied: str) -> int:
    # `on` stays sampled where the shard's own rollout says so; a supposed `on` is not.
    checked = applied == "audit" or (applied == "on" and asked is None)
    return state.rollout.audit_percent if checked else 0


def _by_run(fetched: pa.Table) -> list[_Found]:
    """Return the parts of one piece that are fetched, run by run."""
    of_run = fetched["run"].to_numpy()
    numbers = np.unique(of_run).tolist()
    if len(numbers) == 1:
        return [(numbers[0], fetched)]
    return [(run, fetched.filter(pa.array(of_run == run))) for run in numbers]


def _kept_pages(pages: WholePages) -> list[_Found]:
    """Return pages that are fetched whole, each of one run, without opening them."""
    of_run = pages.index.table["run_low"].to_numpy()
    ends = [*(np.flatnonzero(np.diff(of_run)) + 1).tolist(), len(of_run)]
    found: list[_Found] = []
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        some = pages.slice(start, end)
        index = some.index.table.select(INDEX_SCHEMA.names)
        found.append((int(of_run[start]), Unopened(index, some.tables, some.pages)))
    return found


def _runs(batch: Batch, found: Sequence[_Found]) -> list[PlannedRun]:
    return [
        PlannedRun(
            batch.lower,
            batch.upper,
            batch.since,
            run,
            Parts(*_joined([some for number, some in found if number == run])),
        )
        for run in sorted({run for run, _ in found})
    ]


def _joined(found: Sequence[pa.Table | Unopened]) -> Iterator[pa.Table | Unopened]:
    """Yield the same parts with neighbouring tables joined."""
    for opened, some in groupby(found, lambda one: isinstance(one, pa.Table)):
        if opened:
            yield pa.concat_tables(some)
        else:
            yield from some


def _refs_of(piece: StoredPiece, rows: Ints) -> list[PartRef]:
    return part_refs(piece.some(rows, SCHEMA.names))

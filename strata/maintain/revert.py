"""Take an interval back: append the retraction of all its updates, as a batch of its own.

    sum of the diffs of a row in [lower, upper), negated, at the shard's upper

So a read after it equals the read of a shard without the interval, and reads at earlier times stay
as they were. The interval itself stays, and with it what the ledger knows of its source files.

A revert is found again by its token, which says what it reverts. So a repetition changes nothing,
and rows are never retracted twice: a revert that overlaps an earlier one is refused, unless that
one was reverted itself. Its batch has a time of its own, so it is an interval as any other.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import Conflict, InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Expr
from strata.format.columns import D, T, child
from strata.format.layout import Description
from strata.machine.ledger import commits_after
from strata.machine.machine import Machine
from strata.machine.reader_hold import reading
from strata.machine.replaced import unless_dropped
from strata.machine.writer_lease import Lease
from strata.model.journals import check_not_journal
from strata.model.settings import ReadSettings
from strata.model.spec import ORDERED
from strata.model.time import MIN_TIME, format_time, time_given
from strata.parts.fetch import source_of
from strata.parts.write import write_batch, write_parts
from strata.plain.parse import plain_filter
from strata.plain.rows import accepts, filter_columns
from strata.read.changed import ChangePlan, plan_changed
from strata.read.merged import merged
from strata.read.scan import DEFAULTS, viewed_column
from strata.state.state import Commit, State
from strata.state.transitions import Appended, append, find_commit
from strata.store.keys import part_prefix
from strata.store.open import Stores
from strata.updates.slices import WHOLE

PREFIX: Final = "revert:"  # of its tokens; no token that a user gives has a colon
EVERYTHING: Final = "all"  # in the place of a filter's hash
ATTEMPTS: Final = 8  # while other writers append


@dataclass(frozen=True, slots=True)
class Reverted:
    """What a revert has appended, or would append."""

    shard: str
    lower: int  # of the interval that is taken back
    upper: int
    at: int  # time of the retractions
    rows: int  # retracted, each with its count
    parts: int
    token: str
    already_reverted: bool = False
    dry_run: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return it as `strata revert --json` prints it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class _Earlier:
    """A revert in the shard, as its token says."""

    commit: Commit
    lower: int
    upper: int
    what: str

    @staticmethod
    def of(commit: Commit) -> "_Earlier | None":
        if not commit.token.startswith(PREFIX):
            return None
        lower, upper, what, _ = commit.token.removeprefix(PREFIX).split(":")
        return _Earlier(commit, int(lower), int(upper), what)

    def takes_back(self, commit: Commit) -> bool:
        """Return whether it retracts everything that a commit has brought."""
        inside = self.lower <= commit.lower and commit.upper <= self.upper
        return inside and self.what == EVERYTHING


def revert_interval(  # noqa: PLR0913 - what to take back, by name
    stores: Stores,
    name: str,
    lower: int,
    upper: int,
    *,
    where: str | None = None,
    dry_run: bool = False,
    settings: ReadSettings = DEFAULTS,
) -> Reverted:
    """Append the retraction of the updates of [lower, upper) that satisfy a plain filter.

    Repeating it changes nothing and returns the first result. With nothing to retract, nothing is
    appended.

    Units: milliseconds since 1970.
    Raises: InvalidRequest for an interval that is not complete, or whose updates compaction may
    have moved; one that overlaps an earlier revert; one upon which later changes of keys rest;
    Conflict when other writers append all the time.
    Cost: reads the parts that may hold updates at or after `lower`; no statistics are trusted.
    """
    check_not_journal(name)
    lower, upper = time_given(lower), time_given(upper)
    machine = Machine(stores)
    if dry_run:
        work = _Work(machine, machine.load(name), lower, upper, where)
        with unless_dropped(machine, name):
            return work.known() or work.preview()
    for _ in range(ATTEMPTS):
        found = _Work(machine, machine.load(name), lower, upper, where).known()
        if found is not None:
            return found
        try:
            lease = Lease(machine, name, "revert")
            with lease, reading(stores, name, settings, "revert") as state:
                work = _Work(machine, state, lower, upper, where)
                return work.known() or work.carry_out(lease.name)
        except Conflict as error:
            last = error
    raise last


@dataclass(frozen=True)
class _Work:
    """One revert in one state of its shard."""

    machine: Machine
    state: State
    lower: int
    upper: int
    where: str | None

    @property
    def what(self) -> str:
        if self.where is None:
            return EVERYTHING
        return blake2b(self.where.strip().encode(), digest_size=8).hexdigest()

    def known(self) -> Reverted | None:
        """Return the same revert if it stands. Raises: InvalidRequest if another one overlaps."""
        for one in self._standing():
            if (one.lower, one.upper, one.what) == (self.lower, self.upper, self.what):
                commit = one.commit
                return replace(
                    self._result(commit.lower, commit.updates, commit.parts, commit.token),
                    already_reverted=True,
                )
            inside = self.lower <= one.commit.lower and one.commit.upper <= self.upper
            if not inside and one.lower < self.upper and self.lower < one.upper:
                raise InvalidRequest(
                    "some of this interval is reverted already, and would be retracted twice",
                    shard=self.state.name,
                    reverted=f"{one.lower} to {one.upper}",
                    at=one.commit.lower,
                    cure="revert that revert first: "
                    f"strata revert {self.state.name} {one.commit.lower} {one.commit.upper}",
                )
        return None

    def preview(self) -> Reverted:
        """Return what would be appended. Cost: reads it."""
        filter, wanted = self._planned()
        rows = sum(table.num_rows for table in self._retractions(wanted, filter))
        token = self._token()
        return replace(self._result(self.state.upper, rows, 0, token), dry_run=True)

    def carry_out(self, writer: str) -> Reverted:
        """Write the retractions and append them.

        Raises: Conflict if the shard went on meanwhile, so that another revert may be among it.
        """
        filter, wanted = self._planned()
        state, spec, at, blob = self.state, self.state.spec, self.state.upper, self._blob
        token = self._token()
        parts = write_parts(
            blob,
            part_prefix(state.name, state.generation),
            self._retractions(wanted, filter),
            state.relation,
            layout=spec.write_format,
            description=Description(at, at + 1, MIN_TIME),
            part_bytes=spec.part_bytes,
            row_group_bytes=spec.group_bytes,
            stats_spec=spec.stats,
        )
        if not parts:
            return self._result(at, 0, 0, token)
        batch = write_batch(blob, state.name, parts, at, at + 1, MIN_TIME)

        def move(found: State, now_ms: int) -> tuple[State, Appended]:
            known = find_commit(found.commits, token)
            if (known is None or known.lower != at) and found.upper != at:
                raise Conflict(
                    "the shard went on while the interval was read",
                    shard=state.name,
                    upper=found.upper,
                    expected=at,
                    cure="run again",
                )
            return append(
                found, now_ms, token=token, lower=at, upper=at + 1, batch=batch, writer=writer
            )

        done = self.machine.apply(state.name, move)
        result = self._result(at, done.commit.updates, done.commit.parts, token)
        return replace(result, already_reverted=done.already_committed)

    @property
    def _blob(self) -> Any:
        return self.machine.stores.blob

    def _earlier(self) -> Iterator[_Earlier]:
        """Yield the reverts that may have to do with the interval, newest first."""
        for commit in commits_after(self._blob, self.state, self.lower):
            one = _Earlier.of(commit)
            if one is not None:
                yield one

    def _standing(self) -> list[_Earlier]:
        """Return the reverts that no later one has taken back, newest first."""
        standing: list[_Earlier] = []
        for one in self._earlier():
            if not any(later.takes_back(one.commit) for later in standing):
                standing.append(one)
        return standing

    def _token(self) -> str:
        """Return the token: a revert that was itself reverted gives its successor another."""
        asked = f"{PREFIX}{self.lower}:{self.upper}:{self.what}:"
        before = sum(one.commit.token.startswith(asked) for one in self._earlier())
        return f"{asked}{before}"

    def _result(self, at: int, rows: int, parts: int, token: str) -> Reverted:
        return Reverted(self.state.name, self.lower, self.upper, at, rows, parts, token)

    def _planned(self) -> tuple[Filter | None, ChangePlan]:
        state, lower, upper = self.state, self.lower, self.upper
        shown = {"shard": state.name, "lower": lower, "upper": upper}
        if not lower < upper <= state.upper:
            raise InvalidRequest(
                "this is no interval that the shard has completed",
                **shown,
                cure=f"choose lower < upper <= {state.upper} ({format_time(state.upper)})",
            )
        if lower <= state.since:
            raise InvalidRequest(
                "the updates of this interval are not apart any more: since has passed its begin",
                **shown,
                since=f"{state.since} ({format_time(state.since)})",
                cure="begin behind since, or write the retractions yourself (envelope: diff); keep "
                "more history with compact.history_ms or a label",
            )
        source = state.spec.source
        if source.envelope in ORDERED and self._parts_since(upper):
            raise InvalidRequest(
                "later changes of keys rest on this interval, and would retract what is not there",
                **shown,
                envelope=source.envelope,
                cure=f"revert up to the shard's upper {state.upper}, then ingest the later files "
                "with --again",
            )
        filter = None if self.where is None else plain_filter(state.relation, self.where)
        stores = self.machine.stores
        return filter, plan_changed(
            stores, state, lower - 1, upper - 1, filter=filter, pushdown="off"
        )

    def _parts_since(self, time: int) -> int:
        stores, state = self.machine.stores, self.state
        return plan_changed(stores, state, time - 1, pushdown="off").parts

    def _retractions(self, wanted: ChangePlan, filter: Filter | None) -> Iterator[pa.Table]:
        """Yield the retractions, in order, each row once."""
        source = source_of(self._blob, self.state)
        found = merged(
            source, wanted.runs, wanted.plan.as_of, WHOLE, wanted.plan.groups, wanted.after
        )
        for rows in found:
            kept = rows if filter is None else rows.filter(self._mask(rows, filter.expr))
            if kept.num_rows:
                yield self._negated(kept)

    def _mask(self, rows: pa.Table, expr: Expr) -> pa.ChunkedArray:
        names = list(dict.fromkeys(column.name for column in filter_columns(expr)))
        columns = [self.state.relation.column(name) for name in names]
        seen = [viewed_column(rows.column(child(c.id)), c.type) for c in columns]
        # A filter without a column is true or false on as many rows.
        table = pa.table([*seen, rows.column(D)], names=[*names, D])
        masks = [accepts(batch, expr) for batch in table.to_batches()]
        return pa.chunked_array(masks, pa.bool_())

    def _negated(self, rows: pa.Table) -> pa.Table:
        try:
            diffs = pc.negate_checked(rows.column(D))
        except pa.ArrowInvalid as error:
            raise InvalidRequest(
                "a count cannot be negated: its opposite exceeds 64 bits",
                shard=self.state.name,
                cure=f"ingest that row yourself in two batches, {2**63 - 1} times and once more",
            ) from error
        times = pa.repeat(pa.scalar(self.state.upper, pa.int64()), rows.num_rows)
        return _with(_with(rows, T, times), D, diffs)


def _with(rows: pa.Table, name: str, values: Any) -> pa.Table:
    place = rows.schema.get_field_index(name)
    return rows.set_column(place, rows.schema.field(place), values)

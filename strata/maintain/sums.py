"""Sums and counts of a shard by groups, kept in another shard from the changes.

    target(t) = SELECT a, b, count(*), sum(c), count(c) FROM source(t) GROUP BY a, b

A run takes the changes of the source since the target's upper, and appends for each time and group
that they touch the retraction of the group's row and the new row. So the target is right at every
time, not only at the newest. Each number is linear in the diffs: a retraction subtracts what the
addition added. Numbers are exact, so floats have no place here.

The target's upper is the position in the source, and moves in the commit that brings the rows: a
run that was killed is repeated, and nothing counts twice. A consumer of the source keeps the
history that the next run needs. The token of a commit names the sums; a target whose last commit is
of others is refused, and so is a source that does not know the consumer: it was made anew.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa

from strata.decide.plan import plan_read
from strata.errors import Conflict, InvalidRequest
from strata.expr.filter import Filter
from strata.format.layout import Description
from strata.machine.ledger import commits_after
from strata.machine.machine import Machine
from strata.machine.reader_hold import reading
from strata.machine.writer_lease import Lease
from strata.maintain.sums_table import Group, GroupSums, SumsTable
from strata.model.settings import ReadSettings
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.plain.parse import plain_filter
from strata.plain.rows import filter_columns
from strata.read.changes import changes, planned_stretch
from strata.read.filtered import filtered_scan
from strata.read.scan import DEFAULTS, scan
from strata.read.subscription import Subscription, Wish
from strata.state.consumers import consumers_of
from strata.state.state import State
from strata.state.transitions import Appended, append
from strata.store.keys import part_prefix
from strata.store.open import Stores
from strata.updates.order import sort_updates

PREFIX: Final = "sums:"  # of tokens; no token that a user gives has a colon
CONSUMER: Final = "sums-"  # of the consumer that keeps the source's history


@dataclass(frozen=True, slots=True)
class SumsWish:
    """What is added up, and where the result is kept."""

    source: str
    target: str
    by: tuple[str, ...]
    sums: tuple[str, ...] = ()
    where: str | None = None


@dataclass(frozen=True, slots=True)
class SumsReport:
    """What a run has brought into the target."""

    shard: str  # the target
    source: str
    lower: int
    upper: int
    changes: int  # updates of the source
    updates: int  # of the target

    def to_json(self) -> dict[str, Any]:
        """Return it as `strata sums --json` prints it."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SumsCheck:
    """The target compared with the source, both at one time."""

    as_of: int
    groups: int
    different: int
    first: dict[str, Any] | None  # the first group that differs: its key, stored and right numbers

    def to_json(self) -> dict[str, Any]:
        """Return it as `strata sums --check --json` prints it."""
        return asdict(self)


def maintain_sums(stores: Stores, wish: SumsWish, settings: ReadSettings = DEFAULTS) -> SumsReport:
    """Bring the target up to the source's upper; create it if there is none.

    A repetition without new changes changes nothing.

    Raises: InvalidRequest for columns that have no exact sum or make no group, for a target that
    holds something else, and when the source's history begins behind the target's upper; Conflict
    when another run was faster; InvalidRequest for a sum that its column cannot hold.
    Cost: reads the changes, and the target's rows. Memory: one entry for each touched group and
    time.
    """
    machine = Machine(stores)
    if wish.target == wish.source:
        raise InvalidRequest("a shard cannot hold its own sums", shard=wish.source, cure="--into")
    table = SumsTable.of(machine.load(wish.source), wish.by, wish.sums)
    if wish.target not in machine.names():
        machine.create(table.declaration(wish.target))
    known, source = machine.load(wish.target), machine.load(wish.source)
    _check_target(stores, known, _token(wish, table, source), table)
    _check_source(source, known)
    start = None if known.upper == MIN_TIME else known.upper
    session = Subscription(
        stores, wish.source, CONSUMER + wish.target, Wish(), start=start, settings=settings
    )
    with (
        Lease(machine, wish.target, "sums") as lease,
        reading(stores, wish.source, settings, "sums") as source,
        reading(stores, wish.target, settings, "sums") as target,
    ):
        table = SumsTable.of(source, wish.by, wish.sums)
        _check_target(stores, target, _token(wish, table, source), table)
        report = _Work(stores, wish, table, source, target, settings).carry_out(lease.name)
    if report.upper > MIN_TIME:
        session.move_to(report.upper)
    return report


def check_sums(stores: Stores, wish: SumsWish, settings: ReadSettings = DEFAULTS) -> SumsCheck:
    """Compare the target with sums of the whole source at the target's last time.

    Raises: as `maintain_sums`. Cost: reads all of both; nothing is skipped.
    """
    with (
        reading(stores, wish.source, settings, "sums-check") as source,
        reading(stores, wish.target, settings, "sums-check") as target,
    ):
        table = SumsTable.of(source, wish.by, wish.sums)
        _check_target(stores, target, _token(wish, table, source), table)
        if target.upper == MIN_TIME:
            raise InvalidRequest("these sums have no time yet", shard=wish.target, cure="a run")
        as_of = target.upper - 1
        filter = _filter(source, wish)
        plan = plan_read(stores, source, as_of=as_of, pushdown="off")
        rows = filtered_scan(stores, source, plan, filter=filter, columns=table.columns)
        right: dict[Group, GroupSums] = {}
        for group, _, tally in table.changes(rows):
            right[group] = right.get(group, table.nothing).plus(tally)
        plan = plan_read(stores, target, as_of=as_of, pushdown="off")
        stored = table.held(scan(stores, target, plan, consolidate=True))
        return _compared(table, as_of, right, stored)


def _compared(
    table: SumsTable,
    as_of: int,
    right: dict[Group, GroupSums],
    stored: Iterator[tuple[Group, GroupSums, int]],
) -> SumsCheck:
    held: dict[Group, GroupSums] = {}
    twice: set[Group] = set()
    for group, tally, count in stored:
        if count != 1 or group in held:
            twice.add(group)
        held[group] = tally
    nothing = table.nothing
    groups = held.keys() | right.keys()
    wrong = [g for g in groups if g in twice or held.get(g, nothing) != right.get(g, nothing)]
    first = min(wrong, key=repr, default=None)
    shown = None if first is None else table.shown(first, held.get(first), right.get(first))
    return SumsCheck(as_of, len(held), len(wrong), shown)


def _filter(source: State, wish: SumsWish) -> Filter | None:
    return None if wish.where is None else plain_filter(source.relation, wish.where)


def _token(wish: SumsWish, table: SumsTable, source: State) -> str:
    """Return the begin of the tokens of these sums."""
    filter = _filter(source, wish)
    chosen = [] if filter is None else sorted({c.id for c in filter_columns(filter.expr)})
    said = repr((wish.by, wish.sums, wish.where, table.ids, chosen))
    return f"{PREFIX}{wish.source}:{blake2b(said.encode(), digest_size=8).hexdigest()}:"


def _check_target(stores: Stores, target: State, begin: str, table: SumsTable) -> None:
    """Refuse a target that holds something else than sums whose tokens begin so."""
    wanted = table.declaration(target.name).relation()
    have = [(c.name, c.type, c.id in target.relation.key) for c in target.relation.columns]
    if have != [(c.name, c.type, c.id in wanted.key) for c in wanted.columns]:
        raise InvalidRequest(
            "this shard has other columns than these sums",
            shard=target.name,
            columns=[f"{c.name}: {c.type}" for c in wanted.columns],
            cure="a new shard; the first run makes it",
        )
    if target.upper == MIN_TIME:
        return
    last = next(iter(commits_after(stores.blob, target, target.upper - 1)), None)
    if last is None or not last.token.startswith(begin):
        raise InvalidRequest(
            "this shard holds something else, or sums of other columns, groups or rows",
            shard=target.name,
            last_token=None if last is None else last.token,
            cure="the same --by, --sum and --where as before, or a new shard",
        )


def _check_source(source: State, target: State) -> None:
    """Refuse a source that is not the one whose changes the target has, by its consumers."""
    name = CONSUMER + target.name
    if target.upper > MIN_TIME and all(c.name != name for c in consumers_of(source)):
        raise InvalidRequest(
            "the source does not know these sums: it was made anew or restored, or the consumer"
            " was removed",
            shard=source.name,
            consumer=name,
            cure="sums in a new shard",
        )


@dataclass(frozen=True)
class _Work:
    """One run: the states of both shards, and what it does between them."""

    stores: Stores
    wish: SumsWish
    table: SumsTable
    source: State
    target: State
    settings: ReadSettings

    def carry_out(self, writer: str) -> SumsReport:
        lower, upper = self.target.upper, self.source.upper
        if upper < lower:
            raise InvalidRequest(
                "the sums are ahead of their source",
                shard=self.wish.target,
                upper=upper,
                cure="a new shard",
            )
        if upper == lower:
            return SumsReport(self.wish.target, self.wish.source, lower, upper, 0, 0)
        found, number = self._changed(lower, upper)
        held = self._held({group for _, group in found}) if lower > MIN_TIME else {}
        updates = list(self._updates(found, held))
        self._append(self.table.arrow(updates, self.target.relation), lower, upper, writer)
        return SumsReport(self.wish.target, self.wish.source, lower, upper, number, len(updates))

    def _changed(self, lower: int, upper: int) -> tuple[dict[tuple[int, Group], GroupSums], int]:
        """Return what each group gains at each time, and how many updates say so."""
        filter = _filter(self.source, self.wish)
        stretch, _ = planned_stretch(self.stores, self.source, lower, upper, filter)
        rows = changes(
            self.stores,
            self.source,
            stretch,
            filter=filter,
            columns=self.table.columns,
            settings=self.settings,
        )
        found: dict[tuple[int, Group], GroupSums] = {}
        number = 0
        for group, t, tally in self.table.changes(rows):
            # What compaction may have moved counts from since on.
            at = (max(t, self.source.since) if lower == MIN_TIME else t, group)
            found[at] = found.get(at, self.table.nothing).plus(tally)
            number += 1
        return found, number

    def _held(self, groups: set[Group]) -> dict[Group, GroupSums]:
        """Return the numbers that the target has of some groups."""
        filter = self.table.few(self.target.relation, groups)
        plan = plan_read(self.stores, self.target, as_of=self.target.upper - 1, filter=filter)
        rows = scan(self.stores, self.target, plan, consolidate=True, settings=self.settings)
        return {group: tally for group, tally, _ in self.table.held(rows) if group in groups}

    def _updates(
        self, found: dict[tuple[int, Group], GroupSums], held: dict[Group, GroupSums]
    ) -> Iterator[tuple[Group, GroupSums, int, int]]:
        """Yield the target's updates: group, numbers, time and diff."""
        nothing = self.table.nothing
        for t, group in sorted(found, key=lambda at: at[0]):
            before = held.get(group, nothing)
            after = before.plus(found[t, group])
            held[group] = after
            if before != after:
                if before != nothing:
                    yield group, before, t, -1
                if after != nothing:
                    yield group, after, t, 1

    def _append(self, rows: pa.Table, lower: int, upper: int, writer: str) -> None:
        state, spec, blob = self.target, self.target.spec, self.stores.blob
        first = lower == MIN_TIME
        parts = write_parts(
            blob,
            part_prefix(state.name, state.generation),
            [sort_updates(rows, state.relation)],
            state.relation,
            layout=spec.write_format,
            description=Description(lower, upper, MIN_TIME),
            part_bytes=spec.part_bytes,
            row_group_bytes=spec.row_group_bytes,
            stats_spec=spec.stats,
        )
        batch = write_batch(blob, state.name, parts, lower, upper, MIN_TIME)
        token = f"{_token(self.wish, self.table, self.source)}{lower}:{upper}"

        def move(found: State, now_ms: int) -> tuple[State, Appended]:
            # The same batch under the same token is found by `append`.
            known = any(commit.token == token for commit in found.commits)
            if not known and (found.upper != lower or found.relation != state.relation):
                raise Conflict(
                    "the target went on while the changes were read",
                    shard=state.name,
                    upper=found.upper,
                    cure="run again",
                )
            after, done = append(
                found, now_ms, token=token, lower=lower, upper=upper, batch=batch, writer=writer
            )
            if first and not done.already_committed:
                # Before since the source has no times apart, and so the sums have none.
                after = replace(after, since=max(after.since, self.source.since))
            return after, done

        Machine(self.stores).apply(state.name, move)

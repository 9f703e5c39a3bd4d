"""Sums and counts of a shard by groups, kept in another shard from the changes.

    target(t) = SELECT a, b, count(*), sum(c), count(c) FROM source(t) GROUP BY a, b

A run takes the changes of the source since the target's upper, and appends for each time and group
that they touch the retraction of the group's row and the new row. So the target is right at every
time, not only at the newest. Each number is linear in the diffs: a retraction subtracts what the
addition added. Sums are exact, so those of floats have no place here. The least and the greatest
value of a group are not linear: `strata.sums.ends` follows them.

The target's upper is the position in the source, and moves in the commit that brings the rows: a
run that was killed is repeated, and nothing counts twice. A consumer of the source keeps the
history that the next run needs. The token of a commit names the sums; a target whose last commit is
of others is refused, and so is a source that does not know the consumer: it was made anew.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa

from strata.decide.plan import plan_read
from strata.errors import Conflict, InvalidRequest
from strata.format.layout import Description
from strata.machine.machine import Machine
from strata.machine.reader_hold import reading
from strata.machine.writer_lease import Lease
from strata.model.settings import ReadSettings
from strata.model.time import MIN_TIME
from strata.parts.write import write_batch, write_parts
from strata.read.changes import changes, planned_stretch
from strata.read.filtered import filtered_scan
from strata.read.scan import DEFAULTS, scan
from strata.read.subscription import Subscription, Wish
from strata.read.values import joined_filter
from strata.state.state import State
from strata.state.transitions import Appended, append, create
from strata.store.keys import part_prefix
from strata.store.open import Stores
from strata.sums.ends import Values, add_value
from strata.sums.table import Group, GroupSums, SumsTable
from strata.sums.target import (
    CONSUMER,
    check_known,
    check_target,
    sums_filter,
    sums_token,
)
from strata.sums.whole import stored_sums, whole_sums
from strata.sums.wish import SumsWish
from strata.updates.order import sort_updates

At: TypeAlias = tuple[int, Group]  # a time, and a group that changes then
Change: TypeAlias = tuple[Group, GroupSums, int, int]  # group, numbers, time and diff


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


def maintain_sums(
    stores: Stores, wish: SumsWish, settings: ReadSettings = DEFAULTS, *, rebuild: bool = False
) -> SumsReport:
    """Bring the target up to the source's upper; create it if there is none.

    A repetition without new changes changes nothing. `rebuild`: the whole source is added up, and
    what differs is corrected at the newest time; new changes count at their own times.

    Raises: InvalidRequest for columns that have no exact sum or make no group, for a filter that is
    not plain, for a target that holds something else, when the source's history begins behind the
    target's upper, for a sum that its column cannot hold, and for a rebuild while the source has
    nothing new; Conflict when another run was faster.
    Cost: reads the changes, and the target's rows. Memory: one entry for each touched group and
    time. A rebuild: reads all of both; memory: all groups.
    """
    machine = Machine(stores)
    if wish.target == wish.source:
        raise InvalidRequest("a shard cannot hold its own sums", shard=wish.source, cure="--into")
    source = machine.load(wish.source)
    table = SumsTable.of(source, wish)
    sums_filter(source, wish)  # one that cannot be leaves no shard that is declared with it
    there = wish.target in machine.names()
    known = machine.load(wish.target) if there else _empty(stores, table, wish)
    source = machine.load(wish.source)
    check_target(stores, known, source, wish, table)
    check_known(source, known)
    with _following(stores, wish, known.upper, settings) as session:
        if there:
            report = _next_run(stores, wish, settings, rebuild=rebuild)
        else:
            report = _first_run(stores, wish, settings)
    if report.upper > MIN_TIME:
        session.move_to(report.upper)
    return report


def _empty(stores: Stores, table: SumsTable, wish: SumsWish) -> State:
    """Return the target as its first run finds it, which is stored nowhere yet."""
    return create(table.declaration(wish), stores.clock())


@contextmanager
def _following(
    stores: Stores, wish: SumsWish, start: int, settings: ReadSettings
) -> Iterator[Subscription]:
    """Have the source keep its history; where the sums cannot begin, nothing waits for them."""
    name = CONSUMER + wish.target
    session = Subscription(stores, wish.source, name, Wish(), start=start, settings=settings)
    try:
        yield session
    except InvalidRequest:
        if wish.target not in Machine(stores).names():
            session.leave()
        raise


def _first_run(stores: Stores, wish: SumsWish, settings: ReadSettings) -> SumsReport:
    """Make the target once it is known what it will hold: a wish that cannot be leaves none."""
    machine = Machine(stores)
    with reading(stores, wish.source, settings, "sums") as source:
        table = SumsTable.of(source, wish)
        work = _Work(stores, wish, table, source, _empty(stores, table, wish), settings)
        news = work.news()
        machine.create(work.target.spec)
        with Lease(machine, wish.target, "sums") as lease:
            return replace(work, target=machine.load(wish.target)).append(news, lease.name)


def _next_run(
    stores: Stores, wish: SumsWish, settings: ReadSettings, *, rebuild: bool
) -> SumsReport:
    with (
        Lease(Machine(stores), wish.target, "sums") as lease,
        reading(stores, wish.source, settings, "sums") as source,
        reading(stores, wish.target, settings, "sums") as target,
    ):
        table = SumsTable.of(source, wish)
        check_target(stores, target, source, wish, table)
        work = _Work(stores, wish, table, source, target, settings)
        return work.append(work.corrected() if rebuild else work.news(), lease.name)


@dataclass(slots=True)
class _Change:
    """What a group gains at a time."""

    numbers: GroupSums
    values: Values


@dataclass(frozen=True, slots=True)
class _News:
    """Updates of the target, each at the time of its changes."""

    rows: pa.Table
    report: SumsReport
    how: str  # behind the token


@dataclass(frozen=True)
class _Work:
    """One run: the states of both shards, and what it does between them."""

    stores: Stores
    wish: SumsWish
    table: SumsTable
    source: State
    target: State
    settings: ReadSettings

    def news(self) -> "_News":
        lower, upper = self._bounds()
        updates, number = self._followed(lower, upper) if upper > lower else ([], 0)
        return self._news(updates, number, lower, upper)

    def corrected(self) -> "_News":
        lower, upper = self._bounds()
        if lower == MIN_TIME:
            return self.news()
        if upper == lower:
            raise InvalidRequest(
                "the sums are corrected together with new changes, and their source has none",
                shard=self.wish.target,
                upper=upper,
                cure="the same command after the next batch of the source",
            )
        updates, number = self._followed(lower, upper)
        right = whole_sums(self.stores, self.source, self.wish, self.table, upper - 1)
        wrong = Counter(right.items())
        wrong.subtract(stored_sums(self.stores, self.target, self.table, lower - 1))
        for group, numbers, _, diff in updates:
            wrong[group, numbers] -= diff
        updates += [(*row, upper - 1, diff) for row, diff in wrong.items() if diff]
        return self._news(updates, number, lower, upper, how=":rebuilt")

    def _followed(self, lower: int, upper: int) -> tuple[list[Change], int]:
        """Return the target's updates, each at the time of its changes, and how many these are."""
        found, number = self._changed(lower, upper)
        held = self._held({group for _, group in found}) if lower > MIN_TIME else {}
        return [*self._updates(found, held, self._ends(found, held, lower))], number

    def _news(
        self, updates: list[Change], number: int, lower: int, upper: int, *, how: str = ""
    ) -> "_News":
        rows = self.table.arrow(updates, self.target.relation)
        report = SumsReport(self.wish.target, self.wish.source, lower, upper, number, rows.num_rows)
        return _News(rows, report, how)

    def _bounds(self) -> tuple[int, int]:
        """Return where the target is, and the source."""
        lower, upper = self.target.upper, self.source.upper
        if upper < lower:
            raise InvalidRequest(
                "the sums are ahead of their source",
                shard=self.wish.target,
                upper=upper,
                cure="a new shard",
            )
        return lower, upper

    @cached_property
    def _certain(self) -> bool:
        """Return whether no value was at less than 0 in the source before the changes."""
        if not self.table.valued or self.target.upper == MIN_TIME:
            return True
        before = self.target.upper - 1
        return plan_read(self.stores, self.source, as_of=before, pushdown="off").monotonic

    def _changed(self, lower: int, upper: int) -> tuple[dict[At, "_Change"], int]:
        """Return what each group gains at each time, and how many updates say so."""
        table, filter = self.table, sums_filter(self.source, self.wish)
        stretch, plan = planned_stretch(self.stores, self.source, lower, upper, filter)
        rows = changes(
            self.stores,
            self.source,
            stretch,
            filter=filter,
            columns=table.columns,
            settings=self.settings,
        )
        slim = table.fold.ends if self._certain and plan.monotonic else ()
        found: dict[At, _Change] = {}
        number = 0
        for group, t, numbers, row in table.changes(rows):
            # What compaction may have moved counts from since on.
            at = (max(t, self.source.since) if lower == MIN_TIME else t, group)
            if at not in found:
                found[at] = _Change(table.nothing, table.fold.no_values)
            change = found[at]
            change.numbers = change.numbers.plus(numbers)
            add_value(change.values, row, numbers.count, slim)
            number += 1
        return found, number

    def _held(self, groups: set[Group]) -> dict[Group, GroupSums]:
        """Return the numbers that the target has of some groups."""
        filter = self.table.few(self.target.relation, groups)
        plan = plan_read(self.stores, self.target, as_of=self.target.upper - 1, filter=filter)
        rows = scan(self.stores, self.target, plan, consolidate=True, settings=self.settings)
        return {group: numbers for group, numbers, _ in self.table.held(rows) if group in groups}

    def _ends(
        self, found: dict[At, "_Change"], held: dict[Group, GroupSums], lower: int
    ) -> dict[At, tuple[Any, ...]]:
        """Return the ends of each group after each of its changes."""
        table = self.table
        if not table.valued:
            return dict.fromkeys(found, ())
        steps: dict[Group, list[int]] = {}
        for t, group in sorted(found, key=lambda at: at[0]):
            steps.setdefault(group, []).append(t)
        ends: dict[At, tuple[Any, ...]] = {}
        rest: dict[Group, list[Values]] = {}
        for group, times in steps.items():
            some = [found[t, group].values for t in times]
            before = held.get(group, table.nothing).ends
            known = table.fold.folded(before, some, certain=self._certain)
            if known is None:
                rest[group] = some
            else:
                ends.update(zip(((t, group) for t in times), known, strict=True))
        there = self._counts(rest.keys(), lower) if rest and lower > MIN_TIME else {}
        for group, some in rest.items():
            known = table.fold.counted(there.get(group, table.fold.no_values), some)
            ends.update(zip(((t, group) for t in steps[group]), known, strict=True))
        return ends

    def _counts(self, groups: Collection[Group], lower: int) -> dict[Group, Values]:
        """Return the values that some groups of the source had before the changes."""
        few = self.table.few(self.source.relation, groups)
        filter = joined_filter(self.source, sums_filter(self.source, self.wish), few)
        plan = plan_read(self.stores, self.source, as_of=lower - 1, filter=filter)
        rows = filtered_scan(
            self.stores,
            self.source,
            plan,
            filter,
            columns=self.table.columns,
            settings=self.settings,
        )
        found = {group: self.table.fold.no_values for group in groups}
        for group, _, numbers, row in self.table.changes(rows):
            if group in found:
                add_value(found[group], row, numbers.count, ())
        return found

    def _updates(
        self,
        found: dict[At, "_Change"],
        held: dict[Group, GroupSums],
        ends: dict[At, tuple[Any, ...]],
    ) -> Iterator[Change]:
        """Yield the target's updates."""
        nothing = self.table.nothing
        for t, group in sorted(found, key=lambda at: at[0]):
            before = held.get(group, nothing)
            after = replace(before.plus(found[t, group].numbers), ends=ends[t, group])
            held[group] = after
            if before != after:
                if before != nothing:
                    yield group, before, t, -1
                if after != nothing:
                    yield group, after, t, 1

    def append(self, news: "_News", writer: str) -> SumsReport:
        """Append what is new; nothing if the source has no changes."""
        rows, report = news.rows, news.report
        lower, upper = report.lower, report.upper
        if upper == lower:
            return report
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
            row_group_bytes=spec.group_bytes,
            stats_spec=spec.stats,
        )
        batch = write_batch(blob, state.name, parts, lower, upper, MIN_TIME)
        token = f"{sums_token(self.wish, self.table, self.source)}{lower}:{upper}{news.how}"

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
        return report

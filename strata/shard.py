"""The front door: a shard by name, and what people ask of it.

A `Shard` holds no state: each call loads the head. It only delegates; the work is done in
`write`, `read`, `compact`, `backfill`, `audit` and the state machine.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from strata.config.settings import load_settings
from strata.decide.descent import resolve_as_of
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.history.metrics import Metrics
from strata.history.usage import emitted, record, record_count
from strata.machine.machine import Machine
from strata.machine.reader_hold import held_state, kept_while, reading
from strata.maintain.revert import Reverted, revert_interval
from strata.maintain.schema import change_schema, describe_schema
from strata.model.schema import Relation
from strata.model.settings import ReadSettings, Settings, StoreSettings, UsageSettings
from strata.model.time import MIN_TIME, format_time, time_given
from strata.plain.conditions import Condition
from strata.plain.parse import plain_filter
from strata.plain.weaker import weaker
from strata.read.changed import changed_rows, plan_changed
from strata.read.changes import Stretch, listen
from strata.read.count import Counted, any_row, count_rows
from strata.read.dataset import Rows, ShardDataset
from strata.read.filtered import filtered_scan
from strata.read.frame import lazy_frame
from strata.read.moments import Moment, resolve_moment
from strata.read.scan import DEFAULTS, scan, scan_schema
from strata.read.subscription import Sink, Subscription, Wish, following
from strata.read.together import common_moment
from strata.read.values import ValuesFound, distinct_values, extreme_value
from strata.state.changed import changes_between
from strata.state.consumers import KEEP_MS
from strata.state.described import describe, summarise
from strata.state.labels import Label, drop_labels, labels_of, set_label
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, SortBy, WidenColumn
from strata.state.state import State
from strata.store.open import Stores, open_stores

if TYPE_CHECKING:
    import duckdb
    import polars as pl

__all__ = [
    "AddColumn",
    "DropColumn",
    "RenameColumn",
    "Shard",
    "Shards",
    "SortBy",
    "WidenColumn",
    "describe",
    "open_shard",
    "open_shards",
    "summarise",
]


SETTINGS_FILE: Final = "strata.toml"  # in a folder that is opened
_a_second: Final = partial(time.sleep, 1.0)


@dataclass(frozen=True)
class Shard:
    """One shard of a pair of stores.

    `as_of` is a time in milliseconds, or a text: ISO 8601, a label, `clock:2026-11-20T10:00`; None
    is the newest. See `strata.read.moments`.
    """

    stores: Stores
    name: str
    settings: ReadSettings = DEFAULTS
    metrics: Metrics = Metrics()  # noqa: RUF009 - frozen
    usage: UsageSettings = UsageSettings()  # noqa: RUF009 - frozen

    def state(self) -> State:
        """Return the newest state; raises InvalidRequest when there is no such shard."""
        return Machine(self.stores).load(self.name)

    def plan(
        self,
        *,
        as_of: Moment | None = None,
        filter: Filter | None = None,
        pushdown: str | None = None,
    ) -> ReadPlan:
        """Return what a read would fetch and skip; see `strata.read.plan_read`."""
        state = self.state()
        at = resolve_moment(self.stores, state, as_of)
        return plan_read(self.stores, state, as_of=at, filter=filter, pushdown=pushdown)

    def scan(
        self,
        *,
        as_of: Moment | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        consolidate: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the snapshot at `as_of` as record batches: columns by name, then t and d.

        `where`: a plain filter in Spark SQL, see `strata.plain.parse`; it skips parts as the
        shard's mode allows. The planned parts stay stored until the last batch is given out, or the
        iterator is closed.
        Raises: InvalidRequest for a filter that needs Spark.
        """
        yield from self._planned(as_of, where, columns, consolidate)[1]

    def count(self, *, as_of: Moment | None = None, where: str | None = None) -> int:
        """Return how many rows the snapshot at `as_of` has, retracted ones left out.

        `where`: a plain filter. Parts that are proven to satisfy it on every row count unread, as
        far as the shard's mode allows; see `strata.read.count`.
        Raises: InvalidRequest for a filter that needs Spark (`strata.spark.count.count`).
        """
        return self._counted(as_of, where, None).count

    def counts(
        self, by: str, *, as_of: Moment | None = None, where: str | None = None
    ) -> Mapping[str, int]:
        """Return the count of each hour, day, month or year in which rows were written.

        Shape: ISO times at which they begin, oldest first, those without rows left out. Times
        before the shard's `since` count as `since`. Otherwise as `count`.
        """
        return self._counted(as_of, where, by).by_bucket

    def exists(self, *, as_of: Moment | None = None, where: str | None = None) -> bool:
        """Return whether a row satisfies a plain filter; otherwise as `count`.

        Reading ends with the first row that no retraction can take back.
        """
        with reading(self.stores, self.name, self.settings, "exists") as state:
            filter = _of_read(state, where)
            at = resolve_moment(self.stores, state, as_of)
            there, found = any_row(
                self.stores, state, filter=filter, as_of=at, settings=self.settings
            )
            record_count(self.stores, state, found, filter, self.usage, self.metrics)
            return there

    def min(self, column: str, *, as_of: Moment | None = None, where: str | None = None) -> Any:
        """Return the least value of a column at `as_of`; None if no row has one.

        `where`: a plain filter. Only parts that may hold the value are read, as far as the shard's
        mode allows; see `strata.read.values` for the order and for retracted rows.
        Raises: InvalidRequest for a column without an order, or a filter that needs Spark
        (`strata.spark.values`).
        """
        return self._values(extreme_value, column, as_of, where, greatest=False).value

    def max(self, column: str, *, as_of: Moment | None = None, where: str | None = None) -> Any:
        """Return the greatest value of a column; otherwise as `min`."""
        return self._values(extreme_value, column, as_of, where, greatest=True).value

    def distinct(
        self,
        column: str,
        *,
        limit: int = 1000,
        as_of: Moment | None = None,
        where: str | None = None,
    ) -> ValuesFound:
        """Return the different values of a column in their order, at most `limit` of them.

        `values` of the answer is an Arrow array; `complete` says whether it has all of them.
        Otherwise as `min`.
        """
        return self._values(distinct_values, column, as_of, where, limit=limit)

    def _values(
        self,
        find: Callable[..., ValuesFound],
        column: str,
        as_of: Moment | None,
        where: str | None,
        **options: Any,
    ) -> ValuesFound:
        with reading(self.stores, self.name, self.settings, "values") as state:
            found = find(
                self.stores,
                state,
                column,
                filter=_of_read(state, where),
                as_of=resolve_moment(self.stores, state, as_of),
                settings=self.settings,
                **options,
            )
            record(self.stores, state, found.plan, found.filter, self.usage, self.metrics)
            return found

    def _counted(self, as_of: Moment | None, where: str | None, by: str | None) -> Counted:
        with reading(self.stores, self.name, self.settings, "count") as state:
            filter = _of_read(state, where)
            at = resolve_moment(self.stores, state, as_of)
            found = count_rows(
                self.stores, state, filter=filter, as_of=at, by=by, settings=self.settings
            )
            record_count(self.stores, state, found, filter, self.usage, self.metrics)
            return found

    def stream(
        self,
        *,
        as_of: Moment | None = None,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        consolidate: bool = False,
    ) -> pa.RecordBatchReader:
        """Return what `scan` yields as an Arrow stream, which DuckDB, Polars and pandas take.

        It can be read once; parts are fetched as it is read, some ahead.
        Raises: InvalidRequest at once. What goes wrong later passes through Arrow and comes as
        `pyarrow.ArrowInvalid`, with the text of the error.
        """
        return pa.RecordBatchReader.from_batches(*self._planned(as_of, where, columns, consolidate))

    def dataset(self, *, as_of: Moment | None = None, consolidate: bool = False) -> ShardDataset:
        """Return the snapshot at `as_of` as a dataset of PyArrow, to be scanned again and again.

        `dataset().to_table(filter=pc.field("dep_delay") > 600, columns=["carrier"])` fetches the
        parts and columns that it needs, as the shard's mode allows. The rows are those of the
        newest state at this call, which stays stored for `[read] hold_ms`.
        Raises: InvalidRequest; see `strata.read.dataset`.
        """
        return ShardDataset(*self._engine_rows(as_of, consolidate))

    def polars(self, *, as_of: Moment | None = None, consolidate: bool = False) -> "pl.LazyFrame":
        """Return the snapshot at `as_of` as a lazy frame of Polars; otherwise as `dataset`.

        Filters and chosen columns of a query reach the planning of parts. Errors of other
        conditions on rows of skipped parts do not come up.
        """
        return lazy_frame(*self._engine_rows(as_of, consolidate))

    def duckdb(
        self,
        connection: "duckdb.DuckDBPyConnection",
        *,
        as_of: Moment | None = None,
        consolidate: bool = False,
    ) -> "duckdb.DuckDBPyRelation":
        """Return the snapshot at `as_of` as a relation of DuckDB; otherwise as `dataset`.

        Filters that DuckDB hands to Arrow's datasets reach the planning of parts, and chosen
        columns do.
        """
        return connection.from_arrow(self.dataset(as_of=as_of, consolidate=consolidate))

    def _engine_rows(self, as_of: Moment | None, consolidate: bool) -> tuple[pa.Schema, Rows]:
        """Return what engines read that filter the rows themselves: all scans see one state."""
        state = held_state(self.stores, self.name, self.settings)
        at = resolve_as_of(state, resolve_moment(self.stores, state, as_of))

        def rows(
            condition: Condition | None, columns: Sequence[str] | None
        ) -> Iterator[pa.RecordBatch]:
            filter = None if condition is None else weaker(state.relation, condition)
            plan = plan_read(self.stores, state, as_of=at, filter=filter)
            record(self.stores, state, plan, filter, self.usage, self.metrics)
            known = {column.name for column in state.relation.columns}
            found = scan(
                self.stores,
                state,
                plan,
                columns=None if columns is None else [c for c in columns if c in known],
                consolidate=consolidate,
                settings=self.settings,
            )
            counted = emitted(found, self.metrics, self.name)
            return kept_while(self.stores, state, self.settings, "scan", counted)

        return scan_schema(state.relation), rows

    def _planned(
        self,
        as_of: Moment | None,
        where: str | None,
        columns: Sequence[str] | None,
        consolidate: bool,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """Return the rows of a read that is planned now, and their schema."""
        state = held_state(self.stores, self.name, self.settings)
        filter = _of_read(state, where)
        at = resolve_moment(self.stores, state, as_of)
        plan = plan_read(self.stores, state, as_of=at, filter=filter)
        record(self.stores, state, plan, filter, self.usage, self.metrics)
        rows = filtered_scan(
            self.stores,
            state,
            plan,
            filter,
            columns=columns,
            consolidate=consolidate,
            settings=self.settings,
        )
        counted = emitted(rows, self.metrics, self.name)
        kept = kept_while(self.stores, state, self.settings, "scan", counted)
        return scan_schema(state.relation, columns), kept

    def changed_rows(
        self,
        first: Moment,
        second: Moment | None = None,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose counts differ between two times, each once: columns, then d.

        d is by how much the count grew. Only parts with later updates than the first time are read.
        `where`: a plain filter; otherwise as `scan`.
        """
        state = held_state(self.stores, self.name, self.settings)
        filter = None if where is None else plain_filter(state.relation, where)
        begin = resolve_moment(self.stores, state, first)
        end = resolve_moment(self.stores, state, second)
        assert begin is not None
        wanted = plan_changed(self.stores, state, begin, end, filter=filter)
        record(self.stores, state, wanted.plan, filter, self.usage, self.metrics)
        rows = changed_rows(self.stores, state, wanted, filter=filter, columns=columns)
        counted = emitted(rows, self.metrics, self.name)
        yield from kept_while(self.stores, state, self.settings, "diff", counted)

    def listen(
        self,
        lower: int = MIN_TIME,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        wait: Callable[[], object] = _a_second,
    ) -> Iterator[tuple[Stretch, Iterator[pa.RecordBatch]]]:
        """Yield the changes from `lower` on, each update once; see `strata.read.changes.listen`.

        After a snapshot at `as_of`, the changes go on at as_of + 1. `where`: a plain filter, which
        skips parts as the shard's mode allows.
        Raises: InvalidRequest for a filter that needs Spark.
        """
        yield from listen(
            self.stores,
            self.name,
            lower,
            where=_plain(where),
            columns=columns,
            wait=wait,
            planned=self._log,
            settings=self.settings,
        )

    def subscribe(  # noqa: PLR0913 - what to read, and how
        self,
        consumer: str,
        sink: Sink | None = None,
        *,
        where: str | None = None,
        columns: Sequence[str] | None = None,
        start: int | None = None,
        step_ms: int | None = None,
        keep_ms: int = KEEP_MS,
    ) -> Subscription:
        """Return a session of a consumer, a reader of changes whose position the shard keeps.

        It takes over from any other session of that name. With a sink it goes on where the sink
        is, otherwise at the stored position; a new consumer begins at `start`, by default at the
        beginning. `where` and `columns` as of `listen`; `step_ms`: the most time in one delivery;
        `keep_ms`: how long history waits for a consumer that nobody moves on.
        Raises: InvalidRequest when compaction has passed its position.
        """
        start = None if start is None else time_given(start)
        asked = (self.stores, self.name, consumer)
        wish = Wish(_plain(where), columns, step_ms)
        if sink is None:
            return Subscription(
                *asked,
                wish,
                start=start,
                keep_ms=keep_ms,
                planned=self._log,
                settings=self.settings,
            )
        return following(
            *asked,
            sink,
            wish,
            start=start,
            keep_ms=keep_ms,
            planned=self._log,
            settings=self.settings,
        )

    def _log(self, state: State, plan: ReadPlan, filter: Filter | None) -> None:
        record(self.stores, state, plan, filter, self.usage, self.metrics)

    def tag(self, label: str, *, at: Moment | None = None, dry_run: bool = False) -> Label:
        """Give a time a name, by default the newest; it stays readable while the label stands.

        A label is given as `as_of`. Repeating it succeeds without effect, if `at` says the time.
        Raises: as `strata.state.labels.set_label`.
        """
        state = self.state()
        time = resolve_as_of(state, resolve_moment(self.stores, state, at))
        move = partial(set_label, name=label, time=MIN_TIME if time is None else time)
        if dry_run:
            return move(state, self.stores.clock())[1]
        return Machine(self.stores).apply(self.name, move)

    def untag(self, label: str) -> bool:
        """Take a label away; return whether there was one."""
        move = partial(drop_labels, names=(label,))
        return Machine(self.stores).apply(self.name, move) > 0

    def tags(self) -> tuple[Label, ...]:
        """Return the labels, sorted by name."""
        return labels_of(self.state())

    def revert(
        self, lower: int, upper: int, *, where: str | None = None, dry_run: bool = False
    ) -> Reverted:
        """Take back the updates of [lower, upper); see `strata.maintain.revert`."""
        return revert_interval(
            self.stores,
            self.name,
            lower,
            upper,
            where=where,
            dry_run=dry_run,
            settings=self.settings,
        )

    def inspect(self) -> dict[str, Any]:
        """Return what is known of the shard, as `strata inspect --json` prints it."""
        return describe(self.state())

    def summary(self) -> dict[str, Any]:
        """Return one line about the shard, as `strata shards --json` lists it."""
        return summarise(self.state())

    def schema(self) -> dict[str, Any]:
        """Return columns and versions of the relation, as `strata schema show --json` prints."""
        return describe_schema(self.state())

    def evolve(
        self, change: Change, *, expected_version: int | None = None, dry_run: bool = False
    ) -> Relation:
        """Add, drop, rename or widen a column, or sort otherwise; return the newest relation.

        `change` is one of `AddColumn`, `DropColumn`, `RenameColumn`, `WidenColumn`, `SortBy`,
        which are given here as well. Registered filters are not looked at.

        Raises: InvalidRequest with the reason; Conflict when the version is not the expected one.
        """
        done = change_schema(
            Machine(self.stores),
            self.name,
            change,
            expected_version=expected_version,
            dry_run=dry_run,
        )
        return done.evolved.relation

    def history(self, limit: int) -> list[dict[str, Any]]:
        """Return the last states, newest first: the commit that each brought, and its changes."""
        states = Machine(self.stores).history(self.name, limit + 1)  # the last one to compare with
        pairs = zip_longest(states[:limit], states[1 : limit + 1])
        return [_entry(state, before) for state, before in pairs]


def _of_read(state: State, where: str | None) -> Filter | None:
    """Return the filter of one read, which may depend on the clock."""
    return None if where is None else plain_filter(state.relation, where, clock=True)


def _plain(where: str | None) -> Callable[[State], Filter] | None:
    return None if where is None else lambda state: plain_filter(state.relation, where)


def open_shard(settings: Settings, name: str, stores: Stores | None = None) -> Shard:
    """Return the shard called `name` in the stores of `settings`, which may be open already.

    Raises: InvalidRequest when there is none.
    """
    stores = open_stores(settings.store) if stores is None else stores
    shard = Shard(stores, name, settings.read, Metrics(settings.metrics), settings.usage)
    shard.state()
    return shard


@dataclass(frozen=True)
class Shards:
    """The shards of a pair of stores by name: `shards["flights"]`, `"flights" in shards`."""

    stores: Stores
    settings: Settings

    def __getitem__(self, name: str) -> Shard:
        """Return the shard called `name`; raises InvalidRequest when there is none."""
        return open_shard(self.settings, name, self.stores)

    def __contains__(self, name: object) -> bool:
        """Return whether there is a shard called `name`."""
        return name in self._names()

    def __iter__(self) -> Iterator[str]:
        """Yield the names in their order."""
        return iter(self._names())

    def __len__(self) -> int:
        """Return how many shards there are."""
        return len(self._names())

    def common_time(self, *names: str, as_of: Moment | None = None) -> int:
        """Return the newest time at which all these shards can be read, in milliseconds.

        As `as_of` of each of their reads, it makes them belong together. Given as a moment by the
        clock, a label or a time, it is the one time that is meant on all of them.
        Raises: as `strata.read.together.common_moment`; InvalidRequest for an unknown shard.
        """
        return common_moment(self.stores, [self[name].state() for name in names], as_of)

    def _names(self) -> list[str]:
        return Machine(self.stores).names()


def open_shards(address: str | os.PathLike[str] | Settings | None = None) -> Shards:
    """Return the shards at an address. Nothing is made where there is nothing.

    `address`: a settings file; a folder that has `strata.toml`, or the blobs and states of a local
    store in `blob` and `consensus.db`, there or in `.strata`; settings; None for what
    STRATA_CONFIG and the other variables of the environment say.
    Raises: InvalidRequest, naming what is missing.
    """
    settings = address if isinstance(address, Settings) else _settings(address)
    return Shards(open_stores(settings.store), settings)


def _settings(address: str | os.PathLike[str] | None) -> Settings:
    if address is None:
        return load_settings(None, os.environ)
    path = Path(address)
    if not path.is_dir():
        return load_settings(str(path), os.environ)
    if (path / SETTINGS_FILE).is_file():
        return load_settings(str(path / SETTINGS_FILE), os.environ)
    # A folder in which the command `strata` worked without settings has its store in `.strata`.
    for store in (path.absolute(), path.absolute() / ".strata"):
        blob, states = store / "blob", store / "consensus.db"
        if blob.is_dir() and states.is_file():
            return Settings(
                store=StoreSettings(blob=f"file://{blob}", consensus=f"sqlite:///{states}")
            )
    raise InvalidRequest(
        "this folder holds no shards",
        folder=str(path),
        cure=f"a folder with {SETTINGS_FILE}, or with blob and consensus.db",
    )


def _entry(state: State, before: State | None) -> dict[str, Any]:
    last = state.commits[-1] if state.commits and state.commits[-1].seqno == state.seqno else None
    return {
        **summarise(state),
        "at": format_time(state.walltime_ms),
        "changed": changes_between(before, state),
        "commit": last.token if last else "",
        "reason": state.rollout.reason if state.rollout.changed_ms == state.walltime_ms else "",
    }

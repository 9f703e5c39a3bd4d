"""Adopts a table of another format: the shard becomes equal to one of its versions, exactly once.

    what the shard holds (its newest token) -> version of the table -> rows that differ -> one batch

The first adoption takes the whole table in, each later one what changed since. The batch is
appended only to the very state that it was worked out from. So of two runs at once one wins, and
the other looks again; a killed run leaves nothing but blobs that nobody names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, Final

import pyarrow as pa

from strata.adopt.columns import Fit, RowTally
from strata.adopt.in_place import InPlace
from strata.adopt.peer import REPLACE, FeedError, Flow, Peer, PeerVersion, VersionDifference
from strata.adopt.record import (
    NONE_REJECTED,
    AdoptionRecord,
    Standing,
    forms_mark,
    standing_of,
    table_mark,
)
from strata.adopt.renamed import former_of, named_as
from strata.adopt.retract import retract_all
from strata.errors import Conflict, InvalidRequest
from strata.ingest.tables import Opened, Rows, commit_tables, open_batch, table_task
from strata.ingest.task import IngestReport, TaskResult
from strata.machine.machine import Machine
from strata.machine.writer_lease import Lease
from strata.maintain.own import ReferredFile, referred_files, take_in
from strata.model.journals import check_not_journal
from strata.model.schema import Relation
from strata.model.settings import Settings
from strata.state.state import State
from strata.store.open import Stores

TRIES: Final = 5  # while other writers append


@dataclass(frozen=True, slots=True)
class Adopted:
    """What an adoption did, or would do."""

    shard: str
    format: str
    table: str
    table_id: str
    version: str
    before: str | None  # version that the shard held; None: none, or not only a version
    how: str  # nothing | whole | replace | feed | files
    files_added: int
    files_removed: int
    already_adopted: bool
    dry_run: bool = False
    feed_failed: str = ""  # why the change feed was left for the files
    in_place: InPlace | None = None  # None: no file was to stay in its place
    taken_in: tuple[ReferredFile, ...] = ()  # files that parts referred to until now
    report: IngestReport | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the document of the command line."""
        others = ("report", "in_place", "taken_in")
        own = {name: getattr(self, name) for name in self.__slots__ if name not in others}
        own |= {"files_taken_in": len(self.taken_in)}
        own |= {"bytes_taken_in": sum(one.size_bytes for one in self.taken_in)}
        own |= {} if self.in_place is None else self.in_place.to_json()
        if self.report is None:
            return own
        brought = self.report.to_json()
        names = ("lower", "upper", "seqno", "updates", "parts", "bytes", "rejected", "token")
        return own | {name: brought[name] for name in names} | {"quarantine": brought["quarantine"]}


def adopt_table(  # noqa: PLR0913 - the choices of one request
    stores: Stores,
    settings: Settings,
    name: str,
    peer: Peer,
    *,
    wanted: int | None = None,
    all_anew: bool = False,
    dry_run: bool = False,
    in_place: InPlace | None = None,
) -> Adopted:
    """Make a shard equal to a version of a table, the newest for None, in one batch.

    If the shard holds that version, or a later one, nothing changes. `all_anew` retracts what the
    shard holds, and takes the whole table in. `dry_run` says what would be read. `in_place`: data
    files that are sorted runs stay where they are, and parts refer to them. Those that the table
    does not have any more are taken into the store.

    Raises: InvalidRequest for columns that do not fit, for a shard that others have written to, and
    for changes that cannot be found out any more; Conflict when other writers append all the time.
    Cost: reads the files that changed, or the changes; writes them once.
    """
    check_not_journal(name)
    machine = Machine(stores)
    last: Conflict | None = None
    for _ in range(TRIES):
        state = machine.load(name)
        work = _planned(stores, state, peer, wanted, all_anew=all_anew)
        if dry_run:
            return work.result(dry_run=True)
        if in_place is not None:
            called = state.spec.source.names_of_source
            work = replace(work, in_place=replace(in_place.anew(), called=called))
        if work.nothing:
            return replace(work.result(), taken_in=_take_in(stores, work))
        try:
            with Lease(machine, name, "adopt") as lease:
                taken_in = _take_in(stores, work)
                done = _carry_out(stores, settings, work, lease.name)
                return replace(done, taken_in=taken_in)
        except Conflict as error:
            last = error
        except InvalidRequest:
            if machine.load(name).upper == state.upper:
                raise
    raise last or Conflict("other writers were always faster", shard=name, cure="run again")


@dataclass(frozen=True)
class _Work:
    """One adoption in one state of its shard."""

    state: State
    peer: Peer
    fit: Fit
    held: AdoptionRecord | None  # of this table
    version: PeerVersion
    difference: VersionDifference
    rejected: int  # as the next record of changes has it
    old: PeerVersion | None = None  # that the shard holds, if changes are worked out from it
    retracts: bool = False  # what the shard holds
    feed_failed: str = ""
    in_place: InPlace | None = None  # None: all rows are written anew

    def by_files(self, reason: str) -> "_Work":
        """Return the same work without the change feed."""
        assert self.old is not None
        found = self.peer.changes(self.old, self.version, feed=False)
        again = None if self.in_place is None else self.in_place.anew()
        return replace(self, difference=found, feed_failed=reason, in_place=again)

    @property
    def nothing(self) -> bool:
        return self.difference.how == "nothing"

    @property
    def before(self) -> Relation | None:
        """Return the columns that the shard had when it took in the version that it holds."""
        if self.held is None:
            return None
        return _columns_of(self.state, self.held.relation)

    def result(self, report: IngestReport | None = None, *, dry_run: bool = False) -> Adopted:
        peer, found = self.peer, self.difference
        known = report is not None and report.already_committed
        return Adopted(
            self.state.name,
            peer.format,
            peer.address,
            peer.identity,
            self.version.shown,
            None if self.held is None else self.held.version.split("-")[0],
            found.how,
            found.added,
            found.removed,
            self.nothing or known,
            dry_run,
            self.feed_failed,
            self.in_place,
            report=report,
        )


def _planned(
    stores: Stores, state: State, peer: Peer, wanted: int | None, *, all_anew: bool
) -> _Work:
    """Return what is to be done. Raises: InvalidRequest."""
    standing = standing_of(stores.blob, state)
    record = standing.record
    held = record if record and record.table == table_mark(peer.identity) else None
    if not all_anew and held is None:
        _check_empty(state, peer, standing)
    before = None if held is None else _columns_of(state, held.relation)
    peer = named_as(peer, state.spec.source.names, state.relation, before)
    version = peer.version(wanted)  # after the state: so it is no older than what the shard holds
    fit = Fit.of(state.name, state.relation)
    work = partial(_Work, state, peer, fit, held, version, rejected=standing.rejected)
    nothing = VersionDifference("nothing", ())
    same = held is not None and held.version.split("-")[0] == version.name.split("-")[0]
    if held is not None and not all_anew:
        overtaken = peer.overtaken(held.version, version)  # it may refuse the table
        if overtaken or (same and wanted is not None):
            return work(difference=nothing)
    fit.check(peer, version)
    if held is None or all_anew:
        flow = Flow(version, False, 1, partial(peer.whole, version), partial(peer.files, version))
        how = "replace" if all_anew else "whole"
        return work(difference=VersionDifference(how, (flow,)), retracts=all_anew)
    # The same rows may be read by other columns than those of then.
    repeated = held.version == version.name
    old = former_of(peer, version) if repeated else peer.recall(held.version)
    found = work(difference=nothing if same else peer.changes(old, version), old=old)
    assert found.before is not None
    fit.check_same(found.before, old, version)
    if standing.rejected != NONE_REJECTED:
        fit.check_rejected(_columns_of(state, standing.rejected))
    if held.forms != forms_mark(state.spec.source, state.relation, found.before):
        raise InvalidRequest(
            "columns, dates or times are read in another way than in the rows that the shard holds",
            shard=state.name,
            setting="source.dates, source.timestamps, source.names",
            cure=REPLACE,
        )
    return found


def _columns_of(state: State, version: int) -> Relation:
    return next(r for r in state.relations if r.version == version)


def _check_empty(state: State, peer: Peer, standing: Standing) -> None:
    """Refuse a shard that holds anything but this table: the two would not become equal."""
    if standing.record is not None:
        raise InvalidRequest(
            "the shard holds another table",
            shard=state.name,
            table=peer.address,
            holds=f"{standing.record.format} {standing.record.table}",
            cure=f"another shard, or {REPLACE}",
        )
    if standing.other is not None:
        raise InvalidRequest(
            "the shard holds rows of others, and would not become equal to the table",
            shard=state.name,
            table=peer.address,
            token=standing.other.token,
            cure=f"another shard, or {REPLACE}",
        )


def _carry_out(stores: Stores, settings: Settings, work: _Work, writer: str) -> Adopted:
    """Read the rows, write them, and append them as one batch."""
    state, version = work.state, work.version
    at = min(version.at_ms or stores.clock(), stores.clock())
    lower = max(state.upper, at)
    record = AdoptionRecord(
        work.peer.format,
        table_mark(work.peer.identity),
        version.name,
        state.relation.version,
        forms_mark(state.spec.source, state.relation, state.relation),
        NONE_REJECTED if work.old is None else work.rejected,
        state.upper,
    )
    # `Fit` has looked at what columns were, and what is retracted as a whole is what is stored.
    rows = Rows(lower, lower + 1, record.token, "diff", diff_column=work.fit.diff, read_alike=True)
    opened = open_batch(stores, settings, state.name, rows)
    if opened.state.upper != state.upper or opened.state.relation != state.relation:
        raise Conflict("the shard went on meanwhile", shard=state.name, cure="run again")
    if opened.report is not None:  # a double of this run was faster
        return work.result(opened.report)
    try:
        results = list(_results(stores, settings, work, opened))
    except FeedError as error:
        work = work.by_files(str(error))
        results = list(_results(stores, settings, work, opened))
    report = commit_tables(
        stores, settings, opened, results, upper_of_basis=state.upper, writer=writer
    )
    return work.result(report)


def _results(
    stores: Stores, settings: Settings, work: _Work, opened: Opened
) -> Iterator[TaskResult]:
    counted = RowTally()
    flows = list(work.difference.flows)
    if work.in_place is not None and len(flows) > 1:
        work.in_place.reasons[
            "the version also removes rows, which may cancel with added ones"
        ] += 1
    elif work.in_place is not None and flows:  # a version may change no file
        blob, partition = stores.blob, len(flows) + 1
        some, rest = work.in_place.refer(
            blob, opened, work.fit, flows[0], work.version, counted, partition
        )
        yield from some
        flows = [] if rest is None else [rest]
    streams = _streams(work, flows, counted)
    for number, tables in enumerate(streams):
        yield from table_task(opened.task, tables, number, settings.ingest.task_bytes, stores.blob)
    expected = work.difference.rows
    if expected is not None and counted.sum != expected:
        raise FeedError(f"it has {counted.sum} rows more or fewer, and the log {expected}")
    if work.retracts:
        yield from retract_all(stores, settings, opened, len(streams))


def _take_in(stores: Stores, work: _Work) -> tuple[ReferredFile, ...]:
    """Take in the files that parts refer to and the version lacks."""
    shard = work.state.name
    if not referred_files(stores.blob, shard):
        return ()
    needed = {file.address for file in work.peer.files(work.version)}
    return tuple(take_in(stores, shard, needed))


def _streams(work: _Work, flows: Sequence[Flow], counted: RowTally) -> list[Iterator[pa.Table]]:
    """Return the rows of flows, those of one schema together: so equal rows cancel early."""
    streams: dict[pa.Schema, list[Iterator[pa.Table]]] = {}
    for flow in flows:
        schema = work.fit.schema(flow, work.before, work.version)
        tables = work.fit.tables(flow, work.before, schema, counted)
        streams.setdefault(schema, []).append(tables)
    return [_in_turn(some) for some in streams.values()]


def _in_turn(streams: Sequence[Iterator[pa.Table]]) -> Iterator[pa.Table]:
    """Yield a table of each stream, then the next of each."""
    for some in zip_longest(*streams):
        yield from (table for table in some if table is not None)

"""Publish a shard as an Iceberg table: snapshots that name the very same parts, under a hold.

    hold (one commit) -> newest state -> manifests of new batches -> commit in the catalog -> hold

The hold keeps every part that a snapshot names, and each publication renews it. A snapshot leaves
the table `keep_ms` after another has replaced it, and only then the hold moves on. A crash at any
point leaves the table as it was, or published; the next run does the rest, and removes the metadata
that the crash left behind. Of two publishers at
once one loses its commit, looks again, and finds nothing left to do or a newer state to show.
"""

import secrets
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyiceberg.serializers import FromInputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from strata.errors import Conflict, Corrupt, InvalidRequest
from strata.machine.machine import Machine
from strata.model.near import one_of
from strata.model.time import format_time
from strata.publish.catalogs import CatalogEntry, LostRaceError, mapping_of
from strata.publish.fields import fields_of, have_ids_of_parts
from strata.publish.manifests import Source, check_layouts, make_manifests
from strata.publish.place import METADATA, SNAPSHOTS, VIEWS, TableFolder
from strata.publish.snapshots import (
    CONTENT,
    PLAIN,
    STATE,
    check_not_ahead,
    check_ours,
    check_unwritten,
    content_of,
    empty_table,
    expired,
    next_sequence,
    number_in,
    removal,
    said_in,
    snapshot_summary,
    snapshot_updates,
)
from strata.publish.views import views_of
from strata.rollout.obey import SKIPPING, mode_of, obeyed
from strata.state.holds import PUBLISHED, find_hold, hold, release, renew
from strata.state.state import Hold, State
from strata.store.draft import drop_abandoned
from strata.store.keys import content_hash
from strata.store.open import Stores, address_of

ATTEMPTS: Final = 10  # lost races before Conflict


@dataclass(frozen=True, slots=True)
class Published:
    """What a publication did."""

    shard: str
    table: str
    location: str
    snapshot: int
    new: bool  # False: the newest snapshot shows this state already
    state: int
    since: int
    upper: int
    files: int
    rows: int
    size_bytes: int
    snapshots: int  # that can be read
    expired: int  # that this run removed
    metrics: bool  # whether files have metrics of columns, not only of `t`
    plain: bool  # whether each row counts once
    left_out: tuple[str, ...]  # columns that the table does not show, and why
    hold: str
    readable_until: str
    views: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """See `Report`."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True)
class Publication:
    """A shard, and the table that shows it."""

    stores: Stores
    shard: str
    place: TableFolder
    table: CatalogEntry
    keep_ms: int

    @property
    def hold(self) -> str:
        """Return the name of the hold that keeps what the table names."""
        return f"{PUBLISHED}iceberg-{content_hash(self.table.identity.encode())[:12]}"

    @property
    def owner(self) -> str:
        """Return the token of the hold: any publisher of this table has it."""
        return f"iceberg {self.table.identity}"

    def publish(self, *, expire: bool = False) -> Published:
        """Make the newest state of the shard the newest snapshot; repeating it changes nothing.

        `expire`: snapshots that have been replaced go at once.
        Raises: InvalidRequest for parts or columns that cannot be shown, and for a table that is
        not ours; Conflict when other publishers are always faster; Corrupt; Unavailable.
        Cost: two commits; reads the manifests of new batches and the footers of new parts.
        """
        check_layouts(state := Machine(self.stores).load(self.shard))
        first = partial(empty_table, self.shard, self._address, self.place.address)
        first(fields_of(state), 0)  # what cannot be shown leaves nothing behind,
        self._check_table(self._loaded())  # nor does a table that is not ours
        for _ in range(ATTEMPTS):
            self.place.claim(self.table.identity)  # again: a drop takes the claim, too
            drop_abandoned(self.place.blob)
            held = self._held()
            state = Machine(self.stores).load(self.shard)
            base = None
            try:
                base = self.table.load() or first(fields_of(state), self.stores.clock())
                self._check_table(base)
                return self._attempt(state, held, base, expire=expire)
            except LostRaceError:
                continue
            except FileNotFoundError as error:  # unless somebody dropped or published it meanwhile
                if base == self._loaded():
                    raise self._incomplete(error) from error
        raise self._overtaken()

    def _check_table(self, found: TableMetadata | None) -> None:
        if found is not None:
            check_ours(found, self.shard, self._address, self.place.address)
            check_unwritten(found)
            check_not_ahead(found, self.shard, Machine(self.stores).load(self.shard).seqno)

    def _loaded(self) -> TableMetadata | None:
        """Return the newest version. Raises: Conflict when others replace it again and again."""
        for _ in range(ATTEMPTS):
            with suppress(LostRaceError):
                return self.table.load()
        raise self._overtaken()

    def _overtaken(self) -> Conflict:
        return Conflict(
            "other publishers of this table were always faster",
            table=self.table.name,
            attempts=ATTEMPTS,
        )

    def _incomplete(self, error: FileNotFoundError) -> Corrupt:
        return Corrupt(
            "a file that the published table names is gone",
            table=self.table.name,
            file=str(error),
            cure=f"`strata publish {self.shard} --iceberg --drop` and publish again; parts stay",
        )

    def drop(self) -> dict[str, Any]:
        """Remove the table and all its metadata, and give the parts free; parts are not touched.

        Raises: InvalidRequest for a table that is not ours, or if there is none.
        """
        base = self._loaded()
        state = Machine(self.stores).load(self.shard, dropped=True)
        there = find_hold(state, self.hold)
        if base is None and there is None:
            others = [h.opaque for h in state.holds if h.name.startswith(PUBLISHED)]
            raise InvalidRequest(
                "no such publication",
                shard=self.shard,
                table=self.table.name,
                cure=one_of(self.owner, others, none="there is none"),
            )
        if base is not None:
            check_ours(base, self.shard, self._address, self.place.address)
        self.table.forget()
        keys = [key for one in (METADATA, VIEWS) for key in self.place.keys_with_removed(one)]
        for key in keys:
            self.place.remove(key)
        if there is not None and state.dropped is None:
            move = partial(release, name=self.hold, opaque=self.owner)
            Machine(self.stores).apply(self.shard, move)
        return {"shard": self.shard, "dropped": self.table.name, "files": len(keys)}

    @property
    def _address(self) -> str:
        return address_of(self.stores.settings)

    def _held(self) -> Hold:
        """Take or prolong the hold; it keeps states from the one that it joined first."""

        def move(state: State, now_ms: int) -> tuple[State, Hold]:
            return hold(
                state,
                now_ms,
                name=self.hold,
                since=state.upper,
                lease_ms=max(self.keep_ms, 1),
                owner=self.owner,
            )

        return Machine(self.stores).apply(self.shard, move)

    def _attempt(self, state: State, held: Hold, base: TableMetadata, *, expire: bool) -> Published:
        fields = fields_of(state)
        mode = obeyed(self.stores, mode_of(state))
        source = Source(
            self.stores.blob,
            self._address,
            state,
            fields,
            mode in SKIPPING,
            frozenset(state.rollout.quarantine),
        )
        content = content_of(source)
        current = base.current_snapshot()
        if current is not None and number_in(current, STATE) > state.seqno:
            raise LostRaceError  # what was loaded is old; look again
        # Another publisher that wrote one of these, and has not committed, loses to this one.
        there = self.place.keys_with_removed(METADATA)
        _tidy(self.place, _left_behind(self.place, base, there), base.snapshots)
        now_ms = max(self.stores.clock(), base.last_updated_ms + 1)
        # Snapshots of a table with other ids than its parts would show no column.
        expire = expire or not have_ids_of_parts(mapping_of(base))
        # An erasure waits for the hold of what shows a state of before, also if nothing differs.
        first = max(held.seqno, state.erasing.closed if state.erasing else 0)
        gone = expired(base, first, now_ms - (0 if expire else self.keep_ms))
        lapsed = current is not None and number_in(current, STATE) < first
        if current is not None and said_in(current, CONTENT) == content and not lapsed:
            of_gone = _named(self.place, gone)
            if gone:
                self.table.commit(base, [removal(gone)])
            return self._done(source, held, base, current, gone, of_gone, new=False)
        if current is not None and (lapsed or expire):
            gone = [*gone, current]
        snapshot_id = secrets.randbits(62) + 1
        files = make_manifests(source, self.place, base, snapshot_id, next_sequence(base))
        snapshot, updates = snapshot_updates(
            base,
            fields,
            snapshot_id,
            now_ms,
            files.location,
            snapshot_summary(source, files, content),
        )
        try:
            self.table.commit(base, [*updates, *([removal(gone)] if gone else [])])
        except LostRaceError:
            for key in files.written:  # nobody else knows these names
                self.place.remove(key)
            raise
        return self._done(source, held, base, snapshot, gone, there, new=True)

    def _done(  # noqa: PLR0913 - what there was, and what became of it
        self,
        source: Source,
        held: Hold,
        base: TableMetadata,
        newest: Snapshot,
        gone: Sequence[Snapshot],
        files: Collection[str],
        *,
        new: bool,
    ) -> Published:
        """Tidy up behind a commit, and let the hold follow the oldest snapshot that is left.

        `files`: those that go unless a snapshot that is left names them.
        """
        removed = {one.snapshot_id for one in gone}
        left = [one for one in base.snapshots if one.snapshot_id not in removed]
        left += [newest] if new else []
        _tidy(self.place, files, left)
        oldest = min(number_in(one, STATE) for one in left)

        def move(state: State, now_ms: int) -> tuple[State, Hold]:
            return renew(
                state,
                now_ms,
                name=self.hold,
                lease_ms=max(self.keep_ms, 1),
                owner=self.owner,
                seqno=oldest,
            )

        held = Machine(self.stores).apply(self.shard, move)
        plain = said_in(newest, PLAIN) == "true"
        views = views_of(
            self.table.name,
            self.place.address,
            source.fields,
            newest.snapshot_id if plain else None,
        )
        for name, text in views.items():
            self.place.overwrite(f"{VIEWS}{name}", text.encode())
        state = source.state
        return Published(
            self.shard, self.table.name, self.place.address, newest.snapshot_id, new, state.seqno,
            state.since, state.upper, int(said_in(newest, "total-data-files")),
            int(said_in(newest, "total-records")), int(said_in(newest, "total-files-size")),
            len(left), len(gone), source.trusted, plain,
            tuple(f"{one.column} ({one.type}): {one.reason}" for one in source.fields.left_out),
            self.hold, format_time(held.expires_ms or 0),
            tuple(self.place.location(f"{VIEWS}{name}") for name in views),
        )  # fmt: skip


def _tidy(place: TableFolder, files: Collection[str], left: Sequence[Snapshot]) -> None:
    """Remove the lists of files that no snapshot names any more; those that name others go last."""
    lists = [key for key in files if key.endswith(".avro")]
    keep = _named(place, left) if lists else set()
    for key in sorted(set(lists) - keep, key=lambda key: (key.startswith(SNAPSHOTS), key)):
        place.remove(key)


def _left_behind(place: TableFolder, base: TableMetadata, there: Iterable[str]) -> set[str]:
    """Return the files of snapshots that the last commit removed, if they are still there."""
    known = {one.snapshot_id for one in base.snapshots}
    removed = [one for one in _before(place, base) if one.snapshot_id not in known]
    return _named(place, removed).intersection(there)


def _before(place: TableFolder, base: TableMetadata) -> list[Snapshot]:
    """Return the snapshots of the version before; none if it is gone, damaged or elsewhere."""
    location = base.metadata_log[-1].metadata_file if base.metadata_log else ""
    if not location.startswith(f"{place.address}/"):
        return []
    with suppress(FileNotFoundError, ValueError):
        return FromInputFile.table_metadata(place.io.new_input(location)).snapshots
    return []


def _named(place: TableFolder, snapshots: Iterable[Snapshot]) -> set[str]:
    """Return the keys of the lists of snapshots, and of those that these name."""
    found = set()
    for snapshot in snapshots:
        found.add(place.key(snapshot.manifest_list))
        if place.io.new_input(snapshot.manifest_list).exists():
            found |= {place.key(one.manifest_path) for one in snapshot.manifests(place.io)}
    return found

"""Publish a shard as an Iceberg table: snapshots that name the very same parts, under a hold.

    hold (one commit) -> newest state -> manifests of new batches -> commit in the catalog -> hold

The hold keeps every part that a snapshot names, and each publication renews it. A snapshot leaves
the table `keep_ms` after another has replaced it, and only then the hold moves on. A crash at any
point leaves the table as it was, or published; the next run does the rest. Of two publishers at
once one loses its commit, looks again, and finds nothing left to do or a newer state to show.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot

from strata.errors import Conflict, InvalidRequest
from strata.machine.machine import Machine
from strata.model.near import one_of
from strata.model.time import format_time
from strata.publish.catalogs import CatalogEntry, LostRaceError, mapping_of
from strata.publish.fields import fields_of, have_ids_of_parts
from strata.publish.manifests import Source, check_layouts, make_manifests
from strata.publish.place import METADATA, VIEWS, TableFolder
from strata.publish.snapshots import (
    CONTENT,
    PLAIN,
    STATE,
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
        not ours; Conflict when other publishers are always faster; Unavailable.
        Cost: two commits; reads the manifests of new batches and the footers of new parts.
        """
        check_layouts(state := Machine(self.stores).load(self.shard))
        first = partial(empty_table, self.shard, self._address, self.place.address)
        first(fields_of(state), 0)  # what cannot be shown leaves nothing behind
        self.place.claim(self.table.identity)
        for _ in range(ATTEMPTS):
            held = self._held()
            state = Machine(self.stores).load(self.shard)
            base = self.table.load()
            if base is None:
                try:
                    self.table.begin(first(fields_of(state), self.stores.clock()))
                except LostRaceError:
                    continue
                base = self.table.load()
                if base is None:
                    continue
            check_ours(base, self.shard, self._address, self.place.address)
            check_unwritten(base)
            try:
                return self._attempt(state, held, base, expire=expire)
            except LostRaceError:
                continue
        raise Conflict(
            "other publishers of this table were always faster",
            table=self.table.name,
            attempts=ATTEMPTS,
        )

    def drop(self) -> dict[str, Any]:
        """Remove the table and all its metadata, and give the parts free; parts are not touched.

        Raises: InvalidRequest for a table that is not ours, or if there is none.
        """
        base = self.table.load()
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
        keys = [key for prefix in (METADATA, VIEWS) for key in self.place.keys(prefix)]
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
        now_ms = max(self.stores.clock(), base.last_updated_ms + 1)
        # Snapshots of a table with other ids than its parts would show no column.
        expire = expire or not have_ids_of_parts(mapping_of(base))
        gone = expired(base, held.seqno, now_ms - (0 if expire else self.keep_ms))
        lapsed = current is not None and number_in(current, STATE) < held.seqno
        if current is not None and said_in(current, CONTENT) == content and not lapsed:
            if gone:
                self.table.commit(base, [removal(gone)])
            return self._done(source, held, base, current, gone, new=False)
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
        return self._done(source, held, base, snapshot, gone, new=True)

    def _done(
        self,
        source: Source,
        held: Hold,
        base: TableMetadata,
        newest: Snapshot,
        gone: Sequence[Snapshot],
        *,
        new: bool,
    ) -> Published:
        """Tidy up behind a commit, and let the hold follow the oldest snapshot that is left."""
        removed = {one.snapshot_id for one in gone}
        left = [one for one in base.snapshots if one.snapshot_id not in removed]
        left += [newest] if new else []
        _tidy(self.place, gone, left)
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


def _tidy(place: TableFolder, gone: Sequence[Snapshot], left: Sequence[Snapshot]) -> None:
    """Remove the metadata that only removed snapshots name."""
    if not gone:
        return
    keep = {one.manifest_path for snapshot in left for one in snapshot.manifests(place.io)}
    for snapshot in gone:
        for manifest in snapshot.manifests(place.io):
            if manifest.manifest_path not in keep:
                place.remove(place.key(manifest.manifest_path))
        place.remove(place.key(snapshot.manifest_list))

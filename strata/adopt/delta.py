"""Tables of Delta Lake, read by the library deltalake.

What changed between two versions comes from the change feed where it is on, and otherwise from the
data files: rows of removed files leave, rows of added files come. Both say the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, DeltaProtocolError
from deltalake.table import SUPPORTED_READER_FEATURES
from pyarrow.dataset import Fragment

from strata.adopt.calendar import DataFiles, by_this_calendar
from strata.adopt.delta_files import (
    APART,
    MAPPED,
    DeltaFile,
    data_files,
    fragments_of,
    has_marks,
    has_nanoseconds,
    live_rows,
)
from strata.adopt.delta_log import commit_of
from strata.adopt.inner import field_paths
from strata.adopt.peer import (
    CHANGE_TYPE,
    REPLACE,
    DataFile,
    FeedError,
    Flow,
    PeerVersion,
    VersionDifference,
    first_words,
    reading_peer,
    without_secrets,
)
from strata.errors import InvalidRequest
from strata.store.reference import outside_address

FEED: Final = "delta.enableChangeDataFeed"
KNOWN: Final = (DeltaError, ValueError)  # of a log, of marks, and of values in either
LOG: Final = (
    "is the address right? is _delta_log whole? a _last_checkpoint in it that names a checkpoint "
    "which is not there may be deleted"
)
FEED_COLUMNS: Final = (CHANGE_TYPE, "_commit_version", "_commit_timestamp")


@dataclass(frozen=True, slots=True)
class DeltaPeer:
    """A table of Delta Lake."""

    at: str  # as it was asked for: may hold secrets
    identity: str
    format: str = "delta"

    @property
    def address(self) -> str:
        """See `Peer.address`."""
        return without_secrets(self.at)

    @staticmethod
    def open(address: str) -> "DeltaPeer":
        """Return the table at an address. Raises: InvalidRequest if there is none."""
        with reading_peer("deltalake", without_secrets(address), KNOWN, LOG):
            return DeltaPeer(address, str(DeltaTable(address).metadata().id))

    def version(self, wanted: int | None) -> PeerVersion:
        """See `Peer.version`."""
        with reading_peer("deltalake", self.address, KNOWN):
            table = DeltaTable(self.at, version=wanted)
            if str(table.metadata().id) != self.identity:
                raise InvalidRequest(
                    "another table has taken the place of this one",
                    table=self.address,
                    cure="run again",
                )
            self._check_features(table)
            columns = pa.schema(table.schema().to_arrow())
            number = table.version()
            commit = commit_of(self.at, number)
            name = f"{number}-{commit.mark}" if commit.mark else str(number)
            return PeerVersion(name, str(number), commit.at_ms, columns, handle=table)

    def _check_features(self, table: DeltaTable) -> None:
        """Refuse a table that only others read. Raises: InvalidRequest."""
        unread = {*_features(table)} - SUPPORTED_READER_FEATURES - APART
        if unread:
            raise InvalidRequest(
                "deltalake does not read tables with these features",
                table=self.address,
                features=", ".join(sorted(unread)),
                cure="ALTER TABLE … DROP FEATURE, in Spark; else adopt a copy without them",
            )

    def recall(self, name: str) -> PeerVersion:
        """See `Peer.recall`. Raises also if another commit has the number of the version now."""
        found = self.version(int(name.partition("-")[0]))
        self._check_kept(name, found)
        return found

    def overtaken(self, held: str, wanted: PeerVersion) -> bool:
        """See `Peer.overtaken`."""
        ahead = int(held.partition("-")[0]) - int(wanted.shown)
        if ahead > 0:
            self.recall(held)
        elif ahead == 0:
            self._check_kept(held, wanted)
        return ahead > 0

    def _check_kept(self, held: str, found: PeerVersion) -> None:
        """Refuse a version that is another one than that of its number which the shard holds."""
        # Records of before have no mark, and neither do commits that the log lost.
        known = "-" in held and "-" in found.name
        if known and held != found.name:
            raise InvalidRequest(
                "the table has another commit in the place of the version that the shard holds",
                table=self.address,
                version=found.shown,
                cure=f"was the table restored from a copy? {REPLACE}",
            )

    def whole(self, version: PeerVersion) -> Iterator[pa.RecordBatch]:
        """See `Peer.whole`. The files are read where that can be: the library checks no page."""
        with reading_peer("deltalake", self.address, KNOWN):
            some = self._each_file(version)
            if some is not None:
                yield from self._rows_in(version, some, judged=True)
                return
            found = pa.RecordBatchReader.from_stream(version.handle.scan())
            rows = by_this_calendar(found, partial(self._files, version))
            yield from _parted(rows, version.handle)

    def _each_file(self, version: PeerVersion) -> list[DeltaFile] | None:
        """Return the data files; None if only the library can read them.

        The library cuts nanoseconds off, which Delta's times do not have. A table that was made of
        files with them mostly has them in each file.
        """
        some = self._shown(version)
        return None if some and has_nanoseconds(some[0].fragment.physical_schema) else some

    def _shown(self, version: PeerVersion) -> list[DeltaFile] | None:
        """Return the data files; None if the library shows none, as of partitions below zero."""
        if MAPPED in _features(version.handle):
            return None
        try:
            return list(data_files(self.at, version.handle).values())
        except (DeltaProtocolError, InvalidRequest, ValueError):
            return None

    def files(self, version: PeerVersion) -> Sequence[DataFile]:
        """See `Peer.files`."""
        with reading_peer("deltalake", self.address, KNOWN):
            return self._as_files(version, self._shown(version) or ())

    def _as_files(self, version: PeerVersion, some: Iterable[DeltaFile]) -> list[DataFile]:
        root = unquote(version.handle.table_uri).rstrip("/")
        return [
            DataFile(
                outside_address(_below(root, one.fragment.path)) if one.all_count else "",
                partial(self._rows_in, version, [one], judged=True),
            )
            for one in some
        ]

    def changes(
        self, old: PeerVersion, new: PeerVersion, *, feed: bool = True
    ) -> VersionDifference:
        """See `Peer.changes`."""
        before, after = old.handle, new.handle
        features = {*_features(before), *_features(after)}
        if MAPPED in features:
            raise InvalidRequest(
                "the files of this table do not show what changed",
                table=self.address,
                feature=MAPPED,
                cure=REPLACE,
            )
        self._check_added(old, new)
        # Who deletes by marks need not write the feed, and the library does not derive it then.
        fed = feed and _fed(after) and _fed(before) and _feed_shows(old, new)
        marked = fed and any(map(has_marks, (before, after)))
        found = self._by_feed(old, new) if fed and not marked else None
        return found or self._by_files(old, new)

    def _check_added(self, old: PeerVersion, new: PeerVersion) -> None:
        """Refuse columns, or fields in them, that came with values which kept files had already.

        Rows of kept files are not read again; they are taken to be null in what came.
        Cost: reads the footers of kept files if something came.
        """
        came = field_paths(new.columns).keys() - field_paths(old.columns).keys()
        if not came:
            return
        with reading_peer("deltalake", self.address, KNOWN):
            before, after = data_files(self.at, old.handle), data_files(self.at, new.handle)
            for file in before.keys() & after.keys():
                had = came & field_paths(after[file].fragment.physical_schema).keys()
                if had:
                    raise InvalidRequest(
                        "a column came to the table, and files of before have values of it",
                        table=self.address,
                        version=new.shown,
                        column=".".join(min(had)),
                        file=file,
                        cure=REPLACE,
                    )

    def _by_feed(self, old: PeerVersion, new: PeerVersion) -> VersionDifference | None:
        """Return the change feed between two versions; None if it was off in between."""
        first, last = int(old.shown) + 1, int(new.shown)

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                feed = new.handle.load_cdf(starting_version=first, ending_version=last)
                found = pa.RecordBatchReader.from_stream(feed)
                rows = by_this_calendar(found, partial(self._files, old, new))
                yield from _parted(rows, new.handle)
            except Exception as error:  # it is the library's own, of some kind
                raise FeedError(first_words(error)) from error

        try:
            new.handle.load_cdf(starting_version=first, ending_version=last)
        except (DeltaError, ValueError):
            return None
        counts = _rows(old.handle), _rows(new.handle)
        more = None if counts[0] is None or counts[1] is None else counts[1] - counts[0]
        return VersionDifference("feed", (Flow(new, False, None, batches),), rows=more)

    def _by_files(self, old: PeerVersion, new: PeerVersion) -> VersionDifference:
        with reading_peer("deltalake", self.address, KNOWN):
            before, after = data_files(self.at, old.handle), data_files(self.at, new.handle)
        removed = [one for path, file in before.items() for one in file.without(after.get(path))]
        added = [one for path, file in after.items() for one in file.without(before.get(path))]
        flows = []
        if removed:
            flows.append(Flow(old, True, -1, partial(self._rows_in, old, removed)))
        if added:
            rows = partial(self._rows_in, new, added, judged=True)
            flows.append(Flow(new, False, 1, rows, partial(self._as_files, new, added)))
        return VersionDifference("files", tuple(flows), len(added), len(removed))

    def _rows_in(
        self, version: PeerVersion, some: list[DeltaFile], *, judged: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Yield rows; `judged`: their calendar is. Retractions are what the shard once took in."""
        with reading_peer("deltalake", self.address, KNOWN):
            rows = live_rows(some, version.columns)
            if judged:
                rows = by_this_calendar(rows, partial(_opened, [one.fragment for one in some]))
            try:
                yield from _parted(rows, version.handle)
            except pa.ArrowInvalid as error:
                if "would lose data" not in str(error):
                    raise
                raise InvalidRequest(
                    "files of this table have times finer than Delta's microseconds",
                    table=self.address,
                    reason=first_words(error),
                    cure="write it anew, as deltalake does, which cuts them off: write_deltalake("
                    f'TABLE, DeltaTable(TABLE).scan(), mode="overwrite"); then {REPLACE}',
                ) from error

    def _files(self, *versions: PeerVersion) -> DataFiles:
        for version in versions:
            yield from _opened(fragments_of(self.at, version.handle))


def _below(root: str, path: str) -> str:
    """Return the path or address of a data file; a clone names those of another table whole."""
    return path if path.startswith("/") or "://" in path else f"{root}/{path}"


def _opened(fragments: Iterable[Fragment]) -> DataFiles:
    return ((fragment.path, fragment.open) for fragment in fragments)


def _parted(batches: Iterable[pa.RecordBatch], table: DeltaTable) -> Iterator[pa.RecordBatch]:
    """Yield batches in which empty texts and bytes of partition columns are null.

    In Delta's log the empty value is null. The library shows it as one or the other, depending on
    which of its readers is asked; and a retraction has to have what the addition had.
    """
    parted = table.metadata().partition_columns
    for batch in batches:
        yield batch if not parted else _without_empty(batch, parted)


def _without_empty(batch: pa.RecordBatch, names: Iterable[str]) -> pa.RecordBatch:
    for name in names:
        place = batch.schema.get_field_index(name)
        field = batch.schema.field(place)
        if "string" in str(field.type) or "binary" in str(field.type):
            shown = batch.column(place).cast(pa.binary())
            values = pc.if_else(pc.equal(shown, b""), pa.scalar(None, pa.binary()), shown)
            batch = batch.set_column(place, field.with_nullable(True), values.cast(field.type))
    return batch


def _features(table: DeltaTable) -> list[str]:
    protocol = table.protocol()
    mapped = table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none"
    return [*(protocol.reader_features or ()), *([MAPPED] if mapped else [])]


def _fed(table: DeltaTable) -> bool:
    return table.metadata().configuration.get(FEED, "").lower() == "true"


def _feed_shows(old: PeerVersion, new: PeerVersion) -> bool:
    """Return whether the feed has all columns of both versions: it has those of the new one."""
    names = {*new.columns.names} | {*old.columns.names}
    kept = all(field in new.columns for field in old.columns)
    return kept and names.isdisjoint(FEED_COLUMNS)


def _rows(table: DeltaTable) -> int | None:
    """Return how many rows the log says a version has; None where it does not."""
    actions: Any = pa.table(table.get_add_actions(flatten=True))
    if "num_records" not in actions.column_names:
        return None if actions.num_rows else 0
    counts = actions.column("num_records")
    return None if counts.null_count else int(pc.sum(counts).as_py() or 0)

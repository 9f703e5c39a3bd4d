"""A table some of whose columns are called otherwise in the shard: `source.names` pairs them.

    columns of the table --pairs--> columns of the shard

Versions, rows and files of a `RenamedPeer` have the shard's names, so that nothing behind it knows
others. Rows of the version that the shard holds have those that its columns had then.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import pyarrow as pa

from strata.adopt.inner import Path
from strata.adopt.peer import Batches, DataFile, Flow, Peer, PeerVersion, VersionDifference
from strata.errors import InvalidRequest
from strata.model.names import Pairs, as_pair
from strata.model.schema import Relation

Files = Callable[[], Sequence[DataFile]]


@dataclass(frozen=True)
class RenamedPeer:
    """See `Peer`."""

    peer: Peer
    now: Mapping[str, str]  # the shard's name of each column that the table calls otherwise
    then: Mapping[str, str]  # the same in the columns of the version that the shard holds
    _versions: dict[str, PeerVersion] = field(default_factory=dict)  # of the peer itself

    @property
    def format(self) -> str:
        """See `Peer.format`."""
        return self.peer.format

    @property
    def address(self) -> str:
        """See `Peer.address`."""
        return self.peer.address

    @property
    def identity(self) -> str:
        """See `Peer.identity`."""
        return self.peer.identity

    def version(self, wanted: int | None) -> PeerVersion:
        """See `Peer.version`. Raises also: InvalidRequest for two columns of one name."""
        return self._named(self.peer.version(wanted), old=False)

    def recall(self, name: str) -> PeerVersion:
        """See `Peer.recall`."""
        return self._named(self.peer.recall(name), old=True)

    def overtaken(self, held: str, wanted: PeerVersion) -> bool:
        """See `Peer.overtaken`."""
        return self.peer.overtaken(held, self._own(wanted))

    def whole(self, version: PeerVersion) -> Iterator[pa.RecordBatch]:
        """See `Peer.whole`."""
        return self._rows(partial(self.peer.whole, self._own(version)), self.now)()

    def files(self, version: PeerVersion) -> Sequence[DataFile]:
        """See `Peer.files`."""
        return self._files(partial(self.peer.files, self._own(version)))()

    def changes(
        self, old: PeerVersion, new: PeerVersion, *, feed: bool = True
    ) -> VersionDifference:
        """See `Peer.changes`."""
        found = self.peer.changes(self._own(old), self._own(new), feed=feed)
        return replace(found, flows=tuple(self._flow(flow) for flow in found.flows))

    def former(self, version: PeerVersion) -> PeerVersion:
        """Return a version under the names that the shard had when it took it in."""
        return self._named(self._own(version), old=True)

    def _named(self, version: PeerVersion, *, old: bool) -> PeerVersion:
        names = self.then if old else self.now
        fields = [one.with_name(names.get(one.name, one.name)) for one in version.columns]
        called = [one.name for one in fields]
        twice = next((name for name in called if called.count(name) > 1), None)
        if twice is not None:
            source = next(name for name, column in names.items() if column == twice)
            raise InvalidRequest(
                "the table has a column of the name that another one is given",
                table=self.address,
                version=version.shown,
                column=twice,
                names=as_pair(source, twice),
                cure="give the other one a name as well, in source.names of the declaration",
            )
        made = replace(
            version,
            columns=pa.schema(fields, version.columns.metadata),
            ids={_path(path, names): number for path, number in version.ids.items()},
            defaults=frozenset(_path(path, names) for path in version.defaults),
        )
        self._versions[made.name] = version
        return made

    def _own(self, version: PeerVersion) -> PeerVersion:
        """Return what the peer itself knows as a version."""
        return self._versions[version.name]

    def _flow(self, flow: Flow) -> Flow:
        names = self.then if flow.old else self.now
        return replace(
            flow,
            version=self._named(flow.version, old=flow.old),
            batches=self._rows(flow.batches, names),
            files=None if flow.files is None else self._files(flow.files),
        )

    def _files(self, files: Files) -> Files:
        def renamed() -> list[DataFile]:
            return [replace(one, batches=self._rows(one.batches, self.now)) for one in files()]

        return renamed

    @staticmethod
    def _rows(batches: Batches, names: Mapping[str, str]) -> Batches:
        def renamed() -> Iterator[pa.RecordBatch]:
            for batch in batches():
                yield batch.rename_columns([names.get(n, n) for n in batch.schema.names])

        return renamed


def named_as(peer: Peer, pairs: Pairs, relation: Relation, before: Relation | None) -> Peer:
    """Return a table under the names of a shard. `before`: its columns of the version it holds."""
    if not pairs:
        return peer
    now, then = {}, {}
    for source, column in pairs:
        declared = relation.by_name.get(column)
        earlier = before.by_id.get(declared.id) if before and declared else None
        now[source] = column
        then[source] = column if earlier is None else earlier.name
    return RenamedPeer(peer, now, then)


def former_of(peer: Peer, version: PeerVersion) -> PeerVersion:
    """Return a version under the names that the shard had when it took it in."""
    return peer.former(version) if isinstance(peer, RenamedPeer) else version


def _path(path: Path, names: Mapping[str, str]) -> Path:
    return (names.get(path[0], path[0]), *path[1:])

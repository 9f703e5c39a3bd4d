"""Where the newest version of a published table is named: a catalog of files, or one of PyIceberg.

A commit is a compare-and-set in both: `LostRaceError` says that another publisher was faster, and
nothing of the lost commit can be seen. A catalog of files is what Iceberg calls a Hadoop table:
numbered versions, each written once.
"""

import re
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, Final, Protocol

import orjson
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import (
    CommitFailedException,
    NamespaceAlreadyExistsError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)

from strata.errors import Corrupt, InvalidRequest, StrataError, Unavailable
from strata.publish.place import METADATA, TableFolder
from strata.store.retry import retry

HINT: Final = f"{METADATA}version-hint.text"
VERSIONS_KEPT: Final = 20  # of a catalog of files; readers that plan need only the newest
MAIN: Final = "main"
MAPPING: Final = "schema.name-mapping.default"  # the property
_VERSION: Final = re.compile(rf"{METADATA}v(\d+)\.metadata\.json")


class LostRaceError(Exception):
    """Another publisher has changed the table meanwhile."""


class CatalogEntry(Protocol):
    """A table as its catalog names it."""

    name: str  # for people, and for the texts of views
    identity: str  # with its catalog: no two tables of one folder have the same

    def load(self) -> TableMetadata | None:
        """Return the newest version; None if there is no table."""
        ...

    def commit(self, base: TableMetadata, updates: Sequence[TableUpdate]) -> None:
        """Make the next version, or the table if none was loaded: nobody sees it empty.

        Raises: LostRaceError when `base` is not the newest.
        """
        ...

    def forget(self) -> None:
        """Remove the table from its catalog, so that nobody begins to read it."""
        ...


class FilesTable:
    """A table in a catalog of files."""

    def __init__(self, place: TableFolder) -> None:
        """Use a folder."""
        self._place = place
        self._version = 0  # that was loaded
        self.name = self.identity = place.address

    def load(self) -> TableMetadata | None:
        """See `CatalogEntry.load`. Leads readers to it, too: who wrote it may have been killed."""
        self._version = max(self._versions(), default=0)
        if not self._version:
            return None
        found = self._read(self._version)
        if retry(partial(self._place.blob.get, HINT)) != str(self._version).encode():
            self._place.overwrite(HINT, str(self._version).encode())
        return found

    def commit(self, base: TableMetadata, updates: Sequence[TableUpdate]) -> None:
        """See `CatalogEntry.commit`."""
        versions = self._versions()
        if max(versions, default=0) != self._version:
            raise LostRaceError
        location = self._place.location(_version_key(self._version)) if versions else None
        made = update_table_metadata(base, tuple(updates), metadata_location=location)
        self._write(self._version + 1, made)
        for old in versions[: -VERSIONS_KEPT + 1]:
            self._place.remove(_version_key(old))

    def forget(self) -> None:
        """See `CatalogEntry.forget`."""
        self._place.remove(HINT)
        for version in reversed(self._versions()):
            self._place.remove(_version_key(version))

    def _versions(self) -> list[int]:
        found = (_VERSION.fullmatch(key) for key in self._place.keys(f"{METADATA}v"))
        return sorted(int(match[1]) for match in found if match)

    def _read(self, version: int) -> TableMetadata:
        key = _version_key(version)
        data = retry(partial(self._place.blob.get, key))
        if data is None:
            raise LostRaceError  # it is gone: newer versions have replaced it
        try:
            return TableMetadataUtil.parse_raw(data.decode())
        except (ValueError, ValidationError) as error:
            raise Corrupt(
                "the metadata of a published table are damaged",
                file=self._place.location(key),
                reason=str(error)[:300],
                cure="strata publish --drop, and publish it again",
            ) from error

    def _write(self, version: int, metadata: TableMetadata) -> None:
        data = metadata.model_dump_json().encode()
        try:
            retry(partial(self._place.blob.set, _version_key(version), data))
        except InvalidRequest as error:  # write-once: another publisher made this version
            raise LostRaceError from error
        newest = max(self._versions(), default=version)
        if newest > version and not self._led_to(newest, version):
            self._place.remove(_version_key(version))  # where one was that is too old to be kept
            raise LostRaceError
        self._place.overwrite(HINT, str(newest).encode())

    def _led_to(self, newest: int, version: int) -> bool:
        """Return whether a version is one that the newest was made from."""
        location = self._place.location(_version_key(version))
        return any(one.metadata_file == location for one in self._read(newest).metadata_log)


class CatalogTable:
    """A table in a catalog that PyIceberg knows."""

    def __init__(
        self, place: TableFolder, catalog: Catalog, called: str, namespace: str, table: str
    ) -> None:
        """Use a catalog, called like this; nothing is asked of it yet."""
        self._place, self._catalog = place, catalog
        # A name that is not cut into its levels is another one for some catalogs.
        self._levels = tuple(namespace.split("."))
        self._called = (*self._levels, table)
        self.name = f"{namespace}.{table}"
        self.identity = f"{called} {self.name}"
        self._loaded: Table | None = None

    def load(self) -> TableMetadata | None:
        """See `CatalogEntry.load`."""
        self._loaded = None
        with _asking(self.name):
            try:
                self._loaded = self._catalog.load_table(self._called)
            except NoSuchTableError:
                return None
        return self._loaded.metadata

    def commit(self, base: TableMetadata, updates: Sequence[TableUpdate]) -> None:
        """See `CatalogEntry.commit`."""
        if self._loaded is None:
            self._begin(update_table_metadata(base, tuple(updates)))
            return
        needs: tuple[TableRequirement, ...] = (
            AssertTableUUID(uuid=base.table_uuid),
            AssertRefSnapshotId.model_validate(
                {"ref": MAIN, "snapshot-id": base.current_snapshot_id}
            ),
        )
        with _asking(self.name):
            try:
                self._catalog.commit_table(self._loaded, needs, tuple(updates))
            except CommitFailedException as error:
                raise LostRaceError from error

    def forget(self) -> None:
        """See `CatalogEntry.forget`."""
        with _asking(self.name), suppress(NoSuchTableError):
            self._catalog.drop_table(self._called)

    def _begin(self, metadata: TableMetadata) -> None:
        key = f"{METADATA}00000-{uuid.uuid4()}.metadata.json"
        retry(partial(self._place.blob.set, key, metadata.model_dump_json().encode()))
        with _asking(self.name):
            with suppress(NamespaceAlreadyExistsError):
                self._catalog.create_namespace(self._levels)
            try:
                self._catalog.register_table(self._called, self._place.location(key))
            except TableAlreadyExistsError as error:
                raise LostRaceError from error


def catalog_table(place: TableFolder, catalog: str, name: str) -> CatalogTable:
    """Return a table in a catalog that PyIceberg opens; `name` is NAMESPACE.TABLE.

    `catalog` is a name in PyIceberg's configuration, or the address of a SQL catalog
    (`sqlite:////file.db`, `postgresql://…`).
    Raises: InvalidRequest for a catalog that cannot be opened, or another form of name.
    """
    namespace, _, table = name.rpartition(".")
    if not all(name.split(".")) or not namespace:
        raise InvalidRequest("not a name of a table", name=name, cure="--as NAMESPACE.TABLE")
    try:
        if "://" in catalog:
            found = load_catalog("strata", type="sql", uri=catalog, warehouse=place.address)
        else:
            found = load_catalog(catalog)
    except Exception as error:  # each kind of catalog has errors of its own
        raise InvalidRequest(
            "PyIceberg cannot open this catalog",
            catalog=_bare(catalog),
            reason=str(error)[:300],
            cure="a name in ~/.pyiceberg.yaml or PYICEBERG_CATALOG__NAME__…, or sqlite:////file.db",
        ) from error
    return CatalogTable(place, found, _bare(catalog), namespace, table)


@contextmanager
def _asking(name: str) -> Iterator[None]:
    """Turn the failures of a catalog into Unavailable: whether a commit happened is unknown."""
    try:
        yield
    except (LostRaceError, StrataError):
        raise
    except Exception as error:
        raise Unavailable(
            "the catalog of a published table failed",
            certain=False,
            table=name,
            reason=" ".join(str(error).split())[:300],
            cure="publishing again is safe: it finds what was committed",
        ) from error


def _bare(catalog: str) -> str:
    """Return an address without user and password."""
    return re.sub(r"//[^/@]*@", "//", catalog)


def _version_key(version: int) -> str:
    return f"{METADATA}v{version}.metadata.json"


def mapping_of(metadata: TableMetadata | None) -> list[dict[str, Any]]:
    """Return the name mapping of a table; empty if it has none."""
    if metadata is None:
        return []
    found: list[dict[str, Any]] = orjson.loads(metadata.properties.get(MAPPING, "[]"))
    return found

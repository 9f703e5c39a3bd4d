"""Publish a shard's own table again after work on the shard, so that its readers see the newest.

The own table of a shard lies where the settings say, in the catalog that they name. A shard that
was never published there stays unpublished.
"""

from typing import TYPE_CHECKING, Final

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.extras import needed
from strata.model.settings import Settings
from strata.state.holds import PUBLISHED, find_hold
from strata.store.open import Stores

if TYPE_CHECKING:
    from strata.publish.iceberg import Publication

DAY_MS: Final = 86_400_000


def table_address(settings: Settings, shard: str) -> str:
    """Return the address of a shard's own table, with the options of the folder's address."""
    folder, blob = settings.publish.iceberg, settings.store.blob
    path, mark, options = (folder or blob).partition("?")
    inside = shard if folder else f"iceberg/{shard}"
    return f"{path.rstrip('/')}/{inside}{mark}{options}"


def own_publication(
    stores: Stores,
    settings: Settings,
    shard: str,
    *,
    to: str = "",
    catalog: str = "",
    name: str = "",
) -> "Publication":
    """Return the publication of a shard's own table, or of another one.

    `to`: its folder; `catalog`: of PyIceberg's configuration, or of SQL; `name`: NAMESPACE.TABLE. A
    table of another folder is in the catalog of the settings only if `catalog` or `name` says so.
    Raises: InvalidRequest for a place, a catalog or a name that is none, and without the extra
    `iceberg`.
    """
    with needed("iceberg", "a publication as Iceberg"):
        from strata.publish.catalogs import FilesTable, catalog_table
        from strata.publish.iceberg import Publication
        from strata.publish.place import open_folder

    place = open_folder(to or table_address(settings, shard))
    catalog = catalog or ("" if to and not name else settings.publish.catalog)
    if name and not catalog:
        raise InvalidRequest("a catalog of files has no names", name=name, cure="--catalog")
    called = name or f"{settings.publish.namespace}.{shard}"
    table = catalog_table(place, catalog, called) if catalog else FilesTable(place)
    return Publication(stores, shard, place, table, settings.publish.keep_days * DAY_MS)


def publish_again(stores: Stores, settings: Settings, shard: str) -> dict[str, object] | None:
    """Publish a shard's own table; None if there is none, or `publish.follow` is not set.

    Return: as `strata.publish.iceberg.Published.to_json`.
    Raises: as `Publication.publish`; InvalidRequest without the extra `iceberg`.
    """
    if not settings.publish.follow:
        return None
    found = _published(stores, settings, shard)
    return None if found is None else found.publish().to_json()


def expire_published(stores: Stores, settings: Settings, shard: str) -> bool:
    """Let a shard's own table show the newest state only; return False if there is no such table.

    So its hold keeps nothing older, and its metadata have bounds of stored rows alone.
    Raises: as `publish_again`.
    """
    found = _published(stores, settings, shard)
    if found is not None:
        found.publish(expire=True)
    return found is not None


def _published(stores: Stores, settings: Settings, shard: str) -> "Publication | None":
    state = Machine(stores).load(shard)
    if not any(hold.name.startswith(PUBLISHED) for hold in state.holds):
        return None
    publication = own_publication(stores, settings, shard)
    return None if find_hold(state, publication.hold) is None else publication

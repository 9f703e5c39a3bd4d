"""Publish a shard's own table again after work on the shard, so that its readers see the newest.

The own table of a shard is the one that lies where the settings say, in a catalog of files. A
shard that was never published there stays unpublished.
"""

from typing import Final

from strata.machine.machine import Machine
from strata.model.extras import needed
from strata.model.settings import Settings
from strata.state.holds import PUBLISHED, find_hold
from strata.store.open import Stores

DAY_MS: Final = 86_400_000


def table_address(settings: Settings, shard: str) -> str:
    """Return the address of a shard's own table, with the options of the folder's address."""
    folder, blob = settings.publish.iceberg, settings.store.blob
    path, mark, options = (folder or blob).partition("?")
    inside = shard if folder else f"iceberg/{shard}"
    return f"{path.rstrip('/')}/{inside}{mark}{options}"


def publish_again(stores: Stores, settings: Settings, shard: str) -> dict[str, object] | None:
    """Publish a shard's own table; None if there is none, or `publish.follow` is not set.

    Return: as `strata.publish.iceberg.Published.to_json`.
    Raises: as `Publication.publish`; InvalidRequest without the extra `iceberg`.
    """
    state = Machine(stores).load(shard)
    if not settings.publish.follow or not any(h.name.startswith(PUBLISHED) for h in state.holds):
        return None
    with needed("iceberg", "a publication as Iceberg"):
        from strata.publish.catalogs import FilesTable
        from strata.publish.iceberg import Publication
        from strata.publish.place import open_folder

        place = open_folder(table_address(settings, shard))
        keep_ms = settings.publish.keep_days * DAY_MS
        publication = Publication(stores, shard, place, FilesTable(place), keep_ms)
    if find_hold(state, publication.hold) is None:
        return None
    return publication.publish().to_json()

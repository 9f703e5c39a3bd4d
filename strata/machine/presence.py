"""Whether blobs and states belong together: neither store is made anew while the other is full."""

from collections.abc import Collection

from strata.errors import Corrupt, InvalidRequest
from strata.machine.names import nearest_shards
from strata.model.settings import without_password
from strata.state.state import State
from strata.store.cures import folder_gone
from strata.store.interface import Rooted
from strata.store.keys import shard_prefix
from strata.store.open import Stores
from strata.store.retry import retry


def check_folder(stores: Stores, state: State) -> None:
    """Refuse to go on where the folder of a shard's blobs is not there.

    Raises: Unavailable, naming the folder. Without batches there may be no folder yet.
    """
    blob, named = stores.blob, any(batch.manifest for batch in state.batches)
    if named and isinstance(blob, Rooted) and not blob.is_there():
        raise folder_gone(blob.place)


def unknown_shard(stores: Stores, shard: str, known: Collection[str]) -> InvalidRequest:
    """Return the error for a shard that is not among the known ones; without any, it says where."""
    where = {} if known else {"consensus": without_password(stores.settings.consensus)}
    return InvalidRequest("no such shard", shard=shard, **where, cure=nearest_shards(shard, known))


def first_blob(stores: Stores, shard: str) -> str | None:
    """Return the key of a stored blob of a shard; None if there is none."""
    prefix = shard_prefix(shard)
    return retry(lambda: next((info.key for info in stores.blob.list(prefix)), None))


def no_state(stores: Stores, shard: str, key: str) -> Corrupt:
    """Return the error for blobs of a shard that has no state.

    A shard that begins there would have a sweep delete them; perhaps only the database of states is
    another one than was meant.
    """
    return Corrupt(
        "blobs of this shard are stored, and the database of states does not know it",
        shard=shard,
        key=key,
        consensus=without_password(stores.settings.consensus),
        cure="name the database that belongs to these blobs, or bring the shard back from a backup;"
        f" to begin anew, move away what lies below {shard_prefix(shard)}",
    )

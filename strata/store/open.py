"""Open the stores named in the settings. Only this module knows which stores exist.

    blob        file:///abs/folder | file://relative/folder | s3://bucket/prefix | memory://name
    consensus   sqlite:////abs/file.db | sqlite:///relative/file.db | postgresql://... | memory://name

Relative paths start at the current directory of the process that opens them.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from strata.errors import InvalidRequest
from strata.model.settings import StoreSettings, without_password
from strata.store.disk import DiskBlob
from strata.store.interface import Blob, Consensus
from strata.store.memory import drop_memory, memory_blob, memory_consensus
from strata.store.s3 import S3Blob
from strata.store.s3_client import S3Address

Clock = Callable[[], int]  # milliseconds since 1970


def wall_clock() -> int:
    """Return the time of day in milliseconds since 1970."""
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class Stores:
    """The open stores, which every operation of the engine gets as an argument."""

    blob: Blob
    consensus: Consensus
    clock: Clock
    settings: StoreSettings  # from which a worker opens the same stores


def open_stores(settings: StoreSettings, clock: Clock | None = None) -> Stores:
    """Return the stores named in `settings`; nothing is read or written yet.

    Raises: InvalidRequest for an address that names no known store.
    """
    return Stores(
        open_blob(settings),
        _open_consensus(settings.consensus),
        clock or wall_clock,
        settings,
    )


def forget_memory(settings: StoreSettings) -> None:
    """Give back the memory of stores in memory; opened again, they are empty."""
    for url in (settings.blob, settings.consensus):
        scheme, _, name = url.partition("://")
        if scheme == "memory":
            drop_memory(name)


def is_near(settings: StoreSettings) -> bool:
    """Return whether blobs are on this machine, so that requests have no latency."""
    return settings.blob.partition("://")[0] in ("file", "memory")


def describe_consensus(stores: Stores) -> tuple[str, str]:
    """Return which database holds the states, and why it is not trusted; empty if it is.

    Raises: Unavailable.
    """
    from strata.store.sql import SqlConsensus  # loads SQLAlchemy, which tasks do without

    if isinstance(stores.consensus, SqlConsensus):
        try:
            return stores.consensus.describe()
        finally:
            stores.consensus.close()
    return "memory", ""


def only_reads(stores: Stores) -> bool:
    """Return whether our user may only read the database of states, as far as its file says."""
    from strata.store.sql import SqlConsensus  # loads SQLAlchemy, which tasks do without

    return isinstance(stores.consensus, SqlConsensus) and stores.consensus.read_only()


def beyond_deletion(stores: Stores) -> tuple[str, ...]:
    """Return what keeps bytes although they were deleted, as far as the stores say."""
    if isinstance(stores.blob, S3Blob) and stores.blob.keeps_versions():
        return (
            "old versions of objects in the bucket, or it does not say whether it keeps any: a "
            "lifecycle rule for noncurrent versions removes them",
        )
    return ()


def store_user(stores: Stores) -> str:
    """Return our user in the database of states; empty where it authenticates nobody.

    Raises: Unavailable.
    """
    from strata.store.sql import SqlConsensus  # loads SQLAlchemy, which tasks do without

    return stores.consensus.user() if isinstance(stores.consensus, SqlConsensus) else ""


def open_blob(settings: StoreSettings) -> Blob:
    """Return only the blobs: a task needs no more, and so loads no database library.

    Raises: InvalidRequest for an address that names no known store.
    """
    url = settings.blob
    scheme, found, rest = url.partition("://")
    if found and rest and scheme == "file":
        return DiskBlob(rest)
    if found and rest and scheme == "memory":
        return memory_blob(rest)
    if scheme == "s3":
        return S3Blob(S3Address.parse(url, "store.blob"))
    raise InvalidRequest(
        "not an address of a blob store",
        setting="store.blob",
        value=without_password(url),
        cure="file:///folder, s3://bucket/prefix or memory://name",
    )


def address_of(settings: StoreSettings) -> str:
    """Return the address below which other programs find blobs by their keys, without options.

    Raises: InvalidRequest for a store that no other program can read, or whose name is ambiguous in
    an address.
    """
    scheme, _, rest = settings.blob.partition("://")
    if scheme == "s3":
        place = S3Address.parse(settings.blob, "store.blob")
        return f"s3://{place.bucket}/{place.prefix}".rstrip("/")
    root = str(DiskBlob(rest).root) if scheme == "file" and rest else ""
    if not root or any(char in root for char in "?#%"):
        raise InvalidRequest(
            "other programs cannot find the files of this store",
            setting="store.blob",
            value=without_password(settings.blob),
            cure="s3://bucket/prefix, or file:///folder without any of ? # %",
        )
    return f"file://{root}"


def _open_consensus(url: str) -> Consensus:
    scheme, found, rest = url.partition("://")
    if scheme == "memory":
        if not (found and rest):
            raise InvalidRequest("a memory store needs a name", setting="store.consensus")
        return memory_consensus(rest)
    from strata.store.sql import SqlConsensus  # loads SQLAlchemy, which tasks do without

    return SqlConsensus(url)

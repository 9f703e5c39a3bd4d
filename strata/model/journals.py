"""Names that say which shards Strata writes about itself, and which operations are about all."""

from typing import Final

JOURNALS: Final = "strata_"  # names of journals begin with this
EVERY_SHARD: Final = "*"  # instead of a name: an operation on all shards, or on none in particular


def is_journal(shard: str) -> bool:
    """Return whether a shard is one that Strata writes about itself.

    >>> is_journal("strata_operations"), is_journal("flights")
    (True, False)
    """
    return shard.startswith(JOURNALS)

"""Names that say which shards Strata writes about itself, and which operations are about all."""

from collections.abc import Iterable
from typing import Final

from strata.errors import InvalidRequest

JOURNALS: Final = "strata_"  # names of journals begin with this
REJECTED: Final = ".rejected"  # names of shards of rejected rows end with this
EVERY_SHARD: Final = "*"  # instead of a name: an operation on all shards, or on none in particular


def is_journal(shard: str) -> bool:
    """Return whether a shard is one that Strata writes about itself.

    >>> is_journal("strata_operations"), is_journal("flights")
    (True, False)
    """
    return shard.startswith(JOURNALS)


def without_journals(shards: Iterable[str]) -> list[str]:
    """Return the names of the shards that others write, in their order."""
    return [name for name in shards if not is_journal(name)]


def check_not_journal(shard: str) -> None:
    """Refuse that anybody but Strata writes a journal, or gives it another form.

    An approver weighs what it says of nights and findings, and one of another form records nothing.
    Raises: InvalidRequest.
    """
    if is_journal(shard):
        raise InvalidRequest(
            "Strata alone writes the shards about itself",
            shard=shard,
            cure=f"a name that does not begin with {JOURNALS}; `strata erase` takes rows out",
        )

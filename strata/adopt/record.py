"""What a shard knows of the table that it mirrors: the tokens of its commits say it.

    adopt.FORMAT.TABLE.VERSION.RELATION.BASIS

A token joins the shard in the same commit as the rows, stays when compaction merges their batch,
and the newest one is found at the end of the ledger. BASIS is the shard's upper before, which grows
with each adoption: a table that returns to an earlier version is not mistaken for a repetition.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from strata.machine.ledger import commits_after
from strata.model.time import MIN_TIME
from strata.state.state import Commit, State
from strata.store.interface import Blob

_TOKEN: Final = re.compile(
    r"adopt\.(delta|iceberg)\.([0-9a-f]{12})\.([0-9A-Za-z_-]{1,60})\.(\d+)\.(-?\d+)"
)


@dataclass(frozen=True, slots=True)
class AdoptionRecord:
    """One adoption: the version of a table that the shard held after it."""

    format: str
    table: str  # see `table_mark`
    version: str  # as the format's module names it
    relation: int  # version of the shard's columns, in which the rows were written
    basis: int  # the shard's upper, from which it was worked out

    @property
    def token(self) -> str:
        """Return the token of the commit."""
        facts = (self.format, self.table, self.version, self.relation, self.basis)
        return "adopt." + ".".join(map(str, facts))


def table_mark(identity: str) -> str:
    """Return the short form of a table's identity that tokens have."""
    return blake2b(identity.encode(), digest_size=6).hexdigest()


def adoption_of(token: str) -> AdoptionRecord | None:
    """Return the adoption that a token names; None: it names something else.

    >>> adoption_of("adopt.delta.0123456789ab.7.0.3").version
    '7'
    """
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    return AdoptionRecord(match[1], match[2], match[3], int(match[4]), int(match[5]))


@dataclass(frozen=True, slots=True)
class Standing:
    """What a shard holds: nothing, a version of a table, or something else as well."""

    record: AdoptionRecord | None = None
    other: Commit | None = None  # the newest commit with rows, if it was no adoption


def standing_of(blob: Blob, state: State) -> Standing:
    """Return what the newest commits say; commits without a row say nothing.

    Cost: the ledger's blobs from the newest on, up to one with rows; almost always none.
    """
    for commit in commits_after(blob, state, MIN_TIME - 1):
        record = adoption_of(commit.token)
        if record is not None:
            return Standing(record)
        if commit.updates:
            return Standing(other=commit)
    return Standing()

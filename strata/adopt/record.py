"""What a shard knows of the table that it mirrors: the tokens of its commits say it.

    adopt.FORMAT.TABLE.VERSION.RELATION.FORMS.REJECTED.BASIS

A token joins the shard in the same commit as the rows, stays when compaction merges their batch,
and the newest one is found at the end of the ledger. BASIS is the shard's upper before, which grows
with each adoption: a table that returns to an earlier version is not mistaken for a repetition.
"""

import re
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from strata.machine.ledger import commits_after
from strata.model.schema import Relation
from strata.model.spec import ADOPTED, SourceSpec
from strata.model.time import MIN_TIME
from strata.state.state import Commit, State
from strata.store.interface import Blob

NONE_REJECTED: Final = -1
_TOKEN: Final = re.compile(
    r"adopt\.(delta|iceberg)\.([0-9a-f]{12})\.([0-9A-Za-z_-]{1,60})\.(\d+)"
    r"\.([0-9a-f]{6})\.(-?\d+)\.(-?\d+)"
)


@dataclass(frozen=True, slots=True)
class AdoptionRecord:
    """One adoption: the version of a table that the shard held after it."""

    format: str
    table: str  # see `table_mark`
    version: str  # as the format's module names it
    relation: int  # version of the shard's columns, in which the rows were written
    forms: str  # see `forms_mark`
    # Newest version of the columns under which rows were rejected before, since the table was taken
    # in whole; NONE_REJECTED: there were none
    rejected: int
    basis: int  # the shard's upper, from which it was worked out

    @property
    def token(self) -> str:
        """Return the token of the commit."""
        facts = (
            self.format,
            self.table,
            self.version,
            self.relation,
            self.forms,
            self.rejected,
            self.basis,
        )
        return ADOPTED + ".".join(map(str, facts))


def table_mark(identity: str) -> str:
    """Return the short form of a table's identity that tokens have."""
    return blake2b(identity.encode(), digest_size=6).hexdigest()


def forms_mark(source: SourceSpec, relation: Relation, before: Relation) -> str:
    """Return the short form of how texts of dates and times are read, and where columns come from.

    `before`: the columns that count; a later one has no values in rows that were taken in by then.
    """
    ids = ((name, relation.by_name[column].id) for name, column in source.names)
    pairs = tuple(sorted((name, one) for name, one in ids if one in before.by_id))
    read = (source.dates, source.timestamps, *([pairs] if pairs else []))
    return blake2b(repr(read).encode(), digest_size=3).hexdigest()


def adoption_of(token: str) -> AdoptionRecord | None:
    """Return the adoption that a token names; None: it names something else.

    >>> adoption_of("adopt.delta.0123456789ab.7.0.000000.-1.3").version
    '7'
    """
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    kind, table, version, relation, forms, rejected, basis = match.groups()
    return AdoptionRecord(kind, table, version, int(relation), forms, int(rejected), int(basis))


@dataclass(frozen=True, slots=True)
class Standing:
    """What a shard holds: nothing, a version of a table, or something else as well."""

    record: AdoptionRecord | None = None
    rejected: int = NONE_REJECTED  # as the next record has it
    other: Commit | None = None  # the newest commit with rows, if it was no adoption


def standing_of(blob: Blob, state: State) -> Standing:
    """Return what the newest commits say; commits without a row say nothing.

    Cost: the ledger's blobs from the newest on, up to one with rows; almost always none.
    """
    for commit in commits_after(blob, state, MIN_TIME - 1):
        record = adoption_of(commit.token)
        if record is not None:
            return Standing(record, record.relation if commit.rejected else record.rejected)
        if commit.updates:
            return Standing(other=commit)
    return Standing()

"""What a step up would save: what filters that were really used skip with today's statistics."""

from dataclasses import dataclass
from typing import Final

from strata.decide.skips import decide_all
from strata.errors import StrataError
from strata.expr.filter import Filter
from strata.history import usage
from strata.model.settings import UsageSettings
from strata.state.state import State
from strata.store.open import Stores

ASKED: Final = 8  # filters that are asked for a page


@dataclass(frozen=True, slots=True)
class Saving:
    """One filter, and what it would skip."""

    where: str
    reads: int  # in the days of the log
    parts: int
    parts_total: int
    size_bytes: int
    bytes_total: int


@dataclass(frozen=True, slots=True)
class Savings:
    """Some filters, the most used first."""

    filters: tuple[Saving, ...]
    others: int  # filters of the log that were not asked

    @property
    def share(self) -> float | None:
        """Return the share of bytes that all their reads together would not fetch."""
        total = sum(one.reads * one.bytes_total for one in self.filters)
        saved = sum(one.reads * one.size_bytes for one in self.filters)
        return saved / total if total else None


def savings_of(stores: Stores, state: State, settings: UsageSettings) -> Savings:
    """Return what the most used filters of readers would skip; none if nobody read with a filter.

    Those whose columns have other names or types by now are left out.
    Cost: every manifest for each filter.
    """
    try:
        used = [
            one
            for one in usage.recent(stores, state.name, settings)
            if usage.reads_columns_of(state.relation, one.filter)
        ]
    except StrataError:
        return Savings((), 0)
    asked = tuple(_saving(stores, state, one.filter, one.reads) for one in used[:ASKED])
    return Savings(asked, len(used[ASKED:]))


def _saving(stores: Stores, state: State, filter: Filter, reads: int) -> Saving:
    found = decide_all(stores, state, filter)
    skipped = found.skipped
    return Saving(
        filter.sql, reads, len(skipped), found.parts_total, skipped.size_bytes, found.bytes_total
    )

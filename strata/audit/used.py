"""The filters that readers really used, which soft evaluation checks like registered ones."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from strata.config.filters import RegisteredFilter
from strata.expr.filter import Filter
from strata.history import usage
from strata.model.settings import UsageSettings
from strata.store.open import Stores

PREFIX: Final = "used-"


@dataclass(frozen=True, slots=True)
class LoggedFilter:
    """A filter of the log. Its text is for people; it runs only if it still means the same tree."""

    name: str
    filter: Filter  # its clock is the middle of the last day of its use


def used_filters(
    stores: Stores,
    shard: str,
    settings: UsageSettings,
    known: Collection[RegisteredFilter],
    most: int,
) -> list[LoggedFilter]:
    """Return the most used filters, at most `most`, without registered ones.

    A filter that was not given as text cannot be repeated, and is left out.
    """
    seen = {" ".join(one.where.split()) for one in known}
    found: list[LoggedFilter] = []
    for used in usage.recent(stores, shard, settings):
        text = used.filter.sql.strip()
        if not text or " ".join(text.split()) in seen or len(found) >= most:
            continue
        seen.add(" ".join(text.split()))
        name = PREFIX + blake2b(text.encode(), digest_size=4).hexdigest()
        noon = (used.filter.now_low + used.filter.now_high) // 2
        found.append(LoggedFilter(name, replace(used.filter, now_low=noon, now_high=noon)))
    return found

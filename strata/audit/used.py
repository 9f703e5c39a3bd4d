"""The filters that readers really used, which soft evaluation checks like registered ones."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final

from strata.audit.budget import Budget
from strata.config.filters import RegisteredFilter
from strata.expr.filter import Filter
from strata.history import usage
from strata.model.settings import Settings, UsageSettings
from strata.store.open import Stores

PREFIX: Final = "used-"
LEAST_SAVED: Final = 1024**3  # bytes of a budget that is a share of what reads save, at least


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


def budget_of(
    stores: Stores,
    shard: str,
    settings: Settings,
    *,
    size_bytes: int | None = None,
    seconds: float | None = None,
) -> Budget:
    """Return what a validation of a shard may spend: the smallest limit of the settings.

    `size_bytes` and `seconds` override their settings. Cost: reads the log of filters if the budget
    is a share of what reads save.
    """
    said = settings.validate
    limits = [said.budget_bytes if size_bytes is None else size_bytes]
    if said.budget_saved_percent and size_bytes is None:
        saved = saved_a_day(stores, shard, settings.usage)
        limits.append(max(LEAST_SAVED, saved * said.budget_saved_percent // 100))
    return Budget(
        min(filter(None, limits), default=0),
        float(said.budget_seconds if seconds is None else seconds),
    )


def saved_a_day(stores: Stores, shard: str, settings: UsageSettings) -> int:
    """Return the bytes that skipping has saved readers on an average day of the log.

    Errs: too few, since the log has a repetition within an hour once.
    """
    found = usage.recent(stores, shard, settings)
    saved = sum(used.bytes_total - used.bytes_kept for used in found if used.decided)
    return saved // max(settings.days, 1)

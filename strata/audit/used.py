"""The filters that readers really used, as soft evaluation takes them beside registered ones."""

from collections.abc import Collection
from hashlib import blake2b
from typing import Final

from strata import usage
from strata.filters import RegisteredFilter
from strata.model.settings import UsageSettings
from strata.store.open import Stores

PREFIX: Final = "used-"


def used_filters(
    stores: Stores,
    shard: str,
    settings: UsageSettings,
    known: Collection[RegisteredFilter],
    most: int,
) -> list[RegisteredFilter]:
    """Return the filters of most reads, at most `most`, without those that are registered.

    Their clock stands in the middle of the last day on which they were used. A filter that was
    not given as text cannot be said again, and is left out.
    """
    told = {" ".join(one.where.split()) for one in known}
    found: list[RegisteredFilter] = []
    for used in usage.recent(stores, shard, settings):
        text = used.filter.sql.strip()
        if not text or " ".join(text.split()) in told or len(found) >= most:
            continue
        told.add(" ".join(text.split()))
        name = PREFIX + blake2b(text.encode(), digest_size=4).hexdigest()
        noon = (used.filter.now_low + used.filter.now_high) // 2000
        found.append(RegisteredFilter(shard, name, text, (noon, noon)))
    return found

"""Strata: changelogs on object storage, with reads that skip only what is proven irrelevant.

    import strata

    flights = strata.open(".strata/demo")["flights"]
    for batch in flights.scan(where="dep_delay > 600", columns=["carrier", "dep_delay"]):
        ...

No Java is needed for filters that compare columns with constants (docs/how-to/read.md).
"""

from typing import TYPE_CHECKING

from strata.model import loaded as _loaded  # noqa: F401 - before any file that it looks at is loaded

if TYPE_CHECKING:
    import os

    from strata.model.settings import Settings
    from strata.shard import Shards

__version__ = "0.1.0"
__all__ = ["__version__", "open"]


def open(address: "str | os.PathLike[str] | Settings | None" = None) -> "Shards":
    """Return the shards at an address: a settings file, a folder, or settings.

    Raises: InvalidRequest; see `strata.shard.open_shards`.
    """
    from strata.shard import open_shards  # a program that asks for the version loads no engine

    return open_shards(address)

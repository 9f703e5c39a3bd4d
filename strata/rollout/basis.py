"""The code that decides, as a fingerprint: evidence holds for the code it was collected with.

It covers whatever decides which parts a read leaves out: functions, interpreter, statistics,
pruning, planning, and the shard's budget for statistics. Comments count: a release that changes
none of these files keeps the evidence, any other begins anew.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import Final

from strata.state.state import State
from strata.stats import STATS_VERSION

_ROOT: Final = Path(__file__).resolve().parents[1]
_DECIDES: Final = ("expr", "prune", "stats", "plan.py", "groups.py")


def basis_of(state: State) -> str:
    """Return what evidence about a shard is bound to: code, statistics version, and budget."""
    return f"{_code()}.{STATS_VERSION}.{state.spec.stats.budget_bytes}"


@cache
def _code() -> str:
    digest = hashlib.blake2b(digest_size=6)
    for name in _DECIDES:
        place = _ROOT / name
        for file in sorted(place.rglob("*.py")) if place.is_dir() else [place]:
            digest.update(f"{file.relative_to(_ROOT).as_posix()}\0".encode())
            digest.update(file.read_bytes())
    return digest.hexdigest()

"""Which mutants are judged: the same each time, spread over modules and over kinds of change.

Each module has places in proportion to how much can be changed in it, and one at least. They are
filled kind by kind, in an order that only the module's name decides; of one kind the mutant with
the least hash is taken. So an edit of a source moves hardly any other choice.
"""

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Final

from tests.mutants.edits import Mutant, edits

PROJECT: Final = Path(__file__).resolve().parents[2]
ROOMS: Final[Mapping[str, int]] = {
    "expr": 55,
    "stats": 50,
    "updates": 45,
    "compact": 25,
    "ingest": 72,
    "decide": 100,
    "format": 100,
    "parts": 30,
    "read": 40,
    "plain": 25,
    "model": 30,
    "rollout": 80,
    "gc": 60,
    "state": 80,
    "machine": 80,
    "erase": 70,
    "store": 60,
    "sums": 50,
    "publish": 50,
    "backup": 50,
    "maintain": 60,
    "adopt": 60,
    "audit": 60,
    "config": 60,
    "history": 60,
    "shard": 30,
    "jobs": 20,
}
# They decide nothing: what a certificate is of, and the references of functions and of types.
# Most of a job begins Spark, and no fast test does.
LEFT_OUT: Final = (
    "strata.expr.certificate",
    "strata.expr.reference",
    "strata.format.reference",
    *(f"strata.jobs.{name}" for name in ("compact", "ingest", "session", "stats", "validate")),
)


def source(module: str) -> Path:
    """Return the file of a module."""
    return PROJECT / f"{module.replace('.', '/')}.py"


def modules(room: str) -> list[str]:
    """Return the modules of a room, which may be a single one; none if it is not there."""
    place = PROJECT / "strata" / room
    files = sorted(place.rglob("*.py")) or [place.with_suffix(".py")]
    names = [
        ".".join(file.relative_to(PROJECT).with_suffix("").parts) for file in files if file.exists()
    ]
    return [name for name in names if not name.endswith("__init__") and not _is_left_out(name)]


def _is_left_out(module: str) -> bool:
    """Return whether a module, or the folder that it lies in, is left out."""
    return any(f"{module}.".startswith(f"{name}.") for name in LEFT_OUT)


@cache
def every(module: str) -> tuple[Mutant, ...]:
    """Return all mutants of a module."""
    tree = ast.parse(source(module).read_text("utf-8"))
    return tuple(edit.mutant for edit in edits(module, tree))


def chosen(room: str) -> list[Mutant]:
    """Return the mutants of a room that are judged."""
    found = {module: every(module) for module in modules(room)}
    found = {module: some for module, some in found.items() if some}
    places = _places({module: len(some) for module, some in found.items()}, ROOMS[room])
    return [
        mutant for module, count in places.items() for mutant in list(_drawn(found[module]))[:count]
    ]


def _places(sizes: Mapping[str, int], count: int) -> dict[str, int]:
    """Return how many of `count` each module has, by the largest remainders, one at least."""
    whole = sum(sizes.values()) or 1
    shares = {module: count * size / whole for module, size in sizes.items()}
    places = {module: max(1, int(share)) for module, share in shares.items()}
    by_rest = sorted(shares, key=lambda module: (int(shares[module]) - shares[module], module))
    for module in by_rest[: max(0, count - sum(places.values()))]:
        places[module] += 1
    return {module: min(count, sizes[module]) for module, count in places.items()}


def _drawn(found: Sequence[Mutant]) -> Iterator[Mutant]:
    """Yield mutants of one module: one of each kind, then the second of each."""
    kinds: dict[str, list[Mutant]] = {}
    for mutant in sorted(found, key=lambda mutant: mutant.lot):
        kinds.setdefault(mutant.kind, []).append(mutant)
    order = sorted(kinds, key=lambda kind: _lot(found[0].module, kind))
    for turn in zip_longest(*(kinds[kind] for kind in order)):
        yield from (mutant for mutant in turn if mutant is not None)


def _lot(module: str, kind: str) -> str:
    return hashlib.sha256(f"{module}\0{kind}".encode()).hexdigest()

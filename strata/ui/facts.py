"""What the pages say about shards: one line each, the one that needs a person first."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strata.compact.history import merge_history
from strata.errors import StrataError
from strata.history import operations, usage
from strata.history.journal import is_journal
from strata.history.operations import Operation
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.rollout.gates import next_mode
from strata.state.state import State
from strata.store.open import Stores

LATEST: Final = 100  # operations that are looked through
NUMBER: Final = re.compile(r"\d[\d,]*")


@dataclass(frozen=True)
class ShardLine:
    """One shard as the first page lists it."""

    name: str
    state: State | None  # None: it cannot be read
    needs: tuple[str, ...]  # why a person should look, worst first
    validated: Operation | None
    skipped: float | None  # share of bytes that readers' filters skipped lately; None: unknown

    @property
    def parts(self) -> int:
        """Return how many parts there are."""
        return 0 if self.state is None else sum(b.parts for b in self.state.batches)

    @property
    def bare(self) -> int:
        """Return how many parts have no statistics."""
        return 0 if self.state is None else self.parts - sum(
            b.stats_parts for b in self.state.batches
        )  # fmt: skip

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all parts."""
        return 0 if self.state is None else sum(b.size_bytes for b in self.state.batches)

    @property
    def due(self) -> int:
        """Return how many merges are due."""
        slots = () if self.state is None else self.state.spine.slots
        return sum(sum(1 for b in slot.batches if b.parts) > 1 for slot in slots)


def shard_lines(stores: Stores, settings: Settings) -> list[ShardLine]:
    """Return the shards but journals; what needs a person comes first, then the largest."""
    machine = Machine(stores)
    lines = [
        shard_line(stores, settings, machine, name)
        for name in machine.names()
        if not is_journal(name)
    ]
    return sorted(lines, key=lambda line: (-len(line.needs), -line.size_bytes, line.name))


def shard_line(stores: Stores, settings: Settings, machine: Machine, name: str) -> ShardLine:
    """Return what is known of one shard; one that cannot be read says so and hides no other."""
    try:
        state = machine.load(name)
    except StrataError as error:
        return ShardLine(name, None, (f"cannot be read: {error.message}",), None, None)
    last = _last(operations.recent(stores, name, LATEST), "validate")
    skipped = _skipped(stores, settings, name)
    return ShardLine(name, state, tuple(_needs(state, last)), last, skipped)


def _needs(state: State, validated: Operation | None) -> list[str]:
    """Return why a person should look at a shard, worst first."""
    found = []
    if state.rollout.quarantine:
        found.append("statistics in quarantine")
    if validated is not None and validated.outcome not in ("done", "clean"):
        found.append(f"last validation: {validated.outcome}")
    if state.tripped is not None:
        found.append("ingest is stopped")
    if state.rollout.request is not None:
        found.append(f"a step to {state.rollout.request.to} waits for an answer")
    return found


def _skipped(stores: Stores, settings: Settings, name: str) -> float | None:
    try:
        used = usage.recent(stores, name, settings.usage)
    except StrataError:
        return None
    total = sum(one.bytes_total for one in used)
    return 1 - sum(one.bytes_kept for one in used) / total if total else None


def _last(found: Sequence[Operation], what: str) -> Operation | None:
    return next((one for one in found if one.what == what), None)


def latest(stores: Stores, shard: str, limit: int = 12) -> list[Operation]:
    """Return the last operations on a shard, newest first."""
    return operations.recent(stores, shard, limit)


def merges(state: State) -> list[Mapping[str, Any]]:
    """Return the last merges of a shard, newest first."""
    found: list[Mapping[str, Any]] = merge_history(state, 5)["merges"]
    return found


@dataclass(frozen=True, slots=True)
class Bullet:
    """One gate: what was found against what is wanted."""

    name: str
    found: str
    wanted: str
    passed: bool
    share: float | None  # of the way, at most 1; None: no number

    @property
    def percent(self) -> int:
        """Return the way in percent, rounded down: only a gate that passes is full."""
        return 0 if self.share is None else int(100 * self.share)


def bullets(gates: Sequence[Mapping[str, Any]]) -> list[Bullet]:
    """Return gates as bars; those that ask for at least a number show how much of it there is."""
    return [
        Bullet(g["name"], g["found"].partition(" (")[0], g["wanted"], g["passed"], _share(g))
        for g in gates
    ]


def _share(gate: Mapping[str, Any]) -> float | None:
    """Return how far a gate is: full only if it passes. None: it does not ask for a number."""
    wanted, found = NUMBER.search(gate["wanted"]), NUMBER.findall(gate["found"])
    if not gate["wanted"].startswith("at least") or wanted is None or not found:
        return None
    if gate["passed"]:
        return 1.0
    if gate["name"] == "strata":  # the strata, and the thin ones among them
        strata, thin = (_int(number) for number in found[:2])
        return min((strata - thin) / max(strata, 1), 0.99)
    return min(_int(found[0]) / max(_int(wanted[0]), 1), 0.99)


def _int(text: str) -> int:
    return int(text.replace(",", ""))


@dataclass(frozen=True)
class HeatMap:
    """Audited parts by kind of filter (rows) and by layout and kind of statistics (columns)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[int | None, ...]], ...]
    least: int  # parts that a cell needs

    def strength(self, parts: int | None) -> str:
        """Return the style of a cell: none, thin, or how far it is above the least."""
        if parts is None:
            return "none"
        if parts < self.least:
            return "thin"
        return "much" if parts >= 10 * self.least else "more" if parts >= 3 * self.least else "some"


def heat_map(strata: Sequence[Mapping[str, Any]], least: int) -> HeatMap:
    """Return the strata of evidence, whose names are types × functions × layout × statistics."""
    cells: dict[tuple[str, str], int] = {}
    for one in strata:
        words = str(one["name"]).split(" × ")
        cells[" × ".join(words[:-2]), " × ".join(words[-2:])] = int(one["parts"])
    columns = tuple(sorted({column for _, column in cells}))
    rows = sorted({row for row, _ in cells})
    lines = tuple((row, tuple(cells.get((row, column)) for column in columns)) for row in rows)
    return HeatMap(columns, lines, least)


def next_of(state: State) -> str:
    """Return the mode one step up; empty at the top."""
    return next_mode(state.rollout.mode) or ""

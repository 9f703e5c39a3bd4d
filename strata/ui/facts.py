"""What the pages say about shards: one line each, the one that needs a person first."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from strata.errors import StrataError
from strata.history import usage
from strata.history.operation_log import OperationLog, Operations
from strata.history.operations import Operation
from strata.machine.machine import Machine
from strata.model.journals import without_journals
from strata.model.settings import Settings
from strata.rollout.evidence import upper_bound
from strata.rollout.policy import Policy, policy_of
from strata.state.spine import debt
from strata.state.state import State
from strata.store.open import Stores
from strata.ui.needs import SOON, WRONG, Need, needs_of

WEEK: Final = 7  # days of readers on the first page
NUMBER: Final = re.compile(r"\d[\d,]*")


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound on wrong skips that a shard's evidence supports, and that its next step wants."""

    found: float
    target: float
    share: float  # of the audits that the target takes, at most 1

    @property
    def percent(self) -> int:
        """Return the share in percent, rounded down: only a bound that is reached is full."""
        return int(100 * self.share)


@dataclass(frozen=True, slots=True)
class ReadDay:
    """What readers with a filter left unfetched on one day."""

    day: str
    reads: int  # also those that asked no statistics
    skipped: float | None  # share of bytes; None: no read asked statistics


@dataclass(frozen=True)
class ShardLine:
    """One shard as the first page lists it."""

    name: str
    state: State | None  # None: it cannot be read
    needs: tuple[Need, ...]  # why a person should look, worst first
    validated: Operation | None
    days: tuple[ReadDay, ...] = ()  # the last week, today last
    skipped: float | None = None  # share of bytes in this week; None: unknown
    bound: Bound | None = None  # None: nothing is audited in this mode

    @property
    def parts(self) -> int:
        """Return how many parts there are."""
        return 0 if self.state is None else sum(b.parts for b in self.state.batches)

    @property
    def bare(self) -> int:
        """Return how many parts have no statistics."""
        return (
            0 if self.state is None else self.parts - sum(b.stats_parts for b in self.state.batches)
        )

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all parts."""
        return 0 if self.state is None else sum(b.size_bytes for b in self.state.batches)

    @property
    def due(self) -> int:
        """Return how many merges are due."""
        slots = () if self.state is None else self.state.spine.slots
        return sum(sum(1 for b in slot.batches if b.parts) > 1 for slot in slots)

    @property
    def debt(self) -> int:
        """Return how many runs wait to be merged."""
        return 0 if self.state is None else debt(self.state.spine)

    @property
    def place(self) -> tuple[int, int, int, str]:
        """Return its place in the list: the worst need first, then the largest shard."""
        worst = min((need.rank for need in self.needs), default=SOON + 1)
        return worst, -len(self.needs), -self.size_bytes, self.name


@dataclass(frozen=True)
class Listing:
    """What is said of the shards of one pair of stores; the journal is looked at once."""

    stores: Stores
    settings: Settings
    log: OperationLog

    @cached_property
    def operations(self) -> Operations:
        """Return the operations on all shards, newest first."""
        return self.log.read(self.stores)

    @cached_property
    def policy(self) -> Policy:
        """Return the conditions of steps."""
        return policy_of(self.stores, self.settings.rollout)

    def lines(self) -> list[ShardLine]:
        """Return the shards but journals; what needs a person comes first, then the largest."""
        names = without_journals(Machine(self.stores).names())
        return sorted((self.line(name) for name in names), key=lambda line: line.place)

    def line(self, name: str) -> ShardLine:
        """Return what is known of one shard; one that cannot be read says so, and hides no other.

        Raises: Corrupt for a damaged policy.
        """
        try:
            state = Machine(self.stores).load(name)
        except StrataError as error:
            return ShardLine(name, None, (Need(WRONG, f"cannot be read: {error.message}"),), None)
        last = self.operations.last_validations.get(name)
        days, skipped = _read_days(self.stores, name)
        needs = needs_of(state, last, self.settings, self.stores.clock())
        bound = _bound(state, self.policy)
        return ShardLine(name, state, needs, last, days, skipped, bound)


def _bound(state: State, policy: Policy) -> Bound | None:
    mode, parts = state.rollout.mode, state.rollout.evidence.parts
    if mode == "off":
        return None
    wanted = policy.gates.audit_parts if mode == "soft" else policy.gates.on_parts
    share = 1.0 if parts >= wanted else min(parts / wanted, 0.99)
    return Bound(upper_bound(parts), upper_bound(wanted), share)


def _read_days(stores: Stores, name: str) -> tuple[tuple[ReadDay, ...], float | None]:
    """Return the last days of readers, and the share of bytes that they did not fetch."""
    try:
        used = usage.by_day(stores, name, WEEK)
    except StrataError:
        return (), None
    days = tuple(
        ReadDay(day, sum(one.reads for one in some), _share_skipped(some))
        for day, some in used.items()
    )
    return days, _share_skipped([one for some in used.values() for one in some])


def _share_skipped(used: Sequence[usage.UsedFilter]) -> float | None:
    total = sum(one.bytes_total for one in used)
    return 1 - sum(one.bytes_kept for one in used) / total if total else None


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
    return [Bullet(g["name"], *_found_and_wanted(g), g["passed"], _share(g)) for g in gates]


def _found_and_wanted(gate: Mapping[str, Any]) -> tuple[str, str]:
    """Return what a gate found and wanted, in a few words; ids of code stand once."""
    found, wanted = gate["found"].partition(" (")[0], gate["wanted"]
    if gate["name"] != "code":
        return found, wanted
    return ("the code of now", wanted) if gate["passed"] else (found, f"now {wanted}")


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

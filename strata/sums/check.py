"""Compare kept sums with those of the whole source."""

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any, Final

from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.machine.reader_hold import reading
from strata.model.settings import ReadSettings
from strata.model.time import MIN_TIME, format_time
from strata.read.scan import DEFAULTS
from strata.store.open import Stores
from strata.sums.table import Group, GroupSums, SumsTable
from strata.sums.target import check_target
from strata.sums.whole import stored_sums, whole_sums
from strata.sums.wish import SumsWish, declared_wish

SUMS_CHECK: Final = "kept sums"  # the name of the check in verdicts


@dataclass(frozen=True, slots=True)
class SumsCheck:
    """The target compared with the source, both at one time."""

    source: str
    as_of: int
    groups: int
    different: int
    first: dict[str, Any] | None  # the first group that differs: its key, stored and right numbers
    left_out_bytes: int = 0  # of both shards, when they exceed a budget and nothing was compared

    def to_json(self) -> dict[str, Any]:
        """Return it as `strata sums --check --json` prints it."""
        return asdict(self)

    @property
    def said(self) -> str:
        """Return the finding in words, without values of rows."""
        if self.left_out_bytes:
            return f"the budget left out {self.left_out_bytes:,} bytes; not compared"
        return (
            f"{self.different:,} of {self.groups:,} groups differ from {self.source}"
            f" at {format_time(self.as_of)}"
        )

    def replay(self, shard: str) -> str:
        """Return the command that repeats the check of the sums in `shard`."""
        return f"strata sums {self.source} --into {shard} --check"


def checked_as_declared(
    stores: Stores, shard: str, settings: ReadSettings = DEFAULTS, most_bytes: int = 0
) -> SumsCheck | None:
    """Check the sums that a shard is declared to hold; None if it holds none, or none yet.

    `most_bytes`: of both shards; where they have more, nothing is compared; 0: no limit.
    Raises: as `check_sums`.
    """
    machine = Machine(stores)
    state = machine.load(shard)
    wish = declared_wish(state.spec)
    if wish is None or state.upper == MIN_TIME:
        return None
    both = (*state.batches, *machine.load(wish.source).batches)
    size_bytes = sum(batch.size_bytes for batch in both)
    if 0 < most_bytes < size_bytes:
        return SumsCheck(wish.source, state.upper - 1, 0, 0, None, size_bytes)
    return check_sums(stores, wish, settings)


def check_sums(stores: Stores, wish: SumsWish, settings: ReadSettings = DEFAULTS) -> SumsCheck:
    """Compare the target with sums of the whole source at the target's last time.

    Raises: as `maintain_sums`. Cost: reads all of both; nothing is skipped.
    """
    with (
        reading(stores, wish.source, settings, "sums-check") as source,
        reading(stores, wish.target, settings, "sums-check") as target,
    ):
        table = SumsTable.of(source, wish)
        check_target(stores, target, source, wish, table)
        if target.upper == MIN_TIME:
            raise InvalidRequest("these sums have no time yet", shard=wish.target, cure="a run")
        as_of = target.upper - 1
        right = whole_sums(stores, source, wish, table, as_of)
        stored = stored_sums(stores, target, table, as_of)
        return _compared(wish, table, as_of, right, stored)


def _compared(
    wish: SumsWish,
    table: SumsTable,
    as_of: int,
    right: dict[Group, GroupSums],
    stored: Counter[tuple[Group, GroupSums]],
) -> SumsCheck:
    held = {group: numbers for group, numbers in stored}
    rows = Counter(group for group, _ in stored)
    twice = {group for (group, _), count in stored.items() if count != 1 or rows[group] > 1}
    groups = held.keys() | right.keys()
    wrong = [g for g in groups if g in twice or held.get(g) != right.get(g)]
    first = min(wrong, key=repr, default=None)
    shown = None if first is None else table.shown(first, held.get(first), right.get(first))
    return SumsCheck(wish.source, as_of, len(held), len(wrong), shown)

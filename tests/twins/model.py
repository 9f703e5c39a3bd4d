"""The slow twin: a shard as {time: Counter of rows}, with nothing clever in it.

A row is any hashable value that stands for (key, value). Tests drive this model and the real
shard with the same commands and compare what can be read.
"""

from collections import Counter
from collections.abc import Hashable, Iterable

from strata.model.time import MIN_TIME

Row = Hashable
Update = tuple[Row, int, int]  # row, time, diff


class RefusedError(Exception):
    """The real shard must refuse this as well."""


class ModelShard:
    """Everything that was ever appended, at its original time."""

    def __init__(self) -> None:
        self.since = MIN_TIME
        self.upper = MIN_TIME
        self.updates: dict[int, Counter[Row]] = {}
        self.tokens: dict[str, tuple[int, int]] = {}
        self.holds: dict[str, tuple[int, int | None]] = {}  # name -> since, expires

    def append(self, token: str, lower: int, upper: int, updates: Iterable[Update]) -> bool:
        """Return whether the token was committed before."""
        if lower > upper:
            raise RefusedError
        if token in self.tokens:
            if self.tokens[token] != (lower, upper):
                raise RefusedError
            return True
        if lower < self.upper:
            raise RefusedError
        for row, time, diff in updates:
            assert lower <= time < upper
            self.updates.setdefault(time, Counter())[row] += diff
        self.tokens[token] = (lower, upper)
        self.upper = upper
        return False

    def advance_since(self, since: int, now_ms: int) -> int:
        """Return where since stands then."""
        if since > self.upper:
            raise RefusedError
        live = {n: h for n, h in self.holds.items() if h[1] is None or h[1] > now_ms}
        target = min([since, self.upper - 1, *(held for held, _ in live.values())])
        if target > self.since:
            self.since, self.holds = target, live  # expired holds are forgotten here only
        return self.since

    def snapshot(self, as_of: int) -> dict[Row, int]:
        """Return how often each row is there at `as_of`; rows that cancel out are absent."""
        if not self.since <= as_of < self.upper:
            raise RefusedError
        total: Counter[Row] = Counter()
        for time, rows in self.updates.items():
            if time <= as_of:
                for row, diff in rows.items():
                    total[row] += diff
        return {row: diff for row, diff in total.items() if diff}

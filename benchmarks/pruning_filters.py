"""Filters that every pruner is asked, the statistics they meet, and what exact intervals keep.

Shape: statistics are low and high of four columns, one row a file, no nulls: `n` long, `amount`
double, `ts` timestamp (microseconds here), `name` text. Needs NumPy only: peers that live in
another environment import this, too.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

Sides = dict[str, np.ndarray[Any, Any]]
DAY_US: Final = 86_400_000_000
START_US: Final = 1_704_067_200_000_000  # 2024-01-01, UTC
TEXT_LENGTH: Final = 6


@dataclass(frozen=True)
class Asked:
    """One filter in the words of each pruner; `iceberg` None: it cannot say it."""

    name: str
    sql: str  # DataFusion's dialect, which delta-rs shares
    iceberg: str | None
    exact: Callable[[Sides, Sides], np.ndarray[Any, Any]]  # of low and high: may some row match


def bounds(files: int, seed: int = 3) -> tuple[Sides, Sides]:
    """Return low and high: `n` and `name` grow, `ts` takes two years, `amount` has no order."""
    rng = np.random.default_rng(seed)
    n = np.arange(files, dtype=np.int64) * 10_000 // files
    amount = np.round(rng.uniform(0, 95, files), 2)
    ts = START_US + np.arange(files, dtype=np.int64) * (730 * DAY_US // files) // 1000 * 1000
    low = {"n": n, "amount": amount, "ts": ts, "name": names(n)}
    high = {"n": n + 12, "amount": amount + 5, "ts": ts + DAY_US // 2, "name": names(n + 12)}
    return low, high


def names(numbers: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return texts that sort as the numbers do: k00042."""
    return np.array([f"k{number:05d}" for number in numbers])


def day(number: int) -> str:
    """Return a day of the two years, as in 2024-01-31."""
    return str(np.datetime64(START_US // DAY_US + number, "D"))


def _at(number: int) -> int:
    return START_US + number * DAY_US


def _year(micros: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return micros.astype("M8[us]").astype("M8[Y]").astype(np.int64) + 1970


def _inside(column: str, value: Any) -> Callable[[Sides, Sides], Any]:
    return lambda low, high: (low[column] <= value) & (value <= high[column])


_WHEN: Final = f"{day(700)}T00:00:00+00:00"
_STAMP: Final = f"TIMESTAMP '{day(700)}T00:00:00Z'"

FILTERS: Final = (
    Asked("n > c", "n > 9900", "n > 9900", lambda a, b: b["n"] > 9900),
    Asked("n = c", "n = 5000", "n = 5000", _inside("n", 5000)),
    Asked("between", "n BETWEEN 100 AND 200", "n >= 100 and n <= 200",
          lambda a, b: (b["n"] >= 100) & (a["n"] <= 200)),
    Asked("in", "n IN (7, 5000)", "n in (7, 5000)",
          lambda a, b: _inside("n", 7)(a, b) | _inside("n", 5000)(a, b)),
    Asked("not", "NOT (n > 100)", "not (n > 100)", lambda a, b: a["n"] <= 100),
    Asked("n + c", "n + 10 > 9950", None, lambda a, b: b["n"] + 10 > 9950),
    Asked("n - c", "n - 10 < 40", None, lambda a, b: a["n"] - 10 < 40),
    Asked("n * c", "n * 2 > 19800", None, lambda a, b: b["n"] * 2 > 19800),
    Asked("-n", "-n > -50", None, lambda a, b: -a["n"] > -50),
    Asked("abs", "abs(n - 5000) < 20", None,
          lambda a, b: (a["n"] < 5020) & (b["n"] > 4980)),
    Asked("amount * c", "amount * 2 < 4", None, lambda a, b: a["amount"] * 2 < 4),
    Asked("and", "amount > 98 AND n < 5000", "amount > 98 and n < 5000",
          lambda a, b: (b["amount"] > 98) & (a["n"] < 5000)),
    Asked("or", "amount > 98 OR n = 3", "amount > 98 or n = 3",
          lambda a, b: (b["amount"] > 98) | _inside("n", 3)(a, b)),
    Asked("floor", "floor(amount) = 50", None,
          lambda a, b: (np.floor(a["amount"]) <= 50) & (np.floor(b["amount"]) >= 50)),
    Asked("ts > c", f"ts > {_STAMP}", f"ts > '{_WHEN}'", lambda a, b: b["ts"] > _at(700)),
    Asked("date_trunc", f"date_trunc('day', ts) > {_STAMP}", None,
          lambda a, b: b["ts"] // DAY_US * DAY_US > _at(700)),
    Asked("ts + interval", f"ts + INTERVAL '1 day' > {_STAMP}", None,
          lambda a, b: b["ts"] + DAY_US > _at(700)),
    Asked("year", "date_part('year', ts) = 2025", None,
          lambda a, b: (_year(a["ts"]) <= 2025) & (_year(b["ts"]) >= 2025)),
    Asked("cast to date", f"CAST(ts AS DATE) = DATE '{day(400)}'", None,
          lambda a, b: (a["ts"] // DAY_US <= _at(400) // DAY_US)
          & (b["ts"] // DAY_US >= _at(400) // DAY_US)),
    Asked("name >= c", "name >= 'k09900'", "name >= 'k09900'",
          lambda a, b: b["name"] >= "k09900"),
    Asked("like 'c%'", "name LIKE 'k012%'", "name like 'k012%'",
          lambda a, b: (a["name"] <= "k01299") & (b["name"] >= "k01200")),
    Asked("case", "CASE WHEN n > 9900 THEN amount ELSE 0 END > 50", None,
          lambda a, b: (b["n"] > 9900) & (b["amount"] > 50)),
    Asked("coalesce", "coalesce(n, 0) > 9900", None, lambda a, b: b["n"] > 9900),
    Asked("two columns", "n > amount * 100", None,
          lambda a, b: b["n"] > a["amount"] * 100),
)  # fmt: skip
# What planning is timed with: plain comparisons of three columns, which all of them can judge.
TIMED: Final = Asked(
    "timed",
    "n > 9000 AND amount < 50 AND name = 'k09500'",
    "n > 9000 and amount < 50 and name = 'k09500'",
    lambda a, b: (b["n"] > 9000) & (a["amount"] < 50) & _inside("name", "k09500")(a, b),
)

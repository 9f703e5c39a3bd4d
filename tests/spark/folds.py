"""Conjuncts that fold a list, compare texts by a collation, or compare several places at once."""

import random
from collections.abc import Mapping, Sequence
from typing import Final

from tests.spark.inside import SIGNS, Inside

SHARE: Final = 0.12  # of filters that have such a conjunct
_CONSTANTS: Final = ("-3", "0", "1", "7", "12", "2013")
_TEXTS: Final = ("'A'", "'aa'", "'K1'", "'k1 '", "'Z'", "''", "'2013-01-05'", "'\\u212a1'")
_COLLATIONS: Final = ("utf8_lcase", "utf8_binary_rtrim", "utf8_lcase_rtrim", "unicode_ci")
_ROWS: Final = {
    "int": ("-3", "0", "7", "2013", "cast(null as int)"),
    "long": ("0L", "1000L"),
    "double": ("0D", "double('NaN')", "1.5D"),
    "date": ("date'2013-01-01'", "date'2013-01-31'"),
    "text": ("'a'", "'k1'", "'AA'"),
}
_MERGES: Final = {
    "int": (
        ("0L", "a + x"),
        ("0L", "a + coalesce(x, 0)"),
        ("0", "a + 1"),
        ("0", "try_add(a, x)"),
        ("0", "a + x"),
        ("-1", "greatest(a, x)"),
        ("cast(null as int)", "if(a is null or x < a, x, a)"),
        ("1D", "a * x / 2"),
        ("0L", "a + 10 div x"),
    ),
    "text": (
        ("0", "a + length(x)"),
        ("0", "if(x like 'a%', a + 1, a)"),
        ("0", "a + cast(x as int)"),
        ("9", "least(a, try_cast(x as int))"),
    ),
}


class Folds:
    """Draws such conjuncts over the places of one relation."""

    def __init__(
        self, rng: random.Random, inside: Inside, leaves: Mapping[str, Sequence[str]]
    ) -> None:
        """Take the lists and the texts; they may be added later."""
        self.rng, self.inside, self.leaves = rng, inside, leaves

    def among(self, conjuncts: Sequence[str]) -> list[str]:
        """Return conjuncts, now and then with one more."""
        found = list(conjuncts)
        lists, texts = self.inside.lists, self.leaves.get("text", ())
        if self.rng.random() < SHARE:
            tests = [self._together()]
            tests += [self._fold(*self.rng.choice(lists))] * 2 if lists else []
            tests += [self._collated(texts)] if texts else []
            test = self.rng.choice(tests)
            found.insert(self.rng.randrange(len(found) + 1), test)
        return found

    def _fold(self, sql: str, family: str) -> str:
        pick = self.rng.choice
        start, body = pick(_MERGES[family])
        finish = pick(("", "", ", a -> a * 2", ", a -> a / 2", ", a -> coalesce(a, 5)"))
        call = f"{pick(('aggregate', 'reduce'))}({sql}, {start}, (a, x) -> {body}{finish})"
        return pick((f"{call} {pick(SIGNS)} {pick(_CONSTANTS)}",) * 3 + (f"{call} is null",))

    def _together(self) -> str:
        pick = self.rng.choice
        families = [f for f in _ROWS if self.leaves.get(f)]
        if not families:
            return "true"
        chosen = [pick(families) for _ in range(pick((1, 2, 2, 3)))]
        places = ", ".join(pick(self.leaves[family]) for family in chosen)
        values = ", ".join(pick((*_ROWS[family], pick(self.leaves[family]))) for family in chosen)
        return f"struct({places}) {pick(SIGNS)} struct({values})"

    def _collated(self, texts: Sequence[str]) -> str:
        pick = self.rng.choice
        text = f"{pick(texts)} collate {pick(_COLLATIONS)}"
        return pick(
            (
                f"{text} {pick(SIGNS)} {pick(_TEXTS)}",
                f"{text} {pick(SIGNS)} {pick(_TEXTS)}",
                f"{text} between {pick(_TEXTS)} and {pick(_TEXTS)}",
                f"{text} in ({pick(_TEXTS)}, {pick(_TEXTS)})",
                f"{text} {pick(SIGNS)} {pick(texts)}",
            )
        )

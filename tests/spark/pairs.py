"""Conjuncts that compare two places of one row: their order, their difference, their quotient."""

import random
from collections.abc import Mapping, Sequence
from typing import Final

from tests.spark.inside import SIGNS

SHARE: Final = 0.25  # of filters that have such a conjunct
NUMBERS: Final = ("int", "long", "double", "dec")
FAMILIES: Final = (*NUMBERS, "date", "ts", "ntz")
_CONSTANTS: Final = {
    "int": ("0", "1", "-3", "9", "2013"),
    "long": ("0L", "1L", "-9L", "1000L"),
    "double": ("0D", "-1.0D", "0.5D", "2.5D", "double('Infinity')"),
    "dec": ("0.00BD", "1.50BD", "-0.01BD"),
    "date": ("interval '0' day", "interval '1' day", "interval '-30' day"),
    "ts": ("interval '0' second", "interval '36' hour", "interval '-1' day"),
}
_INFINITE: Final = ("double('Infinity')", "double('-Infinity')")
_MOVES: Final = {"int": "3", "long": "3L", "date": "5", "ts": "interval '36' hour"}


class Together:
    """Draws conjuncts over two places of one family."""

    def __init__(self, rng: random.Random, leaves: Mapping[str, Sequence[str]]) -> None:
        """Take the places by family; they may be added later."""
        self.rng, self.leaves = rng, leaves

    def among(self, conjuncts: Sequence[str]) -> list[str]:
        """Return conjuncts, now and then with one more."""
        found = list(conjuncts)
        families = [f for f in FAMILIES if len(self.leaves.get(f, ())) > 1]
        if families and self.rng.random() < SHARE:
            found.insert(self.rng.randrange(len(found) + 1), self.test(self.rng.choice(families)))
        return found

    def test(self, family: str) -> str:
        """Return a comparison of two places of a family."""
        pick, sign = self.rng.choice, self.rng.choice(SIGNS)
        a, b = self.rng.sample([*self.leaves[family]], 2)
        like = "ts" if family == "ntz" else family
        constant, move = pick(_CONSTANTS[like]), _MOVES.get(like, "")
        tests = [f"{a} {sign} {b}", f"{a} {sign} {b}", f"{a} - {b} {sign} {constant}"]
        if move:
            tests += [f"{a} {sign} {b} + {move}", f"{a} - {move} {sign} {b}"]
        if family in NUMBERS:
            ratio = pick(("0.5D", "-0.5D", "1.0D", "-2.0D", *_INFINITE))
            tests += [
                f"{a} / {b} {sign} {ratio}",
                f"({a} - {b}) / {b} {sign} {ratio}",
                f"try_divide({a} - {b}, {a}) {sign} {ratio}",
                f"try_subtract({a}, {b}) {sign} {constant}",
                f"abs({a} - {b}) {sign} {constant}",
            ]
        elif family == "date":
            tests += [
                f"datediff({a}, {b}) {sign} {pick(('0', '7', '-30'))}",
                f"date_sub({a}, 2) {sign} date_add({b}, 2147483647)",
            ]
        else:
            unit = pick(("second", "minute", "hour", "day", "month"))
            tests += [
                f"timestampdiff({unit}, {a}, {b}) {sign} {pick(('0', '1', '-40'))}",
                f"cast({a} as date) {sign} cast({b} as date)",
                f"datediff({a}, {b}) {sign} 1",
                f"unix_timestamp({a}) - unix_timestamp({b}) {sign} 90000",
            ]
        return pick(tests)

"""Random tests of what is inside lists and maps: elements, keys, values, lengths, lambdas."""

import random
from collections.abc import Callable
from typing import Final

from strata.model.types import ColumnType, Kind

SIGNS: Final = ("=", "<", "<=", ">", ">=", "<>", "<=>")
ENTRIES: Final = "list<record<k: string, x: int32>>"
Draw = Callable[[str], str]  # of a family


class Inside:
    """Draws tests of the lists and maps of one relation."""

    def __init__(self, rng: random.Random, constant: Draw, leaf: Draw) -> None:
        """`constant` and `leaf` draw what elements are compared with."""
        self.rng, self.constant, self.leaf = rng, constant, leaf
        self.lists: list[tuple[str, str]] = []  # and the family of the elements
        self.maps: list[tuple[str, str]] = []
        self.entries: list[str] = []  # lists of records of k and x

    def add(self, sql: str, kind: ColumnType, family: str) -> None:
        """Note a place that holds a list or map of elements of a family."""
        if family in ("int", "text") and kind.kind in (Kind.LIST, Kind.MAP):
            (self.lists if kind.kind is Kind.LIST else self.maps).append((sql, family))
        if str(kind) == ENTRIES:
            self.entries.append(sql)

    def test(self) -> str:
        """Return a test of elements; some fail on an index, a key or in a lambda."""
        kinds = [some for some in ("lists", "maps", "entries") if getattr(self, some)]
        match self.rng.choice(kinds) if kinds else "":
            case "lists":
                return self._of_list(*self.rng.choice(self.lists))
            case "maps":
                return self._of_map(*self.rng.choice(self.maps))
            case "entries":
                return self._of_entries(self.rng.choice(self.entries))
            case _:
                return "true"

    def _compare(self, text: str, family: str) -> str:
        other = self.leaf(family) if self.rng.random() < 0.15 else self.constant(family)
        return f"{text} {self.rng.choice(SIGNS)} {other}"

    def _body(self, name: str, family: str) -> str:
        """Return a test of the variable of a lambda."""
        odd = {
            "int": (
                f"10 / {name} > 1",
                f"{name} % 2 = 0",
                f"try_add({name}, 1) > 3",
                f"{name} + 2147483600 > 0",
            ),
            "text": (f"{name} like 'a%'", f"cast({name} as int) > 3", f"length({name}) = 2"),
        }[family]
        return self.rng.choice(
            (
                self._compare(name, family),
                self._compare(name, family),
                f"{name} is null",
                f"not ({self._compare(name, family)})",
                self.rng.choice(odd),
            )
        )

    def _of_list(self, sql: str, family: str) -> str:
        constant, body = self.constant(family), self._body("x", family)
        size = f"{self.rng.choice(SIGNS)} {self.rng.randrange(4)}"
        place = self.rng.choice(
            (
                f"{sql}[{self.rng.randrange(3)}]",
                f"get({sql}, {self.rng.randrange(-1, 3)})",
                f"element_at({sql}, {self.rng.choice((-2, -1, 0, 1, 2))})",
                f"try_element_at({sql}, {self.rng.choice((-1, 1, 3))})",
                f"array_min({sql})",
                f"array_max({sql})",
                f"get(sort_array({sql}), 0)",
                f"get(array_distinct({sql}), 1)",
                f"get(filter({sql}, x -> {body}), 0)",
                f"array_max(transform({sql}, x -> x))",
            )
        )
        return self.rng.choice(
            (
                f"array_contains({sql}, {constant})",
                f"not array_contains({sql}, {constant})",
                f"exists({sql}, x -> {body})",
                f"forall({sql}, x -> {body})",
                f"size({sql}) {size}",
                f"size(filter({sql}, x -> {body})) {size}",
                f"array_position({sql}, {constant}) {size}",
                f"arrays_overlap({sql}, array({constant}, {self.constant(family)}))",
                f"exists(transform({sql}, x -> coalesce(x, {constant})), "
                f"y -> {self._compare('y', family)})",
                f"{place} is null",
                self._compare(place, family),
                self._compare(place, family),
            )
        )

    def _of_map(self, sql: str, family: str) -> str:
        key = self.rng.choice(("'a'", "'b'", "'k1'", "'m'", "'zz'"))
        value = self.rng.choice(
            (
                f"{sql}[{key}]",
                f"element_at({sql}, {key})",
                f"try_element_at({sql}, {key})",
                f"get(map_values({sql}), 0)",
                f"array_max(map_values({sql}))",
            )
        )
        return self.rng.choice(
            (
                self._compare(value, family),
                self._compare(value, family),
                f"{value} is null",
                f"map_contains_key({sql}, {key})",
                f"array_contains(map_keys({sql}), {key})",
                f"exists(map_values({sql}), x -> {self._body('x', family)})",
                f"exists(map_entries({sql}), "
                f"e -> e.key = {key} and {self._body('e.value', family)})",
                f"forall(map_keys({sql}), k -> k {self.rng.choice(SIGNS)} {key})",
                f"cardinality({sql}) {self.rng.choice(SIGNS)} {self.rng.randrange(4)}",
            )
        )

    def _of_entries(self, sql: str) -> str:
        return self.rng.choice(
            (
                f"exists({sql}, e -> {self._body('e.x', 'int')} and {self._body('e.k', 'text')})",
                f"forall({sql}, e -> {self._body('e.x', 'int')} or e is null)",
                f"array_contains({sql}.x, {self.constant('int')})",
                f"exists({sql}.k, x -> {self._body('x', 'text')})",
                self._compare(f"{sql}[0].x", "int"),
                self._compare(f"get({sql}, 1).k", "text"),
                f"size(filter({sql}, e -> {self._body('e.x', 'int')})) > {self.rng.randrange(3)}",
                f"array_max({sql}.x) {self.rng.choice(SIGNS)} {self.constant('int')}",
            )
        )

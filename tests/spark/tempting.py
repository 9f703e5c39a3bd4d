"""Draws filters that tempt Spark to evaluate them in another order than they are written in.

Null tests in front of what fails, factors that are repeated, equalities of columns, Python
functions in branches, columns that were added later, constants that are no UTF-8.
"""

import random
from collections.abc import Sequence
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType

from strata.model.schema import Relation
from strata.model.types import ColumnType, Kind
from strata.spark.rows import quoted
from tests.spark.predicates import Predicates

NO_UTF8: Final = ("cast(X'ff' as string)", "cast(X'f09f' as string)", "cast(X'eda080' as string)")
LATE: Final = ("added", "later")  # columns of worlds that older parts do not have
DATES: Final = (
    "date'2012-02-29'",
    "date'2013-01-10'",
    "date'2013-01-24'",
    "date'2013-02-20'",
    "date'2030-01-01'",
)
TIMES: Final = ("timestamp'2013-01-05 12:00:00.5'", "timestamp'2013-02-01 00:00:00'")
CLOCKS: Final = {"date": ("current_date()", DATES), "ts": ("now()", TIMES)}
POISON: Final = 7  # the Python functions fail on multiples of it


def _is_whole(declared: ColumnType) -> bool:
    return declared.kind in (Kind.INT16, Kind.INT32, Kind.INT64)


def _whole_fields(declared: ColumnType) -> list[str]:
    return [quoted(field.name) for field in declared.fields if _is_whole(field.type)]


def register(spark: SparkSession) -> None:
    """Register the Python functions that the filters call: one takes rows, the other batches."""

    def boom(number: int | None) -> int | None:
        if number is not None and number % POISON == 0:
            raise ValueError("poison")
        return number

    spark.udf.register("boom", F.udf(boom, LongType(), useArrow=False))
    spark.udf.register("whirr", F.udf(boom, LongType(), useArrow=True))


class Tempting:
    """Draws filters of shapes that Spark evaluates in another order than they are written."""

    def __init__(self, rng: random.Random, relation: Relation, only: Sequence[str] = ()) -> None:
        """`only`: the names of shapes; none: all of them."""
        self._rng = rng
        self._plain = Predicates(rng, relation)
        columns = relation.columns
        self._names = [quoted(c.name) for c in columns]
        leaves = self._plain.leaves
        self._whole = leaves["int"] + leaves["long"]
        self._columns = [text for text in self._whole if text in self._names]
        known = [name for name in LATE if quoted(name) in self._names]
        self._added = known or self._names
        self._times = {family: [t for t in leaves[family] if t in self._names] for family in CLOCKS}
        self._times["none"] = []
        self._texts = leaves["text"] or ["cast(id as string)"]
        self._lists = [
            (quoted(column.name), f"e.{fields[0]}" if fields else "e")
            for column in columns
            if column.type.kind is Kind.LIST and column.type.element
            if (fields := _whole_fields(column.type.element)) or _is_whole(column.type.element)
        ]
        self._inside = [t for texts in leaves.values() for t in texts if "[" in t or "(" in t]
        shapes = (
            self._null_first, self._null_tests, self._late, self._factor, self._absorbed,
            self._equated, self._repeated, self._repeated_inside, self._called, self._bytes,
            self._branch, self._between, self._member, self._pinned, self._clocked, self._random,
            self._taken, self._plain.filter, self._plain.filter,
        )  # fmt: skip
        self._shapes = [s for s in shapes if not only or s.__name__.strip("_") in only]

    def filter(self) -> tuple[str, str]:
        """Return the name of a shape, and a filter of it."""
        shape = self._pick(self._shapes)
        return shape.__name__.strip("_"), shape()

    def _pick(self, choices: Sequence) -> object:  # type: ignore[type-arg]
        return self._rng.choice(choices)

    def _failing(self) -> str:
        """Return a condition that fails on some rows."""
        whole, text = self._pick(self._whole), self._pick(self._texts)
        number = self._pick((-1, 0, 1, 2, 5, 9, 12))
        return str(
            self._pick(
                (
                    f"1 / ({whole} - {number}) > 0.1",
                    f"cast({text} as int) > {number}",
                    f"cast({text} as date) > date'2013-01-01'",
                    f"10 % {whole} = {number}",
                    f"cast({whole} * 1000 as smallint) > {number}",
                    self._plain.boolean(2),
                )
            )
        )

    def _proving(self) -> str:
        """Return a condition that statistics decide for many parts."""
        low = self._rng.randrange(0, 190)
        return str(
            self._pick(
                (
                    f"id < {low}",
                    f"id > {low}",
                    f"id between {low} and {low + 12}",
                    f"id in ({low}, {low + 1})",
                    f"{self._pick(self._names)} is null",
                    f"{self._pick(self._names)} is not null",
                    self._plain.boolean(1),
                )
            )
        )

    def _null_first(self) -> str:
        name = self._pick([*self._added, *self._names])
        test = self._pick((f"{name} is not null", f"not ({name} is null)", f"isnotnull({name})"))
        return f"{test} and {self._proving()} and {self._failing()}"

    def _null_tests(self) -> str:
        """Test columns and what may fail for null: Spark leaves some tests in their place."""
        whole, text = self._pick(self._whole), self._pick(self._texts)
        value = self._pick(
            (
                f"1 / {whole}",
                f"cast({text} as int)",
                f"cast({text} as timestamp)",
                f"cast(nullif({text}, 'a') as date)",
                f"nullif(10 % {whole}, 1)",
            )
        )
        conjuncts = [
            f"{self._pick([*self._added, *self._names])} is not null",
            f"{value} is not null",
            self._pick((self._failing(), self._proving(), f"{self._pick(self._whole)} > 5")),
        ]
        self._rng.shuffle(conjuncts)
        return " and ".join(f"({text})" for text in conjuncts)

    def _late(self) -> str:
        """Ask what older parts do not have: a column with a default, and one without."""
        name = self._pick(self._added)
        tests = [f"{name} is not null", f"not ({name} is null)", f"{name} is null"]
        if name == "added":
            signs = ("=", "<>", ">", "<=>", "<")
            tests += [f"{name} {sign} {self._pick((4, 5, 5, 6))}" for sign in signs]
            tests += [f"coalesce({name}, 0) <> 5"]
        if name == "later":
            tests += [f"{name} > timestamp'2013-01-01 00:00:00'", f"{name} <=> null"]
        test = self._pick(tests)
        conjuncts = [test, self._failing()]
        if self._rng.random() < 0.3:
            conjuncts.reverse()
        if self._rng.random() < 0.4:
            conjuncts.insert(self._rng.randrange(3), self._proving())
        return " and ".join(f"({text})" for text in conjuncts)

    def _factor(self) -> str:
        failing = self._failing()
        return f"({self._proving()} and {failing}) or ({self._proving()} and {failing})"

    def _absorbed(self) -> str:
        test = f"coalesce({self._proving()}, false)"
        return f"(not {test} or {self._failing()}) and {test}"

    def _equated(self) -> str:
        one, other = self._pick(self._columns), self._pick(self._columns)
        equal = self._pick(
            (
                f"{one} = {other}",
                f"not ({one} <> {other})",
                f"({one} = {other}) = true",
                f"({one} = {other} or {one} = {other})",
                f"{one} <=> {other}",
            )
        )
        return f"{self._proving()} and {equal} and 1 / ({one} - {self._pick((0, 1, 5))}) > 0.1"

    def _repeated(self) -> str:
        failing, proving = self._failing(), self._proving()
        wrapped = f"({failing} or not ({failing}))"
        return str(
            self._pick(
                (
                    f"{proving} and {wrapped}",
                    f"coalesce({proving} and {wrapped}, false)",
                    f"not (not ({proving}) or {wrapped})",
                )
            )
        )

    def _repeated_inside(self) -> str:
        """Repeat what may fail on elements of a list, which may be null or have no element."""
        if not self._lists:
            return self._repeated()
        name, element = self._pick(self._lists)
        failing = self._pick(
            (
                f"1 / ({element} - 1) > 0.1",
                f"{element} + 2147483600 > 0",
                f"10 % {element} = {self._pick((0, 1, 2))} or e is null",
            )
        )
        test = self._pick(
            (
                f"{self._pick(('forall', 'exists'))}({name}, e -> {failing})",
                f"size(filter({name}, e -> {failing})) > {self._pick((-1, 0, 1))}",
            )
        )
        if self._rng.random() < 0.5:
            test = f"({self._proving()} or {test})"
        wrapped = f"({test} or not {test})"
        return str(
            self._pick(
                (
                    f"{self._proving()} and {wrapped}",
                    f"coalesce({self._proving()} and {wrapped}, false)",
                    f"({self._proving()} and {test}) or ({self._proving()} and {test})",
                )
            )
        )

    def _called(self) -> str:
        proving, number = self._proving(), self._pick(("id", "id", *self._whole))
        called = f"{self._pick(('boom', 'whirr'))}({number})"
        return str(
            self._pick(
                (
                    f"(case when {proving} then id else {called} end) > 3",
                    f"coalesce(id, {called}) > 3 and {proving}",
                    f"{called} > 3 and {proving}",
                    f"{proving} and {called} > 3",
                    f"if({proving}, id, {called}) > 3",
                    f"{proving} and ({called} > 3 or {self._failing()})",
                    f"not ({called} > 3 or not ({proving}))",
                    f"{proving} and {self._failing()} and {called} between 1 and 9",
                )
            )
        )

    def _bytes(self) -> str:
        text, constant = self._pick(self._texts), self._pick(NO_UTF8)
        return str(
            self._pick(
                (
                    f"{text} < {constant}",
                    f"{text} >= {constant}",
                    f"not ({text} > {constant})",
                    f"{text} between 'a' and {constant}",
                    f"startswith({text}, {constant})",
                    f"{text} in ('a', {constant})",
                    f"{text} <> {constant} and {self._proving()}",
                )
            )
        )

    def _branch(self) -> str:
        return f"if({self._proving()}, {self._failing()}, {self._pick(('false', 'true', 'null'))})"

    def _between(self) -> str:
        whole = self._pick(self._whole)
        conjuncts = [self._proving(), f"1 / ({whole} - 1) between 0.1 and 5"]
        self._rng.shuffle(conjuncts)
        return " and ".join(conjuncts)

    def _member(self) -> str:
        """Ask for one of so many that Spark makes a set of them."""
        low, step = self._rng.randrange(0, 190), self._rng.choice((1, 1, 7))
        many = ", ".join(str(low + step * n) for n in range(12))
        return f"id {self._pick(('in', 'not in'))} ({many}) and {self._failing()}"

    def _pinned(self) -> str:
        """Say what a column is, so that Spark writes the constant where it is asked for again."""
        whole, number = self._pick(self._columns), self._pick((-1, 0, 1, 2, 5, 9, 12))
        again = f"if({whole} > {number} - 1, {self._failing()}, {self._pick(('false', 'true'))})"
        conjuncts = [f"{whole} {self._pick(('=', '<=>'))} {number}", again]
        self._rng.shuffle(conjuncts)
        return " and ".join(conjuncts)

    def _clocked(self) -> str:
        """Say what a time is, and branch by the clock: what Spark takes then, no row has taken."""
        family = self._pick([f for f in CLOCKS if self._times[f]] or ["none"])
        clock, times = CLOCKS.get(family, ("current_date()", DATES))
        column = self._pick(self._times[family] or ["cast(id as date)"])
        branches = [self._failing(), self._pick(("true", "false", self._proving()))]
        self._rng.shuffle(branches)
        sign = self._pick(("<", ">", "<=", ">="))
        conjuncts = [
            f"if({column} {sign} {clock}, {branches[0]}, {branches[1]})",
            f"{column} {self._pick(('=', '<=>'))} {self._pick(times)}",
        ]
        self._rng.shuffle(conjuncts)
        return " and ".join(f"({text})" for text in conjuncts)

    def _random(self) -> str:
        """Put what is not deterministic in between: rand() < 2 is always true."""
        return f"{self._null_first()} and rand() < 2 and {self._failing()}"

    def _taken(self) -> str:
        """Take an element behind a condition, which may hide that it is not there."""
        taken = self._pick(self._inside or self._whole)
        return f"{self._proving()} and {taken} {self._pick(('is null', 'is not null', '= null'))}"

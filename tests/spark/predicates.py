"""Random filters as people write them: SQL text over the columns of a relation, typed, nested.

Every function that Strata has a rule for is meant to come up, and some that it has none for; in
ANSI mode many of them fail on some rows, which is the point. Nothing here is random but `rng`.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from strata.format.encodings import spark_ddl
from strata.model.schema import Relation
from strata.model.types import ColumnType, Kind
from strata.spark.rows import quoted
from tests.spark.folds import Folds
from tests.spark.inside import SIGNS, Inside
from tests.spark.pairs import Together

FAMILIES: Final = {
    "boolean": "bool",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "double",
    "double": "double",
    "date": "date",
    "timestamp": "ts",
    "timestamp_ntz": "ntz",
    "string": "text",
    "binary": "bytes",
    "interval day to second": "daytime",
    "interval year to month": "yearmonth",
}
COMPARED: Final = ("int", "long", "double", "dec", "date", "ts", "ntz", "text", "int", "ts", "date")
UNITS: Final = ("year", "quarter", "month", "week", "day", "hour", "minute")
TEXTS: Final = ("''", "'0'", "'10'", "'12'", "'2013-01-05'", "'AA'", "'a'", "'ab'", "'k1'", "'k10'",
                "'z'", "'true'", "'2013-01-05T05:00:00Z'")  # fmt: skip
READ: Final = ("to_timestamp", "try_to_timestamp")
PATTERNS: Final = ("yyyy-MM-dd", "yyyy-MM-dd HH:mm:ss", "dd/MM/yyyy", "MM/dd/yyyy", "yyyyMMdd")
DATES: Final = (
    "date'2013-01-01'",
    "date'2013-01-31'",
    "date'2012-02-29'",
    "date'2014-01-01'",
    "date'1970-01-01'",
    "current_date()",
)
TIMES: Final = (
    "timestamp'2013-01-01 00:00:00'",
    "timestamp'2013-02-01 00:00:00'",
    "now()",
    "timestamp'2013-01-05 12:00:00.5'",
    "timestamp'1970-01-01 00:00:00'",
)
CONSTANTS: Final[dict[str, tuple[str, ...]]] = {
    "int": ("-7", "-1", "0", "1", "2", "5", "12", "31", "100", "2013", "2147483647"),
    "long": ("-3L", "0L", "9L", "1000L", "9007199254740993L", "9223372036854775807L"),
    "double": ("-1.5D", "0D", "0.5D", "1D", "9.0D", "1e9D", "double('NaN')", "double('Infinity')"),
    "dec": ("-1.5BD", "0.00BD", "0.01BD", "2.5BD", "99.99BD", "12345678.9BD"),
    "date": DATES,
    "ts": TIMES,
    "ntz": (
        "timestamp_ntz'2013-01-01 00:00:00'",
        "timestamp_ntz'2013-02-01 00:00:00'",
        "localtimestamp()",
    ),
    "text": TEXTS,
    "bool": ("true", "false"),
    "bytes": ("X''", "X'00FF'", "X'61'"),
    "daytime": ("interval '0' second", "interval '1' day", "interval '36' hour"),
    "yearmonth": ("interval '0' month", "interval '1' year"),
}
PATHS: Final = ("n", "f", "s", "at", "t", "b", "o.x", "o.y.z", "o", "a", "m", "none", "a[0]")


NOW_US: Final = 1_359_000_000_000_000  # 2013-01-24 04:00:00, among the data
# What each clock of Spark's reads at `NOW_US` in UTC, without which two runs of it differ.
STOPPED: Final = {
    "now": "timestamp'2013-01-24 04:00:00'",
    "current_timestamp": "timestamp'2013-01-24 04:00:00'",
    "localtimestamp": "timestamp_ntz'2013-01-24 04:00:00'",
    "current_date": "date'2013-01-24'",
    "curdate": "date'2013-01-24'",
    "unix_timestamp": "1359000000L",
}
_CLOCK: Final = re.compile(rf"\b({'|'.join(STOPPED)})\s*\(\s*\)", re.IGNORECASE)


def stopped(sql: str) -> str:
    """Return a filter with its clock written out as it stands at `NOW_US`, in a session in UTC."""
    return _CLOCK.sub(lambda found: STOPPED[found[1].lower()], sql)


class Predicates:
    """Draws filters over one relation."""

    def __init__(self, rng: random.Random, relation: Relation) -> None:
        """Sort what can be read from the relation by family."""
        self.rng = rng
        self.leaves: dict[str, list[str]] = defaultdict(list)
        # Draws of its own, so that the others stay what they were
        self.together = Together(random.Random(len(relation.columns)), self.leaves)
        self.documents: list[str] = []
        self.inside = Inside(rng, self._constant, self._leaf)
        self.folds = Folds(random.Random(len(relation.columns)), self.inside, self.leaves)
        for column in relation.columns:
            self._add(quoted(column.name), column.type)

    def _add(self, sql: str, kind: ColumnType) -> None:  # noqa: C901 - a list of cases
        """Note a place that holds values of a type, and what is inside it."""
        if kind.kind is Kind.JSONB:
            self.documents.append(sql)
        ddl = spark_ddl(kind)
        self.leaves["any"].append(sql)
        if ddl in FAMILIES:
            self.leaves[FAMILIES[ddl]].append(sql)
        if ddl.startswith("decimal"):
            self.leaves["dec"].append(sql)
        if kind.kind is Kind.RECORD:
            for field in kind.fields:
                self._add(f"{sql}.{quoted(field.name)}", field.type)
        element = kind.element
        inner = FAMILIES.get(spark_ddl(element)) if element is not None else None
        self.inside.add(sql, kind, inner or "")
        if kind.kind is Kind.MAP and element is not None:
            self._add(f"{sql}['a']", element)
            self._add(f"try_element_at({sql}, 'b')", element)
        if kind.kind is Kind.LIST and element is not None:
            self._add(f"{sql}[0]", element)
            self.leaves["int"].append(f"size({sql})")
        if kind.kind is Kind.RANGE and element is not None:
            self._add(f"{sql}.lower", element)
            self.leaves["bool"].append(f"{sql}.empty")
        if kind.kind is Kind.NUMERIC and kind.precision is None:
            self.leaves["double"].append(f"{sql}.approx")
            self.leaves["text"].append(f"{sql}.text")
        if kind.kind is Kind.INTERVAL:
            self.leaves["int"].append(f"{sql}.months")

    def filter(self, depth: int = 4) -> str:
        """Return a filter: as a rule several conjuncts, one of them deep."""
        conjuncts = [self.boolean(depth)]
        for _ in range(self.rng.choice((0, 0, 1, 1, 2))):
            conjuncts.append(self.boolean(self.rng.randrange(1, 3)))
        if self.rng.random() < 0.15:
            conjuncts += self._pinned()
        self.rng.shuffle(conjuncts)
        conjuncts = self.folds.among(self.together.among(conjuncts))
        return " and ".join(f"({text})" for text in conjuncts)

    def _pinned(self) -> list[str]:
        """Return conjuncts of which one says what a column is, and another asks for it again."""
        family = self._pick(COMPARED)
        leaf = self._pick(self.leaves[family] or CONSTANTS[family])
        asked = f"{leaf} {self._pick(SIGNS)} {self._constant(family)}"
        branches = f"{self.boolean(2)}, {self.boolean(1)}"
        return [f"{leaf} = {self._constant(family)}", f"if({asked}, {branches})"]

    def boolean(self, depth: int) -> str:
        """Return a condition; below depth 1 a plain one."""
        if depth <= 1:
            return self._test(1)
        inner = depth - 1
        return self.rng.choice(
            (
                lambda: self._test(depth),
                lambda: self._test(depth),
                lambda: f"({self.boolean(inner)}) and ({self.boolean(inner)})",
                lambda: f"({self.boolean(inner)}) or ({self.boolean(inner)})",
                lambda: f"not ({self.boolean(inner)})",
                lambda: f"coalesce({self.boolean(inner)}, {self._pick(CONSTANTS['bool'])})",
                lambda: f"if({self.boolean(inner)}, {self.boolean(inner)}, {self.boolean(1)})",
                lambda: (
                    f"case when {self.boolean(1)} then {self.boolean(inner)} "
                    f"when {self.boolean(1)} then {self.boolean(1)} end"
                ),
                lambda: f"({self.boolean(inner)}) is not null",
            )
        )()

    def _test(self, depth: int) -> str:
        family = self._pick(COMPARED)
        value = self.value(family, depth - 1)
        return self.rng.choice(
            (
                lambda: f"{value} {self._pick(SIGNS)} {self.value(family, 0)}",
                lambda: f"{value} {self._pick(SIGNS)} {self._constant(family)}",
                lambda: f"{value} {self._pick(SIGNS)} {self._constant(family)}",
                lambda: f"{value} between {self._constant(family)} and {self._constant(family)}",
                lambda: f"{value} in ({', '.join(self._constant(family) for _ in range(3))})",
                lambda: f"{value} is null",
                lambda: f"{value} is not null",
                lambda: f"{self._pick(self.leaves['any'])} is {self._pick(('null', 'not null'))}",
                lambda: self._like(depth - 1),
                lambda: self._pick(self.leaves["bool"] or ["true"]),
                lambda: f"isnan({self.value('double', depth - 1)})",
                lambda: self._odd(depth - 1),
                self.inside.test,
            )
        )()

    def _like(self, depth: int) -> str:
        text = self.value("text", depth)
        prefix = self._pick(("a", "k1", "2013-01", "A_", ""))
        return self.rng.choice(
            (
                f"{text} like '{prefix}%'",
                f"{text} like '%{prefix}'",
                f"startswith({text}, '{prefix}')",
                f"{text} not like '{prefix}%'",
                f"contains({text}, '{prefix}')",
                f"{text} rlike '^{prefix}'",
            )
        )

    def _odd(self, depth: int) -> str:
        """Return tests of types that are compared rarely, and of functions without a rule."""
        some = [f for f in ("bytes", "daytime", "yearmonth", "bool") if self.leaves[f]]
        if not some or self.rng.random() < 0.3:
            return f"pmod(hash({self._pick(self.leaves['int'])}), {depth + 2}) = 0"
        family = self._pick(some)
        leaf = self._pick(self.leaves[family])
        return f"{leaf} {self._pick(SIGNS[:5])} {self._constant(family)}"

    # Values.

    def value(self, family: str, depth: int) -> str:
        """Return an expression of a family."""
        if depth <= 0 or self.rng.random() < 0.15:
            return self._leaf(family)
        builders: dict[str, Callable[[int], Sequence[Callable[[], str]]]] = {
            "int": self._integers,
            "long": self._longs,
            "double": self._doubles,
            "dec": self._decimals,
            "date": self._dates,
            "ts": self._times,
            "ntz": self._locals,
            "text": self._texts,
        }
        makers = [*builders[family](depth - 1), *self._choices(family, depth - 1)]
        return self.rng.choice(makers)()

    def _leaf(self, family: str) -> str:
        leaves = self.leaves[family]
        extra = self._from_json(family) if self.documents and self.rng.random() < 0.25 else None
        return extra or self._pick(leaves or CONSTANTS[family])

    def _from_json(self, family: str) -> str | None:
        document = self._pick(self.documents)
        path = f"get_json_object({document}, '$.{self._pick(PATHS)}')"
        casts = {
            "int": "int",
            "long": "bigint",
            "double": "double",
            "dec": "decimal(12,2)",
            "ts": "timestamp",
            "date": "date",
        }
        if family == "text":
            return path
        if family not in casts:
            return None
        return f"{self._pick(('cast', 'try_cast', 'try_cast'))}({path} as {casts[family]})"

    def _constant(self, family: str) -> str:
        return self._pick(CONSTANTS[family])

    def _pick(self, options: Sequence[str]) -> str:
        return self.rng.choice(options)

    def _as(self, depth: int) -> str:
        """Return the beginning of a cast of a text: often of a column, and one that may fail."""
        text = self._leaf("text") if self.rng.random() < 0.5 else self.value("text", depth)
        return f"{self._pick(('cast', 'try_cast'))}({text}"

    def _choices(self, family: str, depth: int) -> Sequence[Callable[[], str]]:
        def same() -> str:
            return self.value(family, depth)

        return (
            lambda: f"coalesce({same()}, {self._constant(family)})",
            lambda: f"if({self.boolean(1)}, {same()}, {same()})",
            lambda: (
                f"case when {self.boolean(1)} then {same()} "
                f"when {self.boolean(1)} then {self._constant(family)} end"
            ),
            lambda: f"greatest({same()}, {self._constant(family)})",
            lambda: f"least({same()}, {self._leaf(family)})",
            lambda: f"nullif({same()}, {self._constant(family)})",
            lambda: f"nvl({same()}, {same()})",
        )

    def _numeric(self, family: str, depth: int) -> list[Callable[[], str]]:
        def same() -> str:
            return self.value(family, depth)

        def other() -> str:
            return self._pick((self._leaf(family), self._constant(family)))

        return [
            lambda: f"({same()} {self._pick('+-*')} {other()})",
            lambda: f"({same()} % {other()})",
            lambda: f"pmod({same()}, {self._constant(family)})",
            lambda: f"(-{same()})",
            lambda: f"abs({same()})",
            lambda: f"try_{self._pick(('add', 'subtract', 'multiply'))}({same()}, {other()})",
        ]

    def _integers(self, depth: int) -> Sequence[Callable[[], str]]:
        def day() -> str:
            return self.value("date", depth)

        fields = ("year", "quarter", "month", "day", "dayofyear", "weekday", "weekofyear")
        return [
            *self._numeric("int", depth),
            lambda: f"{self._pick(fields)}({day()})",
            lambda: f"year({self.value('ts', depth)})",
            lambda: f"hour({self.value('ts', depth)})",
            lambda: f"datediff({day()}, {self._leaf('date')})",
            lambda: f"length({self.value('text', depth)})",
            lambda: f"cast({self.value('long', depth)} as int)",
            lambda: f"{self._as(depth)} as int)",
            lambda: f"cast({self._leaf('double')} as int)",
            lambda: f"extract(month from {day()})",
        ]

    def _longs(self, depth: int) -> Sequence[Callable[[], str]]:
        return [
            *self._numeric("long", depth),
            lambda: f"cast({self.value('int', depth)} as bigint)",
            lambda: f"({self.value('long', depth)} div {self._constant('long')})",
            lambda: f"floor({self.value('double', depth)})",
            lambda: f"ceil({self.value('double', depth)})",
            lambda: f"{self._pick(('unix_seconds', 'unix_millis'))}({self.value('ts', depth)})",
            lambda: f"unix_timestamp({self.value('ts', depth)})",
            lambda: f"timestampdiff({self._pick(UNITS)}, {self._leaf('ts')}, {self._leaf('ts')})",
            lambda: f"cast({self.value('ts', depth)} as bigint)",
        ]

    def _doubles(self, depth: int) -> Sequence[Callable[[], str]]:
        return [
            *self._numeric("double", depth),
            lambda: f"cast({self.value('long', depth)} as double)",
            lambda: f"({self.value('int', depth)} / {self._constant('int')})",
            lambda: f"try_divide({self.value('double', depth)}, {self._leaf('double')})",
            lambda: f"round({self.value('double', depth)}, 1)",
            lambda: f"{self._as(depth)} as double)",
            lambda: f"sqrt({self.value('double', depth)})",
        ]

    def _decimals(self, depth: int) -> Sequence[Callable[[], str]]:
        return [
            *self._numeric("dec", depth),
            lambda: f"cast({self.value('int', depth)} as decimal(12,2))",
            lambda: f"round({self.value('dec', depth)}, 1)",
            lambda: f"cast({self.value('dec', depth)} as decimal(7,1))",
            lambda: f"{self._as(depth)} as decimal(10,2))",
        ]

    def _dates(self, depth: int) -> Sequence[Callable[[], str]]:
        def same() -> str:
            return self.value("date", depth)

        return (
            lambda: f"date_add({same()}, {self._constant('int')})",
            lambda: f"date_sub({same()}, {self._leaf('int')})",
            lambda: f"add_months({same()}, {self._pick(('-13', '1', '12'))})",
            lambda: f"trunc({same()}, '{self._pick(('year', 'month', 'week'))}')",
            lambda: f"last_day({same()})",
            lambda: f"cast({self.value('ts', depth)} as date)",
            lambda: f"to_date({self.value('ts', depth)})",
            lambda: f"({same()} - interval '1' month)",
            lambda: f"make_date({self._constant('int')}, 1, 1)",
            lambda: f"make_date({self._leaf('int')}, 1, 1)",
            lambda: f"{self._as(depth)} as date)",
        )

    def _times(self, depth: int) -> Sequence[Callable[[], str]]:
        def same() -> str:
            return self.value("ts", depth)

        intervals = ("interval '1' day", "interval '30' day", "interval '5:30' hour to minute")
        return (
            lambda: f"date_trunc('{self._pick(UNITS)}', {same()})",
            lambda: f"({same()} {self._pick('+-')} {self._pick(intervals)})",
            lambda: f"({same()} {self._pick('+-')} interval '1' month)",
            lambda: f"timestampadd({self._pick(UNITS)}, {self._constant('int')}, {same()})",
            lambda: f"cast({self.value('date', depth)} as timestamp)",
            lambda: f"timestamp_seconds({self.value('int', depth)})",
            lambda: f"timestamp_millis({self.value('long', depth)})",
            lambda: f"{self._as(depth)} as timestamp)",
            lambda: f"(now() - {self._pick(intervals)})",
            lambda: f"{self._pick(READ)}({self._leaf('text')}, '{self._pick(PATTERNS)}')",
        )

    def _locals(self, depth: int) -> Sequence[Callable[[], str]]:
        return (
            lambda: f"cast({self.value('ts', depth)} as timestamp_ntz)",
            lambda: f"cast({self.value('date', depth)} as timestamp_ntz)",
            lambda: f"({self._leaf('ntz')} + interval '1' day)",
        )

    def _texts(self, depth: int) -> Sequence[Callable[[], str]]:
        def same() -> str:
            return self.value("text", depth)

        return (
            lambda: f"substring({same()}, 1, {self._pick(('0', '1', '2', '7'))})",
            lambda: f"concat({self._pick(TEXTS)}, {same()})",
            lambda: f"concat({same()}, {self._leaf('text')})",
            lambda: f"{self._pick(('upper', 'lower', 'trim', 'reverse'))}({same()})",
            lambda: f"left({same()}, 2)",
            lambda: f"cast({self._leaf(self._pick(('int', 'date', 'bool', 'ts')))} as string)",
        )

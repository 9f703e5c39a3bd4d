"""The typed expression that every front end produces and the interpreter reads.

Types are Spark's names as its JSON writes them: boolean, byte, short, integer, long, float,
double, decimal(p,s), string, binary, date, timestamp, timestamp_ntz, void, variant,
`interval day to second`, `interval year to month`, struct<...>, map<...>, array<...>.

Literal values are plain and exact: int (also for dates: days; timestamps: microseconds since
1970; day-time intervals: microseconds; year-month intervals: months), float, Decimal, str,
bytes, bool, or None for null.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the shard, by id."""

    id: int
    name: str  # name, for people
    type: str
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: object  # plain and exact, as above
    type: str


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the registry applied to arguments.

    `function` is a registry name; `options` are sorted (name, value) pairs that change its
    meaning: `ansi` ("ansi" | "try" | "legacy"), `zone` (a time zone id), `unit`, `format` ...
    """

    function: str
    args: tuple["Expr", ...]
    type: str
    options: tuple[tuple[str, str], ...] = ()

    def option(self, name: str, default: str = "") -> str:
        """Return the value of an option, or `default`."""
        return dict(self.options).get(name, default)


@dataclass(frozen=True, slots=True)
class Opaque:
    """An expression that is not understood: it may yield anything, null or an error."""

    reason: str  # names the function, for people
    type: str


Expr = Column | Literal | Call | Opaque

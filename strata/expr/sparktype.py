"""Look up the numbers or texts that a Spark type can hold, for the interpreter."""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

Family = Literal["int", "float", "decimal", "bool", "text", "void", "other"]

_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
INT8: Final = (-(2**7), 2**7 - 1)
INT16: Final = (-(2**15), 2**15 - 1)
INT32: Final = (-(2**31), 2**31 - 1)
INT64: Final = (-(2**63), 2**63 - 1)

_INTEGERS: Final = {
    "byte": INT8,
    "short": INT16,
    "integer": INT32,
    "long": INT64,
    "date": INT32,  # days
    "timestamp": INT64,  # microseconds
    "timestamp_ntz": INT64,
}
# The DDL spelling of the same types; both spellings occur.
_ALIASES: Final = {"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long"}


@dataclass(frozen=True, slots=True)
class SparkType:
    """What a type holds.

    `family` int: whole numbers in [low, high]; decimal: whole numbers of 10**-scale in
    [low, high]; float: doubles or, when `single`, floats; other: values that are not tracked.
    """

    name: str
    family: Family
    low: int = 0
    high: int = 0
    scale: int = 0
    single: bool = False

    @property
    def wide(self) -> bool:
        """Return whether bounds need more than 64 bits (held as Python integers)."""
        return self.high > INT64[1]


@lru_cache(maxsize=1024)
def spark_type(name: str) -> SparkType:
    """Return the values of the type `name`; an unknown name has family "other"."""
    name = _ALIASES.get(name, name)
    if name in _INTEGERS:
        return SparkType(name, "int", *_INTEGERS[name])
    if name.startswith("interval "):
        months = "year" in name or "month" in name
        return SparkType(name, "int", *(INT32 if months else INT64))
    if name in ("float", "double"):
        return SparkType(name, "float", single=name == "float")
    if decimal := _DECIMAL.fullmatch(name):
        limit = 10 ** int(decimal[1]) - 1
        return SparkType(name, "decimal", -limit, limit, int(decimal[2]))
    if name in ("string", "binary"):  # another collation is another order: "other"
        return SparkType(name, "text")
    if name == "boolean":
        return SparkType(name, "bool")
    return SparkType(name, "void" if name == "void" else "other")

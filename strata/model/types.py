"""Column types: what a user declares, before any encoding.

`parse_type` reads the text form used in shard declarations (`numeric(10,2)`, `list<int32>`,
`record<lat: float64, lon: float64>`). It also reads what users of Spark and PostgreSQL write for
the same type (`ALIASES`, `struct<...>`, `map<string, int>`). `str()` of a type returns the
canonical text. The table in `strata.format.encodings` says how each type is stored, ordered and
summarised.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Final

from strata.errors import InvalidRequest
from strata.model.near import one_of

MAX_DEPTH: Final = 32  # nested types; protobuf libraries refuse 100 nested messages


class Kind(StrEnum):
    """The kinds of column type; each has a row in the encodings table."""

    BOOL = "bool"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    OID = "oid"
    MZ_TIMESTAMP = "mz_timestamp"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    NUMERIC = "numeric"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    INTERVAL = "interval"
    DAY_TIME = "interval day to second"
    YEAR_MONTH = "interval year to month"
    STRING = "string"
    CHAR = "char"
    VARCHAR = "varchar"
    BYTES = "bytes"
    JSONB = "jsonb"
    UUID = "uuid"
    ACLITEM = "aclitem"
    MZ_ACLITEM = "mz_aclitem"
    LIST = "list"
    ARRAY = "array"
    INT2VECTOR = "int2vector"
    MAP = "map"
    RECORD = "record"
    RANGE = "range"


NESTED: Final = frozenset(
    {Kind.LIST, Kind.ARRAY, Kind.INT2VECTOR, Kind.MAP, Kind.RECORD, Kind.RANGE}
)
OF_TEXTS: Final = frozenset({Kind.STRING, Kind.CHAR, Kind.VARCHAR, Kind.BYTES})
MAX_LENGTH: Final = 10_485_760  # characters of char and varchar, as in PostgreSQL


ALIASES: Final = {
    "boolean": Kind.BOOL,
    "tinyint": Kind.INT16,
    "byte": Kind.INT16,
    "smallint": Kind.INT16,
    "short": Kind.INT16,
    "int": Kind.INT32,
    "integer": Kind.INT32,
    "bigint": Kind.INT64,
    "long": Kind.INT64,
    "real": Kind.FLOAT32,
    "float": Kind.FLOAT32,
    "double": Kind.FLOAT64,
    "decimal": Kind.NUMERIC,
    "timestamp_ntz": Kind.TIMESTAMP,
    "timestamp_ltz": Kind.TIMESTAMPTZ,
    "text": Kind.STRING,
    "character": Kind.CHAR,
    "character varying": Kind.VARCHAR,
    "binary": Kind.BYTES,
    "bytea": Kind.BYTES,
    "json": Kind.JSONB,
    "variant": Kind.JSONB,
    "struct": Kind.RECORD,
}


@dataclass(frozen=True, slots=True)
class Field:
    """One named child of a record type."""

    name: str
    type: "ColumnType"


@dataclass(frozen=True, slots=True)
class ColumnType:
    """A declared type; compare with ==, print with str()."""

    kind: Kind
    precision: int | None = None  # numeric: total digits, 1 to 38; None: any number, see docs
    scale: int | None = None  # numeric with a precision: digits after the point, 0 to precision
    length: int | None = None  # char and varchar: most characters; None: any (varchar only)
    element: "ColumnType | None" = None  # list, array, int2vector, range; map: values (keys: text)
    fields: tuple[Field, ...] = ()  # record only

    @property
    def inner(self) -> "ColumnType":
        """Return the type of the elements of a list, the values of a map or the ends of a range."""
        assert self.element is not None
        return self.element

    @property
    def leaves(self) -> int:
        """Return how many columns Parquet makes of it, about."""
        if self.kind is Kind.RECORD:
            return sum(field.type.leaves for field in self.fields)
        return 1 if self.element is None else self.element.leaves + (self.kind is Kind.MAP)

    def __str__(self) -> str:
        """Return the text that `parse_type` reads back."""
        match self.kind:
            case Kind.NUMERIC if self.precision is not None:
                return f"numeric({self.precision},{self.scale})"
            case Kind.CHAR | Kind.VARCHAR if self.length is not None:
                return f"{self.kind}({self.length})"
            case Kind.LIST | Kind.ARRAY | Kind.MAP | Kind.RANGE:
                return f"{self.kind}<{self.element}>"
            case Kind.RECORD:
                inner = ", ".join(f"{f.name}: {f.type}" for f in self.fields)
                return f"record<{inner}>"
            case _:
                return str(self.kind)


def parse_type(text: str) -> ColumnType:
    """Return the type that `text` declares.

    Raises: InvalidRequest for an unknown name (lists the known ones), malformed parameters, or
    more than MAX_DEPTH types inside one another.

    >>> str(parse_type("decimal(10, 2)"))
    'numeric(10,2)'
    >>> str(parse_type("struct<lat: double, tags: list<text>>"))
    'record<lat: float64, tags: list<string>>'
    """
    if max(accumulate({"<": 1, ">": -1}.get(letter, 0) for letter in text), default=0) > MAX_DEPTH:
        cure = f"use at most {MAX_DEPTH} types inside one another, or jsonb"
        raise InvalidRequest("a type is nested too deeply", type=text, cure=cure)
    body = text.strip()
    head = re.split(r"[(<]", body, maxsplit=1)[0]
    rest = body[len(head) :].strip()
    kind = _kind(" ".join(head.lower().split()), text)
    if kind in _PARAMETERS:
        return _PARAMETERS[kind](rest, text)
    if rest:
        raise InvalidRequest("this type takes no parameters", type=text)
    if kind is Kind.INT2VECTOR:
        return ColumnType(kind, element=ColumnType(Kind.INT16))
    return ColumnType(kind)


def _kind(head: str, text: str) -> Kind:
    if head in ALIASES:
        return ALIASES[head]
    try:
        return Kind(head)
    except ValueError as error:
        kinds = [kind.value for kind in Kind]
        cure = one_of(head, kinds, listed=len(kinds))
        raise InvalidRequest("unknown column type", type=text, cure=cure) from error


def _numeric(rest: str, text: str) -> ColumnType:
    if not rest:
        return ColumnType(Kind.NUMERIC)
    try:
        numbers = [int(n) for n in rest.strip("() ").split(",")]
    except ValueError as error:
        raise InvalidRequest("malformed numeric type", type=text, cure="numeric(10,2)") from error
    precision, scale = (numbers[0], numbers[1] if len(numbers) > 1 else 0)
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise InvalidRequest(
            "numeric out of range", type=text, cure="precision 1 to 38, scale 0 to precision"
        )
    return ColumnType(Kind.NUMERIC, precision, scale)


def _char(rest: str, text: str) -> ColumnType:
    return ColumnType(Kind.CHAR, length=_length(rest, text) if rest else 1)


def _varchar(rest: str, text: str) -> ColumnType:
    return ColumnType(Kind.VARCHAR, length=_length(rest, text) if rest else None)


def _length(rest: str, text: str) -> int:
    inner = rest[1:-1].strip()
    number = int(inner) if rest[0] + rest[-1] == "()" and inner.isdecimal() else 0
    if not 1 <= number <= MAX_LENGTH:
        raise InvalidRequest("malformed length", type=text, cure=f"varchar(1) to ({MAX_LENGTH})")
    return number


def _list(rest: str, text: str) -> ColumnType:
    return ColumnType(Kind.LIST, element=parse_type(_inside(rest, text)))


def _array(rest: str, text: str) -> ColumnType:
    element = parse_type(_inside(rest, text))
    if element.kind is Kind.ARRAY:
        raise InvalidRequest(
            "an array has any number of dimensions by itself", type=text, cure=str(element)
        )
    return ColumnType(Kind.ARRAY, element=element)


def _map(rest: str, text: str) -> ColumnType:
    items = _split(_inside(rest, text))
    if len(items) == 2 and parse_type(items[0]).kind is not Kind.STRING:
        raise InvalidRequest("the keys of a map are strings", type=text, cure="map<int64>")
    if not 1 <= len(items) <= 2:
        raise InvalidRequest("malformed map type", type=text, cure="as in map<int64>")
    return ColumnType(Kind.MAP, element=parse_type(items[-1]))


def _range(rest: str, text: str) -> ColumnType:
    element = parse_type(_inside(rest, text))
    if element.kind in NESTED:
        raise InvalidRequest("a range has ends of a simple type", type=text, cure="range<int32>")
    return ColumnType(Kind.RANGE, element=element)


def _record(rest: str, text: str) -> ColumnType:
    fields = tuple(_field(item, text) for item in _split(_inside(rest, text)))
    names = [field.name.lower() for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise InvalidRequest(
                "two fields of a record have this name (case does not count)", type=text, field=name
            )
    return ColumnType(Kind.RECORD, fields=fields)


def _inside(rest: str, text: str) -> str:
    if not (rest.startswith("<") and rest.endswith(">")):
        raise InvalidRequest("this type needs <...>", type=text, cure="as in list<int64>")
    return rest[1:-1]


def _split(text: str) -> list[str]:
    """Return the comma-separated items of `text`; commas inside brackets do not separate."""
    items, depth, start = [], 0, 0
    for position, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            items.append(text[start:position])
            start = position + 1
    items.append(text[start:])
    return [item for item in items if item.strip()]


def _field(item: str, text: str) -> Field:
    name, colon, type_text = item.partition(":")
    if not colon or not name.strip():
        raise InvalidRequest("malformed record field", type=text, cure="record<name: type, ...>")
    return Field(name.strip(), parse_type(type_text))


_PARAMETERS: Final[dict[Kind, Callable[[str, str], ColumnType]]] = {
    Kind.NUMERIC: _numeric,
    Kind.CHAR: _char,
    Kind.VARCHAR: _varchar,
    Kind.LIST: _list,
    Kind.ARRAY: _array,
    Kind.MAP: _map,
    Kind.RANGE: _range,
    Kind.RECORD: _record,
}

"""Column types: what a user declares, before any encoding.

`parse_type` reads the text form used in shard declarations (`numeric(10,2)`, `list<int32>`,
`record<lat: float64, lon: float64>`); `str()` of a type gives it back. How each type is stored,
ordered and summarised is the table in `strata.format.encodings`.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from strata.errors import InvalidRequest


class Kind(StrEnum):
    """The kinds of column type. A kind without a row in the encodings table is refused."""

    BOOL = "bool"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    UINT8 = "uint8"
    UINT16 = "uint16"
    UINT32 = "uint32"
    UINT64 = "uint64"
    FLOAT32 = "float32"
    FLOAT64 = "float64"
    NUMERIC = "numeric"
    DATE = "date"
    TIME = "time"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    STRING = "string"
    BYTES = "bytes"
    JSONB = "jsonb"
    UUID = "uuid"
    LIST = "list"
    MAP = "map"
    RECORD = "record"


ALIASES: Final = {
    "boolean": Kind.BOOL,
    "smallint": Kind.INT16,
    "int": Kind.INT32,
    "integer": Kind.INT32,
    "bigint": Kind.INT64,
    "long": Kind.INT64,
    "real": Kind.FLOAT32,
    "float": Kind.FLOAT32,
    "double": Kind.FLOAT64,
    "decimal": Kind.NUMERIC,
    "timestamp_ntz": Kind.TIMESTAMP,
    "text": Kind.STRING,
    "binary": Kind.BYTES,
    "json": Kind.JSONB,
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
    precision: int | None = None  # numeric only: digits in all, 1 to 38
    scale: int | None = None  # numeric only: digits behind the point, 0 to precision
    element: "ColumnType | None" = None  # list: its elements; map: its values (keys are strings)
    fields: tuple[Field, ...] = ()  # record only

    def __str__(self) -> str:
        """Return the text that `parse_type` reads back."""
        match self.kind:
            case Kind.NUMERIC:
                return f"numeric({self.precision},{self.scale})"
            case Kind.LIST | Kind.MAP:
                return f"{self.kind}<{self.element}>"
            case Kind.RECORD:
                inner = ", ".join(f"{f.name}: {f.type}" for f in self.fields)
                return f"record<{inner}>"
            case _:
                return str(self.kind)


def parse_type(text: str) -> ColumnType:
    """Return the type that `text` declares.

    Raises: InvalidRequest for an unknown name or malformed parameters; lists the known names.

    >>> str(parse_type("decimal(10, 2)"))
    'numeric(10,2)'
    >>> str(parse_type("record<lat: double, tags: list<text>>"))
    'record<lat: float64, tags: list<string>>'
    """
    body = text.strip()
    head = body.split("(")[0].split("<")[0].strip().lower()
    rest = body[len(head) :].strip() if body.lower().startswith(head) else ""
    kind = _kind(head, text)
    if kind is Kind.NUMERIC:
        return _numeric(rest, text)
    if kind in (Kind.LIST, Kind.MAP):
        return ColumnType(kind, element=parse_type(_inside(rest, text)))
    if kind is Kind.RECORD:
        fields = tuple(_field(item, text) for item in _split(_inside(rest, text)))
        return ColumnType(kind, fields=fields)
    if rest:
        raise InvalidRequest("this type takes no parameters", type=text)
    return ColumnType(kind)


def _kind(head: str, text: str) -> Kind:
    if head in ALIASES:
        return ALIASES[head]
    try:
        return Kind(head)
    except ValueError as error:
        known = ", ".join(kind.value for kind in Kind)
        cure = f"use one of {known}"
        raise InvalidRequest("unknown column type", type=text, cure=cure) from error


def _numeric(rest: str, text: str) -> ColumnType:
    if not rest:
        return ColumnType(Kind.NUMERIC, 38, 9)
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


def _inside(rest: str, text: str) -> str:
    if not (rest.startswith("<") and rest.endswith(">")):
        raise InvalidRequest("this type needs <...>", type=text, cure="as in list<int64>")
    return rest[1:-1]


def _split(text: str) -> list[str]:
    """Return the comma-separated items of `text`, commas inside brackets left alone."""
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

"""The fields of a row in the table of column types (`strata.format.encodings`), and byte layouts.

A value has three forms: *stored* (an Arrow array of `arrow`, and a datum of the row codec), the
`view` that readers see, and `json` in a declaration. Byte layouts are data here: the row codec,
the views and the patient decoder all read them, so they cannot differ.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa

from strata.kernels.arrays import Ints, Words
from strata.model.types import ColumnType, Field, Kind

StatsKind = Literal["range", "json", "nested"]
Within = tuple[int, int]  # an addend, and the largest sum of number and addend


class Form(StrEnum):
    """A form of values in the row codec; each has a function in the encoder and the decoders."""

    BOOL = "bool"
    VARINT = "varint"
    FIXED = "fixed"
    TEXT = "text"
    BYTES = "bytes"
    BLOCK = "block"  # bytes of one width
    DATE = "date"
    TIMESTAMP = "timestamp"
    NUMBERS = "numbers"  # a message of numbers
    DECIMAL = "decimal"
    NUMERIC = "numeric"
    LIST = "list"
    RECORD = "record"
    MAP = "map"
    ARRAY = "array"
    RANGE = "range"


def signed(bits: int) -> Within:
    """Return the range of signed numbers."""
    return 1 << bits - 1, (1 << bits) - 1


def unsigned(bits: int) -> Within:
    """Return the range of unsigned numbers."""
    return 0, (1 << bits) - 1


@dataclass(frozen=True, slots=True)
class NumberField:
    """One number in a message of the row codec and in the stored fixed bytes."""

    name: str
    tag: int  # its field in the message; ROLE: the field gives the kind of the role
    width: int = 8  # stored bytes, big-endian, so that they sort
    group: int = 0  # index of the message head that it follows
    is_signed: bool = False  # stored with its sign bit flipped, so that negative numbers sort first
    limit: Within | None = None  # None: the full range of the width

    @property
    def within(self) -> Within:
        """Return the range of the number."""
        kind = signed if self.is_signed else unsigned
        return self.limit or kind(8 * self.width)


ROLE: Final = 0  # the tag of a number that stands for a role
ROLE_SUFFIX: Final = "_role"  # of the stored field that holds the kind of role


@dataclass(frozen=True, slots=True)
class Message:
    """A message of numbers, some of them inside messages of their own.

    Shape: `fields` (n, 2): tag and group, see `strata.kernels.row_write.put_number_messages`;
    `within` (n, 2), see `strata.kernels.row_read.read_varints`; `heads`: the tag of each inner
    message, 0 for the message itself.
    """

    numbers: tuple[NumberField, ...]
    fields: np.ndarray[tuple[int, int], np.dtype[np.int64]] = field(compare=False)
    heads: Ints = field(compare=False)
    within: Words = field(compare=False)
    stored: np.dtype[Any] = field(compare=False)  # the stored bytes of the numbers


def message(*numbers: NumberField, heads: tuple[int, ...] = (0,)) -> Message:
    """Return a message of these numbers, stored in the same order."""
    stored = []
    for number in numbers:
        stored += [(number.name + ROLE_SUFFIX, ">u4")] if number.tag == ROLE else []
        stored.append((number.name, f">u{number.width}"))
    return Message(
        numbers,
        np.array([(number.tag, number.group) for number in numbers], np.int64),
        np.array(heads, np.int64),
        np.array([number.within for number in numbers], np.uint64),
        np.dtype(stored),
    )


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a type's values in memory and in a datum of the row codec."""

    form: Form
    dtype: np.dtype[Any] | None = None  # of fixed-width values in Arrow's buffer
    message: Message | None = None  # of Form.NUMBERS
    only: str = ""  # the one number of the message that is stored; all others are 0

    @property
    def numbers(self) -> Message:
        """Return the message of numbers for these values."""
        assert self.message is not None
        return self.message

    @property
    def width(self) -> np.dtype[Any]:
        """Return the type of one value of a fixed width."""
        assert self.dtype is not None
        return self.dtype


def packed(written: Message) -> Layout:
    """Return the layout of values whose numbers are stored one after another."""
    return Layout(Form.NUMBERS, written.stored, written)


@dataclass(frozen=True, slots=True)
class TypeView:
    """The view of values whose stored form engines and people do not know."""

    type: pa.DataType
    show: Callable[[pa.Array], pa.Array]
    store: Callable[[pa.Array, ColumnType], pa.Array]


def no_parts(_: ColumnType) -> tuple[Field, ...]:
    """Return no fields: values are not structs."""
    return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoding:
    """One row of the table."""

    kind: Kind
    arrow: Callable[[ColumnType], pa.DataType]  # the type of the child of k_s or v_s
    spark: Callable[[ColumnType], str]  # the DDL type that readers see in Spark
    datum: str  # the field of the row codec's datum message
    number: int  # of that field
    layout: Layout
    order: str  # how values sort in a part; nulls always last
    json: Callable[
        [Any, ColumnType], Any
    ]  # a JSON value as the Python value of the view; never null
    quoted: bool = True  # a JSON text is a value of the type, not JSON itself
    stats: StatsKind = "range"  # range: low and high; json: recursive per path; nested: of leaves
    by_value: bool = True  # `order` is the order of the values, as SQL compares them
    view: TypeView | None = None  # None: as stored, or part by part
    spelling: Callable[[pa.Array, ColumnType], pa.Array] | None = (
        None  # gives equal values equal bytes
    )
    parts: Callable[[ColumnType], tuple[Field, ...]] = (
        no_parts  # fields of the struct that have bounds
    )
    examples: tuple[str, ...] = ()  # types of the kind, if its name alone is not a type


def scalar(
    kind: Kind,
    arrow: pa.DataType,
    spark: str,
    datum: tuple[str, int],
    *,
    json: Callable[[Any], Any],
    **more: Any,
) -> Encoding:
    """Return the row of a type whose stored form depends on no parameter."""
    return Encoding(
        kind=kind,
        arrow=lambda _: arrow,
        spark=lambda _: spark,
        datum=datum[0],
        number=datum[1],
        json=lambda value, _: json(value),
        **more,
    )

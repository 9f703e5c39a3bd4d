"""Which values a place holds: sets of few values, and bloom filters of many.

They answer equality on what is not sorted. A declaration chooses the places (`stats.sets`,
`stats.blooms`), because both cost more than bounds: a place with few values in a part gets a set,
and, if a bloom filter is wanted, one with more values gets that.

Values are written as bytes in one form for each type, as readers see them: whole numbers, dates and
times in eight bytes, decimals unscaled in sixteen, floats with -0.0 as 0.0, texts as UTF-8. Null
and NaN are not values. The form is recorded, so a place whose type was changed since is unknown.
At a path of JSON the values are the texts of strings and of whole numbers that fit 64 bits.
Errs: unknown wherever readers might see a value that is not recorded.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.format.columns import child
from strata.format.encodings import encoding
from strata.format.values.coded import is_coded, texts_of
from strata.format.values.view import to_view, view_type
from strata.kernels.arrays import Words
from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import ColumnType, Kind
from strata.stats.bloom import bloom_hashes, filter_of
from strata.stats.flat import Values
from strata.stats.nested import enter, places
from strata.stats.wire import (
    BLOOM,
    SET,
    Path,
    Steps,
    bloom_name,
    column_name,
    inside_name,
    parse_inside,
    parse_name,
    path_name,
    set_name,
)

SET_VALUES: Final = 64  # the most values of a set
SET_BYTES: Final = 1024  # the most bytes of them together
JSON_FORM: Final = "json"
TEXT_FORM: Final = "text"
INTEGER_FORM: Final = "int64"
FLOAT_FORM: Final = "float64"
DECIMAL_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class Sought:
    """A place whose values are collected; picklable."""

    name: str  # of the place's statistics
    column: Column
    steps: Steps  # to a place inside a nested column
    path: Path | None  # of JSON; None: another type
    type: ColumnType  # of the place
    form: str
    bloom: bool  # a bloom filter where there are too many values for a set
    bits: int  # of a bloom filter, for each value


@dataclass(frozen=True, slots=True)
class PlaceValues:
    """What is known of the values at a place of one part."""

    place: Sought
    values: list[bytes] | None  # sorted; None: too many, or not known
    bloom: bytes | None  # None: none is wanted, or it is not known
    distinct: int
    known: bool = True  # False: readers might see values that were not recorded


def form_of(declared: ColumnType) -> str | None:
    """Return the form in which values of a type are recorded; None for a type without sets.

    >>> from strata.model.types import parse_type
    >>> [form_of(parse_type(t)) for t in ("uuid", "uint32", "uint64", "numeric(12,2)", "bool")]
    ['text', 'int64', 'decimal0', 'decimal2', None]
    """
    kind = view_type(declared)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return None if encoding(declared).stats == "json" else TEXT_FORM
    if pa.types.is_decimal128(kind):
        return f"decimal{kind.scale}"
    if pa.types.is_floating(kind):
        return FLOAT_FORM
    whole = pa.types.is_signed_integer(kind) or pa.types.is_date32(kind)
    return INTEGER_FORM if whole or pa.types.is_timestamp(kind) else None


def wanted_places(relation: Relation, spec: StatsSpec) -> tuple[Sought, ...]:
    """Return the places whose values a shard collects; names of dropped columns are passed over."""
    found: dict[str, Sought] = {}
    for name, bloom in (*((n, False) for n in spec.sets), *((n, True) for n in spec.blooms)):
        for place in _places(relation, name, spec.bloom_bits, bloom=bloom):
            found[place.name] = place
    return tuple(found.values())


def check_members(relation: Relation, spec: StatsSpec, shard: str) -> None:
    """Refuse names of sets and bloom filters that lead to no place with values.

    Raises: InvalidRequest, naming the setting and the name.
    """
    for setting, names in (("stats.sets", spec.sets), ("stats.blooms", spec.blooms)):
        for name in names:
            if not any(True for _ in _places(relation, name, spec.bloom_bits, bloom=False)):
                raise InvalidRequest(
                    "no place whose values can be collected",
                    shard=shard,
                    setting=setting,
                    value=name,
                    cure="a column of numbers, texts, dates or times, a list or map of them, or "
                    "the whole way to a field of a record or to a key of JSON, as in `payload.id`",
                )


def _places(relation: Relation, name: str, bits: int, *, bloom: bool) -> Iterator[Sought]:
    column, rest = _column(relation, name)
    if column is None:
        return
    if encoding(column.type).stats == "json":
        if rest:
            place = path_name(column.id, rest)
            text = ColumnType(Kind.STRING)
            yield Sought(place, column, (), rest, text, JSON_FORM, bloom, bits)
        return
    for inside in places(column.type):
        form = form_of(inside.type)
        if inside.names == rest and form is not None:
            place = inside_name(column.id, inside.steps)
            yield Sought(place, column, inside.steps, None, inside.type, form, bloom, bits)


def _column(relation: Relation, name: str) -> tuple[Column | None, tuple[str, ...]]:
    """Return the column that a name begins with, and the rest of the way."""
    if name in relation.by_name:
        return relation.by_name[name], ()
    first, *rest = name.split(".")
    return relation.by_name.get(first), tuple(rest)


class Gathering:
    """Takes the rows of a part as they come, and remembers values at the wanted places."""

    def __init__(self, wanted: Sequence[Sought]) -> None:
        """Begin without rows."""
        self._places = [_Place(one) for one in wanted]

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        """Add rows; a column that they lack is unknown."""
        found = values_at(rows, [place.wanted for place in self._places])
        for place, values in zip(self._places, found, strict=True):
            place.add(values)

    def finish(self, stats: pa.RecordBatch | None) -> list[PlaceValues]:
        """Return what is known of each place.

        `stats` are those of the same rows, untrimmed. Where they know nothing of a JSON column,
        because readers may disagree about a text, nothing is known of its values.
        """
        for place in self._places:
            if place.wanted.path is not None and not _is_known(stats, place.wanted.column.id):
                place.give_up()
        return [place.found() for place in self._places]


@dataclass
class _Place:
    """The values at one place so far."""

    wanted: Sought
    few: set[bytes] | None = field(default_factory=set)  # None: too many for a set
    hashes: list[Words] = field(default_factory=list)
    known: bool = True

    def give_up(self) -> None:
        """Know nothing from now on."""
        self.known, self.few, self.hashes = False, None, []

    def add(self, values: pa.BinaryArray | None) -> None:
        """Add values, each perhaps several times; None: they cannot be known."""
        if values is None:
            self.give_up()
            return
        if not self.known or (self.few is None and not self.wanted.bloom):
            return
        if self.wanted.bloom:
            self.hashes.append(np.unique(bloom_hashes(values)))
            if len(self.hashes) > 64:
                self.hashes = [np.unique(np.concatenate(self.hashes))]
        if self.few is not None:
            # One value more than a set holds shows that there are too many
            self.few |= set(values.slice(0, SET_VALUES + 1).to_pylist())
            if len(self.few) > SET_VALUES or sum(map(len, self.few)) > SET_BYTES:
                self.few = None

    def found(self) -> PlaceValues:
        if self.few is not None:
            return PlaceValues(self.wanted, sorted(self.few), None, len(self.few))
        if not (self.known and self.hashes):
            return PlaceValues(self.wanted, None, None, 0, self.known)
        hashes = np.unique(np.concatenate(self.hashes))
        return PlaceValues(self.wanted, None, filter_of(hashes, self.wanted.bits), len(hashes))


def member_columns(
    found: Iterable[PlaceValues], keys: Mapping[str, str]
) -> dict[str, pa.StructArray]:
    """Return the statistics columns of one part. `keys`: of stored filters, by place.

    Where nothing can be known, the set has neither values nor form, so that nobody collects it
    again.
    """
    columns = {}
    for one in found:
        name, form = one.place.name, one.place.form if one.known else ""
        columns[set_name(name)] = pa.array([{"form": form, "values": one.values}], SET)
        if one.bloom is not None:
            stored = {"form": form, "key": keys[name], "size_bytes": len(one.bloom)}
            columns[bloom_name(name)] = pa.array([stored | {"distinct": one.distinct}], BLOOM)
    return columns


def _is_known(stats: pa.RecordBatch | None, column_id: int) -> bool:
    name = path_name(column_id, ())
    if stats is None or stats.column(column_name(column_id))[0].as_py() is None:
        return False
    # Without a root every row is null.
    return name not in stats.schema.names or stats.column(name)[0].is_valid


def values_at(
    rows: pa.Table | pa.RecordBatch, wanted: Sequence[Sought], *, numbers: bool = True
) -> list[pa.BinaryArray | None]:
    """Return the distinct values of rows at each place as bytes; None where they are not known.

    `numbers`: whole numbers of JSON count as well as strings.
    """
    there = set(rows.schema.names)
    ids = {one.column.id for one in wanted if one.path is not None}
    texts = {i: _documents(rows.column(child(i))) for i in ids if child(i) in there}
    found: list[pa.BinaryArray | None] = []
    for one in wanted:
        if child(one.column.id) not in there:
            found.append(None)
        elif one.path is None:
            found.append(_canonical(_values(rows.column(child(one.column.id)), one), one))
        else:
            found.append(_at_path(texts[one.column.id], one.path, numbers=numbers))
    return found


def place_named(relation: Relation, name: str) -> Sought | None:
    """Return the place that statistics of values are about; None if it has none today."""
    parsed, inside = parse_name(name), parse_inside(name)
    column = relation.by_id.get(parsed[0]) if parsed is not None else None
    if parsed is None or column is None:
        return None
    if parsed[1]:
        text = ColumnType(Kind.STRING)
        return Sought(name, column, (), parsed[1], text, JSON_FORM, bloom=True, bits=0)
    steps = () if inside is None else inside[1]
    for place in places(column.type):
        form = form_of(place.type)
        if place.steps == steps and form is not None:
            return Sought(name, column, steps, None, place.type, form, bloom=True, bits=0)
    return None


def _values(values: Values, wanted: Sought) -> Values:
    """Return the values behind the steps to a place."""
    found = texts_of(values) if is_coded(values.type) else values
    for step in wanted.steps:
        found = enter(found, step)
    return found


def _canonical(values: Values, wanted: Sought) -> pa.BinaryArray:
    """Return distinct values as bytes, without null and NaN."""
    distinct = pc.drop_null(pc.unique(values))
    return canonical_bytes(to_view(distinct, wanted.type), wanted.form)


def canonical_bytes(seen: pa.Array, form: str) -> pa.BinaryArray:
    """Return values, as readers see them, in the form in which they are recorded, without NaN."""
    if form == TEXT_FORM:
        return seen.cast(pa.binary())
    if form == FLOAT_FORM:
        floats = np.asarray(seen.cast(pa.float64())) + 0.0
        return _fixed(floats[~np.isnan(floats)].astype("<f8"), 8)
    if form == INTEGER_FORM:
        return _fixed(np.asarray(_whole(seen)).astype("<i8"), 8)
    data = seen.buffers()[1] or b""
    start = seen.offset * DECIMAL_BYTES
    raw = np.frombuffer(data, np.uint8)[start : start + len(seen) * DECIMAL_BYTES]
    return _fixed(raw, DECIMAL_BYTES)


def _whole(seen: pa.Array) -> pa.Array:
    if pa.types.is_date32(seen.type):
        seen = seen.cast(pa.int32())
    return seen.cast(pa.int64())


def _fixed(data: np.ndarray[Any, Any], width: int) -> pa.BinaryArray:
    """Return values of one width as binary values."""
    count = data.nbytes // width
    ends = np.arange(0, data.nbytes + 1, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.binary(), count, [None, pa.py_buffer(ends), pa.py_buffer(np.ascontiguousarray(data))]
    )


# JSON: orjson reads each document once, for all paths of its column.


def _documents(texts: Values) -> list[Any] | None:
    """Return the values of JSON texts; None if one of them cannot be read."""
    try:
        return list(map(orjson.loads, pc.drop_null(texts).cast(pa.string()).to_pylist()))
    except (ValueError, RecursionError):
        return None


def _at_path(documents: list[Any] | None, path: Path, *, numbers: bool) -> pa.BinaryArray | None:
    """Return the texts of strings and whole numbers at a path; None if they cannot be known."""
    if documents is None:
        return None
    found: set[bytes] = set()
    for document in documents:
        value = document
        for key in path:
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str):
            found.add(value.encode())
        elif numbers and isinstance(value, int) and not isinstance(value, bool):
            found.add(b"%d" % value)
    return pa.array(found, pa.binary())

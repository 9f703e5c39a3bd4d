"""The columns of an Iceberg table that shows a shard: field ids, types, and the name mapping.

A column has the id that its place in parts gives it (`strata.format.field_ids`). The property
`schema.name-mapping.default` gives each column of a part that carries no ids its own, also those
that the table does not show, because some readers refuse unknown columns.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from strata.errors import InvalidRequest
from strata.format.columns import K_S, V_S, D, K, T, V, child
from strata.format.encodings import arrow_type
from strata.format.field_ids import Place, are_distinct, field_id, inner_types, places_below
from strata.model.schema import Column, Relation
from strata.model.types import Kind
from strata.state.state import State

KEY: Final = "key"  # the struct of key columns, as the table names it
VALUE: Final = "value"  # the struct of value columns
SIDES: Final = {KEY: K_S, VALUE: V_S}
Mapped = list[dict[str, Any]]

_PLAIN: Final[Sequence[tuple[pa.DataType, type[Any]]]] = (
    (pa.bool_(), BooleanType),
    (pa.int16(), IntegerType),
    (pa.int32(), IntegerType),
    (pa.int64(), LongType),
    (pa.uint8(), IntegerType),
    (pa.uint16(), IntegerType),
    (pa.float32(), FloatType),
    (pa.float64(), DoubleType),
    (pa.date32(), DateType),
    (pa.timestamp("us"), TimestampType),
    (pa.timestamp("us", "UTC"), TimestamptzType),
    (pa.string(), StringType),
    (pa.binary(), BinaryType),
)
# What a value means where its type in the table does not say it.
_DOCS: Final = {
    Kind.TIME: "time of day: seconds u32, nanoseconds u32, big-endian",
    Kind.INTERVAL: "months, days, microseconds, big-endian, sign bits flipped",
    Kind.YEAR_MONTH: "months",
    Kind.JSONB: "JSON text",
    Kind.UUID: "the 16 bytes of a UUID",
    Kind.NUMERIC: "nearest float64, and the exact number as 40 bytes",
    Kind.ACLITEM: "grantee u32, grantor u32, modes u64, big-endian",
    Kind.MZ_ACLITEM: "grantee, grantor, modes, big-endian",
}


@dataclass(frozen=True, slots=True)
class HiddenColumn:
    """A column that the table does not show."""

    column: str
    type: str
    reason: str


@dataclass(frozen=True, slots=True)
class Shown:
    """A column that the table shows."""

    column: Column
    side: str  # `KEY` or `VALUE`
    field: NestedField


@dataclass(frozen=True)
class Fields:
    """The columns of a table, and how they are found in parts."""

    schema: Schema
    mapping: Mapped  # the value of `schema.name-mapping.default`, before encoding
    shown: tuple[Shown, ...]
    left_out: tuple[HiddenColumn, ...]

    @property
    def time(self) -> NestedField:
        """Return the field of `t`."""
        return self.schema.find_field(T)

    @property
    def diff(self) -> NestedField:
        """Return the field of `d`."""
        return self.schema.find_field(D)


def fields_of(state: State) -> Fields:
    """Return the columns of the table for a state.

    Raises: InvalidRequest for a column whose parts no Python reader can open, or if no column can
    be shown.
    """
    mapping = [
        _mapped((name,), kind)
        for name, kind in ((T, pa.int64()), (D, pa.int64()), (K, pa.binary()), (V, pa.binary()))
    ]
    relation = state.relation
    used = {version for batch in state.batches for version in batch.versions}
    written = [one for one in state.relations if one.version in used or one is relation]
    shown: list[Shown] = []
    left_out: list[HiddenColumn] = []
    tops = [
        _required(T, "time of the update, milliseconds since 1970, UTC"),
        _required(D, "how many times the row was added; negative: taken back"),
    ]
    _check_ids(state)
    for side, struct in SIDES.items():
        columns = _columns_of(relation, side)
        children = [
            _mapped((struct, child(c.id)), arrow_type(c.type)) for c in _ever(state.relations, side)
        ]
        bare = [] if children else [_mapped((struct, "_"), pa.bool_())]
        mapping.append(_entry((struct,), [*children, *bare]))
        found = []
        for column in columns:
            _check_readable(state.name, column)
            if reason := _hidden(column, written):
                left_out.append(HiddenColumn(column.name, str(column.type), reason))
                continue
            field = _field((struct, child(column.id)), column)
            found.append(field)
            shown.append(Shown(column, side, field))
        if found:
            tops.append(NestedField(field_id((struct,)), side, StructType(*found), required=False))
    if not shown:
        raise InvalidRequest(
            "no column of this shard can be shown as Iceberg",
            shard=state.name,
            columns=[f"{one.column}: {one.reason}" for one in left_out],
        )
    return Fields(_schema(state.name, tops), mapping, tuple(shown), tuple(left_out))


def _schema(shard: str, fields: Sequence[NestedField]) -> Schema:
    try:
        schema = Schema(*fields)
        schema.highest_field_id  # noqa: B018  walks all names: two may clash only when joined
        _ = schema._name_to_id
    except ValueError as error:
        raise InvalidRequest(
            "the names of these columns clash in Iceberg",
            shard=shard,
            reason=str(error),
            cure="rename one: strata schema rename",
        ) from error
    return schema


def _check_ids(state: State) -> None:
    every = [
        place
        for side, struct in SIDES.items()
        for column in _ever(state.relations, side)
        for place in places_below((struct, child(column.id)), arrow_type(column.type))
    ]
    if not are_distinct(every):
        raise InvalidRequest(
            "two fields of nested columns have the same field id, by chance",
            shard=state.name,
            cure="declare one of them as jsonb, in a shard of its own",
        )


def have_ids_of_parts(mapping: Mapped, above: Place = ()) -> bool:
    """Return whether a table numbers columns as parts do; those of earlier versions do not."""
    entries = [((*above, entry["names"][0]), entry) for entry in mapping]
    return all(
        int(entry["field-id"]) == field_id(place)
        and have_ids_of_parts(entry.get("fields", []), place)
        for place, entry in entries
    )


def _columns_of(relation: Relation, side: str) -> tuple[Column, ...]:
    return relation.key_columns if side == KEY else relation.value_columns


def _ever(relations: Sequence[Relation], side: str) -> list[Column]:
    """Return every column that parts may have on this side, in its newest type."""
    found: dict[int, Column] = {}
    for relation in relations:
        found |= {column.id: column for column in _columns_of(relation, side)}
    return list(found.values())


def _entry(place: Place, fields: Mapped) -> dict[str, Any]:
    entry: dict[str, Any] = {"field-id": field_id(place), "names": [place[-1]]}
    return entry | ({"fields": fields} if fields else {})


def _mapped(place: Place, kind: pa.DataType) -> dict[str, Any]:
    """Return the mapping of a column of a part, with all below it."""
    inner = [_mapped((*place, name), child) for name, child in inner_types(kind)]
    return _entry(place, inner)


def _required(name: str, doc: str) -> NestedField:
    return NestedField(field_id((name,)), name, LongType(), required=True, doc=doc)


def _field(place: Place, column: Column) -> NestedField:
    kind = _iceberg(place, arrow_type(column.type))
    bare = column.type.kind is Kind.NUMERIC and column.type.precision is not None
    doc = None if bare else _DOCS.get(column.type.kind)
    return NestedField(field_id(place), column.name, kind, required=False, doc=doc)


def _iceberg(place: Place, kind: pa.DataType) -> IcebergType:
    """Return the Iceberg type of stored values for which `is_plain` holds."""
    for stored, made in _PLAIN:
        if kind == stored:
            return made()  # type: ignore[no-any-return]
    if pa.types.is_decimal128(kind):
        return DecimalType(kind.precision, kind.scale)
    if pa.types.is_fixed_size_binary(kind):
        return FixedType(kind.byte_width)
    if pa.types.is_list(kind):
        inner = (*place, "element")
        return ListType(field_id(inner), _iceberg(inner, kind.value_type), element_required=False)
    if pa.types.is_map(kind):
        key, value = (*place, "key"), (*place, "value")
        return MapType(
            field_id(key),
            _iceberg(key, kind.key_type),
            field_id(value),
            _iceberg(value, kind.item_type),
            value_required=False,
        )
    assert pa.types.is_struct(kind), kind
    return StructType(
        *(
            NestedField(field_id(inner), field.name, _iceberg(inner, field.type), required=False)
            for field in kind
            for inner in [(*place, field.name)]
        )
    )


def _parts_of(kind: pa.DataType) -> Iterator[pa.DataType]:
    yield kind
    for _, inner in inner_types(kind):
        yield from _parts_of(inner)


def _check_readable(shard: str, column: Column) -> None:
    """Refuse a column that makes PyIceberg refuse the whole file, shown or not."""
    if any(pa.types.is_duration(kind) for kind in _parts_of(arrow_type(column.type))):
        raise InvalidRequest(
            "readers of Iceberg in Python cannot open parts with this column",
            shard=shard,
            column=column.name,
            type=str(column.type),
            cure="drop the column and compact the shard, or read it through Strata",
        )


def _hidden(column: Column, written: Collection[Relation]) -> str:
    """Return why the table cannot show a column; "" if it can.

    `written` are the relations that parts were written in. Iceberg has no unsigned numbers: some
    readers take those of 32 bits for negative ones.
    """
    for relation in written:
        found = relation.by_id.get(column.id)
        if found is None:
            if column.default is not None:
                return (
                    f"parts of relation version {relation.version} lack it, and Iceberg would show "
                    "null instead of its default: `strata compact --migrate` rewrites them"
                )
            continue
        for kind in _parts_of(arrow_type(found.type)):
            if kind in (pa.uint32(), pa.uint64()):
                rest = "" if found.type == column.type else ", in which older parts hold it"
                return f"Iceberg has no unsigned type like {found.type}{rest}"
    return ""

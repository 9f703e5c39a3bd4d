"""Parquet's field ids follow from places: the same in all parts of a shard, for every type."""

import base64
import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.format import field_ids
from strata.format.columns import K_S, V_S
from strata.format.field_ids import (
    FIELD_ID,
    Place,
    are_distinct,
    field_id,
    inner_types,
    places_below,
)
from strata.format.layout import Description, layout_schema
from strata.format.part import encode_part, read_part
from strata.model.schema import Column, Relation
from strata.model.spec import LAYOUTS
from strata.model.types import parse_type
from tests.formats import every_type
from tests.support.updates import table

TEXTS = Relation(
    3,
    (
        Column(1, "id", parse_type("int64")),
        Column(2, "few", parse_type("string")),
        Column(7, "l", parse_type("list<record<a: int32, b: list<string>>>")),
    ),
    (1,),
    (),
)
ROWS = [(i, "ab"[i % 2], [{"a": i, "b": ["x"]}], 0, 1) for i in range(40)]


def stored(rows: pa.Table, relation: Relation, layout: str) -> bytes:
    description = Description(0, 10, 0)
    made = encode_part(rows, relation, layout, description=description, row_group_bytes=1 << 20)
    return made.data


def ids(field: pa.Field, place: Place) -> dict[Place, int]:
    """Return the ids that a file gives a column and all below it."""
    found = {place: int((field.metadata or {})[FIELD_ID])}
    kind = field.type
    below = (
        [kind.value_field]
        if pa.types.is_list(kind)
        else [kind.key_field, kind.item_field]
        if pa.types.is_map(kind)
        else list(kind)
        if pa.types.is_struct(kind)
        else []
    )
    for (name, _), inner in zip(inner_types(kind), below, strict=True):
        found |= ids(inner, (*place, name))
    return found


def ids_in(data: bytes) -> dict[Place, int]:
    schema = pq.ParquetFile(io.BytesIO(data)).schema_arrow
    return {place: n for field in schema for place, n in ids(field, (field.name,)).items()}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_column_of_a_part_has_the_id_of_its_place(layout: str) -> None:
    found = ids_in(stored(every_type.updates(), every_type.RELATION, layout))

    assert found == {place: field_id(place) for place in found}
    assert len(set(found.values())) == len(found)
    schema = layout_schema(every_type.RELATION, layout)
    assert set(found) == {p for field in schema for p in places_below((field.name,), field.type)}


def test_texts_that_are_stored_as_codes_have_theirs() -> None:
    found = ids_in(stored(table(TEXTS, ROWS), TEXTS, "structured"))

    assert found[V_S, "2"] == 17 + 2 * 2
    assert found[V_S, "7", "element", "b", "element"] > 1 << 24


def test_ids_are_not_given_twice_and_leave_room_for_those_of_iceberg() -> None:
    columns = [
        (side, str(n), *rest)
        for side in (K_S, V_S)
        for n in range(1, 2000)
        for rest in ((), ("element",))
    ]
    tops = [(name,) for name in ("t", "d", "k", "v", K_S, V_S)] + [(K_S, "_"), (V_S, "_")]

    assert are_distinct([*tops, *columns])
    assert all(0 < field_id(place) < 2**31 - 201 for place in [*tops, *columns])


def test_a_part_in_which_two_ids_would_meet_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field_ids, "crc32", lambda _: 5)
    rows = table(TEXTS, ROWS)

    data = stored(rows, TEXTS, "both")

    schema = pq.ParquetFile(io.BytesIO(data)).schema_arrow
    assert all(FIELD_ID not in (field.metadata or {}) for field in schema)
    assert pa.Table.from_batches(read_part(data, TEXTS)).equals(rows)


def test_the_schema_that_arrow_reads_first_does_not_repeat_them() -> None:
    file = pq.ParquetFile(io.BytesIO(stored(table(TEXTS, ROWS), TEXTS, "both")))

    assert FIELD_ID not in base64.b64decode(file.metadata.metadata[b"ARROW:schema"])

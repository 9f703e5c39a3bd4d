"""Every type goes through every layout and comes back, alone or among others."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.errors import Corrupt
from strata.format.check import differs
from strata.format.columns import updates_schema
from strata.format.part import Description, encode_part, read_part, validate_part
from strata.format.part_write import ARROW_SCHEMA
from strata.model.schema import Column, Relation
from strata.model.spec import LAYOUTS
from strata.model.types import ColumnType, parse_type
from tests.formats import every_type
from tests.support import values

TYPES = (*values.SCALARS, *values.NESTED_TYPES)
ALL = every_type.RELATION


def encoded(table: pa.Table, relation: Relation, layout: str, row_group_bytes: int = 4000) -> bytes:
    return encode_part(
        table,
        relation,
        layout,
        description=Description(0, 1000, 0),
        row_group_bytes=row_group_bytes,
    ).data


def assert_same(found: pa.Table, wanted: pa.Table) -> None:
    assert found.schema == wanted.schema
    for name in wanted.column_names:
        pair = found[name].combine_chunks(), wanted[name].combine_chunks()
        assert str(pair[0].type) == str(pair[1].type)
        assert not differs(*pair).any(), name


@pytest.mark.parametrize("column_type", TYPES, ids=str)
@settings(max_examples=max(1, settings().max_examples // 4))  # each is written and read five times
@given(data=st.data())
def test_values_come_back_from_every_layout(column_type: ColumnType, data: st.DataObject) -> None:
    array = data.draw(values.arrays(column_type))
    relation = Relation(0, (Column(1, "a", column_type), Column(2, "b", column_type)), (2,), ())
    numbers = pa.array(np.arange(len(array)))
    table = pa.Table.from_arrays([array, array, numbers, numbers], schema=updates_schema(relation))

    for layout in LAYOUTS:
        part = encoded(table, relation, layout)
        batches = list(read_part(part, relation, read_format="row_with_validate"))
        assert_same(pa.Table.from_batches(batches, table.schema), table)
        if layout != "structured":
            batches = list(read_part(part, relation, read_format="row"))
            assert_same(pa.Table.from_batches(batches, table.schema), table)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_column_can_be_read_alone(layout: str) -> None:
    table = every_type.updates()
    part = encoded(table, ALL, layout)

    for column in ALL.columns:
        batches = list(read_part(part, ALL, columns=[column.id]))
        assert_same(pa.Table.from_batches(batches), table.select([str(column.id), "t", "d"]))


def test_nested_values_have_the_names_of_updates_whoever_wrote_the_file() -> None:
    """Parquet's own name of an item is another; only Arrow's schema in the footer says ours."""
    lists = Column(2, "l", parse_type("map<list<int32>>"))
    relation = Relation(0, (Column(1, "id", parse_type("int64")), lists), (1,), ())
    rows = [[1, 2], [[("a", [1, None])], None], [0, 0], [1, 1]]
    schema = updates_schema(relation)
    columns = [pa.array(cells, field.type) for cells, field in zip(rows, schema, strict=True)]
    table = pa.Table.from_arrays(columns, schema=schema)
    file = pq.ParquetFile(io.BytesIO(encoded(table, relation, "structured")))
    stored = file.read().replace_schema_metadata({})
    footer = {k: v for k, v in file.metadata.metadata.items() if k != ARROW_SCHEMA}
    again = io.BytesIO()
    with pq.ParquetWriter(again, stored.schema, store_schema=False) as writer:
        writer.add_key_value_metadata(footer)
        writer.write_table(stored)

    [batch] = read_part(again.getvalue(), relation)

    assert "element" in str(pq.ParquetFile(again).schema_arrow)
    assert [str(column.type) for column in batch.columns] == [str(field.type) for field in schema]
    assert pa.Table.from_batches([batch]) == table


def test_equal_rows_have_equal_bytes_whatever_nulls_hide() -> None:
    table = every_type.updates()
    rebuilt = pa.Table.from_arrays(
        [
            pa.concat_arrays([c.slice(0, 3).combine_chunks(), c.slice(3).combine_chunks()])
            for c in table.columns
        ],
        schema=table.schema,
    )
    for layout in LAYOUTS:
        assert encoded(table, ALL, layout) == encoded(rebuilt, ALL, layout)


def spoiled(column_id: int) -> bytes:
    """Return a part of layout both in which the values of one column are turned round."""
    file = pq.read_table(pa.BufferReader(encoded(every_type.updates(), ALL, "both")))
    side = "k_s" if column_id in ALL.key else "v_s"
    struct = file[side].combine_chunks()
    children: list[Any] = [
        child.take(pa.array(range(len(child) - 1, -1, -1))) if f.name == str(column_id) else child
        for f, child in zip(struct.type, struct.flatten(), strict=True)
    ]
    wrong = pa.StructArray.from_arrays(children, fields=list(struct.type))
    index = file.schema.get_field_index(side)
    sink = pa.BufferOutputStream()
    pq.write_table(file.set_column(index, file.schema.field(index), wrong), sink)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.parametrize("column", ALL.columns, ids=lambda c: str(c.type))
def test_wrong_values_of_every_type_are_counted_and_named(column: Column) -> None:
    part = spoiled(column.id)
    array = every_type.updates()[str(column.id)].combine_chunks()
    wanted = differs(array, array.take(pa.array(range(len(array) - 1, -1, -1)))).sum()

    check = validate_part(part, ALL)

    assert wanted > 0
    assert {i: n for i, n in check.invalid.items() if n} == {column.id: wanted}
    assert check.valid[column.id] == len(array) - wanted
    assert {m.column for m in check.first} == {column.id}
    with pytest.raises(Corrupt, match="disagree"):
        list(read_part(part, ALL, read_format="row_with_validate"))

"""Nested arrays are seen as if laid out anew."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from strata.format.check import differs
from strata.format.values.nested import items, leaves, purged
from strata.format.weigh import plain_bytes
from strata.model.schema import Column
from tests.formats import every_type

LISTS = pa.array([[9], [1, None], None, [], [2]], pa.list_(pa.int16()))
MAPS = pa.array([[("z", 9)], [("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int16()))


def hiding() -> pa.Array:
    """Return lists in which a null hides two values."""
    offsets = pa.array([0, 1, 3, 4], pa.int32())
    mask = pa.array([False, True, False])
    return pa.ListArray.from_arrays(offsets, pa.array([1, 8, 8, 2], pa.int16()), mask=mask)


def test_items_are_those_of_the_slice_that_no_null_hides() -> None:
    lengths, inside = items(LISTS.slice(1, 3))
    assert (lengths.tolist(), inside.to_pylist()) == ([2, 0, 0], [1, None])

    lengths, inside = items(hiding())
    assert (lengths.tolist(), inside.to_pylist()) == ([1, 0, 1], [1, 2])


def test_items_of_a_map_are_its_entries() -> None:
    lengths, inside = items(MAPS.slice(1))
    assert lengths.tolist() == [2, 0, 0]
    assert inside.to_pylist() == [{"key": "a", "value": 1}, {"key": "b", "value": None}]


@pytest.mark.parametrize("column", every_type.RELATION.columns, ids=lambda c: str(c.type))
def test_leaves_are_the_columns_that_parquet_makes(column: Column) -> None:
    name = str(column.id)
    table = every_type.updates().select([name])
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    schema = pq.ParquetFile(sink.getvalue()).schema

    found = [path for path, _ in leaves(table[name].combine_chunks(), name)]

    assert found == [schema.column(i).path for i in range(len(schema))]


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_plain_bytes_do_not_depend_on_how_a_table_is_cut(rows: int) -> None:
    table = every_type.updates()
    anew = pa.Table.from_pylist(
        table.slice(0, rows).drop_columns(["16", "18", "19", "21", "41", "42"]).to_pylist(),
        table.drop_columns(["16", "18", "19", "21", "41", "42"]).schema,
    )
    cut = pa.concat_tables([table, table.slice(0, rows)]).slice(table.num_rows)
    chunked = pa.concat_tables([table.slice(i, 1) for i in range(rows)])

    assert plain_bytes(cut) == plain_bytes(chunked) == plain_bytes(table.slice(0, rows))
    same = cut.drop_columns(["16", "18", "19", "21", "41", "42"])
    assert plain_bytes(same) == plain_bytes(anew)


def test_plain_bytes_count_what_is_inside() -> None:
    few = pa.table({"a": pa.array([[b"x"]], pa.list_(pa.binary()))})
    many = pa.table({"a": pa.array([[b"x" * 1000]], pa.list_(pa.binary()))})

    assert plain_bytes(many) - plain_bytes(few) == 999
    assert np.isclose(plain_bytes(pa.table({"a": hiding()})), (3 * 33 + 2 * 17) // 8)


@pytest.mark.parametrize("column", every_type.RELATION.columns, ids=lambda c: str(c.type))
def test_purging_changes_no_value(column: Column) -> None:
    array = every_type.updates()[str(column.id)].combine_chunks()
    for piece in (array, array.slice(2, 4), array.slice(0, 0)):
        found = purged(piece)
        found.validate(full=True)
        assert found.type == piece.type
        assert len(found) == len(piece)
        assert not differs(found, piece).any()


def test_under_a_null_nothing_is_left() -> None:
    inside = pa.StructArray.from_arrays([pa.array([1, 2, 3])], names=["a"])
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 3, 3], pa.int32()), inside, mask=pa.array([False, True, False])
    )
    outer = pa.StructArray.from_arrays(
        [lists, pa.array([1, 2, 3])], names=["l", "n"], mask=pa.array([True, False, False])
    )

    found = purged(outer)

    assert found.field(1).to_pylist() == [None, 2, 3]
    assert found.field(0).to_pylist() == [None, None, []]
    assert len(found.field(0).values) == 0

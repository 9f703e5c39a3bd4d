"""Law 5: what is encoded comes back, and equal rows have equal bytes, in every layout."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Corrupt
from strata.format.part import Description, encode_part, read_part, validate_part
from strata.format.rowcodec.codec import decode_rows, encode_rows
from strata.format.rowcodec.objects import from_objects
from strata.format.rowcodec.scalar import decode_row
from strata.model.spec import LAYOUTS
from strata.model.types import ColumnType
from tests.support.plain import (
    TYPES,
    columns,
    physical,
    plain,
    relation_of,
    to_array,
    updates_of,
)
from tests.support.sizes import few_a_type
from tests.unit.format.rowcodec.proto import Row, encode_row

DESCRIPTION = Description(0, 1000, 0)
SOME_TYPES = st.lists(st.sampled_from(TYPES), min_size=1, max_size=4)


def arrays_of(rows: list[list[Any]], types: list[ColumnType]) -> list[pa.Array]:
    return [to_array([row[i] for row in rows], t) for i, t in enumerate(types)]


def same(left: pa.Array, right: pa.Array) -> bool:
    """Return whether two arrays have the same type, nulls and bits."""
    return left.type == right.type and plain(left) == plain(right)


@pytest.mark.parametrize("column_type", TYPES, ids=str)
@few_a_type
@given(data=st.data())
def test_every_type_is_encoded_as_protobuf_does_and_comes_back(
    column_type: ColumnType, data: st.DataObject
) -> None:
    rows = data.draw(columns([column_type], max_rows=60))
    [array] = arrays_of(rows, [column_type])

    encoded = encode_rows([array], [column_type])

    assert encoded.to_pylist() == [encode_row(row, [column_type]) for row in rows]
    assert same(decode_rows(encoded, [column_type])[0], array)


@given(st.data())
def test_rows_of_several_columns_are_encoded_as_protobuf_does(data: st.DataObject) -> None:
    types = data.draw(SOME_TYPES)
    rows = data.draw(columns(types))
    start = data.draw(st.integers(0, len(rows)))
    arrays = [array.slice(start) for array in arrays_of(rows, types)]

    encoded = encode_rows(arrays, types)
    decoded = decode_rows(encoded, types)

    assert encoded.to_pylist() == [encode_row(row, types) for row in rows[start:]]
    assert all(same(a, b) for a, b in zip(decoded, arrays, strict=True))


@given(st.data())
def test_both_decoders_agree_on_damaged_rows(data: st.DataObject) -> None:
    types = data.draw(SOME_TYPES)
    row = data.draw(st.tuples(*(st.none() | physical(t) for t in types)))
    good = encode_row(row, types)
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, max(len(bad) - 1, 0)))
        new = data.draw(st.binary(max_size=3))
        bad[at : at + data.draw(st.integers(0, 3))] = new
    between = pa.array([good, bytes(bad), good], pa.binary())

    try:
        slow = decode_row(bytes(bad), types)
    except Corrupt:
        with pytest.raises(Corrupt) as caught:
            decode_rows(between, types)
        assert caught.value.details["row"] == 1
        return
    fast = decode_rows(between, types)

    for i, column_type in enumerate(types):
        assert same(fast[i], from_objects([row[i], slow[i], row[i]], column_type))


@given(st.data())
def test_whatever_protobuf_accepts_of_unknown_fields_is_skipped(data: st.DataObject) -> None:
    types = data.draw(SOME_TYPES)
    row = data.draw(st.tuples(*(st.none() | physical(t) for t in types)))
    message = Row.FromString(encode_row(row, types))
    unknown = data.draw(st.sampled_from([b"\xf8\x3f\x05", b"\xfa\x3f\x02ab", b"\xfd\x3f1234"]))
    for datum in message.datums:
        datum.MergeFromString(unknown)
    newer = pa.array([message.SerializeToString() + unknown], pa.binary())

    decoded = decode_rows(newer, types)

    assert all(same(d, from_objects([v], t)) for d, v, t in zip(decoded, row, types, strict=True))


@pytest.mark.parametrize("layout", LAYOUTS)
@given(data=st.data())
def test_a_part_gives_back_its_updates_in_every_layout(layout: str, data: st.DataObject) -> None:
    types = data.draw(SOME_TYPES)
    relation = relation_of(types, keys=data.draw(st.integers(0, len(types))))
    updates = updates_of(data.draw(columns(types)), relation)
    group_bytes = data.draw(st.sampled_from([64, 1024, 1 << 20]))

    part = encode_part(
        updates, relation, layout, description=DESCRIPTION, row_group_bytes=group_bytes
    )
    batches = list(read_part(part.data, relation, read_format="row_with_validate"))

    found = pa.Table.from_batches(batches, updates.schema)
    assert all(
        same(found[name].combine_chunks(), updates[name].combine_chunks())
        for name in updates.column_names
    )
    assert sum(part.row_groups) == updates.num_rows
    assert validate_part(part.data, relation).mismatches == 0


@pytest.mark.parametrize("layout", LAYOUTS)
@given(data=st.data())
def test_equal_updates_have_equal_bytes_however_they_are_chunked(
    layout: str, data: st.DataObject
) -> None:
    types = data.draw(SOME_TYPES)
    relation = relation_of(types)
    rows = data.draw(columns(types))
    cut = data.draw(st.integers(0, len(rows)))
    whole = updates_of(rows, relation)
    chunked = pa.concat_tables([whole.slice(0, cut), whole.slice(cut)])

    first, second = (
        encode_part(table, relation, layout, description=DESCRIPTION, row_group_bytes=256)
        for table in (whole, chunked)
    )

    assert first.data == second.data

"""The digest: it adds up, and agrees with the algorithm written down a value at a time."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.digest import content_digest
from strata.format.values.migrate import widen
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, Kind, parse_type
from tests.support.plain import TYPES, columns, relation_of, updates_of
from tests.support.sizes import few_a_type

M = 2**64
TEXTS = (Kind.STRING, Kind.BYTES, Kind.JSONB)


def mix(x: int) -> int:
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % M
    x = (x ^ x >> 27) * 0x94D049BB133111EB % M
    return x ^ x >> 31


def word(value: Any, column_type: ColumnType) -> int:
    import struct

    kind = column_type.kind
    if kind in TEXTS:
        pieces = [value[i : i + 8].ljust(8, b"\0") for i in range(0, len(value), 8)]
        numbers = [int.from_bytes(piece, "little") for piece in pieces]
        step = 0x9E3779B97F4A7C15
        return mix(
            (len(value) + sum(mix((n + (j + 1) * step) % M) for j, n in enumerate(numbers))) % M
        )
    if kind is Kind.NUMERIC:
        return mix(value % M) ^ (value >> 64) % M
    if kind is Kind.FLOAT32:
        (number,) = struct.unpack("<f", value.to_bytes(4, "little"))
        return int.from_bytes(struct.pack("<d", number), "little")
    return int(value) % M


def twin(rows: list[list[Any]], relation: Relation) -> int:
    """Return the digest of rows of physical values with the diffs that updates_of gives them."""
    total = 0
    for i, row in enumerate(rows):
        state = 0x243F6A8885A308D3
        for value, column in zip(row, relation.columns, strict=True):
            if value is not None:
                state += mix(word(value, column.type) ^ mix(column.id))
        total += (1 if i % 3 else -2) * mix(state % M)
    return total % M


@pytest.mark.parametrize("column_type", TYPES, ids=str)
@few_a_type
@given(data=st.data())
def test_each_type_is_digested_as_written_down(
    column_type: ColumnType, data: st.DataObject
) -> None:
    types = [column_type, parse_type("string")]
    relation = relation_of(types)
    rows = data.draw(columns(types))
    assert content_digest(updates_of(rows, relation), relation) == twin(rows, relation)


@given(st.data())
def test_the_digest_of_the_whole_is_the_sum_of_its_parts(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    relation = relation_of(types)
    table = updates_of(data.draw(columns(types)), relation)
    cut = data.draw(st.integers(0, table.num_rows))
    order = data.draw(st.permutations(range(table.num_rows)))

    halves = [table.slice(0, cut), table.slice(cut)]
    whole = content_digest(table, relation)

    assert sum(content_digest(half, relation) for half in halves) % M == whole
    assert content_digest(pa.concat_tables(halves), relation) == whole
    assert content_digest(table.take(pa.array(order, pa.int64())), relation) == whole


def one(
    value: int | None, declared: str, diff: int = 1, column_id: int = 1
) -> tuple[pa.Table, Relation]:
    column_type = parse_type(declared)
    relation = Relation(0, (Column(column_id, "a", column_type),), (column_id,), ())
    table = updates_of([[value]], relation)
    return table.set_column(2, "d", pa.array([diff])), relation


def test_added_and_retracted_rows_cancel() -> None:
    added, retracted = one(5, "int64"), one(5, "int64", -1)
    assert (content_digest(*added) + content_digest(*retracted)) % M == 0
    assert content_digest(*added) != 0


@pytest.mark.parametrize(
    ("narrow", "wide"), [("int16", "int64"), ("int32", "int64"), ("float32", "float64")]
)
def test_widening_a_column_changes_no_digest(narrow: str, wide: str) -> None:
    table, old = one(7, narrow)
    _, new = one(7, wide)
    column = new.columns[0]
    widened = table.set_column(0, "1", widen(table["1"].combine_chunks(), column))
    assert content_digest(widened, new) == content_digest(table, old)


def test_a_new_column_of_nulls_changes_no_digest() -> None:
    table, old = one(7, "int64")
    new = Relation(1, (*old.columns, Column(2, "b", parse_type("string"))), (1,), ())
    added = table.append_column("2", pa.nulls(1, pa.string()))
    assert content_digest(added, new) == content_digest(table, old)


def test_the_same_value_in_another_column_is_another_row() -> None:
    assert content_digest(*one(7, "int64")) != content_digest(*one(7, "int64", column_id=2))
    assert content_digest(*one(None, "int64")) != content_digest(*one(0, "int64"))


def test_the_digest_does_not_change_between_versions() -> None:
    # Batches store digests: a change here needs a new format version.
    assert content_digest(*one(7, "int64")) == 9578354695987114046

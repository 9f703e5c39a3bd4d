"""Rows and their key bytes sort alike, for every type that can be stored."""

from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.columns import T, child
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates.order import (
    compare_adjacent,
    encode_keys,
    equal_adjacent,
    is_sorted,
    round_up,
    sort_names,
    sort_updates,
)
from tests.support.updates import POOLS, plain_rows, relations, sort_key, table, updates


@given(st.data())
def test_sortedness_is_what_the_slow_twin_says(data: st.DataObject) -> None:
    relation = data.draw(relations())
    rows = data.draw(updates(relation, max_rows=4))

    keys = [sort_key(row[:-1]) for row in plain_rows(rows, relation)]

    assert is_sorted(rows, relation) == (keys == sorted(keys))
    signs = [(a > b) - (a < b) for a, b in pairwise(keys)]
    assert compare_adjacent(rows, sort_names(relation)).tolist() == signs
    equal = equal_adjacent(rows, sort_names(relation)).tolist()
    assert equal == [sign == 0 for sign in signs]


@pytest.mark.parametrize("text", sorted(POOLS))
def test_key_bytes_sort_like_values_of(text: str) -> None:
    relation = Relation(0, (Column(1, "c", parse_type(text)),), (1,), ())
    rows = table(relation, [(value, 0, 1) for value in [*POOLS[text], None]])

    encoded = encode_keys(rows, relation).to_pylist()

    assert encoded == sorted(set(encoded))


def test_negative_zero_and_signed_nan_have_the_bytes_of_their_equals() -> None:
    relation = Relation(0, (Column(1, "c", parse_type("float64")),), (1,), ())
    negative_nan = float.fromhex("-0x1p0") * float("nan")
    rows = table(relation, [(v, 0, 1) for v in (0.0, -0.0, float("nan"), -negative_nan)])

    zero, negative_zero, nan, other_nan = encode_keys(rows, relation).to_pylist()

    assert zero == negative_zero
    assert nan == other_nan


@given(st.binary(max_size=3), st.binary(max_size=3))
def test_rounding_up_passes_all_that_begin_with_the_prefix(prefix: bytes, rest: bytes) -> None:
    high = round_up(prefix)

    assert high is None or prefix + rest < high
    assert (high is None) == (prefix.strip(b"\xff") == b"")


def test_no_row_and_one_row_are_sorted() -> None:
    relation = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())
    empty = table(relation, [])

    assert sort_updates(empty, relation).equals(empty)
    assert is_sorted(empty, relation)
    assert is_sorted(table(relation, [("a", 0, 1)]), relation)
    assert encode_keys(empty, relation).equals(pa.array([], pa.binary()))


def test_time_orders_rows_but_is_not_in_their_key_bytes() -> None:
    relation = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())
    rows = table(relation, [("a", 2, 1), ("a", 1, 1)])

    assert sort_updates(rows, relation)[T].to_pylist() == [1, 2]
    assert len(set(encode_keys(rows, relation).to_pylist())) == 1


def test_slices_encode_their_own_rows() -> None:
    relation = Relation(
        0,
        (Column(1, "n", parse_type("numeric(12,2)")), Column(2, "b", parse_type("bool"))),
        (1,),
        (),
    )
    values = [*POOLS["numeric(12,2)"], None]
    rows = table(relation, [(v, None, 0, 1) for v in values]).combine_chunks()

    whole = encode_keys(rows, relation).to_pylist()

    assert encode_keys(rows.slice(2, 2), relation).to_pylist() == whole[2:4]
    assert rows.slice(2, 2).column(child(1)).to_pylist() == values[2:4]


@given(st.data(), st.integers(1, 12))
def test_a_key_of_limited_bytes_is_a_prefix_of_the_key(data: st.DataObject, limit: int) -> None:
    relation = data.draw(relations())
    rows = data.draw(updates(relation, max_rows=4))

    whole = encode_keys(rows, relation).to_pylist()

    assert encode_keys(rows, relation, limit).to_pylist() == [key[:limit] for key in whole]


def test_rows_without_columns_to_compare_are_all_alike() -> None:
    """Null equals null, and nothing equals nothing: one answer for each pair of neighbours."""
    relation = Relation(0, (Column(1, "n", parse_type("int64")),), (1,), ())

    for count in range(4):
        rows = table(relation, [(n, 0, 1) for n in range(count)])
        assert equal_adjacent(rows, []).tolist() == [True] * max(count - 1, 0)

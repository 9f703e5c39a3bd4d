"""Law 5, for keys: updates have one order, and key bytes sort as rows do, for every type."""

import pyarrow as pa
from hypothesis import assume, given
from hypothesis import strategies as st

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates.order import encode_keys, high_key, is_sorted, sort_names, sort_updates
from strata.updates.row import row_at, rows_until
from tests.support.updates import contents, plain_rows, relations, sort_key, split, table, updates

BY_NUMBERS = [  # rows that are searched by their first column together
    Relation(0, columns, (1, 2), (1, 2))
    for kind in ("int16", "int64", "date", "timestamp")
    for columns in [(Column(1, "a", parse_type(kind)), Column(2, "b", parse_type("string")))]
]


@given(st.data())
def test_rows_sort_by_value_then_nan_then_null(data: st.DataObject) -> None:
    relation = data.draw(relations())
    rows = data.draw(updates(relation))

    result = sort_updates(rows, relation)

    keys = [sort_key(row[:-1]) for row in plain_rows(result, relation)]
    assert keys == sorted(keys)
    assert contents([result], relation) == contents([rows], relation)
    assert is_sorted(result, relation)


@given(st.data())
def test_key_bytes_sort_like_rows(data: st.DataObject) -> None:
    relation = data.draw(relations())
    rows = data.draw(updates(relation))

    encoded = encode_keys(rows, relation).to_pylist()

    keys = [sort_key(row[:-2]) for row in plain_rows(rows, relation)]
    by_key = sorted(range(len(keys)), key=lambda i: keys[i])
    assert [encoded[i] for i in by_key] == sorted(encoded)
    for i in range(len(keys)):
        for j in range(len(keys)):
            assert (keys[i] == keys[j]) == (encoded[i] == encoded[j])


@given(st.data(), st.integers(0, 12))
def test_cut_keys_enclose_the_key_within_the_budget(data: st.DataObject, limit: int) -> None:
    relation = data.draw(relations(max_columns=2))
    rows = data.draw(updates(relation, max_rows=8))

    whole = encode_keys(rows, relation).to_pylist()
    lows = encode_keys(rows, relation, limit).to_pylist()

    for key, low in zip(whole, lows, strict=True):
        high = high_key(key, limit)
        assert low <= key
        assert len(low) <= limit
        assert high is None or (key <= high and len(high) <= limit)


@given(st.data())
def test_rows_up_to_another_are_counted_among_sorted_ones(data: st.DataObject) -> None:
    relation = data.draw(relations() | st.sampled_from(BY_NUMBERS))
    rows = sort_updates(data.draw(updates(relation)), relation)
    others = pa.concat_tables([rows, data.draw(updates(relation, max_rows=2))])
    assume(others.num_rows)
    cut = data.draw(st.integers(0, others.num_rows - 1))
    count = data.draw(st.integers(0, rows.num_rows))
    cuts = data.draw(st.lists(st.integers(0, rows.num_rows), max_size=3))
    chunks = pa.Table.from_batches(split(rows, cuts), rows.schema)
    names = sort_names(relation)

    found = rows_until(chunks, row_at(others, cut, names), names, count)

    keys = [sort_key(row[:-1]) for row in plain_rows(rows, relation)]
    limit = sort_key(plain_rows(others.slice(cut, 1), relation)[0][:-1])
    assert found == sum(key <= limit for key in keys[:count])


def test_what_lies_under_nulls_is_no_number() -> None:
    relation = BY_NUMBERS[0]
    rows = table(relation, [(n, "a", 0, 1) for n in (1, None, None, None, 5)])
    names = sort_names(relation)

    assert rows_until(rows.slice(0, 4), row_at(rows, 4, names), names, 4) == 1

"""Law 5, for keys: updates have one order, and key bytes sort as rows do, for every type."""

from hypothesis import given
from hypothesis import strategies as st

from strata.updates.order import encode_keys, high_key, is_sorted, sort_updates
from tests.updates import contents, plain_rows, relations, sort_key, updates


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

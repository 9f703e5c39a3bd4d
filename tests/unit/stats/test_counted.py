"""Paths of JSON with and without statistics are counted for each part, and said in one way."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.manifest import unify
from strata.maintain.coverage import paths_of
from strata.stats.counted import CountedPaths, kept_paths, most_left_out
from strata.stats.json import collect_json


def documents(*counts: int) -> pa.Table:
    """Return statistics of column 3 for parts whose documents have so many keys."""
    found = []
    for keys in counts:
        text = json.dumps({f"k{n}": n for n in range(keys)})
        found.append(pa.table(collect_json(pa.chunked_array([[text]], pa.string()), 3)))
    return unify(found)


def test_the_cap_leaves_out_what_is_beyond_255_paths() -> None:
    stats = documents(2, 300, 256)
    assert kept_paths(stats, 3).tolist() == [2, 255, 255]
    assert kept_paths(stats, 4).tolist() == [0, 0, 0]
    assert dict(most_left_out(stats)) == {3: CountedPaths(300, 255)}
    assert most_left_out(stats)[3].left_out == 45


def test_parts_that_do_not_count_their_paths_do_not_speak() -> None:
    stats = documents(300, 2)
    silent = stats.set_column(
        stats.schema.get_field_index("s.3"),
        stats.schema.field("s.3"),
        pa.array([{"nulls": 0, "paths": None}, {"nulls": 0, "paths": 2}], stats["s.3"].type),
    )
    assert dict(most_left_out(silent)) == {3: CountedPaths(2, 2)}
    assert dict(most_left_out(silent.slice(0, 1))) == {}


@given(st.lists(st.integers(0, 300), min_size=1, max_size=4))
def test_arrays_and_rows_count_alike(counts: list[int]) -> None:
    """The slow twin takes one part after another, as `strata stats show` does."""
    stats = documents(*counts)
    slow = [
        paths_of({name: row[name] for name in stats.column_names if row[name] is not None})[3]
        for row in stats.to_pylist()
    ]
    assert kept_paths(stats, 3).tolist() == [one.kept for one in slow]
    assert most_left_out(stats)[3].left_out == max(one.left_out for one in slow)


@pytest.mark.parametrize(("paths", "kept", "left"), [(5, 7, 0), (7, 5, 2)])
def test_no_count_is_negative(paths: int, kept: int, left: int) -> None:
    assert CountedPaths(paths, kept).left_out == left

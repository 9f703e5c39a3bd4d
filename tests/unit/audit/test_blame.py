"""Every kind of wrong statistic is blamed; a loose or unknown one never is."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.audit.blame import find_lies
from strata.format.columns import updates_schema
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats.collect import collect

RELATION = Relation(
    0,
    tuple(
        Column(n, name, parse_type(kind))
        for n, (name, kind) in enumerate(
            [("n", "int64"), ("f", "float64"), ("s", "string"), ("j", "jsonb")], 1
        )
    ),
    (1, 2, 3, 4),
    (),
)
ROWS: dict[str, list[Any]] = {
    "1": [3, 7, None],
    "2": [1.5, float("nan"), None],
    "3": ["b", "d", None],
    "4": ['{"a":5}', '{"a":9,"b":"x"}', None],
    "t": [1, 1, 1],
    "d": [1, 1, 1],
}


def updates() -> pa.Table:
    return pa.table(ROWS, schema=updates_schema(RELATION))


def claim(name: str, **changes: Any) -> pa.RecordBatch:
    """Return the right statistics with some fields of one column changed."""
    row = collect(updates(), RELATION)
    index = row.schema.names.index(name)
    value = {**row.column(index)[0].as_py(), **changes}
    arrays = list(row.columns)
    arrays[index] = pa.array([value], row.schema.field(index).type)
    return pa.RecordBatch.from_arrays(arrays, schema=row.schema)


def test_right_statistics_are_not_blamed() -> None:
    row = collect(updates(), RELATION)

    assert find_lies(row, row, RELATION) == []


@pytest.mark.parametrize(
    ("name", "field", "value", "column"),
    [
        ("s.1", "low", 4, "n"),
        ("s.1", "high", 6, "n"),
        ("s.1", "nulls", 0, "n"),
        ("s.2", "low", 2.0, "f"),
        ("s.2", "high", 1.0, "f"),
        ("s.2", "nans", 0, "f"),
        ("s.3", "low", "c", "s"),
        ("s.3", "high", "c", "s"),
        ("s.4", "nulls", 0, "j"),
        ("s.4", "paths", 3, "j"),
        ("s.4$.a", "num_low", 6.0, "j$.a"),
        ("s.4$.a", "num_high", 8.0, "j$.a"),
        ("s.4$.a", "present", 1, "j$.a"),
        ("s.4$.b", "strings", 0, "j$.b"),
        ("s.4$.b", "str_high", "w", "j$.b"),
    ],
)
def test_a_wrong_statistic_is_blamed(name: str, field: str, value: Any, column: str) -> None:
    lies = find_lies(claim(name, **{field: value}), collect(updates(), RELATION), RELATION)

    assert (column, field, value) in [(lie.column, lie.field, lie.recorded) for lie in lies]
    assert {lie.column for lie in lies} == {column}


@given(low=st.integers(-50, 3), high=st.integers(7, 50))
def test_a_loose_bound_is_not_blamed(low: int, high: int) -> None:
    loose = claim("s.1", low=low, high=high, low_exact=False, high_exact=False)

    assert find_lies(loose, collect(updates(), RELATION), RELATION) == []


def test_fewer_paths_are_not_blamed() -> None:
    """A part counts its pieces one by one, and the count is the largest of them."""
    assert find_lies(claim("s.4", paths=1), collect(updates(), RELATION), RELATION) == []


def test_an_unknown_bound_is_not_blamed() -> None:
    unknown = claim("s.1", low=None, high=None)

    assert find_lies(unknown, collect(updates(), RELATION), RELATION) == []


def test_a_path_that_a_complete_parent_denies_is_blamed() -> None:
    """Dropping a path without clearing `complete` says that no row has it: a lie."""
    row = collect(updates(), RELATION)
    without = row.select([name for name in row.schema.names if name != "s.4$.b"])

    lies = find_lies(without, row, RELATION)

    assert [(lie.column, lie.field) for lie in lies] == [("j$.b", "present")]


def test_a_loose_bound_that_claims_to_be_exact_is_blamed() -> None:
    lies = find_lies(claim("s.1", low=1), collect(updates(), RELATION), RELATION)

    assert [lie.field for lie in lies] == ["low_exact"]

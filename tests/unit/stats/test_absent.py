"""A part knows the columns that it predates: their default, or null, in every row."""

from datetime import date

import pyarrow as pa
import pytest

from strata.format.columns import child
from strata.format.values.migrate import default_array
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import collect
from strata.stats.absent import fill_absent

OLD = Column(1, "k", parse_type("int64"))


def relations(kind: str, default: object) -> tuple[Relation, ...]:
    new = Column(2, "n", parse_type(kind), default=default)
    return (Relation(0, (OLD,), (1,), ()), Relation(1, (OLD, new), (1,), ()))


def stats(*counts: int) -> pa.Table:
    return pa.table({"rows": pa.array(counts, pa.int64())})


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int16", 5), ("int64", None), ("float64", 1.5), ("float64", "NaN"), ("string", "x" * 300),
        ("string", ""), ("date", "2024-02-29"), ("bool", False), ("numeric(10,2)", "1.50"),
        ("timestamptz", "2024-01-01T00:00:00Z"), ("jsonb", None), ("bytes", "AAE="),
        ("jsonb", {"a": 1, "b": {"c": [1], "d": "x"}}), ("jsonb", [1, None]), ("jsonb", 2.5),
        ("list<int64>", None), ("record<a: int32, b: list<string>>", None), ("numeric", None),
        ("map<float64>", None), ("uuid", None), ("uint64", None),
    ],
)  # fmt: skip
def test_it_says_what_collecting_the_migrated_rows_would_say(kind: str, default: object) -> None:
    both = relations(kind, default)
    column = both[1].by_id[2]

    filled = fill_absent(stats(3, 7), [0, 0], both)

    for number, rows in enumerate((3, 7)):
        updates = pa.table({child(2): default_array(column, rows)})
        actual = collect(updates, Relation(1, (column,), (2,), ()))
        assert set(filled.column_names) == set(actual.schema.names)
        for name in actual.schema.names[1:]:
            got = filled[name][number]
            assert got.type == actual[name].type
            assert str(got) == str(actual[name][0])


def test_a_part_that_has_the_column_stays_unknown() -> None:
    filled = fill_absent(stats(3, 7), [1, 0], relations("date", "2024-02-29"))

    assert [row and row["low"] for row in filled["s.2"].to_pylist()] == [None, date(2024, 2, 29)]


def test_statistics_that_are_there_are_kept() -> None:
    both = relations("int64", 5)
    collected = collect(pa.table({child(2): pa.array([5, 5, 5], pa.int64())}), both[1])
    known = pa.table(
        {
            "rows": [3, 3],
            "s.2": pa.concat_arrays([collected["s.2"], pa.nulls(1, collected["s.2"].type)]),
        }
    )

    filled = fill_absent(known, [0, 0], both)

    assert filled["s.2"].to_pylist() == [collected["s.2"][0].as_py()] * 2


def test_paths_below_a_default_are_absent_only_with_what_says_so() -> None:
    """`complete` stands at the root of the document: it is filled with any of its paths."""
    both = relations("jsonb", {"a": 1})

    filled = fill_absent(stats(3), [0], both, {"rows", "s.2", "s.2$", "s.2$.b"})

    assert filled.column_names == ["rows", "s.2", "s.2$"]
    assert filled["s.2$"][0]["complete"].as_py()


def test_only_what_is_wanted_is_filled() -> None:
    both = relations("int64", 5)
    assert fill_absent(stats(3), [0], both, {"rows", "s.1"}) == stats(3)
    assert fill_absent(stats(3), [0], both, {"rows", "s.2"}) != stats(3)


def test_a_part_of_a_version_that_counted_no_paths_is_filled_like_any_other() -> None:
    old = pa.array([{"nulls": 4}, None], pa.struct([("nulls", pa.int64())]))
    known = stats(3, 7).append_column("s.2", old)

    filled = fill_absent(known, [1, 0], relations("jsonb", {"a": 1}))

    assert filled["s.2"].to_pylist() == [{"nulls": 4, "paths": None}, {"nulls": 0, "paths": 1}]

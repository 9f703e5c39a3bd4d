"""Statistics inside nested columns: where they are, what they count, what is kept."""

from typing import Any

import pyarrow as pa
import pytest

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import collect, concat, trim, union
from strata.stats.nested import MAX_DEPTH, MAX_PLACES, places
from strata.stats.protected import kept_names, sort_statistics
from tests.support.facts import complaints, table

TRIP = "record<route: list<record<stop: string, sent_at: int64>>, valid: range<int32>, n: numeric>"


def relation_of(declared: str) -> Relation:
    """Return a relation of one column, with the id 5."""
    return Relation(0, (Column(5, "trip", parse_type(declared)),), (5,), ())


def stats_of(declared: str, *values: Any) -> dict[str, Any]:
    """Return the statistics of one column, by what follows its name."""
    relation = relation_of(declared)
    row = collect(table([list(values)], relation), relation)
    return {n.removeprefix("s.5"): row[n][0].as_py() for n in row.schema.names if n != "rows"}


def test_a_field_is_null_where_its_record_is() -> None:
    found = stats_of("record<a: int32>", {"a": 1}, None, {"a": None}, {"a": 7})

    assert found[""] == {"nulls": 1}
    assert found["/a"]["nulls"] == 2
    assert (found["/a"]["low"], found["/a"]["high"]) == (1, 7)


def test_elements_have_a_count_of_their_own() -> None:
    found = stats_of("list<float64>", [1.0, None, float("nan")], [], None, [5.0])

    assert found[""] == {"nulls": 1, "shortest": 0, "longest": 3}
    assert found["/[]"] == {
        "count": 4,
        "nulls": 1,
        "nans": 1,
        "low": 1.0,
        "high": 5.0,
        "low_exact": True,
        "high_exact": True,
    }


def test_what_a_null_list_hides_is_no_element() -> None:
    """Arrow may hold values under a null; a slice holds those of other rows."""
    offsets, values = pa.array([0, 2, 4, 5], pa.int32()), pa.array([9, 9, 1, 2, 8])
    hidden = pa.ListArray.from_arrays(offsets, values, mask=pa.array([True, False, False]))
    relation = relation_of("list<int64>")

    row = collect(pa.table([hidden.slice(0, 2)], names=["5"]), relation)

    assert row["s.5/[]"][0].as_py()["count"] == 2
    assert (row["s.5/[]"][0]["low"].as_py(), row["s.5/[]"][0]["high"].as_py()) == (1, 2)


def test_a_map_has_keys_and_values() -> None:
    found = stats_of("map<int64>", [("a", 1), ("c", None)], [("b", 5)])

    assert found[""] == {"nulls": 0, "shortest": 1, "longest": 2}
    assert (found["/{k}"]["low"], found["/{k}"]["high"]) == ("a", "c")
    assert (found["/{v}"]["count"], found["/{v}"]["nulls"], found["/{v}"]["high"]) == (3, 1, 5)


def test_long_texts_are_cut_inside_nested_columns_too() -> None:
    found = stats_of("list<string>", ["x" * 500])["/[]"]

    assert (len(found["low"]), len(found["high"])) == (100, 100)
    assert not found["low_exact"]


def test_deep_types_stop_at_a_limit() -> None:
    deep = "list<" * (MAX_DEPTH + 3) + "int32" + ">" * (MAX_DEPTH + 3)

    assert max(len(place.steps) for place in places(parse_type(deep))) == MAX_DEPTH
    assert len(stats_of(deep, None)) == MAX_DEPTH + 1


def test_wide_types_stop_at_a_limit_outer_places_first() -> None:
    inner = ", ".join(f"i{n}: int32" for n in range(MAX_PLACES))
    wide = f"record<deep: record<{inner}>, a: int32, b: int32>"

    found = [place.steps for place in places(parse_type(wide))]

    assert len(found) == MAX_PLACES
    assert found[:4] == [(), ("deep",), ("a",), ("b",)]


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        (("*_at",), {"", "/route", "/route/[]", "/route/[]/sent_at"}),
        (("trip.valid",), {"", "/valid", "/valid/lower", "/valid/upper", "/valid/empty",
                           "/valid/lower_inclusive", "/valid/upper_inclusive"}),
        (("n",), {"", "/n", "/n/approx"}),
        (("trip",), {""}),
        (("route",), {"", "/route", "/route/[]"}),
        (("trip.route.stop",), {"", "/route", "/route/[]", "/route/[]/stop"}),
        (("lower",), set()),
    ],
)  # fmt: skip
def test_keeping_a_field_keeps_what_it_lies_in(keep: tuple[str, ...], expected: set[str]) -> None:
    relation = relation_of(TRIP)
    row = collect(table([[None]], relation), relation)

    kept = kept_names(row.schema.names, relation, keep)

    assert {name.removeprefix("s.5") for name in kept} == expected
    trimmed, _ = trim(row, relation, 0, keep)
    assert set(trimmed.schema.names) == {
        "rows",
        *kept,
        *sort_statistics(row.schema.names, relation),
    }


def test_a_list_that_one_part_does_not_know_is_unknown_in_the_union() -> None:
    relation = relation_of("list<int32>")
    parts = [table([values], relation) for values in ([[1, 2], None], [[3]])]
    rows = [collect(part, relation) for part in parts]
    small = rows[1].select(["rows", "s.5"])

    whole = union(concat(rows, [2, 1]))
    partial = union(concat([rows[0], small], [2, 1]))

    assert whole is not None
    assert whole["s.5"][0].as_py() == {"nulls": 1, "shortest": 1, "longest": 2}
    assert complaints(whole, pa.concat_tables(parts), relation) == []
    assert partial is not None
    assert partial.schema.names == ["rows", "s.5"]

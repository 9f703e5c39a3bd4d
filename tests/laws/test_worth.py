"""Law: the selectivity of a column is the share of parts that a look-up of its own ends skips.

The twin asks every part about every end, one by one.
"""

from statistics import mean
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.model.types import parse_type
from strata.stats.wire import JSON_PATH, scalar_type
from strata.stats.worth import SAME, paths_in, same_everywhere, selectivity, weighed

Ends = tuple[Any, Any] | None  # None: the part does not know the column

NUMBERS = st.tuples(st.integers(-5, 5), st.integers(-5, 5)).map(sorted).map(tuple)
TEXTS = st.tuples(st.text("abé", max_size=2), st.text("abé", max_size=2)).map(sorted).map(tuple)


def slow(parts: list[Ends]) -> float:
    known = [part for part in parts if part is not None]
    if not known:
        return 0.0
    return mean(not part[0] <= end <= part[1] for part in known for one in known for end in one)


def column(kind: pa.StructType, parts: list[Ends], low: str, high: str) -> pa.Array:
    return pa.array([None if p is None else {low: p[0], high: p[1]} for p in parts], kind)


@given(st.lists(NUMBERS | st.none(), min_size=2, max_size=6))
def test_of_numbers(parts: list[Ends]) -> None:
    stats = pa.table(
        {
            "rows": [1] * len(parts),
            "s.1": column(scalar_type(parse_type("int64")), parts, "low", "high"),
            "s.2$.a": column(JSON_PATH, parts, "num_low", "num_high"),
        }
    )

    assert selectivity(stats) == pytest.approx({"s.1": slow(parts), "s.2$.a": slow(parts)})


@given(st.lists(TEXTS | st.none(), min_size=2, max_size=6))
def test_of_texts(parts: list[Ends]) -> None:
    stats = pa.table({"s.2$.a": column(JSON_PATH, parts, "str_low", "str_high")})

    assert selectivity(stats)["s.2$.a"] == pytest.approx(slow(parts))


def test_a_kind_that_is_apart_counts_where_another_is_the_same_everywhere() -> None:
    parts = [
        {"num_low": 1.0, "num_high": 9.0, "str_low": text, "str_high": text} for text in "abcd"
    ]

    assert selectivity(pa.table({"s.2$.a": pa.array(parts, JSON_PATH)})) == {"s.2$.a": 0.75}


def test_where_a_bound_is_missing_or_a_lie_there_is_nothing_to_tell() -> None:
    kind = scalar_type(parse_type("int64"))
    for wrong in ({"low": 3}, {"low": 5, "high": 2}):
        stats = pa.table({"s.1": pa.array([{"low": 1, "high": 1}, wrong], kind)})
        assert selectivity(stats) == {"s.1": 0.0}
    assert selectivity(pa.table({"s.1": pa.array([{"low": 1, "high": 1}], kind)})) == {"s.1": 0.0}


def test_use_weighs_more_than_selectivity_and_like_shares_weigh_alike() -> None:
    kind = scalar_type(parse_type("int64"))
    apart = [{"low": n, "high": n} for n in range(16)]
    stats = pa.table(
        {
            "s.1": pa.array(apart, kind),
            "s.2": pa.array([*apart[:15], apart[14]], kind),
            "s.3": pa.array([{"low": 0, "high": 9}] * 16, kind),
        }
    )

    weights = weighed({"s.3": 0.0001}, stats)

    assert weights["s.3"] > weights["s.1"] == weights["s.2"] > 0
    assert weighed({}, stats)["s.3"] == 0


def test_paths_that_hardly_differ_are_named_if_most_parts_know_them() -> None:
    one = {"num_low": 1.0, "num_high": 2.0}
    stats = pa.table(
        {
            "s.1": pa.array([{"low": 1, "high": 2}] * 3, scalar_type(parse_type("int64"))),
            "s.2$.same": pa.array([one] * 3, JSON_PATH),
            "s.2$.rare": pa.array([one, None, None], JSON_PATH),
            "s.2$.apart": pa.array([one, one, {"num_low": 3.0, "num_high": 3.0}], JSON_PATH),
        }
    )

    assert selectivity(stats)["s.2$.apart"] > SAME
    assert same_everywhere(stats) == {"s.2$.same"}
    assert paths_in(same_everywhere(stats), 2) == {("same",)}
    assert paths_in({"s.2$.same", "s.2$", "s.3$.x", "rows"}, 3) == {("x",)}

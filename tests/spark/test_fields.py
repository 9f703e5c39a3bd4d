"""Filters as users write them prune by fields of structs and by types that Spark sees otherwise."""

import math
from typing import Any

import pytest
from pyspark.sql import SparkSession

from strata.decide.decision import decide, needed_columns
from strata.decide.reasons import explain
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.spark.front.catalyst import analyse
from tests.unit.decide.test_fields import PLACE, ZERO, acl, ends, number, place, span, stats_of


def entry(k: str, x: int) -> dict[str, Any]:
    """Return an element of a list of records."""
    return {"k": k, "x": x}


# A type, two parts, and filters that only the second part can satisfy.
CASES: list[tuple[str, list[Any], list[Any], list[str]]] = [
    (PLACE, [place(1.0, 1), None], [place(9.0, 7)],
     ["c.lat > 5", "c.size.x between 5 and 9", "C.Size.X = 7"]),
    ("numeric", [number("1.5")], [number("9")], ["c.approx > 3", "c.approx + 1 = 10"]),
    ("interval", [span(0), span(1, 30)], [span(2)], ["c.months = 2"]),
    ("range<int32>", [ends(1, 2), ends(None, 4)], [ends(9, None)], ["c.lower > 4"]),
    ("range<timestamptz>", [ends(None, None)], [ends(0, None)], ["c.lower is not null"]),
    ("aclitem", [acl(1)], [acl(9, 4)], ["c.grantee = 9"]),
    ("mz_aclitem", [acl("u1")], [acl("p")], ["c.grantee = 'p'"]),
    ("uuid", [ZERO], ["f" + ZERO[1:]], ["c = 'f" + ZERO[1:] + "'", "c like 'f%'"]),
    ("time", ["01:00:00.000000000"], ["23:59:60.500000000"], ["c >= '12:00'"]),
    ("uint64", [0, 2**63], [2**64 - 1], ["c = 18446744073709551615"]),
    ("oid", [1], [2**31], ["c > 2147483647"]),
    ("varchar(3)", ["a"], ["b"], ["c > 'a'"]),
    ("list<int32>", [[1, 2], [None], None], [[1, 9], []],
     ["array_contains(c, 9)", "exists(c, x -> x > 5)", "array_max(c) >= 9",
      "array_position(c, 9) > 0",
      "size(c) = 0", "try_element_at(filter(c, x -> x > 2), 1) = 9", "get(c, 1) > 5",
      "try_element_at(c, -1) = 9", "array_max(transform(c, x -> x * 2)) = 18",
      "arrays_overlap(c, array(7, 8, 9))", "element_at(array_distinct(c), -1) = 9"]),
    ("list<float64>", [[1.0]], [[1.0, math.nan]],
     ["exists(c, x -> isnan(x))", "array_max(c) > 1e9"]),
    ("list<int32>", [[1]], [[None]], ["exists(c, x -> x is null)", "c[0] is null"]),
    ("list<int32>", [[1, 2], [3, 4]], [[5]], ["size(c) < 2", "array_size(c) = 1", "c[0] > 4"]),
    ("list<int32>", [[7], [9]], [[1], None], ["forall(c, x -> x < 5)"]),
    ("list<record<k: string, x: int32>>", [[entry("a", 1)]], [[entry("b", 9), None]],
     ["c[0].k = 'b'", "array_contains(c.x, 9)", "exists(c, e -> e.k = 'b' and e.x > 5)",
      "c.k[0] = 'b'", "exists(c, e -> e is null)"]),
    ("list<list<int32>>", [[[1], [2]]], [[[1, 9]]],
     ["exists(c, l -> array_contains(l, 9))", "get(c[0], 1) = 9", "exists(c, l -> size(l) = 2)"]),
    ("map<int32>", [[("a", 1)], None], [[("k", 9)]],
     ["c['k'] = 9", "c.k = 9", "element_at(c, 'k') is not null", "map_contains_key(c, 'k')",
      "array_contains(map_values(c), 9)", "exists(map_entries(c), e -> e.value > 5)"]),
    ("map<int32>", [[("k", 1)]], [[("k", 1)], []], ["c['k'] is null", "cardinality(c) = 0"]),
    ("map<record<x: int32>>", [[("a", {"x": 1})]], [[("a", {"x": 9})]], ["c['a'].x = 9"]),
    ("record<tags: list<string>>", [{"tags": ["a"]}], [{"tags": ["b"]}], ["c.tags[0] = 'b'"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("declared", "first", "second", "filters"), CASES, ids=lambda v: str(v)[:20]
)
def test_only_the_part_that_can_match_is_kept(
    spark: SparkSession, declared: str, first: list[Any], second: list[Any], filters: list[str]
) -> None:
    stats, relation = stats_of(declared, first, second)

    for text in filters:
        filter = analyse(spark, relation, text, now=0)
        needed = stats.select(sorted(needed_columns(filter) & set(stats.schema.names)))
        reasons = explain(filter, stats, relation, [0, 1])
        assert decide(filter, needed, relation).keep.tolist() == [False, True], (text, reasons)


def test_fields_of_a_record_are_named_as_the_user_did(spark: SparkSession) -> None:
    relation = Relation(0, (Column(1, "c", parse_type(PLACE)),), (1,), ())

    filter = analyse(spark, relation, "c.size.X = 7 and c.size.`it's` > 'a'", now=0)

    assert {"s.1", "s.1/size", "s.1/size/x", "s.1/size/['it\\'s']"} <= needed_columns(filter)

"""What parts know of each column, with what is left out."""

from strata.maintain.coverage import coverage
from strata.model.schema import Column, Relation
from strata.model.types import parse_type

TYPES = {"id": "int64", "code": "string", "doc": "jsonb", "new": "string"}
RELATION = Relation(
    0, tuple(Column(i, n, parse_type(t)) for i, (n, t) in enumerate(TYPES.items(), 1)), (1,), ()
)


def test_places_are_counted_and_maps_with_keys_left_out() -> None:
    whole = {"present": 3, "maps": 3, "complete": True}
    parts = [
        {"s.1": {"nulls": 0}, "s.2": {}, "s.shape.2": {"low": 1}, "s.3": {}, "s.3$": whole},
        {
            "rows": {},
            "s.1": {"nulls": 0},
            "s.set.2": {"values": []},
            "s.3": {},
            "s.3$": {**whole, "complete": False},
            "s.3$.a": {"present": 3, "maps": 0, "complete": False},
            "s.set.3$.a": {},
            "s.bloom.3$.b": {},
            "s.pair.1~4": {"both": 3},
            "s.9": {},
        },
    ]
    known = {one.column: one.to_json() for one in coverage(parts, RELATION)}

    assert [*known] == [*TYPES]
    assert known["id"] == {
        "column": "id",
        "parts": 2,
        "places": 1,
        "places_a_part": 1.0,
        "parts_with_keys_left_out": 0,
        "paths": None,
        "paths_left_out": None,
        "sets": 0,
        "blooms": 0,
        "shapes": 0,
        "pairs": 1,
    }
    assert (known["code"]["parts"], known["code"]["sets"], known["code"]["shapes"]) == (1, 1, 1)
    doc = known["doc"]
    assert (doc["places"], doc["places_a_part"], doc["parts_with_keys_left_out"]) == (3, 2.5, 1)
    assert (doc["sets"], doc["blooms"]) == (1, 1)
    assert known["new"]["parts"] == 0


def test_keys_that_are_left_out_of_an_inner_map_count_too() -> None:
    part = {"s.3$": {"maps": 1, "complete": True}, "s.3$.a": {"maps": 1, "complete": False}}
    (doc,) = [one for one in coverage([part], RELATION) if one.column == "doc"]
    assert doc.cut == 1


def test_the_part_with_the_most_paths_left_out_is_named() -> None:
    root = {"maps": 1, "complete": False}
    parts = [
        {"s.3": {"nulls": 0}, "s.3$": root},  # of a version that counted none
        {"s.3": {"nulls": 0, "paths": 9}, "s.3$": root, "s.3$.a": {}, "s.3$.a.b": {}},
        {"s.3": {"nulls": 0, "paths": 8}, "s.3$": root},
        {"s.3": {"nulls": 0, "paths": 3}, "s.3$": root, "s.3$.a": {}},
    ]

    def doc(some: list[dict[str, dict[str, object]]]) -> tuple[object, object]:
        (one,) = [c.to_json() for c in coverage(some, RELATION) if c.column == "doc"]
        return one["paths"], one["paths_left_out"]

    assert doc(parts) == (8, 8)
    assert doc(parts[1:2]) == (9, 7)
    assert doc(parts[:1]) == (None, None)

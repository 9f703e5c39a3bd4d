"""JSON statistics at the edges: limits, unreadable rows, numbers that float64 cannot hold."""

import json
import math
from typing import Any

import pyarrow as pa
import pytest

from strata.kernels.json_scan import MAX_DEPTH
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import collect
from strata.stats.json import collect_json
from strata.stats.json_bounds import MAX_PATHS
from tests.support.facts import known


def collected(*texts: str | None) -> dict[str, dict[str, Any]]:
    """Return the known fields by path text of column 5."""
    return fields_of(pa.array(texts, pa.string()))


def fields_of(texts: pa.Array | pa.ChunkedArray) -> dict[str, dict[str, Any]]:
    """Return the known fields by path text of JSON texts as column 5."""
    columns = collect_json(texts, 5)
    row = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
    fields = {name: known(row, name) for name in columns}
    return {name.removeprefix("s.5"): f for name, f in fields.items() if f is not None}


def test_kinds_are_counted_apart_and_missing_keys_are_known() -> None:
    stats = collected('{"a":1}', '{"a":null}', '{"a":"x","b":[1]}', "true", "null", None)

    assert stats[""] == {"nulls": 1, "paths": 2}
    root, a, b = stats["$"], stats["$.a"], stats["$.b"]
    assert (root["present"], root["maps"], root["bools"], root["trues"]) == (5, 3, 1, 1)
    assert root["json_nulls"] == 1
    assert (a["present"], a["numbers"], a["strings"], a["json_nulls"]) == (3, 1, 1, 1)
    assert (b["present"], b["lists"]) == (1, 1)
    assert root["complete"]


def test_paths_of_the_keep_list_come_first_where_not_all_fit() -> None:
    relation = Relation(0, (Column(5, "Doc", parse_type("jsonb")),), (5,), ())
    wide = ",".join(f'"k{n:03}":{n}' for n in range(400))
    texts = [f'{{{wide},"Rare":{{"deep":{{"x":1}},"other":2}}}}', *[f"{{{wide}}}"] * 9]
    rows = pa.table({"5": pa.array(texts)})

    def known_of(*keep: str) -> set[str]:
        return {*collect(rows, relation, keep).schema.names}

    assert "s.5$.Rare" not in known_of()
    assert "s.5$.Rare" not in known_of("rare.deep.x", "*_at", "x")
    assert {"s.5$.Rare", "s.5$.Rare.deep", "s.5$.Rare.deep.x"} <= known_of("doc.rare.deep.x")
    assert "s.5$.Rare.other" not in known_of("doc.rare.deep.*")
    found = collect(rows, relation, ("doc.rare.*",))
    assert len([name for name in found.schema.names if "$" in name]) == MAX_PATHS
    assert not found.column("s.5$")[0].as_py()["complete"]
    assert found.column("s.5$.Rare")[0].as_py()["complete"]


def test_paths_that_filters_use_come_next_and_those_that_are_the_same_everywhere_last() -> None:
    relation = Relation(0, (Column(5, "Doc", parse_type("jsonb")),), (5,), ())
    texts = [
        json.dumps({f"k{n:03}": n for n in range(300)} | {"rare": 1, "odd": {"x": 1}}),
        *[json.dumps({f"k{n:03}": n for n in range(300)})] * 9,
    ]
    rows = pa.table({"5": pa.array(texts)})

    def known_of(**more: Any) -> set[str]:
        return {*collect(rows, relation, ("doc.odd.*",), **more).schema.names}

    plain, used = known_of(), known_of(used={"s.5$.rare", "s.5$.k299", "s.7$.k298"})
    assert not {"s.5$.rare", "s.5$.k299"} & plain
    assert {"s.5$.rare", "s.5$.k299", "s.5$.odd.x"} <= used
    assert "s.5$.k298" not in used
    last = known_of(same={f"s.5$.k{n:03}" for n in range(100)}, used={"s.5$.k007"})
    assert len(plain) == len(used) == len(last)
    assert {f"s.5$.k{n:03}" for n in range(100, 300)} <= last
    assert "s.5$.k007" in last  # what filters use is worth more than it seems


def test_lists_are_not_descended() -> None:
    assert set(collected('{"a":[{"b":1}]}')) == {"", "$", "$.a"}


@pytest.mark.parametrize(
    ("number", "low", "high", "exact"),
    [
        ("7", 7.0, 7.0, True),
        ("9007199254740992", 2.0**53, 2.0**53, True),
        ("9007199254740993", 2.0**53, 2.0**53 + 2, False),
        ("-9007199254740993", -(2.0**53) - 2, -(2.0**53), False),
        ("0.1", math.nextafter(0.1, 0), math.nextafter(0.1, 1), False),
        ("-0", 0.0, 0.0, True),
        ("1e-400", -5e-324, 5e-324, False),
        ("1.7976931348623157e308", 1.7976931348623155e308, math.inf, False),
    ],
)
def test_number_bounds_are_rounded_outward(
    number: str, low: float, high: float, exact: bool
) -> None:
    root = collected(number)["$"]

    assert (root["num_low"], root["num_high"], root["num_exact"]) == (low, high, exact)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "{'a':1}",
        "1,2",
        '{"a":1} {"a":2}',
        "NaN",
        "1e999",
        '"\\ud800"',
        '"\\udc00"',
        '"\\udfff"',
        '"\\ud83d\\ud83d"',
        '"\\ud83d\\u0041"',
        '{"a":{"a":1},"b":2,"a":3}',
        '{"a":1,"\\u0061":2}',
        '{"l":[{"a":{"a":1},"b":0,"a":3}]}',
        '{"l":[[{"a":[{"a":1}],"a":3}]]}',
        '{"a":' * 10 + '{"b":1,"b":2}' + "}" * 10,
        '{"a":1,"a":2}',
        '{"b":[{"a":1,"a":1}]}',
        "[" * 500 + "]" * 500,
        "[" + "1" * 950 + "]",
        '{"' + "k" * 45_000 + '":1}',
    ],
)
def test_a_row_that_readers_may_read_otherwise_makes_the_column_unknown(text: str) -> None:
    assert collected('{"a":1}', text) == {}


def test_a_long_row_within_the_limits_is_read() -> None:
    text = json.dumps({"a": ["{[" * 500] * 10, "b": [[]] * 1000}, separators=(",", ":"))

    assert collected(text)["$.b"]["lists"] == 1


def test_text_that_is_not_canonical_is_read_all_the_same() -> None:
    assert collected(' {"b" : 1.50, "a":"\\u0041"} ')["$.a"]["str_low"] == "A"


def test_depth_has_a_limit_and_says_so() -> None:
    text = "1"
    for _ in range(MAX_DEPTH + 1):
        text = f'{{"a":{text}}}'

    stats = collected(text)

    deepest = "$" + ".a" * MAX_DEPTH
    assert deepest in stats
    assert deepest + ".a" not in stats
    assert not stats[deepest]["complete"]
    assert stats["$"]["complete"]


def test_paths_have_a_limit_and_the_commonest_keys_stay() -> None:
    rare = [json.dumps({f"k{i}": 1, "common": 1, "z": {"deep": 1}}) for i in range(MAX_PATHS)]

    stats = collected(*rare)

    assert len(stats) == MAX_PATHS + 1  # and the column itself
    assert {"$.common", "$.z"} < set(stats)
    assert stats[""] == {"nulls": 0, "paths": MAX_PATHS + 3}
    assert not stats["$"]["complete"]
    assert not stats["$.z"]["complete"]  # no room for its key, which exists


def test_chunks_are_one_column() -> None:
    texts = pa.chunked_array(
        [['{"n":1}', None], [], [None], ['{"n":3}', '{"m":"x"}', '{"n":2.5}']], pa.string()
    )

    stats = fields_of(texts)

    assert stats[""] == {"nulls": 2, "paths": 2}
    assert (stats["$.n"]["num_low"], stats["$.n"]["num_high"]) == (1.0, 3.0)
    assert (stats["$.n"]["numbers"], stats["$.n"]["integers"]) == (3, 2)
    assert stats["$.m"]["present"] == 1
    assert stats["$"]["complete"]


def test_an_empty_column_has_no_path_at_all() -> None:
    stats = collected(None, None)

    assert stats[""] == {"nulls": 2, "paths": 0}
    assert stats["$"]["present"] == 0
    assert stats["$"]["complete"]

"""Rows align without inventing knowledge, and unions enclose without claiming more."""

from typing import Any

import pyarrow as pa
import pytest

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.stats import collect, concat, union
from strata.stats.flat import struct_row
from strata.stats.wire import scalar_type
from tests.support.facts import known

JSON = Relation(0, (Column(5, "j", parse_type("jsonb")),), (5,), ())


def flat(kind: str, values: list[Any], **changes: Any) -> pa.RecordBatch:
    """Return statistics of one column of a type, some fields replaced."""
    relation = Relation(0, (Column(1, "c", parse_type(kind)),), (1,), ())
    shape = scalar_type(relation.columns[0].type)
    column = pa.array(values, relation.columns[0].type and shape.field("low").type)
    row = collect(pa.table({"1": column}), relation)
    fields = {f.name: known(row, "s.1")[f.name] for f in shape} | changes  # type: ignore[index]
    return pa.RecordBatch.from_arrays(
        [row.column("rows"), struct_row(shape, fields)], names=["rows", "s.1"]
    )


def united(*rows: pa.RecordBatch | None) -> dict[str, Any] | None:
    """Return the union of statistics of column 1."""
    counts = [0 if row is None else row["rows"][0].as_py() for row in rows]
    row = union(concat(rows, counts))
    return None if row is None else known(row, "s.1")


def documents(*texts: str | None) -> pa.RecordBatch:
    """Return the statistics of JSON texts in column 5."""
    return collect(pa.table({"5": pa.array(texts, pa.string())}), JSON)


def test_a_part_without_statistics_makes_the_union_unknown() -> None:
    assert united(flat("int64", [1]), None) is None


def test_bounds_of_a_part_without_values_do_not_count() -> None:
    field = united(flat("int64", [None, None]), flat("int64", [3, 5]), flat("int64", []))

    assert field == {"nulls": 2, "low": 3, "high": 5, "low_exact": True, "high_exact": True}


def test_an_unknown_bound_makes_that_side_unknown() -> None:
    field = united(flat("string", ["a", "b"], high=None), flat("string", ["c"]))

    assert field is not None
    assert (field["low"], field["high"], field["high_exact"]) == ("a", None, False)


def test_a_bound_is_exact_only_if_the_row_it_comes_from_says_so() -> None:
    loose = flat("string", ["b", "m"], low="a", low_exact=False, high="z", high_exact=False)

    first = united(loose, flat("string", ["c", "z"]))
    second = united(loose, flat("string", ["c", "d"]))

    assert first is not None
    assert second is not None
    assert (first["low_exact"], first["high_exact"]) == (False, True)
    assert (second["low_exact"], second["high_exact"]) == (False, False)


def test_contradicting_bounds_are_not_laundered() -> None:
    lie = flat("int64", [1, 9], low=9, high=1)

    field = united(lie, flat("int64", [0, 20]))

    assert field is not None
    assert (field["low"], field["high"]) == (None, None)


def test_a_missing_count_stays_missing() -> None:
    field = united(flat("float64", [1.0], nans=None), flat("float64", [2.0]))

    assert field is not None
    assert field["nans"] is None


def test_a_path_that_a_complete_part_lacks_is_absent_there() -> None:
    row = union(concat([documents('{"a":1}'), documents('{"b":"x"}')], [1, 1]))

    assert row is not None
    b = known(row, "s.5$.b")
    assert b is not None
    assert (b["present"], b["strings"]) == (1, 1)
    assert known(row, "s.5$")["complete"]  # type: ignore[index]


@pytest.mark.parametrize("dropped", ["s.5$.a", "s.5$.b"])
def test_a_path_that_an_incomplete_part_lacks_is_unknown(dropped: str) -> None:
    full = documents('{"a":1,"b":{"c":1}}')
    names = [n for n in full.schema.names if not n.startswith(dropped)]
    fields = known(full, "s.5$") or {}
    root = struct_row(full.schema.field("s.5$").type, fields | {"complete": False})
    columns = {n: full.column(n) for n in names} | {"s.5$": root}
    trimmed = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

    row = union(concat([full, trimmed], [1, 1]))

    assert row is not None
    assert dropped not in row.schema.names
    assert not known(row, "s.5$")["complete"]  # type: ignore[index]


def test_one_unreadable_part_leaves_no_path_in_the_union() -> None:
    row = union(concat([documents('{"a":1}'), documents("{")], [1, 1]))

    assert row is None or not [n for n in row.schema.names if "$" in n]


@pytest.mark.parametrize(
    ("old", "new", "low"),
    [("int32", "int64", -5), ("float32", "float64", -5.0), ("int64", "string", None)],
)
def test_bounds_follow_a_widened_type_and_no_other(old: str, new: str, low: object) -> None:
    value = {"string": "x", "int64": 7, "float64": 7.0}[new]
    older = -5.0 if "float" in old else -5
    table = concat([flat(old, [older]), flat(new, [value])], [1, 1])

    first = known(table.slice(0, 1), "s.1")
    assert (first["low"] if first else None) == low
    assert known(table.slice(1), "s.1")["low"] == value  # type: ignore[index]


def test_the_union_of_nothing_has_no_rows() -> None:
    row = union(concat([], []))

    assert row is not None
    assert row.to_pylist() == [{"rows": 0}]


def test_json_statistics_without_a_count_of_integers_stay_known() -> None:
    new = documents('{"a":1}')
    old = pa.RecordBatch.from_arrays(
        [_without_integers(column) for column in new.columns], names=new.schema.names
    )

    for rows in ([old, new], [new, old], [old, old]):
        field = known(union(concat(rows, [1, 1])), "s.5$.a")  # type: ignore[arg-type]
        assert field is not None
        assert (field["numbers"], field["num_high"], field.get("integers")) == (2, 1.0, None)
    field = known(union(concat([new, new], [1, 1])), "s.5$.a")  # type: ignore[arg-type]
    assert field is not None
    assert field["integers"] == 2


def _without_integers(column: pa.Array) -> pa.Array:
    if not pa.types.is_struct(column.type) or column.type.get_field_index("integers") < 0:
        return column
    fields = [f for f in column.type if f.name != "integers"]
    return pa.StructArray.from_arrays([column.field(f.name) for f in fields], fields=fields)


def test_a_union_encloses_the_rows_of_every_chunk() -> None:
    """A table of statistics that was put together of several, as manifests' pages are."""
    some = [concat([flat("int64", values)], [2]) for values in ([9, None], [1, 2])]
    more = [concat([documents(text, text)], [2]) for text in ('{"a":9}', '{"a":1}')]
    column, document = union(pa.concat_tables(some)), union(pa.concat_tables(more))

    assert column is not None
    assert document is not None
    assert [known(column, "s.1")[end] for end in ("low", "high", "nulls")] == [1, 9, 1]  # type: ignore[index]
    path = known(document, "s.5$.a")
    assert [path[end] for end in ("num_low", "num_high", "present")] == [1, 9, 4]  # type: ignore[index]


def test_the_union_of_no_part_holds_nothing() -> None:
    nothing = union(concat([flat("int64", [5, 6])], [2]).slice(0, 0))

    assert nothing is not None
    assert nothing["rows"].to_pylist() == [0]
    column = known(nothing, "s.1")
    assert [column[end] for end in ("low", "high", "nulls")] == [None, None, 0]  # type: ignore[index]


def test_a_bound_that_is_not_there_is_not_exact() -> None:
    path = known(documents("1", "2"), "s.5$")

    assert [path[name] for name in ("str_low", "str_high")] == [None, None]  # type: ignore[index]
    assert [path[name] for name in ("str_low_exact", "str_high_exact")] == [False, False]  # type: ignore[index]


def test_a_part_that_counted_no_paths_stands_beside_one_that_did() -> None:
    """In either order: neither loses what it knows."""
    new = documents('{"a":1,"b":{"c":2}}')
    plain = pa.struct([("nulls", pa.int64())])
    old = pa.RecordBatch.from_arrays(
        [new.column("rows"), pa.array([{"nulls": 0}], plain), *new.columns[2:]],
        names=new.schema.names,
    )
    counted, uncounted = {"nulls": 0, "paths": 3}, {"nulls": 0, "paths": None}

    assert concat([old, new], [1, 1])["s.5"].to_pylist() == [uncounted, counted]
    for rows in ([new, old], [old, new]):
        found = union(concat(rows, [1, 1]))
        assert found is not None
        assert found.column("s.5")[0].as_py()["nulls"] == 0
    both = union(concat([new, documents("{}")], [1, 1]))
    assert both is not None
    assert both.column("s.5")[0].as_py() == counted

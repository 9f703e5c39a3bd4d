"""Casts of strings at paths of JSON skip by the numbers and moments in them, and only so."""

import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from strata.decide.decision import decide, needed_columns
from strata.decide.specs import PartSpecs
from strata.expr.entry import Context
from strata.expr.filter import Filter
from strata.expr.interpret import Interpreter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.shapes import shape_of
from strata.format.columns import updates_schema
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.stats import collect, concat
from strata.stats.shapes import Shapes
from strata.stats.trim import trim
from strata.stats.wire import path_name, shape_name

RELATION = Relation(0, (Declared(6, "doc", parse_type("jsonb")),), (6,), ())
KEEP = ("doc.a",)
DOCUMENT = Column(6, "doc", "string")


def stats_of(values: Sequence[Any]) -> pa.RecordBatch:
    """Return the statistics of documents with these values at `$.a`."""
    texts = [None if one is None else json.dumps({"a": one}) for one in values]
    columns = [pa.array(texts, pa.string()), *[pa.array([0] * len(texts), pa.int64())] * 2]
    table = pa.Table.from_arrays(columns, schema=updates_schema(RELATION))
    shapes = Shapes(RELATION)
    return shapes.beside(collect(table, RELATION, KEEP, shapes=shapes))


def kept(expr: Expr, stats: pa.RecordBatch, quarantine: Sequence[str] = ()) -> bool:
    """Return whether a filter keeps the part."""
    asked = Filter(expr, "", 0, 0)
    table = concat([stats], [stats.column("rows")[0].as_py()])
    names = [name for name in table.column_names if name in needed_columns(asked)]
    return bool(decide(asked, table.select(names), RELATION, quarantine=quarantine).keep[0])


def text() -> Expr:
    """Return the text at the path."""
    return Call("get_json_object", (DOCUMENT, Literal("$.a", "string")), "string")


def of_variant(kind: str) -> Expr:
    """Return the value at the path, by a variant."""
    parsed = Call("parse_json", (DOCUMENT,), "variant")
    return Call("variant_get", (parsed, Literal("$.a", "string")), kind)


def above(value: Expr, other: object, kind: str) -> Expr:
    """Return whether a value is greater than a constant."""
    return Call("greater_than", (value, Literal(other, kind)), "boolean")


CASES = [
    (["9", "10"], "integer", 10, False),
    (["9", "10"], "integer", 9, True),
    (["9", 10], "integer", 10, False),
    (["9", 11], "integer", 10, True),
    (["9", 10, None], "long", 10, False),
    (["9", "1e1"], "integer", 10, True),
    (["9", "10.5"], "integer", 100, True),  # may fail
    (["9", "10.5"], "double", 10.5, False),
    (["9", "10.5"], "double", 10.25, True),
    (["9", True], "integer", 100, True),
    (["9", [1]], "integer", 100, True),
    (["3000000000"], "integer", 2**31 - 1, True),
    (["9", "0.1234567890123456"], "double", 100.0, True),  # too long for the scanner
]


@pytest.mark.parametrize(("values", "kind", "limit", "keep"), CASES)
def test_a_cast_knows_the_numbers_in_strings(
    values: list[Any], kind: str, limit: float, keep: bool
) -> None:
    stats = stats_of(values)
    cast = Call("cast", (text(),), kind)

    assert kept(above(cast, limit, kind), stats) is keep
    if True not in values:  # a variant's truth is a number, a text's is none
        assert kept(above(of_variant(kind), limit, kind), stats) is keep
    assert kept(above(cast, limit, kind), stats, quarantine=["6"])


def test_a_cast_knows_the_moments_in_strings() -> None:
    day = 86_400_000_000
    stats = stats_of(["1970-01-02 00:00", None, "1970-01-03 12:00"])
    mixed = stats_of(["1970-01-02 00:00", 5])
    for value in (
        Call("cast", (text(),), "timestamp"),
        Call("get_timestamp", (text(), Literal("yyyy-MM-dd HH:mm", "string")), "timestamp"),
        of_variant("timestamp"),
    ):
        assert not kept(above(value, 3 * day, "timestamp"), stats)
        assert kept(above(value, 2 * day, "timestamp"), stats)
        assert kept(above(value, 3 * day, "timestamp"), mixed)  # a number may fail


@pytest.mark.parametrize("other", [1.5, True, [1], {"b": "1"}])
def test_texts_of_json_that_is_no_string_have_no_shape(other: Any) -> None:
    """What is printed of it is written in other ways."""
    for values, known in ((["9", "10"], True), (["9", "10", other], False)):
        table = concat([stats_of(values)], [len(values)])
        view = PartSpecs(table, RELATION, ()).at(slice(0, 1))
        shape = shape_of(Interpreter(Context(0, 0)).evaluate(text(), view).values)

        assert shape is not None
        assert (shape.whole.tolist(), shape.number.tolist()) == ([known], [known])


def test_a_piece_of_a_moment_is_there() -> None:
    args = (text(), Literal(" ", "string"), Literal(-1, "integer"))
    split = Call("string_split", args, "array<string>", (("checked", "true"),))
    piece = Call("get_array_item", (split, Literal(1, "integer")), "string")
    never = Call("less_than", (text(), Literal("1", "string")), "boolean")
    asked = Call("and", (Call("is_null", (piece,), "boolean"), never), "boolean")

    assert not kept(asked, stats_of(["1970-01-02 00:00", "2024-01-03 12:00"]))
    assert kept(asked, stats_of(["1970-01-02 00:00", "2024-01-03T12:00"]))


def test_a_path_that_is_trimmed_away_loses_its_shape() -> None:
    stats = stats_of(["9", "10"])
    name = shape_name(path_name(6, ("a",)))
    assert name in stats.schema.names

    trimmed, _ = trim(stats, RELATION, 1, ())
    assert name not in trimmed.schema.names


def test_a_column_that_cannot_be_read_has_no_shape() -> None:
    texts = pa.array(['{"a": "7"}', "no JSON"], pa.string())
    zeros = pa.array([0, 0], pa.int64())
    table = pa.Table.from_arrays([texts, zeros, zeros], schema=updates_schema(RELATION))
    shapes = Shapes(RELATION)
    pieces = [collect(piece, RELATION, KEEP, shapes=shapes) for piece in (table.slice(0, 1), table)]

    assert shape_name(path_name(6, ("a",))) not in shapes.beside(pieces[1]).schema.names

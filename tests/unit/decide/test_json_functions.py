"""Variants, `from_json` and patterns of dates prune, on no more statistics than a filter needs."""

import pyarrow as pa
import pytest

from strata.decide.decision import decide, needed_columns
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.stats import collect, concat
from tests.spec.language import RELATION

JS = next(column for column in RELATION.columns if column.name == "js")
COLUMN = Column(JS.id, "js", "string")
SCHEMA = (
    '{"type":"struct","fields":[{"name":"t","type":"string","nullable":true,"metadata":{}},'
    '{"name":"o","type":{"type":"struct","fields":[{"name":"n","type":"integer","nullable":true,'
    '"metadata":{}}]},"nullable":true,"metadata":{}}]}'
)
N, T = '{"o":{"n":1},"t":"2024-01-05T10:00"}', '{"o":{"n":9},"t":"2024-01-28T10:00"}'


def text(value: str) -> Literal:
    return Literal(value, "string")


def parsed(mode: str) -> Expr:
    return Call("parse_json", (COLUMN,), "variant", (("ansi", mode),))


def variant(path: str, kind: str, mode: str = "ansi", document: str = "ansi") -> Expr:
    return Call("variant_get", (parsed(document), text(path)), kind, (("ansi", mode),))


def field(*ordinals: int) -> Expr:
    expr: Expr = Call("from_json", (COLUMN, text(SCHEMA)), "struct<t:string,o:struct<n:int>>")
    kinds = {(0,): "string", (1,): "struct<n:int>", (1, 0): "integer"}
    for depth, ordinal in enumerate(ordinals, 1):
        args = (expr, Literal(ordinal, "integer"))
        expr = Call("get_struct_field", args, kinds[ordinals[:depth]])
    return expr


def more(expr: Expr, value: object) -> Expr:
    return Call("greater_than", (expr, Literal(value, expr.type)), "boolean")


def kept(expr: Expr, *texts: str | None) -> bool:
    """Return whether a part of these documents is kept, by the columns that the filter needs."""
    filter = Filter(expr, "", 0, 0)
    stats = concat(
        [collect(pa.table({str(JS.id): pa.array(texts, pa.string())}), RELATION)], [len(texts)]
    )
    whole = bool(decide(filter, stats, RELATION).keep[0])
    few = stats.select([n for n in stats.column_names if n in needed_columns(filter)])
    assert bool(decide(filter, few, RELATION).keep[0]) == whole, "a column is missing"
    return whole


@pytest.mark.parametrize(
    ("texts", "low", "high"),
    [
        ((N, T), False, True),
        ((N, T, None), False, True),
        ((N, T, '{"t":"x"}', '{"o":{"n":null}}'), False, True),  # a missing key, a JSON null
        ((N, T, '{"o":{"n":1.5}}', '{"o":{"n":true}}'), False, True),  # a cast reads these
        ((N, '{"o":{"n":"77"}}'), True, True),  # a number as text
        ((N, '{"o":{"n":[1]}}'), True, True),  # fails
        ((N, '{"o":{"n":99999999999}}'), True, True),  # fails
        ((N, "5"), False, False),
        ((N, "no JSON"), True, True),
    ],
)
def test_a_path_of_a_variant(texts: tuple[str | None, ...], low: bool, high: bool) -> None:
    assert kept(more(variant("$.o.n", "integer"), 10), *texts) == low
    cast = Call("cast", (variant("$.o.n", "variant"),), "integer", (("ansi", "ansi"),))
    assert kept(more(cast, 10), *texts) == low
    if high != low:
        assert kept(more(variant("$.o.n", "integer"), 8), *texts) == high


def test_try_forms_prune_what_would_fail() -> None:
    tried = more(variant("$.o.n", "integer", "legacy", "try"), 10)

    assert not kept(tried, N, '{"o":{"n":[1]}}')
    assert kept(tried, N, '{"o":{"n":"77"}}')
    assert kept(tried, N, '{"o":{"n":77}}')
    assert kept(tried, N, "no JSON")


def test_a_json_null_is_a_variant_that_is_not_null() -> None:
    there = Call("is_not_null", (variant("$.o", "variant"),), "boolean")
    null = Call("is_variant_null", (variant("$.o", "variant"),), "boolean")

    assert kept(there, '{"o":null}')
    assert kept(null, '{"o":null}')
    assert not kept(null, N, T)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ((N, T), False),
        ((N, T, None, "{}", '{"o":5}'), False),
        ((N, '{"o":{"n":11}}'), True),
        ((N, '[{"o":{"n":11}}]'), True),  # the first struct of a list
        ((N, '{"o":[{"n":11}]}'), True),
        ((N, '{"o":{"n":"11"}}'), True),
        ((N, "no JSON"), True),
    ],
)
def test_a_field_of_from_json(texts: tuple[str | None, ...], expected: bool) -> None:
    assert kept(more(field(1, 0), 10), *texts) == expected


def test_fields_of_text_keep_their_bounds() -> None:
    assert not kept(more(field(0), "2024-02"), N, T)
    assert kept(more(field(0), "2024-01-27"), N, T)


def test_a_field_that_is_null_everywhere_may_be_asked_for() -> None:
    null = Call("is_null", (field(1, 0),), "boolean")

    assert kept(null, '{"o":{"n":1.5}}')  # does not fit, so it reads as null


@pytest.mark.parametrize(
    ("pattern", "day", "expected"),
    [
        ("yyyy-MM-dd'T'HH:mm", "2024-01-30", False),
        ("yyyy-MM-dd'T'HH:mm", "2024-01-28", True),
        ("dd-MM-yyyy", "2030-01-01", True),  # not in the order of time
    ],
)
def test_text_in_json_is_read_by_a_pattern(pattern: str, day: str, expected: bool) -> None:
    at = Call("get_json_object", (COLUMN, text("$.t")), "string")
    read = Call("get_timestamp", (at, text(pattern)), "timestamp", (("ansi", "legacy"),))
    micros = int(pa.scalar(day).cast(pa.timestamp("us")).value)

    assert kept(more(read, micros), N, T) == expected


def test_text_of_one_month_is_cast_into_that_month() -> None:
    at = Call("get_json_object", (COLUMN, text("$.t")), "string")
    for mode, expected in (("try", False), ("ansi", True)):  # ANSI mode may fail
        cast = Call("cast", (at,), "date", (("ansi", mode),))
        assert kept(more(cast, 20_000), N, T) == expected  # 2024-10-04
    cast = Call("cast", (at,), "date", (("ansi", "try"),))
    assert kept(more(cast, 19_740), N, T)  # 2024-01-18

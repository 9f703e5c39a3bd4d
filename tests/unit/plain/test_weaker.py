"""The places where engines and Spark differ: the weaker meaning is taken, or none."""

from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.plain.conditions import (
    Among,
    And,
    Compare,
    Condition,
    Day,
    Flag,
    IsNan,
    IsNull,
    Moment,
    Not,
    NotUnderstood,
    Only,
    Or,
    StartsWith,
)
from strata.plain.of_arrow import arrow_condition, arrow_fields
from strata.plain.weaker import weaker

TYPES = (
    "n int64",
    "x float64",
    "f float32",
    "s string",
    "d date",
    "z timestamptz",
    "p timestamp",
    "m numeric(10,2)",
    "b bool",
    "l list<int32>",
    "Up int64",
)
RELATION = Relation(
    0,
    tuple(
        Column(i, name, parse_type(kind), nullable=True)
        for i, (name, kind) in enumerate((one.split(" ", 1) for one in TYPES), 1)
    ),
    (1,),
    (),
)
TOP = "1.7976931348623157E308"
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Compare("n", ">", 5), "`n` > 5"),
        (Not(Compare("n", ">", 5)), "`n` <= 5"),
        (Compare("n", ">", 5.0), None),
        (Compare("n", ">", 2**63), None),
        (Compare("x", ">", 0.5), "`x` > 5.0000000000000000e-01"),
        (Not(Compare("x", ">", 0.0)), f"((`x` <= 0) or (`x` > {TOP}))"),
        (Not(Compare("x", "<", 0.0)), "`x` >= 0"),
        (Compare("x", "=", -0.0), "`x` = 0"),
        (Compare("x", "=", NAN), None),
        (Compare("x", ">=", INF), f"`x` > {TOP}"),
        (Compare("x", "<", INF), None),
        (Compare("x", ">", 2**53 + 1), None),
        (Compare("f", ">", 2**24 + 1), None),
        (Among("x", (0.0,), False), "`x` in (0)"),
        (Not(Among("x", (0.0,), False)), None),
        (Among("f", (0.1,), False), None),
        (Among("n", (1, 2), True), "((`n` in (1, 2)) or (`n` is null))"),
        (Not(Among("n", (1,), False)), "((`n` not in (1)) or (`n` is null))"),
        (Among("n", tuple(range(5, 300)), False), "`n` between 5 and 299"),
        (Not(Among("n", tuple(range(300)), False)), None),
        (Among("n", (1, 2.5), False), None),  # 2.5 may be what it is
        (Among("s", ("a", "it's"), False), None),
        (Among("n", (), False), None),
        (Among("n", (2.5,), True), None),
        (IsNull("x"), "`x` is null"),
        (Not(IsNull("n")), "`n` is not null"),
        (Only(Flag("b"), Compare("n", ">", 5)), "((`b`) and (`n` > 5))"),
        (Not(Only(Flag("b"), Compare("n", ">", 5))), "((`b`) and (`n` <= 5))"),
        (Only(NotUnderstood(), Compare("n", ">", 5)), "`n` > 5"),
        (IsNan("x"), f"`x` > {TOP}"),
        (Not(IsNan("x")), "`x` is not null"),
        (IsNan("n"), None),
        (IsNull("x", nan=True), f"((`x` is null) or (`x` > {TOP}))"),
        (Not(IsNull("x", nan=True)), "`x` is not null"),
        (IsNull("l"), None),
        (Compare("s", "=", "it's"), "`s` >= 'it'"),
        (Compare("s", "<", "it's"), None),
        (Compare("s", "=", "'"), None),
        (Compare("s", "=", "$" + "{x}"), None),
        (StartsWith("s", "ab"), "`s` like 'ab%'"),
        (StartsWith("s", "a%b"), "`s` >= 'a%b'"),
        (Not(StartsWith("s", "a%b")), None),
        (Compare("d", ">", Day(0)), "`d` > date'1970-01-01'"),
        (Compare("d", ">", Day(10**7)), None),
        (Compare("d", ">", Moment(0, zoned=False)), None),
        (Compare("z", ">", Moment(1, zoned=True)), "`z` > '1970-01-01 00:00:00.000001Z'"),
        (Compare("z", ">", Moment(1, zoned=False)), None),
        (Compare("p", ">", Moment(-1, zoned=False)), "`p` > '1969-12-31 23:59:59.999999'"),
        (Compare("m", ">", Decimal("1.500")), "`m` > 1.5"),
        (Compare("m", ">", Decimal("1.555")), "`m` > 1.555"),
        (Not(Flag("b")), "not `b`"),
        (Flag("n"), None),
        (Compare("Up", ">", 1), "`Up` > 1"),
        (Compare("up", ">", 1), None),
        (Compare("nobody", ">", 1), None),
        (And((NotUnderstood(), Flag("b"))), "`b`"),
        (Or((NotUnderstood(), Flag("b"))), None),
        (Not(And((NotUnderstood(), Flag("b")))), None),
        (Not(Or((NotUnderstood(), Flag("b")))), "not `b`"),
    ],
    ids=str,
)
def test_a_condition_becomes_a_weaker_filter(condition: Condition, text: str | None) -> None:
    found = weaker(RELATION, condition, 0)

    assert (found.sql if found else None) == text


def test_null_is_no_nan_unless_it_is_said() -> None:
    found = weaker(RELATION, IsNull("x"))
    assert found is not None
    assert found.sql == "`x` is null"


def test_what_is_too_deep_or_too_long_chooses_no_parts() -> None:
    deep: Condition = Flag("b")
    for _ in range(5000):
        deep = Not(deep)
    wide = Or(tuple(Compare("s", "=", f"{i}" * 50) for i in range(500)))

    assert weaker(RELATION, deep) is None
    assert weaker(RELATION, wide) is None


def test_arrow_takes_minus_zero_for_another_member_and_spark_does_not() -> None:
    """So the complement of a list of floats is never weakened."""
    rows = pa.table({"x": [-0.0, 0.0]})

    assert ds.dataset(rows).to_table(filter=~pc.field("x").isin([0.0])).num_rows == 1


def test_an_expression_that_cannot_be_taken_apart_is_not_understood() -> None:
    nested = pc.field("l", "i") > 1

    assert arrow_fields(nested) is None
    assert arrow_condition(nested) == NotUnderstood()
    assert arrow_fields(pc.add(pc.field("n"), pc.field("x")) > pc.field("m")) == {"n", "x", "m"}

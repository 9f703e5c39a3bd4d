"""Types that Spark sees in another form, and fields of structs: what must prune does."""

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from strata.decide.decision import decide, needed_columns
from strata.decide.reasons import explain
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.format.encodings import encoding
from strata.format.values.view import from_view, view_type
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.stats import collect, concat

PLACE = "record<lat: float64, size: record<x: int32, it's: string>, tags: list<int32>>"
ZERO = "00000000-0000-0000-0000-000000000000"


def place(lat: float | None, x: int | None = None) -> dict[str, Any]:
    """Return a value of PLACE as a reader sees it."""
    return {"lat": lat, "size": {"x": x, "it's": "x"}, "tags": [1]}


def acl(grantee: Any, mode: int = 0) -> dict[str, Any]:
    """Return access rights as a reader sees them."""
    return {"grantee": grantee, "grantor": grantee, "mode": Decimal(mode)}


def number(text: str) -> dict[str, Any]:
    """Return a number without a precision as a reader sees it."""
    return {"approx": float(text), "text": text}


def span(months: int, days: int = 0) -> dict[str, Any]:
    """Return an interval as a reader sees it."""
    return {"months": months, "days": days, "micros": 0}


def ends(lower: int | None, upper: int | None) -> dict[str, Any]:
    """Return a range as a reader sees it."""
    flags = {"lower_inclusive": True, "upper_inclusive": False, "empty": False}
    return {"lower": lower, "upper": upper, **flags}


# Of each type: two parts, and steps and a constant that only the second part may hold.
CASES: list[tuple[str, list[Any], list[Any], list[int], str, Any]] = [
    ("uint8", [1, 200], [255, None], [], "short", 255),
    ("uint32", [1, 2**31], [2**32 - 1], [], "long", 2**32 - 1),
    ("uint64", [0, 2**63], [2**64 - 1], [], "decimal(20,0)", Decimal(2**64 - 1)),
    ("oid", [1], [2**31, 2**32 - 1], [], "long", 2**31),
    ("mz_timestamp", [5], [2**63, 2**64 - 1], [], "decimal(20,0)", Decimal(2**63)),
    ("uuid", [ZERO], ["f" + ZERO[1:]], [], "string", "f" + ZERO[1:]),
    ("time", ["01:00:00.000000000"], ["23:59:60.500000000"], [], "string", "23:59:60.500000000"),
    ("char(3)", ["a"], ["b"], [], "string", "b"),
    ("numeric", [number("1.5")], [number("9")], [0], "double", 9.0),
    ("interval", [span(0), span(1, 30)], [span(2), span(2, 5)], [0], "integer", 2),
    ("interval", [span(2, 1), span(2, 3)], [span(2, 9)], [1], "integer", 9),
    ("range<int32>", [ends(1, 2), ends(None, 4)], [ends(9, None)], [0], "integer", 9),
    ("aclitem", [acl(1), acl(7)], [acl(9)], [0], "long", 9),
    ("aclitem", [acl(1, 1)], [acl(1, 9)], [2], "decimal(20,0)", Decimal(9)),
    ("mz_aclitem", [acl("u1")], [acl("p")], [0], "string", "p"),
    (PLACE, [place(1.0), None], [place(9.0), place(None)], [0], "double", 9.0),
    (PLACE, [place(1.0, 1)], [place(1.0, 7)], [1, 0], "integer", 7),
    ("array<int32>", [None], [{"dims": [], "vals": []}], [], "void", None),
]
IDS = [f"{case[0][:20]}{case[3]}" for case in CASES]


def stats_of(declared: str, *parts: list[Any]) -> tuple[pa.Table, Relation]:
    """Return the statistics of parts of one column, given as readers see its values."""
    kind = parse_type(declared)
    relation = Relation(0, (Declared(1, "c", kind),), (1,), ())
    arrays = [from_view(pa.array(values, view_type(kind)), kind) for values in parts]
    rows = [collect(pa.table([a], names=["1"]), relation) for a in arrays]
    return concat(rows, [len(values) for values in parts]), relation


def access(declared: str, steps: list[int]) -> Expr:
    """Return the column, or a field of it, as the front end writes it."""
    ddl = encoding(parse_type(declared)).spark(parse_type(declared))
    expr: Expr = Column(1, "c", ddl.replace(", ", ",").replace(": ", ":").replace("`", ""))
    for ordinal in steps:  # `compared` says what the last one yields
        place = Literal(ordinal, "integer")
        expr = Call("get_struct_field", (expr, place), "struct<x:int,it's:string>")
    return expr


def compared(expr: Expr, kind: str, value: Any) -> Filter:
    """Return the filter `expr = value`."""
    if isinstance(expr, Call):
        expr = Call(expr.function, expr.args, kind)
    if value is None:
        return Filter(Call("is_not_null", (expr,), "boolean"), "", 0, 0)
    return Filter(Call("equal_to", (expr, Literal(value, kind)), "boolean"), "", 0, 0)


@pytest.mark.parametrize(("declared", "first", "second", "steps", "kind", "value"), CASES, ids=IDS)
def test_only_the_part_that_may_hold_a_value_is_kept(
    declared: str, first: list[Any], second: list[Any], steps: list[int], kind: str, value: Any
) -> None:
    stats, relation = stats_of(declared, first, second)
    filter = compared(access(declared, steps), kind, value)

    assert decide(filter, stats, relation).keep.tolist() == [False, True]
    needed = stats.select(sorted(needed_columns(filter) & set(stats.schema.names)))
    assert decide(filter, needed, relation).keep.tolist() == [False, True]


@pytest.mark.parametrize(("declared", "first", "second", "steps", "kind", "value"), CASES, ids=IDS)
def test_nothing_is_known_of_parts_without_statistics(
    declared: str, first: list[Any], second: list[Any], steps: list[int], kind: str, value: Any
) -> None:
    stats, relation = stats_of(declared, first, second)
    filter = compared(access(declared, steps), kind, value)

    for name in stats.schema.names[1:]:
        assert decide(filter, stats.drop([name]), relation).keep[1]
    assert decide(filter, stats.select(["rows"]), relation).keep.all()


def test_a_field_may_be_null_where_it_or_its_struct_is() -> None:
    parts = [place(1.0, 1)], [place(1.0, None)], [None], [place(None, 1)]
    stats, relation = stats_of(PLACE, *parts)

    def kept(steps: list[int]) -> list[bool]:
        expr = Call("is_null", (access(PLACE, steps),), "boolean")
        keep: list[bool] = decide(Filter(expr, "", 0, 0), stats, relation).keep.tolist()
        return keep

    assert kept([]) == [False, False, True, False]
    assert kept([0]) == [False, False, True, True]
    assert kept([1, 0]) == [False, True, True, False]


def test_a_part_behind_one_that_varies_is_open() -> None:
    stats, relation = stats_of("interval", [span(1, 1), span(2, 3)])

    filter = compared(access("interval", [1]), "integer", 9)

    assert decide(filter, stats, relation).keep.all()


def test_roles_do_not_sort_as_their_names() -> None:
    """Tags sort s < g < u < p, the letters otherwise."""
    stats, relation = stats_of("mz_aclitem", [acl("s1"), acl("u1")])

    for role in ("g5", "s9", "u0", "p"):
        filter = compared(access("mz_aclitem", [0]), "string", role)
        assert decide(filter, stats, relation).keep.all()


def test_bounds_of_a_type_that_was_widened_still_prune() -> None:
    stats, _ = stats_of("int16", [1, 5])
    wide = Relation(1, (Declared(1, "c", parse_type("int64")),), (1,), ())

    filter = compared(Column(1, "c", "bigint"), "bigint", 9)

    assert not decide(filter, stats, wide).keep.any()


def test_a_struct_of_another_shape_is_open() -> None:
    stats, relation = stats_of("record<a: int32, b: int32>", [{"a": 1, "b": 1}])
    column = Column(1, "c", "struct<b:int,a:int>")
    field = Call("get_struct_field", (column, Literal(0, "integer")), "integer")

    assert decide(compared(field, "integer", 9), stats, relation).keep.all()


def test_reasons_name_the_field() -> None:
    stats, relation = stats_of(PLACE, [place(1.0, 1)], [place(1.0, 7)])

    filter = compared(access(PLACE, [1, 0]), "integer", 7)

    skipped, kept = explain(filter, stats, relation, [0, 1])
    assert skipped == "skipped: c.size.x = 7 is never true (c.size.x in [1, 1])"
    assert kept.startswith("kept: c.size.x = 7 may be true")

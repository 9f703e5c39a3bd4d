"""Wrong answers that other engines gave between what was written and what was believed of it.

The numbers are those of the list of bugs in the notes on peers; here values go the whole way, from
updates through a part, its statistics and its manifest to the verdict. See
`docs/reference/peers.md`.
"""

from decimal import Decimal

import pytest

from strata.decide.plan import plan_read
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.machine.machine import Machine
from strata.model.schema import Column as Declared
from strata.model.schema import Relation
from strata.model.types import parse_type
from strata.read.scan import scan
from tests.spec.language import call, check, col, constant
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

TS = col("ts")


def compared(function: str, kind: str, value: object) -> Filter:
    """Return the comparison of column 1 with a constant."""
    expr: Expr = Call(function, (Column(1, "c", kind), Literal(value, kind)), "boolean")
    return Filter(expr, f"c {function} {value}", 0, 0)


def fetched(declared: str, values: list[object], filter: Filter) -> int:
    """Return how many parts of a shard are fetched for a filter; each value is a part."""
    relation = Relation(0, (Declared(1, "c", parse_type(declared)),), (1,), ())
    stores = memory_stores()
    create(stores, relation)
    append(stores, "shard", 0, 1, [table(relation, [(value, 0, 1)]) for value in values])
    return plan_read(stores, Machine(stores).load("shard"), filter=filter, mode="on").parts_fetched


@pytest.mark.parametrize("declared", ["timestamptz", "timestamp"])
@pytest.mark.parametrize("moment", [999, -1, 1_356_998_400_000_999, -62_135_596_800_000_001])
def test_8_an_instant_keeps_its_microseconds_in_the_bounds(declared: str, moment: int) -> None:
    """delta-kernel-rs #1003, Delta #7444: bounds were cut to milliseconds, the high one too."""
    kind = "timestamp" if declared == "timestamptz" else "timestamp_ntz"
    for function, than, kept in (
        ("greater_than", moment - 1, 1),
        ("greater_than", moment, 0),
        ("less_than", moment + 1, 1),
        ("less_than", moment, 0),
        ("equal_to", moment, 1),
        ("equal_to", moment - moment % 1000, 0),
    ):
        assert fetched(declared, [moment], compared(function, kind, than)) == kept, function


def test_8_a_unit_that_is_coarser_is_rounded_as_its_function_says() -> None:
    millis = call("unix_millis", TS, kind="long")
    second = "[2013-01-01T00:00:00.000999, 2013-01-01T00:00:00.001999]"
    for value, verdict in ((0, "KEEP"), (1, "KEEP"), (2, "SKIP"), (-1, "SKIP")):
        than = constant(1_356_998_400_000 + value, "long")
        check(millis == than, f"ts | verdict\n{second} | {verdict}")


def test_9_offsets_with_seconds_move_instants_by_seconds() -> None:
    """Delta #5249: Amsterdam was 19 minutes and 32 seconds ahead; text forms lost the seconds."""
    local = call("cast", TS, kind="date", zone="Europe/Amsterdam")
    bounds = "[1899-12-31T23:40:28, 1899-12-31T23:50:00]"  # midnight there, and some minutes
    for day, verdict in (("1900-01-01", "KEEP"), ("1900-01-04", "SKIP"), ("1899-12-28", "SKIP")):
        check(local == constant(day, "date"), f"ts | verdict\n{bounds} | {verdict}")
    minute = call("minute", TS, kind="integer", zone="Europe/Amsterdam")
    check(minute == constant(0, "integer"), f"ts | verdict\n{bounds} | KEEP")


def test_9_historic_instants_are_stored_as_numbers() -> None:
    midnight = -2_208_989_972_000_000  # 1900-01-01 in Amsterdam
    for than, kept in ((midnight - 1, 1), (midnight, 0)):
        found = compared("greater_than", "timestamp", than)
        assert fetched("timestamptz", [midnight], found) == kept


NINES = Decimal("9" * 28 + "." + "9" * 10)
DECIMALS = [
    NINES.copy_negate(),
    Decimal("-1.0000000000"),
    Decimal("0.0000000001"),
    Decimal("256.0000000000"),
    NINES,
]


@pytest.mark.parametrize("position", range(len(DECIMALS)))
def test_13_bounds_of_decimals_keep_byte_order_and_sign(position: int) -> None:
    """iceberg-go #1876: bounds were decoded from the wrong end, and no row was found."""
    kind, value = "decimal(38,10)", DECIMALS[position]
    for function, kept in (
        ("equal_to", 1),
        ("less_than", position),
        ("greater_than", len(DECIMALS) - 1 - position),
    ):
        assert fetched("numeric(38,10)", list(DECIMALS), compared(function, kind, value)) == kept


@pytest.mark.parametrize(("mode", "kept"), [("ansi", True), ("try", False), ("legacy", False)])
def test_13_a_bound_that_overflows_when_widened_is_no_small_number(mode: str, kept: bool) -> None:
    """ClickHouse #119712: widening a decimal bound overflowed what carried it."""
    declared = Relation(0, (Declared(1, "c", parse_type("numeric(38,0)")),), (1,), ())
    wide = Call("cast", (Column(1, "c", "decimal(38,0)"),), "decimal(38,10)", (("ansi", mode),))
    negative: Expr = Call("less_than", (wide, Literal(Decimal(0), "decimal(38,10)")), "boolean")
    stores = memory_stores()
    create(stores, declared)
    append(stores, "shard", 0, 1, [table(declared, [(Decimal("9" * 38), 0, 1)])])
    plan = plan_read(
        stores, Machine(stores).load("shard"), filter=Filter(negative, "", 0, 0), mode="on"
    )

    assert bool(plan.parts_fetched) == kept  # an error, or null: never a negative number


def test_11_a_format_that_begins_with_the_day_is_no_order() -> None:
    """Hudi #19481: `dd-MM-yyyy` sorts by the day of the month."""
    when = call(
        "get_timestamp", col("name"), constant("dd-MM-yyyy", "string"), kind="timestamp", ansi="try"
    )
    check(when > "2020-01-01T00:00", "name | verdict\n[01-01-2013, 02-01-2013] | KEEP")
    known = call(
        "get_timestamp", col("name"), constant("yyyy-MM-dd", "string"), kind="timestamp", ansi="try"
    )
    check(known > "2020-01-01T00:00", "name | verdict\n[2013-01-01, 2013-01-02] | SKIP")


def test_12_another_collation_is_another_order() -> None:
    """gluten #12112: a collation reorders texts; its comparisons prove nothing."""
    folded = call("equal_to", col("name"), constant("B", "string collate UTF8_LCASE"))
    check(folded, "name | verdict\n[a, c] | KEEP\n[x, z] | KEEP")


UPSERTS = Relation(
    0, (Declared(1, "k", parse_type("int64")), Declared(2, "v", parse_type("int64"))), (1,), ()
)


@pytest.mark.parametrize(("value", "rows", "parts"), [(1, [], 2), (9, [(1, 9)], 1), (5, [], 0)])
def test_16_a_value_that_was_replaced_does_not_come_back(
    value: int, rows: list[tuple[int, int]], parts: int
) -> None:
    """Paimon #1731: a filter on values dropped the newer version of a row and revived the older.

    Here the old version is taken back by a full row, which matches whenever the old one does.
    """
    stores = memory_stores()
    create(stores, UPSERTS)
    append(stores, "shard", 0, 1, [table(UPSERTS, [(1, 1, 0, 1)])])
    runs = [table(UPSERTS, [(1, 1, 1, -1)]), table(UPSERTS, [(1, 9, 1, 1)])]
    append(stores, "shard", 1, 2, runs)
    state = Machine(stores).load("shard")
    expr: Expr = Call("equal_to", (Column(2, "v", "long"), Literal(value, "long")), "boolean")
    plan = plan_read(stores, state, filter=Filter(expr, f"v = {value}", 0, 0), mode="on")
    batches = scan(stores, state, plan, consolidate=True)
    read = [row for batch in batches for row in batch.to_pylist()]

    assert plan.parts_fetched == parts
    kept = [(row["k"], row["v"]) for row in read if row["v"] == value]
    assert kept == rows

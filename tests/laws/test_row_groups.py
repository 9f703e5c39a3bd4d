"""Choosing row groups by the keys at which they begin changes no result and no error."""

from collections import Counter
from contextlib import suppress
from random import Random
from typing import Any, Final
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.decide.plan import plan_read
from strata.decide.row_groups import decoded_keys
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.format.columns import child, updates_schema
from strata.format.values.sortable import sortable_bytes
from strata.machine.machine import Machine
from strata.model import schema as model
from strata.model.types import parse_type
from strata.read.scan import scan, slices
from strata.state.schema import AddColumn, Change, DropColumn, SortBy, WidenColumn
from strata.updates.slices import WHOLE
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores
from tests.support.updates import POOLS, table
from tests.twins.concrete import Failed, evaluate

KINDS: Final = {
    "int64": "long",
    "int32": "integer",
    "int16": "short",
    "string": "string",
    "float64": "double",
    "bytes": "binary",
    "date": "date",
}
COMPARISONS: Final = (
    "equal_to",
    "less_than",
    "less_than_or_equal",
    "greater_than",
    "greater_than_or_equal",
    "equal_null_safe",
)
LEAST_KEPT: Final = st.sampled_from([64, 9, 1])  # bytes of keys, which may end within any value
FILTERED: Final = ("int64", "int32", "string", "float64")


@st.composite
def relations(draw: st.DrawFn) -> model.Relation:
    """Draw a key of one to three columns, and a number beside it."""
    kinds = [
        draw(st.sampled_from(FILTERED[:-1])),
        *draw(st.lists(st.sampled_from(FILTERED), max_size=2)),
    ]
    columns = [model.Column(i, f"c{i}", parse_type(k)) for i, k in enumerate(kinds, 1)]
    columns.append(model.Column(len(kinds) + 1, "n", parse_type("int64")))
    return model.Relation(0, tuple(columns), tuple(range(1, len(kinds) + 1)), ())


def many(relation: model.Relation) -> st.SearchStrategy[pa.Table]:
    """Draw some eighty updates of values with edges among them: enough for several row groups."""

    def rows(seed: int) -> pa.Table:
        random = Random(seed)
        pools = [[*POOLS[str(c.type)], None] for c in relation.columns]
        drawn = [
            (*map(random.choice, pools), random.randrange(5), random.choice((-1, 1, 2)))
            for _ in range(80)
        ]
        return table(relation, drawn)

    return st.integers(0, 2**32).map(rows)


def compared(column: model.Column) -> st.SearchStrategy[Expr]:
    kind = KINDS[str(column.type)]
    mine = Column(column.id, column.name, kind, True)
    values = st.sampled_from(POOLS[str(column.type)]).map(lambda v: Literal(v, kind))
    compare = st.builds(
        lambda f, v: Call(f, (mine, v), "boolean"), st.sampled_from(COMPARISONS), values
    )
    return st.one_of(compare, st.just(Call("is_null", (mine,), "boolean")))


def conditions(relation: model.Relation) -> st.SearchStrategy[Expr]:
    """Draw comparisons with values that occur, together, as alternatives or denied."""

    number = Column(len(relation.columns), "n", "long", True)
    overflow = Call(  # fails on the greatest number
        "greater_than",
        (Call("add", (number, Literal(1, "long")), "long"), Literal(0, "long")),
        "boolean",
    )
    leaf = st.one_of(*map(compared, relation.columns), st.just(overflow))
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds(
                lambda f, a, b: Call(f, (a, b), "boolean"),
                st.sampled_from(["and", "or"]),
                inner,
                inner,
            ),
            inner.map(lambda a: Call("not", (a,), "boolean")),
        ),
        max_leaves=3,
    )


def accepted(rows: list[dict[str, Any]], relation: model.Relation, condition: Expr) -> Any:
    """Return the rows that satisfy the condition, or that it fails."""
    found: Counter[Any] = Counter()
    for row in rows:
        values = {c.id: row[c.name] for c in relation.columns}
        try:
            if evaluate(condition, values, 0) is True:
                found[repr(sorted(values.items()))] += row["d"]
        except Failed:
            return "failed"
    return {row: count for row, count in found.items() if count}


@settings(max_examples=tries(6, 250))
@given(st.data())
def test_row_groups_change_no_result(data: st.DataObject) -> None:
    relation = data.draw(relations())
    condition = data.draw(st.one_of(compared(relation.columns[0]), conditions(relation)))
    rows = data.draw(many(relation))
    stores = memory_stores()
    create(stores, relation, row_group_bytes=data.draw(st.sampled_from([96, 200, 400])))
    with patch("strata.parts.part_facts.KEY_BYTES", data.draw(LEAST_KEPT)):
        state = append(stores, "shard", 0, 5, [rows])
    filter = Filter(condition, "", 0, 0)

    def read(groups: bool) -> list[dict[str, Any]]:
        plan = plan_read(stores, state, filter=filter, mode="on", groups=groups)
        return [row for batch in scan(stores, state, plan) for row in batch.to_pylist()]

    assert accepted(read(True), relation, condition) == accepted(read(False), relation, condition)


@settings(max_examples=tries(6, 250))
@given(st.data())
def test_row_groups_change_no_consolidated_result(data: st.DataObject) -> None:
    """What one run adds another takes back; whole rows are left out, or none of their updates."""
    relation = data.draw(relations())
    condition = data.draw(st.one_of(compared(relation.columns[0]), conditions(relation)))
    stores = memory_stores()
    create(stores, relation, row_group_bytes=data.draw(st.sampled_from([96, 200, 400])))
    first, second = data.draw(many(relation)), data.draw(many(relation))
    append(stores, "shard", 0, 5, [first])
    taken_back = first.set_column(
        first.schema.get_field_index("d"), "d", pc.negate(first.column("d"))
    ).slice(0, 60)
    with patch("strata.parts.part_facts.KEY_BYTES", data.draw(LEAST_KEPT)):
        state = append(stores, "shard", 5, 10, [second, taken_back])
    filter = Filter(condition, "", 0, 0)
    size = data.draw(st.sampled_from([1500, 1 << 20]))

    def read(groups: bool) -> list[dict[str, Any]]:
        plan = plan_read(stores, state, filter=filter, mode="on", groups=groups)
        pieces = slices(state, plan, size)
        batches = [
            batch
            for piece in pieces
            for batch in scan(stores, state, plan, consolidate=True, within=piece)
        ]
        return [row for batch in batches for row in batch.to_pylist()]

    assert accepted(read(True), relation, condition) == accepted(read(False), relation, condition)


def changes(relation: model.Relation) -> st.SearchStrategy[Change]:
    """Draw what may come between the writing of a part and its reading."""
    names = [c.name for c in relation.columns]
    added = st.sampled_from([None, 0, 2**63 - 1]).map(
        lambda default: AddColumn("late", parse_type("int64"), nullable=True, default=default)
    )
    return st.one_of(
        added,
        st.just(DropColumn("n")),
        st.permutations(names).map(lambda order: SortBy(tuple(order))),
    )


@settings(max_examples=tries(6, 400))
@given(st.data())
def test_row_groups_of_an_older_relation_change_no_result(data: st.DataObject) -> None:
    """What was added, dropped or sorted otherwise since leaves the first keys their meaning."""
    relation = data.draw(relations())
    drawn = st.one_of(*map(compared, relation.columns[:-1]))
    condition = data.draw(drawn)
    if data.draw(st.booleans()):
        junctor = data.draw(st.sampled_from(["and", "or"]))
        condition = Call(junctor, (condition, data.draw(drawn)), "boolean")
    stores = memory_stores()
    create(stores, relation, row_group_bytes=data.draw(st.sampled_from([96, 200, 400])))
    append(stores, "shard", 0, 5, [data.draw(many(relation))])
    machine = Machine(stores)
    for change in data.draw(st.lists(changes(relation), min_size=1, max_size=2)):
        with suppress(InvalidRequest):  # sorted so already, dropped before
            machine.evolve("shard", change)
    now = machine.load("shard").relation
    if set(now.by_id) == set(relation.by_id) and data.draw(st.booleans()):
        append(stores, "shard", 5, 10, [data.draw(many(now))])
    state, filter = machine.load("shard"), Filter(condition, "", 0, 0)
    consolidate, size = data.draw(st.booleans()), data.draw(st.sampled_from([1500, 1 << 20]))

    def read(groups: bool) -> list[dict[str, Any]]:
        plan = plan_read(stores, state, filter=filter, mode="on", groups=groups)
        pieces = slices(state, plan, size) if consolidate else [WHOLE]
        return [
            row
            for piece in pieces
            for batch in scan(stores, state, plan, consolidate=consolidate, within=piece)
            for row in batch.to_pylist()
        ]

    assert accepted(read(True), now, condition) == accepted(read(False), now, condition)


@pytest.mark.parametrize(
    ("change", "most"),
    [
        (AddColumn("late", parse_type("string"), nullable=True, default="x"), 4),
        (AddColumn("late", parse_type("int64"), nullable=True), 4),
        (WidenColumn("c3", type=parse_type("int64")), 4),
        (DropColumn("c3"), 4),
        (SortBy(("c1", "c3")), 25),  # the first column alone is alike
        (SortBy(("c3",)), None),  # none is
    ],
)
def test_a_part_keeps_what_its_keys_tell_when_the_relation_changes(
    change: Change, most: int | None
) -> None:
    relation = model.Relation(
        0, (*TWO.columns, model.Column(3, "c3", parse_type("int32"))), (1, 2), ()
    )
    stores = memory_stores()
    create(stores, relation, row_group_bytes=256, part_bytes=1 << 20)
    rows = [(n, i, i % 7, 0, 1) for n in "abcd" for i in range(100)]
    append(stores, "shard", 0, 5, [table(relation, rows)])
    both = (
        Call("equal_to", (NAME, Literal("b", "string")), "boolean"),
        Call("equal_to", (NUMBER, Literal(50, "long")), "boolean"),
    )
    filter = Filter(Call("and", both, "boolean"), "", 0, 0)
    machine = Machine(stores)

    def fetched() -> int:
        return plan_read(stores, machine.load("shard"), filter=filter, mode="on").groups_fetched

    total = plan_read(stores, machine.load("shard")).groups_fetched
    assert total >= 40
    assert fetched() <= 4

    machine.evolve("shard", change)

    assert fetched() <= most if most is not None else fetched() == total


def test_slices_of_an_older_part_are_cut_at_its_row_groups() -> None:
    stores = memory_stores()
    create(stores, TWO, row_group_bytes=256, part_bytes=1 << 20)
    rows = [(n, i, 0, 1) for n in "abcd" for i in range(100)]
    append(stores, "shard", 0, 5, [table(TWO, rows)])
    machine = Machine(stores)
    state = machine.load("shard")
    before = slices(state, plan_read(stores, state), 1000)
    assert len(before) > 2

    machine.evolve("shard", AddColumn("late", parse_type("int64"), nullable=True))

    state = machine.load("shard")
    plan = plan_read(stores, state)
    assert slices(state, plan, 1000) == before
    found = [
        b.num_rows
        for piece in before
        for b in scan(stores, state, plan, consolidate=True, within=piece)
    ]
    assert sum(found) == len(rows)
    assert len(found) == len(before)


def lookup(
    stored: pa.Table, relation: model.Relation, condition: Expr, consolidate: bool
) -> tuple[int, int, int]:
    """Return how many row groups there are, are read, and how many rows come."""
    stores = memory_stores()
    create(stores, relation, row_group_bytes=256, part_bytes=1 << 20)
    state = append(stores, "shard", 0, 5, [stored])
    plan = plan_read(stores, state, filter=Filter(condition, "", 0, 0), mode="on")
    whole = plan_read(stores, state)
    rows = sum(b.num_rows for b in scan(stores, state, plan, consolidate=consolidate))
    return whole.groups_fetched, plan.groups_fetched, rows


TWO: Final = model.Relation(
    0,
    (model.Column(1, "c1", parse_type("string")), model.Column(2, "c2", parse_type("int64"))),
    (1, 2),
    (),
)
NAME: Final = Column(1, "c1", "string", True)
NUMBER: Final = Column(2, "c2", "long", True)


@pytest.mark.parametrize(
    ("name", "number", "most"),
    [("b", None, 25), ("b", 50, 4), (None, 50, 60), ("nobody", 50, 0)],
)
@pytest.mark.parametrize("consolidate", [False, True])
def test_a_key_or_its_prefix_reads_few_row_groups(
    name: str | None, number: int | None, most: int, consolidate: bool
) -> None:
    rows = [(n, i, 0, 1) for n in "abcd" for i in range(100)]
    tests = []
    if name is not None:
        tests.append(Call("equal_to", (NAME, Literal(name, "string")), "boolean"))
    if number is not None:
        tests.append(Call("equal_to", (NUMBER, Literal(number, "long")), "boolean"))
    condition = tests[0] if len(tests) == 1 else Call("and", tuple(tests), "boolean")

    total, kept, found = lookup(table(TWO, rows), TWO, condition, consolidate)

    assert total >= 40
    assert kept <= most
    matching = sum((name in (None, n)) and (number in (None, i)) for n, i, _, _ in rows)
    assert matching <= found < len(rows) or name is None


@pytest.mark.parametrize(
    "kind", ["int16", "int32", "int64", "string", "bytes", "date", "timestamp"]
)
def test_values_come_back_from_their_key_bytes(kind: str) -> None:
    relation = model.Relation(0, (model.Column(1, "c1", parse_type(kind)),), (1,), ())
    arrow = updates_schema(relation).field(child(1)).type
    values = pa.array([*POOLS[kind], None], arrow)
    following = pa.array([b"rest"] * len(values), pa.binary())
    keys = pc.binary_join_element_wise(sortable_bytes(values), following, b"")

    found = decoded_keys(keys, arrow)

    assert found is not None
    assert found.values.equals(values)
    assert set(found.rest.to_pylist()[:-1]) == {b"rest"}


def test_a_cut_key_and_a_type_without_order_say_nothing() -> None:
    cut = decoded_keys(pa.array([b"\x01abc", b"\x01\x00\x00", b"\x01"], pa.binary()), pa.string())
    short = decoded_keys(pa.array([b"\x01\x80\x00\x00", b"", b"\x02"], pa.binary()), pa.int64())

    assert cut is not None
    assert cut.values.null_count == 3
    assert short is not None
    assert short.values.null_count == 3
    assert decoded_keys(pa.array([b"\x01" * 9], pa.binary()), pa.float64()) is None

"""Laws 3 and 7 across changes of the relation: whatever is appended, changed and merged, in any
order and with any layout, the shard reads like a list of updates whose columns were changed too.

The twin keeps every update as {column id: value}; a change of the relation changes nothing in it:
a column that a row lacks has its default, one that was dropped is not looked at.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import hypothesis
import pyarrow as pa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest
from strata.expr import nodes
from strata.expr.filter import Filter
from strata.format.columns import updates_schema
from strata.format.encodings import spark_ddl as ddl_type
from strata.format.values.migrate import widens
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType, parse_type
from strata.read.scan import scan
from strata.state.schema import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from strata.state.state import State
from strata.store.open import Stores
from tests.support.stored import append, create, memory_stores, settings
from tests.support.updates import plain_rows

KEY = (Column(1, "k", parse_type("string")), Column(2, "a", parse_type("int16")))
NAMES = st.sampled_from(["a", "b", "c", "B"])
PICK = st.integers(0, 99)
VALUES: dict[str, list[Any]] = {
    "int16": [-1, 0, 5, 50, None],
    "int32": [-1, 0, 5, 50, None],
    "int64": [-1, 0, 5, 50, None],
    "string": ["", "x", "y", None],
    "uint8": [0, 5, 50, 255, None],
    "varchar(2)": ["", "x", "y", None],
    "float32": [-0.5, 0.0, 5.0, None],
    "float64": [-0.5, 0.0, 5.0, None],
}
TYPES = st.sampled_from(sorted(VALUES))
SPARK = {"smallint": "short", "int": "integer", "bigint": "long"}  # as Spark's JSON has them
LAYOUTS = st.sampled_from(["row", "both", "structured"])


def spark_type(kind: ColumnType) -> str:
    return SPARK.get(ddl_type(kind), ddl_type(kind))


@dataclass
class Twin:
    """Every update that was ever appended, by column id, at its original time."""

    updates: list[tuple[dict[int, Any], int, int]] = field(default_factory=list)
    ids: set[int] = field(default_factory=lambda: {1, 2})  # every id there ever was

    def snapshot(self, relation: Relation, as_of: int) -> Counter[tuple[Any, ...]]:
        found: Counter[tuple[Any, ...]] = Counter()
        for values, time, diff in self.updates:
            if time <= as_of:
                found[
                    tuple(values.get(i, relation.by_id[i].default) for i in self.order(relation))
                ] += diff
        return Counter({row: diff for row, diff in found.items() if diff})

    def order(self, relation: Relation) -> tuple[int, ...]:
        return relation.sort_ids


class EvolutionLaw(RuleBasedStateMachine):
    @initialize(order=st.sampled_from([(), (2, 1), (1,)]), key=st.sampled_from([(1,), (1, 2)]))
    def create(self, order: tuple[int, ...], key: tuple[int, ...]) -> None:
        self.stores = memory_stores()
        create(self.stores, Relation(0, KEY, key, order), part_bytes=1024)
        self.twin, self.upper, self.stale = Twin(), 0, self.state()

    def state(self) -> State:
        return Machine(self.stores).load("shard")

    def evolve(self, change: Change) -> None:
        before = self.state().relation
        try:
            after = Machine(self.stores).evolve("shard", change).relation
        except InvalidRequest:
            assert self.state().relation == before
            return
        assert after.version == before.version + 1
        new = set(after.by_id) - set(before.by_id)
        assert not new & self.twin.ids, "an id came back"
        self.twin.ids |= new
        for column in after.columns:
            old = before.by_id.get(column.id)
            assert old is None or widens(old.type, column.type)
            assert old is None or old.nullable <= column.nullable

    @rule(name=NAMES, kind=TYPES, pick=PICK, nullable=st.booleans())
    def add(self, name: str, kind: str, pick: int, nullable: bool) -> None:
        default = VALUES[kind][pick % len(VALUES[kind])]
        self.evolve(AddColumn(name, parse_type(kind), nullable, default))

    @rule(name=NAMES)
    def drop(self, name: str) -> None:
        self.evolve(DropColumn(name))

    @rule(name=NAMES, to=NAMES)
    def rename(self, name: str, to: str) -> None:
        self.evolve(RenameColumn(name, to))

    @rule(name=NAMES, kind=TYPES | st.none(), null=st.booleans())
    def widen(self, name: str, kind: str | None, null: bool) -> None:
        self.evolve(WidenColumn(name, kind and parse_type(kind), null or None))

    @rule(
        rows=st.lists(st.tuples(PICK, PICK, PICK, PICK), max_size=12),
        layout=LAYOUTS,
        late=st.booleans(),
        data=st.data(),
    )
    def append(self, rows: list[tuple[int, ...]], layout: str, late: bool, data: Any) -> None:
        """Append in the newest columns, or, as a slow writer does, in those of some time ago."""
        state = self.state()
        relation = state.relation
        if late:
            relation = state.relations[data.draw(st.integers(0, len(state.relations) - 1))]
        lower, upper = self.upper, self.upper + 3
        updates = []
        for picks in rows:
            values = {}
            for number, column in enumerate(relation.columns):
                pool = VALUES[str(column.type)]
                value = pool[(picks[number % 3] + number) % len(pool)]
                values[column.id] = value if value is not None or column.nullable else pool[0]
            updates.append((values, lower + picks[3] % 3, 1 if picks[0] % 4 else -1))
        append(self.stores, "shard", lower, upper, [table(relation, updates)], layout, relation)
        self.twin.updates += updates
        self.upper = upper

    @precondition(lambda self: self.twin.updates)
    @rule(pick=PICK)
    def retract_what_is_there(self, pick: int) -> None:
        """Take back a row as it reads now, whatever columns it was inserted with."""
        relation = self.state().relation
        rows = self.twin.snapshot(relation, self.upper)
        if not rows:
            return
        row = sorted(rows, key=repr)[pick % len(rows)]
        values = dict(zip(self.twin.order(relation), row, strict=True))
        update = (values, self.upper, -rows[row])
        append(self.stores, "shard", self.upper, self.upper + 3, [table(relation, [update])])
        self.twin.updates.append(update)
        self.upper += 3

    @rule(
        full=st.booleans(),
        history=st.sampled_from([None, 0, 2]),
        memory=st.sampled_from([2_000, 2**30]),
    )
    def compact(self, full: bool, history: int | None, memory: int) -> None:
        options = settings(history_ms=history, memory_bytes=memory)
        report = compact_shard(self.stores, "shard", options, full=full)
        assert report.not_applied == ()
        if full:
            versions = {b.versions for b in self.state().batches if b.manifest}
            assert versions <= {(self.state().relation.version,)}

    @precondition(lambda self: self.twin.updates)
    @rule(pick=PICK)
    def read_with_a_filter(self, pick: int) -> None:
        """What is skipped for a filter holds no row that it accepts (law 2)."""
        state = self.state()
        relation = state.relation
        column = relation.columns[pick % len(relation.columns)]
        value = VALUES[str(column.type)][pick % len(VALUES[str(column.type)])]
        here = nodes.Column(column.id, column.name, spark_type(column.type))
        if value is None:
            expr = nodes.Call("is_null", (here,), "boolean")
        else:
            literal = nodes.Literal(value, here.type)
            expr = nodes.Call("equal_to", (here, literal), "boolean")
        plan = plan_read(self.stores, state, filter=Filter(expr, "", 0, 0), mode="on")
        at = relation.sort_ids.index(column.id)
        found = rows(self.stores, state, plan)
        accepted = self.twin.snapshot(relation, state.upper - 1)
        assert {row: d for row, d in found.items() if row[at] == value} == {
            row: d for row, d in accepted.items() if row[at] == value
        }

    @invariant()
    def the_shard_reads_like_the_twin(self) -> None:
        if not getattr(self, "upper", 0):
            return
        state = self.state()
        for as_of in {max(state.since, 0), state.upper - 1}:
            found = rows(self.stores, state, plan_read(self.stores, state, as_of=as_of))
            assert found == self.twin.snapshot(state.relation, as_of)


def rows(stores: Stores, state: State, plan: ReadPlan) -> Counter[tuple[Any, ...]]:
    """Return what a plan reads, by sort columns; rows that come in pieces are added up."""
    ids = [str(c.id) for c in state.relation.columns]
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in scan(stores, state, plan, consolidate=True):
        for *row, _, diff in plain_rows(batch.rename_columns([*ids, "t", "d"]), state.relation):
            found[tuple(row)] += diff
    return Counter({row: diff for row, diff in found.items() if diff})


def table(relation: Relation, updates: list[tuple[dict[int, Any], int, int]]) -> pa.Table:
    schema = updates_schema(relation)
    columns = [[values[c.id] for values, _, _ in updates] for c in relation.columns]
    columns += [[time for _, time, _ in updates], [diff for _, _, diff in updates]]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )


TestEvolution = EvolutionLaw.TestCase
TestEvolution.settings = hypothesis.settings(
    max_examples=max(10, hypothesis.settings.default.max_examples // 3), stateful_step_count=20
)

"""Law: sums that runs keep from changes are those of the whole source, at every time.

The twin groups all updates in plain Python. Runs are killed before and after each commit, and both
shards are compacted between them.
"""

import math
import random
from collections import defaultdict
from contextlib import suppress
from dataclasses import replace
from decimal import Decimal
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.format.columns import updates_schema
from strata.format.values.view import to_view
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.time import MIN_TIME
from strata.model.types import parse_type
from strata.read.scan import scan
from strata.read.subscription import Subscription, Wish
from strata.state.consumers import consumers_of
from strata.state.generations import begin_sweep
from strata.state.schema import AddColumn, Change, DropColumn, evolve
from strata.state.state import State
from strata.state.tombstone import drop
from strata.state.transitions import advance_since
from strata.store.open import Stores
from strata.sums.check import check_sums
from strata.sums.run import _Work, maintain_sums
from strata.sums.table import GroupSums, SumsTable
from strata.sums.wish import SumsWish
from tests.support.stored import append, create, memory_stores, settings

TYPES = {
    "id": "int64",
    "a": "string",
    "b": "date",
    "n": "int64",
    "p": "numeric(9,2)",
    "f": "float64",
}
RELATION = Relation(
    0, tuple(Column(i, n, parse_type(t)) for i, (n, t) in enumerate(TYPES.items(), 1)), (1,), ()
)
ENDS = ("n", "p", "f", "b", "a")  # of numbers, floats, dates and texts
WISH = SumsWish("shard", "sums", ("a", "b"), ("n", "p"))
Update = tuple[tuple[Any, ...], int, int]


class Killed(BaseException):
    """The end of a process."""


def kill_at(patch: pytest.MonkeyPatch, commit: int, *, before: bool) -> None:
    """Let the process die before or after a commit; it makes none after that."""
    whole, seen = Machine.apply, [0]

    def apply(self: Machine, *given: Any, **options: Any) -> Any:
        seen[0] += 1
        if seen[0] > commit or (before and seen[0] == commit):
            raise Killed
        done = whole(self, *given, **options)
        if seen[0] == commit:
            raise Killed
        return done

    patch.setattr(Machine, "apply", apply)


def take(stores: Stores, lower: int, upper: int, updates: list[Update]) -> None:
    schema = updates_schema(RELATION)
    columns = [
        pa.array([u[0][i] if i < len(u[0]) else None for u in updates], schema.field(i).type)
        for i in range(len(TYPES))
    ]
    columns += [pa.array([u[i] for u in updates], pa.int64()) for i in (1, 2)]
    append(stores, "shard", lower, upper, [pa.Table.from_arrays(columns, schema=schema)])


def drawn(draw: random.Random, lower: int, upper: int, live: list[tuple[Any, ...]]) -> list[Update]:
    """Draw additions, and retractions of what is there, or is not yet there."""
    found: list[Update] = []
    for t in range(lower, upper):
        for _ in range(draw.randint(0, 5)):
            if live and draw.random() < 0.45:
                found.append((live.pop(draw.randrange(len(live))), t, -1))
                continue
            row = (
                draw.randrange(50),
                draw.choice(["x", "y", None]),
                draw.choice([0, 20000, 2**30, None]),  # the last day is beyond Python's
                draw.choice([None, -(2**63), 2**63 - 1, 0, 7]),
                draw.choice([None, Decimal("-0.01"), Decimal("1234567.89")]),
                draw.choice([None, math.nan, -0.0, 0.0, 1.5, -math.inf, math.inf]),
            )
            if draw.random() < 0.05:
                later = draw.randrange(t, upper)
                found += [(row, t, -1), (row, later, 1)]
                continue
            live.append(row)
            found.append((row, t, 1))
    return found


def in_order(value: Any) -> Any:
    """Return what a value is compared by: NaN is greatest, -0.0 is 0.0."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def shown(value: Any) -> Any:
    return repr(value + 0.0) if isinstance(value, float) else value


def twin(updates: list[Update], as_of: int, where: Any, wish: SumsWish) -> list[tuple[Any, ...]]:
    rows: dict[tuple[Any, ...], list[tuple[tuple[Any, ...], int]]] = defaultdict(list)
    for row, t, d in updates:
        if t <= as_of and where(row):
            rows[row[1:3]].append((row, d))
    places = {name: place for place, name in enumerate(TYPES)}
    found = []
    for group, some in rows.items():
        numbers: list[Any] = [sum(d for _, d in some)]
        for place in (3, 4):
            known = [(row[place], d) for row, d in some if row[place] is not None]
            count = sum(d for _, d in known)
            total = sum(value * d for value, d in known)
            numbers += [total if total or count else None, count]
        for names, choose in ((wish.least, min), (wish.greatest, max)):
            for name in names:
                values: dict[Any, int] = defaultdict(int)
                spelled = {}
                for row, d in some:
                    if (value := row[places[name]]) is not None:
                        values[in_order(value)] += d
                        spelled[in_order(value)] = shown(value)
                there = [value for value, d in values.items() if d > 0]
                numbers.append(spelled[choose(there)] if there else None)
        if (
            any(numbers[i] for i in (0, 2, 4))
            or any(n is not None for n in numbers[5:])
            or numbers[1]
            or numbers[3]
        ):
            found.append((*group, *numbers, 1))
    return sorted(found, key=repr)


def stored(stores: Stores, as_of: int) -> list[tuple[Any, ...]]:
    state = Machine(stores).load("sums")
    found = []
    plan = plan_read(stores, state, as_of=as_of)
    for batch in scan(stores, state, plan, consolidate=True):
        columns = []
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            dates = pa.types.is_date32(column.type)
            values = (column.view(pa.int32()) if dates else column).to_pylist()
            if name == "sum_n":
                values = [None if value is None else int(value) for value in values]
            columns.append([shown(value) for value in values])
        *rest, _, d = columns
        found += list(zip(*rest, d, strict=True))
    return sorted(found, key=repr)


def compact(stores: Stores, draw: random.Random) -> None:
    names = [n for n in ("shard", "sums") if n in Machine(stores).names()]
    for name in names:
        state: State = Machine(stores).load(name)
        if state.upper > MIN_TIME and draw.random() < 0.5:
            Machine(stores).apply(name, partial(advance_since, since=state.upper - 2))
            Machine(stores).apply(name, partial(begin_sweep, grace_ms=0))
            compact_shard(stores, name, settings(history_ms=None), full=draw.random() < 0.5)


@pytest.mark.parametrize("seed", range(12))
def test_kept_sums_are_those_of_the_source(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    stores = memory_stores()
    create(stores, RELATION)
    where, accepts = draw.choice([(None, lambda _: True), ("n = 7", lambda row: row[3] == 7)])
    least = tuple(name for name in ENDS if draw.random() < 0.6)
    greatest = tuple(name for name in ENDS if draw.random() < 0.6)
    wish = replace(WISH, where=where, least=least, greatest=greatest)
    updates: list[Update] = []
    live: list[tuple[Any, ...]] = []
    lower = 0
    for _ in range(5):
        upper = lower + draw.randint(1, 4)
        some = drawn(draw, lower, upper, live)
        take(stores, lower, upper, some)
        updates += some
        lower = upper
        compact(stores, draw)
        if draw.random() < 0.3:
            continue
        for _ in range(draw.randint(0, 3)):
            with monkeypatch.context() as patch:
                kill_at(patch, draw.randint(1, 9), before=draw.random() < 0.5)
                with suppress(Killed):
                    maintain_sums(stores, wish)
        maintain_sums(stores, wish)
        state = Machine(stores).load("sums")
        assert state.upper == upper
        for as_of in range(max(state.since, 0), upper):
            assert stored(stores, as_of) == twin(updates, as_of, accepts, wish), (seed, as_of)
        assert check_sums(stores, wish).different == 0
        assert maintain_sums(stores, wish).updates == 0


def world() -> Stores:
    stores = memory_stores()
    create(stores, RELATION)
    take(stores, 0, 10, [((1, "x", None, 5, None), 3, 1), ((2, "x", None, 6, None), 4, 1)])
    maintain_sums(stores, WISH)
    return stores


def test_a_changed_sum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = world()
    take(stores, 10, 20, [((3, "x", None, 7, None), 12, 1), ((4, "y", None, 7, None), 12, 1)])
    whole = SumsTable.arrow

    def falsely(self: SumsTable, updates: Any, relation: Any) -> Any:
        (group, tally, t, d), *rest = updates
        other = (group, GroupSums(tally.count, (tally.sums[0] + 1, 0), tally.known), t, d)
        return whole(self, [*rest, other], relation)

    with monkeypatch.context() as patch:
        patch.setattr(SumsTable, "arrow", falsely)
        maintain_sums(stores, WISH)
    found = check_sums(stores, WISH)
    assert found.different == 1
    assert found.first is not None
    assert found.first["group"] == {"a": "x", "b": None}
    assert found.first["right"]["sum_n"] == 18


def test_sums_of_something_else_are_refused() -> None:
    stores = world()
    for other in (
        SumsWish("shard", "sums", ("a", "b"), ("n", "p"), "n = 5"),
        SumsWish("shard", "sums", ("a",), ("n", "p")),
        SumsWish("shard", "shard", ("a", "b"), ("n", "p")),
    ):
        with pytest.raises(InvalidRequest):
            maintain_sums(stores, other)
        with pytest.raises(InvalidRequest):
            check_sums(stores, other)
    assert check_sums(stores, WISH).different == 0


def test_a_source_that_was_made_anew_is_refused() -> None:
    stores = world()
    machine = Machine(stores)
    spec = machine.load("shard").spec
    machine.apply("shard", partial(drop, by="ann", reason="new", force=True))
    machine.create(spec, revive=True)
    take(stores, 0, 20, [((1, "x", None, 5, None), 12, 1)])
    with pytest.raises(InvalidRequest, match="does not know"):
        maintain_sums(stores, WISH)


def test_a_filter_on_a_column_that_was_made_anew_is_another_filter() -> None:
    stores = memory_stores()
    create(stores, RELATION)
    take(stores, 0, 10, [((1, "x", None, 5, None), 3, 1)])
    wish = SumsWish("shard", "sums", ("a",), (), "n = 5")
    maintain_sums(stores, wish)
    change: Change
    for change in (DropColumn("n"), AddColumn("n", parse_type("int64"))):
        Machine(stores).apply("shard", partial(evolve, change=change))
    with pytest.raises(InvalidRequest, match="something else"):
        maintain_sums(stores, wish)


def test_a_first_run_that_fails_leaves_the_consumer_of_another_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without it the sums of the other run were refused for good: the source did not know them."""
    stores = memory_stores()
    create(stores, RELATION)
    take(stores, 0, 10, [((1, "x", None, 5, None), 3, 1)])

    def overtaken(_: object) -> None:
        Subscription(stores, "shard", "sums-sums", Wish())
        raise InvalidRequest("a sum exceeds its column")

    monkeypatch.setattr(_Work, "news", overtaken)
    with pytest.raises(InvalidRequest, match="exceeds"):
        maintain_sums(stores, WISH)

    assert [c.name for c in consumers_of(Machine(stores).load("shard"))] == ["sums-sums"]


def test_a_sum_that_exceeds_its_column_leaves_nothing_behind() -> None:
    """An empty target was declared with it for good, and its consumer kept the source's history."""
    stores = memory_stores()
    create(stores, Relation(0, (Column(1, "a", parse_type("int32")),), (1,), ()))
    rows = pa.table(
        [[2**31 - 1], [1], [2**40]], schema=updates_schema(Machine(stores).load("shard").relation)
    )
    append(stores, "shard", 0, 10, [rows])
    with pytest.raises(InvalidRequest, match="exceeds"):
        maintain_sums(stores, SumsWish("shard", "sums", ("a",), ("a",)))
    assert list(Machine(stores).names()) == ["shard"]
    assert consumers_of(Machine(stores).load("shard")) == ()
    fits = SumsWish("shard", "sums", ("a",), ("a",), "a < 5")
    assert maintain_sums(stores, fits).updates == 0
    append(stores, "shard", 10, 20, [rows.set_column(1, "t", pa.array([11]))])
    with pytest.raises(InvalidRequest, match="exceeds"):
        maintain_sums(stores, SumsWish("shard", "others", ("a",), ("a",)))
    assert maintain_sums(stores, fits).upper == 20


@pytest.mark.parametrize("where", ["b < now()", "nn = 5", "n = 'x'"])
def test_a_filter_that_cannot_be_leaves_nothing_behind(where: str) -> None:
    """An empty target was declared with it for good, and its consumer kept the source's history."""
    stores = memory_stores()
    create(stores, RELATION)
    take(stores, 0, 10, [((1, "x", None, 5, None), 3, 1)])
    with pytest.raises(InvalidRequest):
        maintain_sums(stores, replace(WISH, where=where))
    assert list(Machine(stores).names()) == ["shard"]
    assert consumers_of(Machine(stores).load("shard")) == ()
    assert maintain_sums(stores, replace(WISH, where="n = 5")).updates == 1


def test_floats_have_no_exact_sum() -> None:
    stores = memory_stores()
    create(stores, Relation(0, (Column(1, "f", parse_type("float64")),), (1,), ()))
    for by, sums in ((("f",), ()), ((), ("f",)), ((), ())):
        with pytest.raises(InvalidRequest):
            maintain_sums(stores, SumsWish("shard", "sums", by, sums))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("bool", [True, False]),
        ("int16", [3, -3, 1]),
        ("uint8", [3, 255, 1]),
        ("uint64", [2**64 - 1, 0, 5]),
        ("float32", [math.nan, 0.5, -math.inf]),
        ("numeric(38,4)", [Decimal("-9"), Decimal("0.0001"), Decimal(10) ** 33]),
        ("timestamp", [2**62, -(2**62), 0]),
        ("timestamptz", [7, 5, 6]),
        ("string", ["a\ud7ff", "a\ue000", "a\U00010000", ""]),
        ("varchar(9)", ["b", "a"]),
    ],
)
def test_each_ordered_type_has_ends_that_follow_retractions(name: str, values: list[Any]) -> None:
    stores = memory_stores()
    columns = (Column(1, "g", parse_type("int64")), Column(2, "v", parse_type(name)))
    relation = Relation(0, columns, (1, 2), ())
    create(stores, relation)
    wish = SumsWish("shard", "sums", ("g",), (), None, ("v",), ("v",))
    schema = updates_schema(relation)
    kind = schema.field(1).type
    time = pa.types.is_timestamp(kind)
    stored = pa.array(values, pa.int64()).view(kind) if time else pa.array(values, kind)
    first = [pa.array([1] * len(values), pa.int64()), stored]
    times = [pa.array([n] * len(values), pa.int64()) for n in (3, 1)]
    append(stores, "shard", 0, 10, [pa.Table.from_arrays([*first, *times], schema=schema)])
    left = sorted(range(len(values)), key=lambda place: in_order(values[place]))
    for t in range(10, 10 + len(values)):
        maintain_sums(stores, wish)
        found = check_sums(stores, wish)
        assert (found.groups, found.different) == (1, 0)
        gone = left.pop(0 if t % 2 else -1)
        rows = [c.slice(gone, 1) for c in first]
        diffs = [pa.array([n], pa.int64()) for n in (t, -1)]
        table = pa.Table.from_arrays([*rows, *diffs], schema=schema)
        append(stores, "shard", t, t + 1, [table])
    maintain_sums(stores, wish)
    assert check_sums(stores, wish).groups == 0
    state = Machine(stores).load("sums")
    for as_of, ends in ((9, (0, -1)), (10, (0, -2))):
        if len(values) > 1:
            [row] = scan(stores, state, plan_read(stores, state, as_of=as_of), consolidate=True)
            order = sorted(range(len(values)), key=lambda place: in_order(values[place]))
            wanted = to_view(stored.take(pa.array([order[end] for end in ends])), columns[1].type)
            for column, value in zip(("min_v", "max_v"), wanted, strict=True):
                got = row.column(column)[0]
                assert repr(got) == repr(value)

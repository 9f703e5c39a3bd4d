"""A read that looks at a filter's columns first yields the rows that it yields without looking."""

from collections import Counter
from random import Random
from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.decide.plan import plan_read
from strata.errors import Corrupt
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.settings import ReadSettings
from strata.model.types import parse_type
from strata.parts import look
from strata.parts.fetch import source_of
from strata.parts.look import Look
from strata.plain.clock import settled
from strata.plain.parse import plain_filter
from strata.plain.rows import accepted_rows
from strata.read.filtered import filtered_scan
from strata.read.scan import scan, scan_schema
from strata.state.schema import AddColumn, DropColumn, WidenColumn
from strata.store.open import Stores
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

RELATION: Final = Relation(
    0,
    (
        Column(1, "id", parse_type("int64")),
        Column(2, "n", parse_type("int32")),
        Column(3, "s", parse_type("string")),
        Column(4, "u", parse_type("uuid")),
    ),
    (1,),
    (),
)
CHANGES: Final = (
    AddColumn("late", parse_type("int64"), nullable=True),
    DropColumn("u"),
    WidenColumn("n", parse_type("int64")),
)
FILTERS: Final = (
    "n = 3",
    "n = 77",
    "n between 100 and 104",
    "n >= 198 and s = 'b'",
    "n > 190",
    "n between 50 and 60 and id > 3",
    "s = 'b' or n is null",
    "n < 0",
    "not (n > 7)",
    "u = '00000000-0000-0000-0000-000000000003'",
    "id = 5",
)
AHEAD: Final = (ReadSettings(fetchers=1), ReadSettings(fetchers=3, ahead_bytes=3000))


@st.composite
def shards(draw: st.DrawFn) -> Stores:
    """Draw a shard whose parts have many row groups, sorted by id, `n` nearly so or at random."""
    stores, random = memory_stores(), Random(draw(st.integers(0, 2**32)))
    layout = draw(st.sampled_from(["row", "both", "structured", "structured"]))
    create(
        stores,
        RELATION,
        part_bytes=draw(st.sampled_from([4000, 1 << 20])),
        row_group_bytes=draw(st.sampled_from([96, 200, 400])),
        write_format=layout,
    )
    for number in range(draw(st.integers(1, 3))):
        rows, shuffled = [], draw(st.booleans())
        for _ in range(random.choice((5, 300))):
            key = random.randrange(200)
            n = random.choice((key, key, key + 1, None)) if not shuffled else random.randrange(200)
            rows.append(
                (
                    key,
                    n,
                    random.choice("ab"),
                    (n or 0).to_bytes(16),
                    5 * number + random.randrange(5),
                    random.choice((1, 1, 1, -1)),
                )
            )
        append(stores, "shard", 5 * number, 5 * number + 5, [table(RELATION, rows)])
        if draw(st.integers(0, 5)) == 0:
            Machine(stores).evolve("shard", draw(st.sampled_from(CHANGES)))
            break
    return stores


@settings(max_examples=tries(25, 3000), deadline=None)
@given(
    shards(),
    st.sampled_from(FILTERS),
    st.booleans(),
    st.sampled_from([None, ["id"], ["s", "n"]]),
    st.sampled_from(AHEAD),
    st.data(),
)
def test_looking_first_changes_no_row(
    stores: Stores,
    where: str,
    consolidate: bool,
    columns: list[str] | None,
    ahead: ReadSettings,
    data: st.DataObject,
) -> None:
    state = Machine(stores).load("shard")
    if "u =" in where and "u" not in {c.name for c in state.relation.columns}:
        where = "id > 100"
    filter = plain_filter(state.relation, where)
    as_of = data.draw(st.integers(0, state.upper - 1))
    plan = plan_read(stores, state, as_of=as_of)
    options = {"consolidate": consolidate, "settings": ahead}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(look, "LEAST_GROUPS", 2)
        patch.setattr(look, "LOOK_ROWS", data.draw(st.sampled_from([1, 40, 10_000])))
        found = counted(filtered_scan(stores, state, plan, filter, columns=columns, **options))  # type: ignore[arg-type]

    every = scan(stores, state, plan, **options)  # type: ignore[arg-type]
    names = scan_schema(state.relation, columns).names
    assert found == counted(accepted_rows(every, settled(filter), names))


def counted(batches: object) -> Counter[tuple[object, ...]]:
    """Return the sum of diffs of each row, those of sum 0 left out."""
    found: Counter[tuple[object, ...]] = Counter()
    for batch in batches:  # type: ignore[attr-defined]
        for row in batch.to_pylist():
            diff = row.pop("d")
            found[tuple(row.values())] += diff
    return Counter({row: n for row, n in found.items() if n})


def _shard(rows: int = 2000) -> Stores:
    stores = memory_stores()
    create(stores, RELATION, row_group_bytes=600, part_bytes=1 << 20, write_format="structured")
    made = [(n, n, "a", n.to_bytes(16), 0, 1) for n in range(rows)]
    append(stores, "shard", 0, 5, [table(RELATION, made)])
    return stores


def test_groups_without_an_accepted_row_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = _shard()
    state = Machine(stores).load("shard")
    ref = plan_read(stores, state).fetched[0]
    answers = []
    groups = Look.groups

    def noted(*args: object) -> object:
        answers.append(groups(*args))  # type: ignore[arg-type]
        return answers[-1]

    monkeypatch.setattr(Look, "groups", noted)
    asked = {"n = 1990": 1, "n > 3": 1996, "n > 5000": 0, "s = 'a'": 2000, "n = 2": 1}
    for where, count in asked.items():
        filter = plain_filter(state.relation, where)
        rows = filtered_scan(stores, state, plan_read(stores, state), filter)
        assert sum(r.num_rows for r in rows) == count
    last = len(ref.splits) - 1
    assert last > 4
    assert [answers[1], answers[3]] == [None, None], "most have an accepted row"
    assert [answers[2], answers[4]] == [[], [0]]
    assert answers[0] in ([last], [last - 1])


def test_only_the_columns_of_the_filter_are_read_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    stores = _shard()
    state = Machine(stores).load("shard")
    monkeypatch.setattr(Look, "groups", lambda *_: pytest.fail("it looked"))
    filter = plain_filter(state.relation, "n = 1990")
    plan = plan_read(stores, state)

    assert sum(r.num_rows for r in filtered_scan(stores, state, plan, None)) == 2000
    rows = filtered_scan(stores, state, plan, filter, columns=["n"])
    assert [r.num_rows for r in rows] == [1]


def test_where_looking_fails_all_is_read() -> None:
    stores = _shard()
    state = Machine(stores).load("shard")
    ref = plan_read(stores, state).fetched[0]

    def refuse(batch: pa.RecordBatch) -> pa.BooleanArray:
        raise ArithmeticError(batch.num_rows)

    source, data = source_of(stores.blob, state), stores.blob.get(ref.key)
    assert data is not None
    refusing = Look(frozenset({2}), refuse)
    assert refusing.groups(source, ref, data, None) is None
    refusing = Look(frozenset({2}), refuse)
    assert refusing.groups(source, ref, data[:-30], [0, 1, 2, 3]) == [0, 1, 2, 3]
    assert refusing.groups(source, ref, data, [0, 1]) == [0, 1]
    with pytest.raises(Corrupt):
        list(
            filtered_scan(
                memory_stores(),
                state,
                plan_read(stores, state),
                plain_filter(state.relation, "n = 3"),
            )
        )


def test_looks_in_vain_become_rare() -> None:
    stores = _shard()
    state = Machine(stores).load("shard")
    ref = plan_read(stores, state).fetched[0]
    source, data = source_of(stores.blob, state), stores.blob.get(ref.key)
    assert data is not None
    asked: list[int] = []

    def all_or_none(batch: pa.RecordBatch) -> pa.BooleanArray:
        asked.append(part)
        return pa.array([part != 10] * batch.num_rows)

    rare = Look(frozenset({2}), all_or_none)
    for part in range(14):
        found = rare.groups(source, ref, data, None)
        assert found == ([] if part == 10 else None)
    assert sorted(set(asked)) == [0, 2, 5, 10, 11, 13]

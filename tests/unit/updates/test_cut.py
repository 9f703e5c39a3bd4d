"""Slices cover the key space once and are about equally heavy, wherever row groups begin."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import combinations_with_replacement, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.compact import compact_shard
from strata.decide.plan import plan_read
from strata.decide.read_plan import ReadPlan
from strata.format.manifest import PartRef
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.read.scan import scan, slices
from strata.state.state import State
from strata.store.open import Stores
from strata.updates.consolidate import advance
from strata.updates.cut import between, cut
from strata.updates.order import encode_keys, shared_bytes
from strata.updates.slices import WHOLE, Slice
from tests.support.stored import append, create, memory_stores, settings
from tests.support.updates import POOLS, contents, plain_rows, table
from tests.unit.updates.test_slices import ref_of

TEXT = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())


def part(keys: list[bytes], group_rows: int, limit: int = 64) -> PartRef:
    """Return a part of 100 bytes a row."""
    found = ref_of(sorted(keys), list(range(0, len(keys), group_rows)), limit, TEXT)
    return replace(found, key=repr(keys), size_bytes=100 * len(keys))


def rows(keys: list[bytes], piece: Slice) -> int:
    """Count the keys that lie in a slice, one by one."""
    return sum(piece.low <= key and (piece.high is None or key < piece.high) for key in keys)


def cut_of(parts: list[PartRef], slice_bytes: int) -> list[Slice]:
    """Cut, and see that every key lies in one slice."""
    pieces = cut(parts, TEXT, [TEXT], slice_bytes)
    assert pieces[0].low == b""
    assert pieces[-1].high is None
    assert all(a.high == b.low and a.low < b.low for a, b in pairwise(pieces))
    return pieces


def test_as_few_slices_as_can_be() -> None:
    keys = [f"{n:04}".encode() for n in range(1000)]
    parts = [part(keys, 100) for _ in range(10)]

    assert len(cut_of(parts, 250_000)) == 4
    assert len(cut_of(parts, 249_999)) == 4
    assert len(cut_of(parts, 240_000)) == 5
    assert cut_of(parts, 10**7) == [WHOLE]
    assert cut_of([], 1) == [WHOLE]


@pytest.mark.parametrize(("runs", "slices", "most"), [(2, 2, 1.04), (8, 2, 1.04), (20, 7, 1.1)])
def test_runs_with_few_row_groups_are_cut_evenly(runs: int, slices: int, most: float) -> None:
    chance = random.Random(runs)
    every = [
        [b"\x01" + chance.randrange(2**40).to_bytes(5, "big") for _ in range(1100)]
        for _ in range(runs)
    ]
    pieces = cut_of([part(keys, 200) for keys in every], 110_000 * runs // slices)

    counts = [sum(rows(keys, piece) for keys in every) for piece in pieces]
    assert len(counts) == slices
    assert max(counts) < most * sum(counts) / slices


def test_a_narrow_group_does_not_upset_what_comes_behind_it() -> None:
    narrow = part([b"\x01" + b"a" * 50 + bytes([n]) for n in range(100)], 50)
    wide = part([b"\x01" + bytes([n, 0]) for n in range(200)], 50)

    pieces = cut_of([narrow, wide], 10_000)

    keys = [b"\x01" + bytes([n, 0]) for n in range(200)]
    counts = [rows(keys, piece) for piece in pieces]
    assert counts == pytest.approx([97, 3, 100], abs=3)


@pytest.mark.parametrize("shared", [60, 100, 300])
def test_keys_that_begin_alike_are_cut_evenly_where_what_follows_is_known(shared: int) -> None:
    chance = random.Random(shared)
    alike = b"\x01" + b"p" * shared
    beginnings = [b"\x00", alike, alike, b"\x02"]
    every = [
        [beginnings[n % 4] + chance.randrange(2**40).to_bytes(5, "big") for n in range(900)]
        for _ in range(8)
    ]
    pieces = cut_of([part(keys, 100, 1024) for keys in every], 100_000)

    counts = [sum(rows(keys, piece) for keys in every) for piece in pieces]
    assert len(counts) == 8
    assert max(counts) < 1.4 * sum(counts) / 8  # 8 row groups are about the border

    counts = [
        sum(rows(keys, piece) for keys in every)
        for piece in cut_of([part(keys, 100, 64) for keys in every], 100_000)
    ]
    assert sum(counts) == 8 * 900
    assert (max(counts) > 3 * sum(counts) / 8) == (shared > 64)  # they stay together


KEYS = st.tuples(st.sampled_from([b"", b"s" * 64, b"s" * 140]), st.binary(max_size=4)).map(b"".join)


@given(
    st.lists(st.lists(KEYS, min_size=1, max_size=40), min_size=1, max_size=5),
    st.integers(1, 12),
    st.integers(1, 5000),
    st.sampled_from([64, 66, 1024]),
)
def test_every_row_lies_in_one_slice(
    runs: list[list[bytes]], group_rows: int, slice_bytes: int, limit: int
) -> None:
    pieces = cut_of([part(keys, group_rows, limit) for keys in runs], slice_bytes)

    for keys in runs:
        assert sum(rows(keys, piece) for piece in pieces) == len(keys)
    assert len(pieces) <= -(-sum(100 * len(keys) for keys in runs) // slice_bytes)


@given(st.binary(max_size=20), st.binary(max_size=20), st.floats(0, 1))
def test_a_key_between_lies_between(a: bytes, b: bytes, part: float) -> None:
    low, high = sorted([a, b])

    assert low <= between(low, high, part) <= high


@given(st.binary(max_size=20), st.binary(max_size=20), st.fractions(0, 1))
def test_a_key_between_lies_where_exact_arithmetic_puts_it(
    a: bytes, b: bytes, part: Fraction
) -> None:
    """Of eight bytes behind what the keys share; both taken as numbers."""
    low, high = sorted([a, b])
    alike = shared_bytes(low, high)

    found = between(low, high, float(part))

    first, last, place = (number(key, alike) for key in (low, high, found))
    assert found[:alike] == low[:alike]
    assert first <= place <= last
    assert abs(place - (first + (last - first) * Fraction(float(part)))) <= 1


EDGES = [b"", b"\x00", b"\x00" * 9, b"\x00\xff" * 8, b"\x01", b"\x7f" + b"\xff" * 8, b"\x80",
         b"\xff", b"\xff" * 7, b"\xff" * 8, b"\xff" * 20, b"\xff" * 64, b"\xff" * 80,
         b"\x01" + b"\x00" * 8, b"\x01" + b"\xff" * 8, b"\xfe" + b"\xff" * 30]  # fmt: skip


@pytest.mark.parametrize("part", [0.0, 5e-324, 2**-64, 1 / 3, 0.5, 1 - 2**-53, 1.0, -1.0, 2.0])
@pytest.mark.parametrize("shared", [b"", b"s" * 70])
def test_a_key_between_the_ends_of_the_key_space_lies_there(part: float, shared: bytes) -> None:
    """The difference of two eight-byte numbers is more than a float tells apart."""
    keys = [shared + edge for edge in sorted(EDGES)]
    for low, high in combinations_with_replacement(keys, 2):
        found = between(low, high, part)

        assert low <= found <= high
        if part >= 1:
            assert number(found, len(shared)) == number(high, len(shared))


def number(key: bytes, behind: int) -> int:
    """Return the eight bytes behind some as a number."""
    return int.from_bytes((key[behind:] + b"\0" * 8)[:8], "big")


def extremes(kind: str) -> list[bytes]:
    """Return the key bytes of a type's ends, and of null, sorted."""
    relation = Relation(0, (Column(1, "c", parse_type(kind)),), (1,), ())
    pool = [*POOLS[kind], *LONG.get(kind, []), None]
    return sorted(encode_keys(table(relation, [(v, 0, 1) for v in pool]), relation).to_pylist())


LONG = {
    "string": ["\U0010ffff" * 40, "\0" * 70, "a" * 200],
    "bytes": [b"\xff" * 8, b"\xff" * 9, b"\xff" * 64, b"\xff" * 300, b"\0" * 300],
}


@pytest.mark.parametrize("kind", sorted(POOLS))
@pytest.mark.parametrize("limit", [1, 9, 64, 1024])
def test_keys_at_the_ends_of_their_type_are_cut(kind: str, limit: int) -> None:
    keys = extremes(kind)
    runs = [keys * n for n in (1, 2, 3)]

    for group_rows in (1, 2, 100):
        for slice_bytes in (1, 100, 333, 1000, 10**6):
            pieces = cut_of([part(run, group_rows, limit) for run in runs], slice_bytes)
            assert sum(rows(keys, piece) for piece in pieces) == len(keys)


@given(
    st.lists(st.lists(st.sampled_from(EDGES), min_size=1, max_size=20), min_size=1, max_size=5),
    st.integers(1, 6),
    st.integers(1, 5000),
    st.sampled_from([1, 8, 9, 64, 1024]),
)
def test_every_row_at_the_ends_of_the_key_space_lies_in_one_slice(
    runs: list[list[bytes]], group_rows: int, slice_bytes: int, limit: int
) -> None:
    pieces = cut_of([part(keys, group_rows, limit) for keys in runs], slice_bytes)

    for keys in runs:
        assert sum(rows(keys, piece) for piece in pieces) == len(keys)


@pytest.mark.parametrize(
    "kind",
    [
        "int64",
        "string",
        pytest.param("float64", marks=pytest.mark.long),
        pytest.param("bytes", marks=pytest.mark.long),
        pytest.param("timestamp", marks=pytest.mark.long),
    ],
)
def test_shards_with_keys_at_the_ends_are_compacted_and_read_in_slices(kind: str) -> None:
    """Several runs and row groups, end to end."""
    relation = Relation(
        0, (Column(1, "c", parse_type(kind)), Column(2, "n", parse_type("int64"))), (1, 2), ()
    )
    stores = memory_stores()
    create(stores, relation, row_group_bytes=400, part_bytes=2000)
    pool = [*POOLS[kind], *LONG.get(kind, []), None]
    wanted: Counter[object] = Counter()
    for batch in range(3):
        numbers = [*POOLS["int64"], batch + 2, 9]
        plain = [(v, n, batch, 1 + (n == 9)) for v in pool for n in numbers]
        updates = table(relation, plain)
        wanted += contents([advance(updates, 2)], relation)
        append(stores, "shard", batch, batch + 1, [updates])

    def read() -> Counter[object]:
        state = Machine(stores).load("shard")
        found: Counter[object] = Counter()
        for size in (4000, 10**6):
            plan = plan_read(stores, state)
            pieces = slices(state, plan, size)
            read = Counter(dict(rows_in(stores, state, plan, pieces)))
            assert not found or read == found
            found = read
            assert len(pieces) > 1 or size == 10**6
        return found

    assert read() == wanted
    report = compact_shard(stores, "shard", settings(memory_bytes=20_000), full=True)
    assert [r.outcome for r in report.requests] == ["applied"]
    assert report.requests[0].tasks > 1
    assert read() == wanted


def rows_in(
    stores: Stores, state: State, plan: ReadPlan, pieces: list[Slice]
) -> Iterator[tuple[object, int]]:
    names = [*(str(c.id) for c in state.relation.columns), "t", "d"]
    for piece in pieces:
        for batch in scan(stores, state, plan, consolidate=True, within=piece, stored=True):
            for *row, diff in plain_rows(batch.rename_columns(names), state.relation):
                yield tuple(row), diff

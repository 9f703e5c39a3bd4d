"""Diffs near the ends of int64 add up as Python's integers do, in every order, split and way.

What is recorded is the sum modulo 2^64. A row whose sum no int64 holds is there as the fewest
updates that say it.
"""

import random
from collections import Counter
from collections.abc import Sequence
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.columns import D
from strata.format.digest import content_digest, diffs_sum
from strata.model.schema import Column, Relation
from strata.model.sums import LEAST, MODULUS, MOST, fewest, wrapped
from strata.model.types import parse_type
from strata.updates import border, huge, merge
from strata.updates.consolidate import consolidate, sums_of
from strata.updates.order import is_sorted, sort_updates
from tests.support.updates import contents, plain_rows, relations, sort_key, split, table, updates

TEXT = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())
FAR = [LEAST, LEAST + 1, -(2**62), -1, 0, 1, 10**18, 2**62, 2**62 - 1, MOST - 1, MOST]
diffs = st.sampled_from(FAR) | st.integers(LEAST, MOST)


def far(relation: Relation, max_rows: int = 40) -> st.SearchStrategy[pa.Table]:
    """Draw updates with such diffs."""

    def with_diffs(rows: pa.Table) -> st.SearchStrategy[pa.Table]:
        found = st.lists(diffs, min_size=rows.num_rows, max_size=rows.num_rows)
        index = rows.schema.get_field_index(D)
        field = rows.schema.field(index)
        return found.map(lambda some: rows.set_column(index, field, pa.array(some, pa.int64())))

    return updates(relation, max_rows).flatmap(with_diffs)


def said(total: int) -> list[int]:
    """Return the twin of `fewest`: as much as one update can say, again and again."""
    found = []
    while total:
        found.append(min(max(total, LEAST), MOST))
        total -= found[-1]
    return found


def counted(tables: Sequence[pa.Table], relation: Relation) -> list[tuple[object, ...]]:
    """Return the twin of consolidation: Python's integers in a counter, said again, in order."""
    counts = contents(tables, relation)
    return [(*row, diff) for row in sorted(counts, key=sort_key) for diff in said(counts[row])]


def all_of(chunks: Sequence[pa.Table], relation: Relation) -> list[tuple[object, ...]]:
    assert all(chunk.num_rows for chunk in chunks)
    return [row for chunk in chunks for row in plain_rows(chunk, relation)]


@given(st.lists(diffs, max_size=12))
def test_the_fewest_updates_say_the_sum(some: list[int]) -> None:
    total = sum(some)

    found = fewest(total)

    assert found == said(total)
    assert sum(found) == total
    assert fewest(sum(found)) == found
    assert all(LEAST <= diff <= MOST for diff in found)
    assert len(found) <= len(some)  # a merge never has more updates than its inputs


@given(st.lists(diffs, max_size=12), st.lists(st.integers(0, 12), max_size=3))
def test_recorded_sums_add_up_whatever_the_split(some: list[int], cuts: list[int]) -> None:
    rows = table(TEXT, [("a", 0, diff) for diff in some])

    pieces = [diffs_sum(pa.Table.from_batches([piece])) for piece in split(rows, cuts)]

    assert all(LEAST <= piece <= MOST for piece in pieces)
    assert wrapped(sum(pieces)) == diffs_sum(rows) == wrapped(sum(some))
    assert (wrapped(sum(some)) - sum(some)) % MODULUS == 0
    chunked = pa.concat_tables([rows.slice(2), rows.slice(0, 2)])
    assert diffs_sum(chunked) == diffs_sum(rows)


@given(st.lists(st.lists(diffs, min_size=1, max_size=6), min_size=1, max_size=8))
def test_sums_of_groups_are_those_of_python(groups: list[list[int]]) -> None:
    starts = np.cumsum([0, *map(len, groups[:-1])])

    numbers, sums = sums_of(np.array([d for group in groups for d in group], np.int64), starts)

    wanted = [(i, diff) for i, group in enumerate(groups) for diff in said(sum(group))]
    assert list(zip(numbers.tolist(), sums.tolist(), strict=True)) == wanted


@given(st.data(), st.randoms(use_true_random=False))
def test_consolidation_is_exact_whatever_the_order_and_the_split(
    data: st.DataObject, shuffle: random.Random
) -> None:
    relation = data.draw(relations(max_columns=2))
    rows = data.draw(far(relation))
    places = list(range(rows.num_rows))
    shuffle.shuffle(places)
    shuffled = rows.take(pa.array(places, pa.int64()))

    def whole(some: pa.Table) -> pa.Table:
        return consolidate(sort_updates(some, relation), relation)

    once = whole(rows)
    pieces = split(shuffled, data.draw(st.lists(st.integers(0, 40), max_size=3)))
    parts = [whole(pa.Table.from_batches([piece])) for piece in pieces]

    assert plain_rows(once, relation) == counted([rows], relation)
    assert plain_rows(consolidate(once, relation), relation) == plain_rows(once, relation)
    again = whole(pa.concat_tables([rows.schema.empty_table(), *parts]))
    assert plain_rows(again, relation) == plain_rows(once, relation)
    assert is_sorted(once, relation)
    assert once.num_rows <= rows.num_rows
    assert content_digest(once, relation) == content_digest(rows, relation)
    assert diffs_sum(once) == diffs_sum(rows)


@given(
    st.data(),
    st.integers(1, 2000),
    st.sampled_from([1, 3, 100]),
    st.sampled_from([0, huge.HUGE_ROW_BYTES]),
    st.sampled_from([None, 9]),
)
def test_a_merge_is_exact_wherever_its_rounds_end(
    data: st.DataObject, memory_bytes: int, at_once: int, huge_bytes: int, since: int | None
) -> None:
    """Also in the way of huge rows. `at_once`: updates of one row that are made at a time."""
    relation = data.draw(relations(max_columns=2))
    runs = [
        sort_updates(run, relation)
        for run in data.draw(st.lists(far(relation, max_rows=25), max_size=4))
    ]
    sources = [split(run, data.draw(st.lists(st.integers(0, 30), max_size=6))) for run in runs]

    with (
        patch.object(huge, "HUGE_ROW_BYTES", huge_bytes),
        patch.object(border, "CHUNK_ROWS", at_once),
    ):
        chunks = list(merge.merge(sources, relation, since=since, memory_bytes=memory_bytes))

    every = [run if since is None else merge.advance(run, since) for run in runs]
    assert all_of(chunks, relation) == counted(every, relation)


@pytest.mark.parametrize("last", [0, 1, -5, LEAST, MOST])
@pytest.mark.parametrize("huge_bytes", [0, huge.HUGE_ROW_BYTES])
def test_one_row_may_be_more_than_many_rounds_hold(last: int, huge_bytes: int) -> None:
    """It goes far beyond int64, comes back, and goes beyond the other end, a row a round."""
    ways = [MOST] * 40 + [LEAST] * 80 + [MOST] * 41 + [last]
    runs = [table(TEXT, [("a", 1, diff) for diff in ways]) for _ in range(3)]
    behind = table(TEXT, [("b", 1, MOST), ("b", 1, MOST)])

    with patch.object(huge, "HUGE_ROW_BYTES", huge_bytes):
        chunks = list(
            merge.merge(
                [*(split(run, range(0, 162, 7)) for run in runs), [behind]], TEXT, memory_bytes=1
            )
        )

    wanted = counted([*runs, behind], TEXT)
    assert all_of(chunks, TEXT) == wanted
    assert Counter(row[0] for row in wanted)["b"] == 2


def test_what_is_beyond_stands_at_the_place_of_its_row() -> None:
    """Rows before and behind it, and rows that cancel, come in the same rounds."""
    rows = [("a", 1, 1), *[("b", 1, MOST)] * 9, ("b", 2, -1), ("c", 1, 1)]
    runs = [split(table(TEXT, rows), range(12)), split(table(TEXT, rows), [5])]

    chunks = list(merge.merge(runs, TEXT, memory_bytes=1))

    assert all_of(chunks, TEXT) == [("a", 1, 2), *[("b", 1, MOST)] * 18, ("b", 2, -2), ("c", 1, 2)]

"""Law 4: consolidation is idempotent and does not depend on order or split; merge is its twin."""

import contextlib
import random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.errors import Corrupt
from strata.model.schema import Column, Relation
from strata.model.types import parse_type
from strata.updates.consolidate import advance, consolidate
from strata.updates.merge import merge
from strata.updates.order import is_sorted, sort_updates
from tests.support.updates import contents, plain_rows, relations, sort_key, split, table, updates

TEXT = Relation(0, (Column(1, "c", parse_type("string")),), (1,), ())


def sorted_and_consolidated(rows: pa.Table, relation: Relation) -> pa.Table:
    """Return the twin of everything here."""
    return consolidate(sort_updates(rows, relation), relation)


def joined(chunks: list[pa.Table], like: pa.Table) -> pa.Table:
    """Return the chunks of a merge as one table; each must hold rows."""
    assert all(chunk.num_rows for chunk in chunks)
    return pa.concat_tables([like.schema.empty_table(), *chunks]).combine_chunks()


@given(st.data())
def test_consolidation_counts_like_a_counter(data: st.DataObject) -> None:
    relation = data.draw(relations())
    rows = data.draw(updates(relation))

    result = sorted_and_consolidated(rows, relation)

    assert contents([result], relation) == contents([rows], relation)
    assert result.num_rows == len(contents([rows], relation))
    assert is_sorted(result, relation)


@given(st.data())
def test_consolidation_is_idempotent(data: st.DataObject) -> None:
    relation = data.draw(relations())
    once = sorted_and_consolidated(data.draw(updates(relation)), relation)

    assert plain_rows(consolidate(once, relation), relation) == plain_rows(once, relation)


@given(st.data(), st.randoms(use_true_random=False))
def test_consolidation_does_not_depend_on_order_or_split(
    data: st.DataObject, shuffle: random.Random
) -> None:
    relation = data.draw(relations())
    rows = data.draw(updates(relation))
    indices = list(range(rows.num_rows))
    shuffle.shuffle(indices)
    cuts = data.draw(st.lists(st.integers(0, 100), max_size=3))

    pieces = [
        sorted_and_consolidated(pa.Table.from_batches([piece]), relation)
        for piece in split(rows.take(pa.array(indices, pa.int64())), cuts)
    ]

    expected = plain_rows(sorted_and_consolidated(rows, relation), relation)
    again = sorted_and_consolidated(
        joined([piece for piece in pieces if piece.num_rows], rows), relation
    )
    assert plain_rows(again, relation) == expected


@given(st.data(), st.integers(-1, 5))
def test_advancing_keeps_order_and_every_snapshot_from_since(
    data: st.DataObject, since: int
) -> None:
    relation = data.draw(relations())
    rows = sort_updates(data.draw(updates(relation)), relation)

    moved = advance(rows, since)

    assert is_sorted(moved, relation)
    for as_of in range(since, 6):
        assert contents([advance(_until(moved, as_of), as_of)], relation) == contents(
            [advance(_until(rows, as_of), as_of)], relation
        )


def _until(rows: pa.Table, as_of: int) -> pa.Table:
    return rows.filter(pa.array([t <= as_of for t in rows["t"].to_pylist()], pa.bool_()))


@given(st.data(), st.integers(1, 2000), st.sampled_from([None, 0, 2, 9]))
def test_merge_is_sort_and_consolidate(
    data: st.DataObject, memory_bytes: int, since: int | None
) -> None:
    relation = data.draw(relations(max_columns=3))
    runs = data.draw(st.lists(updates(relation, max_rows=25), max_size=5))
    runs = [sort_updates(run, relation) for run in runs]
    cuts = [data.draw(st.lists(st.integers(0, 30), max_size=6)) for _ in runs]
    sources = [split(run, cut) for run, cut in zip(runs, cuts, strict=True)]
    like = table(relation, [])

    result = joined(list(merge(sources, relation, since=since, memory_bytes=memory_bytes)), like)

    whole = pa.concat_tables([like, *runs])
    expected = sorted_and_consolidated(whole if since is None else advance(whole, since), relation)
    assert plain_rows(result, relation) == plain_rows(expected, relation)


def test_merge_of_one_huge_group_stays_one_row() -> None:
    rows = table(TEXT, [("a", 1, 1)] * 1000)
    runs = [split(rows, range(0, 1000, 7)) for _ in range(20)]

    chunks = list(merge(runs, TEXT, memory_bytes=1))

    assert [plain_rows(chunk, TEXT) for chunk in chunks] == [[("a", 1, 20_000)]]


def test_merge_of_adversarial_diffs_holds_one_row_a_group() -> None:
    """All retractions in one run, all additions in another: nothing is left."""
    keys = [f"{n:05}" for n in range(3000)]
    plus = table(TEXT, [(key, 1, 1) for key in keys])
    minus = table(TEXT, [(key, 1, -1) for key in keys])

    assert list(merge([plus.to_batches(10), minus.to_batches(1000)], TEXT)) == []


def test_merge_of_many_runs_gives_first_rows_before_it_has_read_all() -> None:
    read = 0

    def source(offset: int) -> object:
        nonlocal read
        for start in range(0, 100_000, 1000):
            read += 1
            keys = [f"{n:06}" for n in range(start, start + 1000)]
            yield table(TEXT, [(f"{key}{offset}", 1, 1) for key in keys]).to_batches()[0]

    chunks = merge([source(n) for n in range(3)], TEXT, memory_bytes=3_000_000)
    next(iter(chunks))

    assert read < 100


@pytest.mark.parametrize("memory_bytes", [1, 500, 700, 10_000_000])
def test_rows_out_of_order_are_never_merged_silently(memory_bytes: int) -> None:
    """Whatever the disorder, the output is sorted and complete, or the merge fails."""
    chance = random.Random(7)
    merged = 0
    for _ in range(200):
        good = table(TEXT, [(chance.choice("abcdefgh"), 1, 1) for _ in range(12)])
        bad = table(TEXT, [(chance.choice("abcdefgh"), 1, 1) for _ in range(12)])
        runs = [split(sort_updates(good, TEXT), [3, 6, 9]), split(bad, [2, 4, 6, 8])]
        with contextlib.suppress(Corrupt):
            chunks = list(merge(runs, TEXT, memory_bytes=memory_bytes))
            merged += 1
            result = [row for chunk in chunks for row in plain_rows(chunk, TEXT)]
            keys = [sort_key(row[:-1]) for row in result]
            assert keys == sorted(keys)
            assert len(set(map(str, keys))) == len(keys)
            assert {tuple(row[:-1]): row[-1] for row in result} == contents([good, bad], TEXT)

    # With all rows in one head the disorder is harmless: it is sorted away.
    assert (merged > 0) == (memory_bytes > 1000)


def test_a_row_before_what_was_given_out_is_corrupt() -> None:
    """Nothing is carried here that would give the disorder away: the pair cancels."""
    disordered = table(TEXT, [("b", 1, 1), ("a", 1, 1)])
    cancelling = table(TEXT, [("b", 1, -1), ("c", 1, 1)])

    with pytest.raises(Corrupt, match="not sorted"):
        list(merge([disordered.to_batches(1), cancelling.to_batches(1)], TEXT, memory_bytes=1))


def test_a_row_behind_the_cut_that_hides_in_a_head_is_corrupt() -> None:
    """Binary search over `a z a b b` never looks at z."""
    head = table(TEXT, [(letter, 1, 1) for letter in "azabb"])
    disordered = [*head.to_batches(), *table(TEXT, [("c", 1, 1)]).to_batches()]
    sorted_run = table(TEXT, [(letter, 1, 1) for letter in "abdef"]).to_batches()
    room = 2 * 4 * head.nbytes  # two runs, and the copies that a merge makes

    with pytest.raises(Corrupt, match="not sorted"):
        list(merge([disordered, sorted_run], TEXT, memory_bytes=room))


def test_a_disordered_single_run_is_corrupt() -> None:
    rows = table(TEXT, [("b", 1, 1), ("a", 1, 1)])

    with pytest.raises(Corrupt, match="not sorted"):
        list(merge([rows.to_batches()], TEXT))

"""Rows are arranged word by word as Python sorts them: the merge's kernels and their slow twins."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.format.values.physical import offsets
from strata.kernels.merge_texts import sort_texts
from strata.kernels.merge_words import add_up, common_prefix, compare_texts, sort_words, text_words
from strata.updates.arrange import _Texts, arrange
from strata.updates.order import sort_names
from tests.support.updates import plain_rows, relations, sort_key, updates

LONG = ["", "a", "a\0", "aaaaaaa", "aaaaaaaa", "aaaaaaaaa", "a" * 40, "a" * 40 + "b", "b" * 17]
texts = st.lists(st.sampled_from(LONG) | st.text("ab\0", max_size=30), min_size=1, max_size=60)
keys = st.lists(st.integers(0, 9) | st.integers(0, 2**64 - 1), min_size=1, max_size=60)


def groups(data: st.DataObject, count: int) -> np.ndarray[Any, Any]:
    """Draw which rows belong to the group of the row before them."""
    flags = data.draw(st.lists(st.booleans(), min_size=count, max_size=count))
    return np.array([False, *flags[1:]])


def sorted_in_groups(values: list[Any], equal: list[bool]) -> tuple[list[int], list[bool]]:
    """Return the twin: the order of rows in which each group is sorted, and who equals whom."""
    order: list[int] = []
    starts = [i for i, same in enumerate(equal) if not same]
    for low, high in zip(starts, [*starts[1:], len(values)], strict=True):
        order += sorted(range(low, high), key=values.__getitem__)
    same = [False] + [
        equal[i] and values[order[i]] == values[order[i - 1]] for i in range(1, len(values))
    ]
    return order, same


@given(st.data(), keys)
def test_words_are_sorted_in_their_groups(data: st.DataObject, values: list[int]) -> None:
    equal = groups(data, len(values))
    wanted = sorted_in_groups(values, equal.tolist())
    words, order = np.array(values, np.uint64), np.arange(len(values))
    room = np.empty_like(words), np.empty_like(order), np.empty(len(values) + 1, np.int64)

    sort_words(words, order, equal, *room)

    assert (order.tolist(), equal.tolist()) == wanted
    assert words.tolist() == [values[i] for i in order]


def sorted_texts(found: _Texts, skip: int, equal: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the order that the kernel makes of groups, which has kept to its room."""
    count, beyond = len(equal), 64
    order, room = np.arange(count), [np.full(count + beyond, -7) for _ in range(6)]
    rows, *others = [array[:count] for array in room[:5]]
    rows[:] = order

    sort_texts(found.at, found.sizes, skip, rows, equal, order, *others, room[5][: count + 1])

    assert all((array[count:] == -7).all() for array in (*room[:5], room[5][1:]))
    return order


@given(st.data(), texts)
def test_texts_are_sorted_in_their_groups(data: st.DataObject, values: list[str]) -> None:
    found = _Texts([pa.array(values)])
    equal = groups(data, len(values))
    plain = [value.encode() for value in values]
    wanted = sorted_in_groups(plain, equal.tolist())

    order = sorted_texts(found, 0, equal)

    assert (order.tolist(), equal.tolist()) == wanted


TIMES = st.sampled_from([1, 1, 2, 5])  # about half of them equal the one before
runs_of = st.lists(
    st.lists(st.tuples(st.text("ab", max_size=8), TIMES), min_size=1, max_size=12),
    max_size=6,
)


@given(runs_of, st.sampled_from(["", "the same beginning "]), st.integers(0, 3))
def test_runs_of_texts_are_merged(
    runs: list[list[tuple[str, int]]], beginning: str, before: int
) -> None:
    """Also where most of them repeat, and behind other groups."""
    ends = ["", *(text for run in runs for text, times in sorted(run) for _ in range(times))]
    values = [beginning + end for end in ["z"] * before + ends]
    found = _Texts([pa.array(values)])
    equal = np.array([False] * (before + 1) + [True] * (len(ends) - 1))
    wanted = sorted_in_groups(values, equal.tolist())

    order = sorted_texts(found, len(beginning), equal)

    assert (order.tolist(), equal.tolist()) == wanted


@given(texts)
def test_words_of_texts_sort_like_them(values: list[str]) -> None:
    found = _Texts([pa.array(values)])
    rows, words = np.arange(len(values)), np.empty(len(values), np.uint64)
    plain = [value.encode() for value in values]

    shared = common_prefix(found.at, found.sizes, rows)
    for width in (7, 8):
        sizes = text_words(found.at, found.sizes, shared, width, rows, words)
        behind = [value[shared:] for value in plain]
        assert len({value[:shared] for value in plain}) == 1
        assert sizes == (min(map(len, behind)), max(map(len, behind)))
        padded = [value[:width].ljust(width, b"\0") for value in behind]
        last = [bytes([min(len(value), width)]) if width == 7 else b"" for value in behind]
        wanted = [int.from_bytes(a + b, "big") for a, b in zip(padded, last, strict=True)]
        assert words.tolist() == wanted
    ends, letters = offsets(pa.array(values)), np.frombuffer(b"".join(plain) + bytes(8), np.uint8)
    for i, one in enumerate(plain):
        for j, other in enumerate(plain):
            assert compare_texts(ends, letters, shared, i, j) == (one > other) - (one < other)


@given(st.data(), st.lists(st.integers(-3, 3), min_size=1, max_size=40))
def test_diffs_of_groups_are_added(data: st.DataObject, values: list[int]) -> None:
    equal = groups(data, len(values))
    order = np.array(data.draw(st.permutations(range(len(values)))))
    rows, sums = np.empty_like(order), np.empty_like(order)
    diffs = pa.array(values, pa.int64()).to_numpy()

    made = add_up(diffs, order, equal, rows, sums)

    found: dict[int, int] = {}
    first = 0
    for row, same in zip(order.tolist(), equal.tolist(), strict=True):
        first = row if not same else first
        found[first] = found.get(first, 0) + values[row]
    wanted = [(row, total) for row, total in found.items() if total]
    assert list(zip(rows[:made].tolist(), sums[:made].tolist(), strict=True)) == wanted


@pytest.mark.parametrize("diffs", [[2**63 - 1, 1], [-(2**63), -1], [2**62, 2**62, -1]])
def test_a_sum_that_leaves_int64_is_told(diffs: list[int]) -> None:
    order = np.arange(len(diffs))
    equal = np.array([False, *[True] * (len(diffs) - 1)])

    assert add_up(pa.array(diffs).to_numpy(), order, equal, order.copy(), order.copy()) == -1


@given(st.data())
def test_rows_are_arranged_as_python_sorts_them(data: st.DataObject) -> None:
    relation = data.draw(relations())
    rows = data.draw(updates(relation))
    if not rows.num_rows:
        return
    cells = [sort_key(row[:-1]) for row in plain_rows(rows, relation)]
    edge = data.draw(st.integers(0, rows.num_rows))
    pieces = pa.concat_tables([rows.slice(0, edge), rows.slice(edge)])
    whole = data.draw(st.sampled_from([rows.combine_chunks(), pieces]))

    order, equal = arrange([whole.column(name) for name in sort_names(relation)])

    assert [cells[i] for i in order] == sorted(cells)
    assert order.tolist() == sorted(range(len(cells)), key=cells.__getitem__)  # stable
    pairs = zip(order.tolist(), order.tolist()[1:], strict=False)
    assert equal.tolist() == [False, *(cells[a] == cells[b] for a, b in pairs)]

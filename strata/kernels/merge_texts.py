"""Kernel that brings texts into order group by group, as `strata.kernels.merge_words` does numbers.

A group is sorted by merging, two by two, the ascending runs that are found in it. With each text
goes how many bytes it shares with the one before it in its run; of two texts, the one that shares
more with the text given out last comes first, and neither is looked at. Only where both share
equally much are they compared, from there on. So, over all merges, a byte is hardly looked at
twice, however much of them texts have in common (Ng and Kakehi, "Merging string sequences by
longest common prefixes", 2008).

Stable. Nothing is allocated: callers bring the room. Twin: Python's sort of each group
(`tests/laws/test_arrange.py`).
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int, Ints
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import load64, trailing_zeros

_EIGHT: Final = 8
_ZERO: Final = np.uint64(0)


@lean
def sort_texts(
    offsets: Ints,
    data: Bytes,
    skip: Int,
    rows: Ints,
    equal: Bools,
    order: Ints,
    shared: Ints,
    other_rows: Ints,
    other_order: Ints,
    other_shared: Ints,
    starts: Ints,
) -> None:
    """Sort each group by its texts, which share `skip` bytes; `order` with them; take apart.

    `rows` says which text belongs to a row.
    Shape: all of one length, `starts` one longer; from `shared` on they are room.
    """
    low, count = 0, len(rows)
    while low < count:
        high = low + 1
        while high < count and equal[high]:
            high += 1
        if high - low > 1:
            runs = _find_runs(offsets, data, skip, rows, shared, starts, low, high)
            aside = False  # whether the rows are in the other arrays now
            while runs > 1:
                starts[runs] = high
                made = 0
                for run in range(0, runs, 2):
                    a, b = starts[run], starts[run + 1]
                    c = starts[run + 2] if run + 1 < runs else b
                    if aside:
                        _merge_two(
                            offsets, data, skip, other_rows, other_order, other_shared,
                            rows, order, shared, a, b, c,
                        )  # fmt: skip
                    else:
                        _merge_two(
                            offsets, data, skip, rows, order, shared,
                            other_rows, other_order, other_shared, a, b, c,
                        )  # fmt: skip
                    starts[made] = a
                    made += 1
                runs = made
                aside = not aside
            if aside:
                for i in range(low, high):
                    rows[i], order[i], shared[i] = other_rows[i], other_order[i], other_shared[i]
            _take_apart(offsets, rows, shared, equal, low, high)
        low = high


@lean
def _find_runs(
    offsets: Ints,
    data: Bytes,
    skip: Int,
    rows: Ints,
    shared: Ints,
    starts: Ints,
    low: Int,
    high: Int,
) -> Int:
    """Note where ascending runs start, and what each text shares with the one before it."""
    runs = 1
    starts[0], shared[low] = low, skip
    for i in range(low + 1, high):
        a, b = rows[i - 1], rows[i]
        same = _common(offsets, data, skip, a, b)
        if _less(offsets, data, same, b, a):
            starts[runs], shared[i] = i, skip
            runs += 1
        else:
            shared[i] = same
    return runs


@lean
def _merge_two(
    offsets: Ints,
    data: Bytes,
    skip: Int,
    rows: Ints,
    order: Ints,
    shared: Ints,
    out_rows: Ints,
    out_order: Ints,
    out_shared: Ints,
    a: Int,
    b: Int,
    c: Int,
) -> None:
    """Merge texts [a, b) and [b, c), each ascending, to the same places of the other arrays."""
    i, j, k = a, b, a
    one, two = skip, skip  # what either text shares with the one given out last
    while i < b and j < c:
        first = one > two
        if one == two:
            same = _common(offsets, data, one, rows[i], rows[j])
            first = not _less(offsets, data, same, rows[j], rows[i])
        else:
            same = min(one, two)
        if first:
            out_rows[k], out_order[k], out_shared[k] = rows[i], order[i], one
            i, two = i + 1, same
            one = shared[i] if i < b else skip
        else:
            out_rows[k], out_order[k], out_shared[k] = rows[j], order[j], two
            j, one = j + 1, same
            two = shared[j] if j < c else skip
        k += 1
    while i < b:
        out_rows[k], out_order[k], out_shared[k] = rows[i], order[i], one
        i += 1
        k += 1
        one = shared[i] if i < b else skip
    while j < c:
        out_rows[k], out_order[k], out_shared[k] = rows[j], order[j], two
        j += 1
        k += 1
        two = shared[j] if j < c else skip


@lean
def _take_apart(offsets: Ints, rows: Ints, shared: Ints, equal: Bools, low: Int, high: Int) -> None:
    """Say of a sorted group which texts equal the one before: all of them is shared with it."""
    for i in range(low + 1, high):
        equal[i] = shared[i] == offsets[rows[i] + 1] - offsets[rows[i]]


@inlined
def _common(offsets: Ints, data: Bytes, skip: Int, a: Int, b: Int) -> Int:
    """Return how many first bytes two texts share; `skip` of them are known."""
    at_a, at_b = offsets[a], offsets[b]
    common = min(offsets[a + 1] - at_a, offsets[b + 1] - at_b)
    done = skip
    whole = min(common, len(data) - max(at_a, at_b) - _EIGHT + 1)  # from there on bytes lack
    while done < whole:
        differs = load64(data, at_a + done) ^ load64(data, at_b + done)
        if differs != _ZERO:
            return min(done + (trailing_zeros(differs) >> 3), common)
        done += _EIGHT
    done = min(done, common)
    while done < common and data[at_a + done] == data[at_b + done]:
        done += 1
    return done


@inlined
def _less(offsets: Ints, data: Bytes, same: Int, a: Int, b: Int) -> bool:
    """Return whether text `a` is less than text `b`; they share `same` bytes and no more."""
    at_a, at_b = offsets[a] + same, offsets[b] + same
    if at_b == offsets[b + 1]:
        return False
    return at_a == offsets[a + 1] or data[at_a] < data[at_b]

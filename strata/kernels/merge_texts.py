"""Kernel that brings texts into order group by group, as `strata.kernels.merge_words` does numbers.

A group is sorted by merging its ascending runs in pairs. Each text carries the number of bytes that
it shares with the text before it in its run. Of two texts, the one that shares more bytes with the
last output comes first, and neither is read. The texts are compared only if both share equally
many bytes, and only from there on. So over all merges a byte is rarely read twice, even if texts
have long common prefixes (Ng and Kakehi, "Merging string sequences by longest common prefixes",
2008).

If half of a group or more equal the text before them in their run, they are left out and put after
that text at the end.

The sort is stable. Nothing is allocated: callers provide memory. Twin: Python's sort of each group
(`tests/laws/test_arrange.py`).
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Int, Ints
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import at8, at64, trailing_zeros

_EIGHT: Final = 8
_ZERO: Final = np.uint64(0)


@lean
def sort_texts(
    at: Ints,
    sizes: Ints,
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
    """Sort each group and `order` by its texts, which share `skip` bytes; split unequal texts.

    `at` are the addresses of texts and `sizes` their bytes; `rows` gives the text of each row.
    Shape: all of one length, `starts` one longer; `rows`, and all from `shared` on, are scratch.
    """
    low, count = 0, len(rows)
    while low < count:
        high = low + 1
        while high < count and equal[high]:
            high += 1
        if high - low > 1:
            runs, heads = _find_runs(at, sizes, skip, rows, shared, starts, low, high)
            if runs > 1 and 2 * heads <= high - low:  # the other arrays have room for both
                middle = low + heads
                _pick_heads(
                    rows, shared, other_rows, other_order, other_shared, starts, runs, low, high
                )
                aside = _merge_runs(
                    at,
                    sizes,
                    skip,
                    other_rows[low:middle],
                    other_order[low:middle],
                    other_shared[low:middle],
                    other_rows[middle:],
                    other_order[middle:],
                    other_shared[middle:],
                    starts,
                    runs,
                    0,
                    heads,
                )
                _put_behind_heads(
                    sizes, rows, order, shared, equal, other_rows, other_order, other_shared,
                    middle if aside else low, heads, low, high,
                )  # fmt: skip
            else:
                if heads < high - low:
                    for i in range(low, high):
                        shared[i] = sizes[rows[i]] if shared[i] < 0 else shared[i]
                if _merge_runs(
                    at, sizes, skip, rows, order, shared, other_rows, other_order, other_shared,
                    starts, runs, low, high,
                ):  # fmt: skip
                    for i in range(low, high):
                        rows[i], order[i] = other_rows[i], other_order[i]
                        shared[i] = other_shared[i]
                for i in range(low + 1, high):
                    equal[i] = shared[i] == sizes[rows[i]]  # all of it
        low = high


@lean
def _pick_heads(
    rows: Ints,
    shared: Ints,
    head_rows: Ints,
    heads: Ints,
    head_shared: Ints,
    starts: Ints,
    runs: Int,
    low: Int,
    high: Int,
) -> None:
    """Write texts that do not equal the one before to the other arrays, in place; fit `starts`."""
    count, run = 0, 0
    for i in range(low, high):
        if run < runs and starts[run] == i:
            starts[run] = count
            run += 1
        if shared[i] >= 0:
            to = low + count
            head_rows[to], heads[to], head_shared[to] = rows[i], i, shared[i]
            count += 1


@lean
def _put_behind_heads(
    sizes: Ints,
    made: Ints,
    order: Ints,
    shared: Ints,
    equal: Bools,
    head_rows: Ints,
    heads: Ints,
    head_shared: Ints,
    first: Int,
    count: Int,
    low: Int,
    high: Int,
) -> None:
    """Order [low, high) like its heads, from `first` on, each followed by its equal texts."""
    to = low
    for head in range(first, first + count):
        i = heads[head]
        made[to] = order[i]
        if to > low:
            equal[to] = head_shared[head] == sizes[head_rows[head]]
        to, i = to + 1, i + 1
        while i < high and shared[i] < 0:
            made[to], equal[to] = order[i], True
            to, i = to + 1, i + 1
    for i in range(low, high):
        order[i] = made[i]


@lean
def _merge_runs(
    at: Ints,
    sizes: Ints,
    skip: Int,
    rows: Ints,
    order: Ints,
    shared: Ints,
    other_rows: Ints,
    other_order: Ints,
    other_shared: Ints,
    starts: Ints,
    runs: Int,
    low: Int,
    high: Int,
) -> bool:
    """Merge the ascending runs of [low, high); return whether the result is in the other arrays."""
    aside = False
    while runs > 1:
        starts[runs] = high
        made = 0
        for run in range(0, runs, 2):
            a, b = starts[run], starts[run + 1]
            c = starts[run + 2] if run + 1 < runs else b
            if aside:
                _merge_two(
                    at, sizes, skip, other_rows, other_order, other_shared, rows, order, shared,
                    a, b, c,
                )  # fmt: skip
            else:
                _merge_two(
                    at, sizes, skip, rows, order, shared, other_rows, other_order, other_shared,
                    a, b, c,
                )  # fmt: skip
            starts[made] = a
            made += 1
        runs = made
        aside = not aside
    return aside


@lean
def _find_runs(
    at: Ints,
    sizes: Ints,
    skip: Int,
    rows: Ints,
    shared: Ints,
    starts: Ints,
    low: Int,
    high: Int,
) -> tuple[Int, Int]:
    """Note where ascending runs start, and how many bytes each text shares with the one before.

    -1 means that it equals the one before. Returns the number of runs, and of texts that do not
    equal the one before.
    """
    runs, heads = 1, 1
    starts[0], shared[low] = low, skip
    for i in range(low + 1, high):
        a, b = rows[i - 1], rows[i]
        same = _common(at, sizes, skip, a, b)
        if _less(at, sizes, same, b, a):
            starts[runs], shared[i] = i, skip
            runs, heads = runs + 1, heads + 1
        elif same == sizes[b]:  # all of it, and it is not less
            shared[i] = -1
        else:
            shared[i] = same
            heads += 1
    return runs, heads


@lean
def _merge_two(
    at: Ints,
    sizes: Ints,
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
    one, two = skip, skip  # bytes that each text shares with the last output
    while i < b and j < c:
        first = one > two
        if one == two:
            same = _common(at, sizes, one, rows[i], rows[j])
            first = not _less(at, sizes, same, rows[j], rows[i])
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


@inlined
def _common(at: Ints, sizes: Ints, skip: Int, a: Int, b: Int) -> Int:
    """Return how many first bytes two texts share; `skip` of them are known."""
    common = min(sizes[a], sizes[b])
    at_a, at_b, done = at[a], at[b], skip
    while done + _EIGHT <= common:
        differs = at64(at_a + done) ^ at64(at_b + done)
        if differs != _ZERO:
            return done + (trailing_zeros(differs) >> 3)
        done += _EIGHT
    if done < common and common >= _EIGHT:  # the last eight: some of them are known
        done = common - _EIGHT
        differs = at64(at_a + done) ^ at64(at_b + done)
        return common if differs == _ZERO else done + (trailing_zeros(differs) >> 3)
    done = min(done, common)
    while done < common and at8(at_a + done) == at8(at_b + done):
        done += 1
    return done


@inlined
def _less(at: Ints, sizes: Ints, same: Int, a: Int, b: Int) -> bool:
    """Return whether text `a` is less than text `b`; they share `same` bytes and no more."""
    if same == sizes[b]:
        return False
    return bool(same == sizes[a] or at8(at[a] + same) < at8(at[b] + same))

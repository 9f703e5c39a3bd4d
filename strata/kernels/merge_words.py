"""Kernels of the merge: they sort rows group by group and add up equal rows.

A group holds rows that are equal in all columns so far: `equal[i]` says that row i belongs to the
group of row i-1. A step reads one more word (or text) of each row, sorts every group by it and
marks the rows that are still equal. Rows come as a few consecutive ascending runs, so each group is
sorted by merging the runs found in it. Rows that are already in order cost one comparison each.
Texts: `strata.kernels.merge_texts`.

The sort is stable. Nothing is allocated: callers provide memory. Twin: Python's sort of each group
(`tests/laws/test_merge_kernels.py`).
"""

from typing import Final

import numpy as np

from strata.kernels.arrays import Bools, Bytes, Int, Ints, Words
from strata.kernels.jit import inlined, lean
from strata.kernels.memory import at8, at64, byte_swap, load64

FEW: Final = 16  # rows of a group that are sorted by insertion
_EIGHT: Final = 8
_PAGE: Final = 4096  # bytes of a page, which is readable as a whole or not at all
_ZERO: Final = np.uint64(0)


@lean
def sort_words(
    words: Words, order: Ints, equal: Bools, other_words: Words, other_order: Ints, starts: Ints
) -> None:
    """Sort each group and `order` by its words, and split rows whose words differ.

    Shape: all of one length, `starts` one longer; the last three are scratch memory.
    """
    low, count = 0, len(words)
    while low < count:
        high = low + 1
        while high < count and equal[high]:
            high += 1
        if high - low <= FEW:
            _insert(words, order, low, high)
        else:
            _merge_runs(words, order, other_words, other_order, starts, low, high)
        low = high
    for i in range(1, count):
        equal[i] = equal[i] and words[i] == words[i - 1]


@inlined
def _insert(words: Words, order: Ints, low: int, high: int) -> None:
    """Sort a few rows in place."""
    for i in range(low + 1, high):
        word, row, j = words[i], order[i], i
        while j > low and words[j - 1] > word:
            words[j], order[j] = words[j - 1], order[j - 1]
            j -= 1
        words[j], order[j] = word, row


@inlined
def _merge_runs(
    words: Words,
    order: Ints,
    other_words: Words,
    other_order: Ints,
    starts: Ints,
    low: int,
    high: int,
) -> None:
    """Find the ascending runs of a group and merge them two by two until one is left."""
    runs = 1
    starts[0] = low
    for i in range(low + 1, high):
        if words[i] < words[i - 1]:
            starts[runs] = i
            runs += 1
    aside = False  # whether the rows are in the other arrays now
    while runs > 1:
        starts[runs] = high
        made = 0
        for run in range(0, runs, 2):
            a, b = starts[run], starts[run + 1]
            c = starts[run + 2] if run + 1 < runs else b
            if aside:
                _merge_two(other_words, other_order, words, order, a, b, c)
            else:
                _merge_two(words, order, other_words, other_order, a, b, c)
            starts[made] = a
            made += 1
        runs = made
        aside = not aside
    if aside:
        for i in range(low, high):
            words[i], order[i] = other_words[i], other_order[i]


@lean
def _merge_two(
    words: Words, order: Ints, out_words: Words, out_order: Ints, a: Int, b: Int, c: Int
) -> None:
    """Merge rows [a, b) and [b, c), each ascending, to the same places of the other arrays.

    It does not branch on which row is less, as no processor could predict that.
    """
    i, j, k = a, b, a
    while i < b and j < c:
        one, two = words[i], words[j]
        second = two < one
        out_words[k] = two if second else one
        out_order[k] = order[j if second else i]
        j += second
        i += not second
        k += 1
    while i < b:
        out_words[k], out_order[k] = words[i], order[i]
        i += 1
        k += 1
    while j < c:
        out_words[k], out_order[k] = words[j], order[j]
        j += 1
        k += 1


@lean
def compare_texts(offsets: Ints, data: Bytes, skip: Int, a: Int, b: Int) -> int:
    """Return how the text of row `a` compares with that of `b` after `skip` equal bytes."""
    at_a, at_b = offsets[a] + skip, offsets[b] + skip
    size_a, size_b = offsets[a + 1] - at_a, offsets[b + 1] - at_b
    common = min(size_a, size_b)
    done = 0
    while done + _EIGHT <= common:
        one, two = load64(data, at_a + done), load64(data, at_b + done)
        if one != two:
            return -1 if byte_swap(one) < byte_swap(two) else 1
        done += _EIGHT
    while done < common:
        if data[at_a + done] != data[at_b + done]:
            return -1 if data[at_a + done] < data[at_b + done] else 1
        done += 1
    return 0 if size_a == size_b else (-1 if size_a < size_b else 1)


@lean
def common_prefix(at: Ints, sizes: Ints, rows: Ints) -> Int:
    """Return how many first bytes the texts of all `rows` share; there is at least one row.

    `at` are the addresses of texts, `sizes` their bytes.
    """
    first, shared = at[rows[0]], sizes[rows[0]]
    for row in rows:
        if not shared:
            break
        here = at[row]
        shared = min(shared, sizes[row])
        done = 0
        while done + _EIGHT <= shared and at64(here + done) == at64(first + done):
            done += _EIGHT
        while done < shared and at8(here + done) == at8(first + done):
            done += 1
        shared = done
    return shared


@lean
def text_words(
    at: Ints, sizes: Ints, skip: Int, width: Int, rows: Ints, out: Words
) -> tuple[Int, Int]:
    """Write the first `width` bytes of each text after `skip` as a word that sorts like them.

    Shorter texts are filled with zeros; with seven bytes, the eighth says how many there were.
    Returns how many bytes texts have after `skip`: the fewest, which may be negative, and the most.
    """
    shortest, longest = np.int64(1) << np.int64(62), -skip
    for i in range(len(rows)):
        here, size = at[rows[i]] + skip, sizes[rows[i]] - skip
        shortest, longest = min(shortest, size), max(longest, size)
        taken = max(min(size, width), 0)
        word = _ZERO
        # Bytes after a text may be read if they are on the same page.
        if taken == _EIGHT or (taken and here % _PAGE <= _PAGE - _EIGHT):
            rest = np.uint64(8 * (_EIGHT - taken))
            word = (byte_swap(at64(here)) >> rest) << rest
        else:
            for j in range(taken):
                word |= at8(here + j) << np.uint64(8 * (7 - j))
        out[i] = word | np.uint64(taken) if width < _EIGHT else word
    return shortest, longest


@lean
def place_bits(
    words: Words, values: Words, valid: Bools, low: np.uint64, down: np.uint64, up: np.uint64
) -> None:
    """Put each value's distance above `low`, without its `down` lowest bits, at bit `up`.

    Invalid values are skipped; if `valid` is empty, all are valid.
    """
    if len(valid):
        for i in range(len(words)):
            if valid[i]:
                words[i] |= ((values[i] - low) >> down) << up
    else:
        for i in range(len(words)):
            words[i] |= ((values[i] - low) >> down) << up


@lean
def add_up(diffs: Ints, order: Ints, equal: Bools, rows: Ints, sums: Ints) -> int:
    """Write the first row of each group and the sum of its diffs, unless it is zero.

    Returns how many there are; -1 if a partial sum left int64.
    """
    made, i, count = 0, 0, len(order)
    while i < count:
        row = order[i]
        total = diffs[row]
        i += 1
        while i < count and equal[i]:
            diff = diffs[order[i]]
            added = total + diff
            if ((total ^ added) & (diff ^ added)) < 0:
                return -1
            total = added
            i += 1
        if total:
            rows[made], sums[made] = row, total
            made += 1
    return made

"""Sort rows and find equal ones, one 64-bit word of their keys at a time.

A word packs as many sort columns as fit: of a number its distance from the least value, in as few
bits as the greatest needs; of a text the bytes after the common prefix. The first word usually
distinguishes nearly all rows. Rows that tie go on with the next word or text, until they differ or
no column is left; then they are equal. Nested columns become bytes only for tied rows. Kernels:
`strata.kernels.merge_words`, `strata.kernels.merge_texts`.

The order is that of `sort_updates`: nulls last, NaN after all numbers, -0.0 equal to 0.0.
"""

from collections import deque
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from strata.format.values.coded import is_coded, is_text, ranks
from strata.format.values.physical import numbers, offsets, valid_mask
from strata.format.values.sortable import flat_columns, sortable_bytes
from strata.kernels.arrays import Bools, Int, Ints, Words
from strata.kernels.merge_texts import sort_texts
from strata.kernels.merge_words import common_prefix, place_bits, sort_words, text_words
from strata.updates.gather import WantedRows, valid_of
from strata.updates.order import (
    one_chunk,
)

WORD_BITS: Final = 64
LEAST_BITS: Final = 16  # fewer bits of a column are not worth packing: it is compared again whole
WORD_BYTES: Final = 8
TEXT_BITS: Final = 48  # a text goes into the first word if that has this much room
TEXT_SAMPLE: Final = 64  # texts that are sampled first
TELLING: Final = 1 / 8  # this many of these must differ in a word to make it worthwhile
SIGN: Final = np.uint64(1 << 63)


def arrange(columns: Sequence[pa.Array | pa.ChunkedArray]) -> tuple[Ints, Bools]:
    """Return the order of rows by `columns`, and whether each row in it equals the one before.

    Shape: row numbers and equally many booleans, the first False. Stable.
    Cost: for rows in k ascending runs, n log k comparisons; more only for rows that tie.
    """
    rows = len(columns[0])
    order = np.arange(rows)
    equal = np.ones(rows, np.bool_)
    equal[:1] = False
    waiting = deque(_Column(column) for column in columns)
    tied: Ints | None = None  # places in the order of rows that still tie; None: all
    while waiting and (tied is None or len(tied)):
        mine = order if tied is None else order[tied]
        same = equal if tied is None else equal[tied]
        _step(waiting, mine, same, first=tied is None)
        if tied is None:
            tied = np.flatnonzero(_in_groups(same))
        else:
            order[tied], equal[tied] = mine, same
            tied = tied[_in_groups(same)]
    return order, equal


class _Word:
    """The word being packed, from its top bit down."""

    def __init__(self, rows: int) -> None:
        """Begin with nothing."""
        self.words = np.zeros(rows, np.uint64)
        self.room = WORD_BITS

    def push(self, values: Words, valid: Bools | None = None) -> bool:
        """Append values, nothing for invalid ones; return whether all their bits fit.

        Changes nothing where too few bits would fit.
        """
        known = values if valid is None else values[valid]
        if not len(known):
            return True
        low = known.min()
        spread = int(known.max() - low).bit_length()
        kept = min(spread, self.room)
        if kept < spread and kept < LEAST_BITS:
            return False
        if kept:
            self.room -= kept
            mask = np.ones(0, np.bool_) if valid is None else valid
            place_bits(
                self.words, values, mask, low, np.uint64(spread - kept), np.uint64(self.room)
            )
        return kept == spread


class _Column:
    """A sort column, some of whose words have been compared."""

    def __init__(self, column: pa.Array | pa.ChunkedArray, numbers: Ints | None = None) -> None:
        """Begin at the first word. `numbers`: each row's place in `array`; None: the row itself."""
        self.chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        self.type = column.type
        self.numbers = numbers
        self.is_text = _is_text(column.type)
        self.done = 0  # words that are compared whole; a column with nulls has one for them
        self.skip: Int = 0  # bytes that the texts of each group share

    @cached_property
    def array(self) -> pa.Array:
        """The whole column."""
        return one_chunk(pa.chunked_array(self.chunks, self.type))

    @cached_property
    def texts(self) -> "_Texts":
        """All texts, where they lie."""
        return _Texts(self.chunks)

    @cached_property
    def valid(self) -> Bools | None:
        """A mask of the values that are not null; None if all are valid."""
        return valid_of(self.chunks)

    def some(self, places: Ints) -> pa.Array:
        """Return some values."""
        return WantedRows([len(chunk) for chunk in self.chunks], places).of(self.chunks)

    def push(self, word: _Word, rows: Ints, *, first: bool) -> bool:
        """Append what fits to a word; return whether the column is then fully compared.

        `first`: `rows` are all rows, in their original order.
        """
        places = rows if self.numbers is None else self.numbers[rows]
        valid = self.valid
        if valid is not None:
            valid = valid if first else valid[places]
            if not self.done:
                if not word.push((~valid).astype(np.uint64)):
                    return False
                self.done = 1
        if self.is_text:
            return first and self._push_text(word, places, valid)
        found = _words(self.array, None if first else places)
        for values in found[self.done - (valid is not None) :]:
            if not word.push(values, valid):
                return False
            self.done += 1
        return True

    def _push_text(self, word: _Word, places: Ints, valid: Bools | None) -> bool:
        """Append the first bytes of the texts; `sort` decides remaining ties."""
        if word.room < TEXT_BITS or not self._tells(places):
            return False
        texts, known = self.texts, places if valid is None else places[valid]
        self.skip = common_prefix(texts.at, texts.sizes, known) if len(known) else 0
        values = np.empty(len(places), np.uint64)
        shortest, longest = texts.words(self.skip, WORD_BYTES, places, values)
        whole = 0 <= shortest == longest <= WORD_BYTES
        if not whole and shortest >= 0 and longest < WORD_BYTES:
            texts.words(self.skip, WORD_BYTES - 1, places, values)
            whole = True
        fits = word.push(values, valid)
        if fits and not whole:
            self.skip += WORD_BYTES
        return bool(fits and whole)

    def _tells(self, places: Ints) -> bool:
        """Return whether texts of a spread sample differ in their first bytes."""
        some = np.ascontiguousarray(places[:: len(places) // TEXT_SAMPLE + 1])
        texts, words = self.texts, np.empty(len(some), np.uint64)
        skip = common_prefix(texts.at, texts.sizes, some)
        _, longest = texts.words(skip, WORD_BYTES, some, words)
        return bool(longest <= WORD_BYTES or len(np.unique(words)) >= TELLING * len(words))

    def sort(self, rows: Ints, equal: Bools) -> None:
        """Sort `rows` within their groups by the remaining bytes of their texts."""
        places = rows.copy() if self.numbers is None else self.numbers[rows]
        texts = self.texts
        room = np.empty_like(rows), np.empty_like(rows), np.empty_like(rows), np.empty_like(rows)
        starts = np.empty(len(rows) + 1, np.int64)
        sort_texts(texts.at, texts.sizes, self.skip, places, equal, rows, *room, starts)

    def flattened(self, rows: Ints) -> list["_Column"]:
        """Return the flat columns for a nested one, made only for `rows`."""
        places = rows if self.numbers is None else self.numbers[rows]
        numbers = np.zeros(int(rows.max()) + 1, np.int64)
        numbers[rows] = np.arange(len(rows))
        flat = flat_columns(self.some(places))
        return [_Column(column, numbers) for column in flat]


def _in_groups(equal: Bools) -> Bools:
    """Return which rows are in a group of two or more."""
    tied = equal.copy()
    tied[:-1] |= equal[1:]
    return tied


def _step(waiting: deque[_Column], rows: Ints, equal: Bools, *, first: bool) -> None:
    """Sort `rows` within their groups by the next word or text, and drop compared columns.

    `first`: `rows` are all rows, in their original order.
    """
    word = _Word(len(rows))
    while waiting and word.room:
        if pa.types.is_nested(waiting[0].type):
            waiting.extendleft(reversed(waiting.popleft().flattened(rows)))
        elif not waiting[0].push(word, rows, first=first and waiting[0].numbers is None):
            break
        else:
            waiting.popleft()
    if word.room < WORD_BITS:
        room = np.empty_like(word.words), np.empty_like(rows), np.empty(len(rows) + 1, np.int64)
        sort_words(word.words, rows, equal, *room)
    elif waiting:
        waiting.popleft().sort(rows, equal)


def _is_text(kind: pa.DataType) -> bool:
    return not (_is_word(kind) or is_coded(kind) or pa.types.is_decimal128(kind))


def _is_word(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_temporal(kind)
    )


def _words(array: pa.Array, places: Ints | None) -> list[Words]:
    """Return numbers as words that sort like them in sequence; words of nulls are arbitrary.

    `places` selects values, None all.
    """
    kind = array.type
    if is_coded(kind):
        return [ranks(array)[slice(None) if places is None else places]]
    if pa.types.is_boolean(kind):
        some = array if places is None else array.take(pa.array(places))
        return [some.cast(pa.uint8()).fill_null(0).to_numpy().astype(np.uint64)]
    at = slice(None) if places is None else places
    if pa.types.is_decimal128(kind):
        pairs = np.frombuffer(array.buffers()[1], np.uint64).reshape(-1, 2)
        pairs = pairs[array.offset : array.offset + len(array)][at]
        return [pairs[:, 1] ^ SIGN, np.ascontiguousarray(pairs[:, 0])]
    width = kind.bit_width // 8
    if pa.types.is_floating(kind):
        return [_float_words(numbers(array, np.dtype(f"<f{width}"))[at])]
    if pa.types.is_unsigned_integer(kind):
        return [numbers(array, np.dtype(f"<u{width}"))[at].astype(np.uint64)]
    whole = numbers(array, np.dtype(f"<i{width}"))[at].astype(np.int64)
    return [whole.view(np.uint64) ^ SIGN]


def _float_words(floats: npt.NDArray[Any]) -> Words:
    """Return floats as words: -0.0 as 0.0, all NaNs equal and after all other values."""
    wide = floats.astype(np.float64) + 0.0
    wide[np.isnan(wide)] = np.nan
    words = wide.view(np.uint64)
    negative = (words & SIGN) != 0
    found: Words = np.where(negative, ~words, words | SIGN)
    found[np.isnan(wide)] = np.iinfo(np.uint64).max
    return found


class _Texts:
    """Texts of several arrays in place: nothing is joined or copied. A null is empty."""

    def __init__(self, chunks: Sequence[pa.Array]) -> None:
        """Find the address and the length in bytes of each text. Shape: one a row."""
        self._held = [_as_bytes(chunk) for chunk in chunks]  # kernels get only the addresses
        self.at = np.empty(sum(map(len, chunks)), np.int64)
        self.sizes = np.empty_like(self.at)
        start = 0
        for array in self._held:
            place, start = slice(start, start + len(array)), start + len(array)
            ends, data = offsets(array), array.buffers()[2]
            np.add(ends[:-1], 0 if data is None else data.address, out=self.at[place])
            np.subtract(ends[1:], ends[:-1], out=self.sizes[place])
            if (valid := valid_mask(array)) is not None:
                self.sizes[place] *= valid

    def words(self, skip: Int, width: int, places: Ints, out: Words) -> tuple[Int, Int]:
        """Write some texts' bytes behind the first `skip` as words, see `text_words`."""
        found: tuple[Int, Int] = text_words(self.at, self.sizes, skip, width, places, out)
        return found


def _as_bytes(array: pa.Array) -> pa.Array:
    """Return texts, or bytes that sort like values of another type."""
    kind = array.type
    if pa.types.is_fixed_size_binary(kind):
        return array.cast(pa.binary())
    return array if is_text(kind) else sortable_bytes(array)

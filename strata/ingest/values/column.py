"""A converted column and its unreadable rows, and how to find them.

Whether a value is readable depends on that value alone. A column is converted at once; only if that
fails is it halved until the bad values are alone.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from strata.errors import InvalidRequest
from strata.ingest.values.usual import usual

Rows = npt.NDArray[np.int64]
NONE_BAD: Final[Rows] = np.empty(0, np.int64)
MOMENT: Final = r"^\d{4}-\d\d-\d\d(?:$|[ Tt])"  # how texts of timestamps begin
REFUSED: Final = (pa.ArrowInvalid, InvalidRequest)  # what a conversion of bad values raises


@dataclass(frozen=True, slots=True)
class Cast:
    """A converted column; bad values are null in it."""

    values: pa.Array
    bad: Rows  # row numbers, ascending

    def also(self, bad: Rows) -> "Cast":
        """Return the same column with more bad rows; their values are already null."""
        return Cast(self.values, np.union1d(self.bad, bad)) if len(bad) else self


def all_or_halves(
    values: pa.Array, goal: pa.DataType, convert: Callable[[pa.Array], pa.Array], like: str = ""
) -> Cast:
    """Convert distinct values, halving them until the bad ones are alone.

    `like`: a pattern; a text without it is known to be bad, and is not tried.
    Cost: one conversion if all are good; else about log2(n) for each bad distinct value.
    """
    try:
        return Cast(convert(values), NONE_BAD)
    except REFUSED:
        pass
    if like:
        unlike = pc.invert(pc.match_substring_regex(values, like))
        rows = np.flatnonzero(pc.fill_null(unlike, False).to_numpy(zero_copy_only=False))
        return all_or_halves(with_nulls(values, rows), goal, convert).also(rows)
    if pa.types.is_nested(values.type):
        converted, bad = _halves(values, goal, convert)
        return Cast(converted, np.array(bad, np.int64))
    encoded = values.dictionary_encode()
    found, bad = _halves(encoded.dictionary, goal, convert)
    indices = encoded.indices
    spoiled = pc.is_in(indices, pa.array(bad, indices.type))
    return Cast(found.take(indices), np.flatnonzero(spoiled.to_numpy(zero_copy_only=False)))


def _halves(
    values: pa.Array, goal: pa.DataType, convert: Callable[[pa.Array], pa.Array]
) -> tuple[pa.Array, list[int]]:
    pieces: list[pa.Array] = []
    bad: list[int] = []
    waiting = [(0, len(values))]
    while waiting:
        start, length = waiting.pop()
        try:
            pieces.append(convert(values.slice(start, length)))
        except REFUSED:
            if length == 1:
                pieces.append(pa.nulls(1, goal))
                bad.append(start)
            else:
                half = length // 2
                waiting += [(start + half, length - half), (start, half)]
    return pa.concat_arrays(pieces), bad


def valid(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are not null."""
    mask: npt.NDArray[np.bool_] = pc.is_valid(values).to_numpy(zero_copy_only=False)
    return mask


def lost(before: pa.Array, after: pa.Array) -> Rows:
    """Return the rows that a conversion has made null."""
    if before.null_count == after.null_count:
        return NONE_BAD
    found: Rows = np.flatnonzero(valid(before) & ~valid(after))
    return found


def plainly(values: pa.Array) -> pa.Array:
    """Return a column as its values: without an extension's name, a dictionary, runs, or views."""
    kind = values.type
    if isinstance(kind, pa.Bool8Type):
        return values.storage.cast(pa.bool_())
    if isinstance(kind, pa.BaseExtensionType):
        return plainly(values.storage)
    if pa.types.is_dictionary(kind):  # Arrow decodes none of views, which Polars writes
        return plainly(values.dictionary).take(values.indices)
    if pa.types.is_run_end_encoded(kind):
        runs = pa.RunEndEncodedArray.from_arrays(values.run_ends, plainly(values.values))
        return pc.run_end_decode(runs.slice(values.offset, len(values)))
    return usual(values)


def with_nulls(values: pa.Array, rows: Rows) -> pa.Array:
    """Return a column with these rows null."""
    if not len(rows):
        return values
    mask = np.zeros(len(values), np.bool_)
    mask[rows] = True
    return values.take(pa.array(np.arange(len(values)), mask=mask))


def choose(first: Sequence[bool], yes: Cast, no: Cast) -> Cast:
    """Return the values of `yes` where `first` is true, else those of `no`."""
    both = pa.concat_arrays([yes.values, no.values])
    at = np.arange(len(first)) + np.where(first, 0, len(first))
    return Cast(both.take(pa.array(at)), np.union1d(yes.bad, no.bad).astype(np.int64))

"""What a statistics column is worth beside others, as the statistics of several parts show it.

A bound helps where it differs from part to part: what lies in the same range everywhere skips
nothing, in however many rows it occurs. How often filters ask comes first (`usefulness`, from the
log of filters); this decides among columns that filters ask as often.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.kernels.arrays import Bools
from strata.stats.wire import JSON_PATH, Path, is_summary, parse_name

SAME: Final = 0.05  # below this share a path says next to nothing that differs between parts
_STEPS: Final = 4  # shares are rounded, so that among like ones the cheaper column stays
_LEAST: Final = 1e-9  # of a weight, below every usefulness
_ENDS: Final = (("low", "high"), ("num_low", "num_high"), ("str_low", "str_high"))


@dataclass(frozen=True, slots=True)
class StatsWorth:
    """What a job knows of statistics beside the rows that it writes; the same for all its tasks."""

    # Of statistics columns by name, where the budget is short; see `trim`
    weights: Mapping[str, float] = field(default_factory=dict)
    used: frozenset[str] = frozenset()  # that filters use; of JSON paths these come first
    same: frozenset[str] = frozenset()  # of JSON paths: the same in all parts, so they come last


NO_WORTH: Final = StatsWorth()


def worth_of(usefulness: Mapping[str, float], stats: pa.Table | None = None) -> StatsWorth:
    """Return the worth of statistics by use, and by what the statistics of several parts show."""
    used = frozenset(name for name, weight in usefulness.items() if weight)
    if stats is None or not stats.num_rows:
        return StatsWorth(dict(usefulness), used)
    return StatsWorth(weighed(usefulness, stats), used, same_everywhere(stats))


def selectivity(stats: pa.Table) -> dict[str, float]:
    """Return the share of parts that a look-up of one of its own ends skips, for each column.

    Shape: `stats` as of `concat`, a row a part; columns of bounds and counts by name, from 0 (every
    part has the same range) to almost 1 (no two ranges meet). Only the parts that know a column
    count; 0 for a single one.
    """
    named = ((name, stats[name]) for name in stats.column_names if is_summary(name))
    return {name: _selectivity(_whole(column)) for name, column in named}


def weighed(usefulness: Mapping[str, float], stats: pa.Table) -> dict[str, float]:
    """Return the weights of statistics columns: by their usefulness, and then by selectivity."""
    found = dict(usefulness)
    for name, share in selectivity(stats).items():
        found[name] = found.get(name, 0.0) + _LEAST * round(_STEPS * share) / _STEPS
    return found


def same_everywhere(stats: pa.Table) -> frozenset[str]:
    """Return the JSON paths that most parts know, and whose ranges hardly differ between them."""
    most = stats.num_rows / 2
    return frozenset(
        name
        for name, share in selectivity(stats).items()
        if share < SAME
        and stats[name].type == JSON_PATH
        and stats.num_rows - stats[name].null_count > most
    )


def paths_in(names: Collection[str], column_id: int) -> frozenset[Path]:
    """Return the paths of one JSON column that are among statistics columns, the root left out."""
    parsed = filter(None, map(parse_name, names))
    return frozenset(path for number, path in parsed if number == column_id and path)


def _selectivity(column: pa.StructArray) -> float:
    parts = len(column) - column.null_count
    kinds = list(_ranges(column))
    if not kinds:
        return 0.0
    skipped = []
    for low, high in kinds:
        rank = np.unique(np.concatenate([low, high]), return_inverse=True)[1]
        lows, highs = np.sort(rank[: len(low)]), np.sort(rank[len(low) :])
        # A look-up of v keeps the parts that begin at or before it and do not end before it
        kept = np.searchsorted(lows, rank, "right") - np.searchsorted(highs, rank, "left")
        skipped.append(1 - float(kept.mean()) / parts)
    return float(max(0.0, *skipped))


def _ranges(column: pa.StructArray) -> Iterator[tuple[np.ndarray[Any, Any], ...]]:
    """Yield the ends of each kind of values, of the parts that have both in the right order.

    A kind yields nothing if some part has one end without the other, or ends that contradict each
    other.
    """
    names = {field.name for field in column.type}
    there = np.asarray(column.is_valid(), np.bool_)
    for low, high in _ENDS:
        if low not in names:
            continue
        sides = [pc.struct_field(column, side) for side in (low, high)]
        some: Bools = there & np.asarray(
            pc.and_(sides[0].is_valid(), sides[1].is_valid()), np.bool_
        )
        halves = there & np.asarray(pc.xor(sides[0].is_valid(), sides[1].is_valid()), np.bool_)
        if not some.any() or halves.any() or not _ordered(sides[0].type):
            continue
        ends = [side.filter(pa.array(some)).to_numpy(zero_copy_only=False) for side in sides]
        if not (ends[0] > ends[1]).any():
            yield tuple(ends)


def _ordered(kind: pa.DataType) -> bool:
    """Return whether values sort in NumPy as they do in statistics."""
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_date(kind)
        or pa.types.is_timestamp(kind)
        or pa.types.is_string(kind)
        or pa.types.is_binary(kind)
    )


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

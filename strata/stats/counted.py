"""How many paths of a JSON column have statistics, how many are left out, and how that is said."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.kernels.arrays import Ints
from strata.stats.wire import DOCUMENTS, parse_name


@dataclass(frozen=True, slots=True)
class CountedPaths:
    """The paths of one JSON column in one part."""

    paths: int  # all of them, the root not counted
    kept: int  # that have statistics

    @property
    def left_out(self) -> int:
        """Return how many have no statistics."""
        return max(0, self.paths - self.kept)

    def said(self, column: str) -> str:
        """Return the counts as people read them, everywhere in the same words.

        >>> CountedPaths(2000, 255).said("doc")
        'of 2,000 paths of doc, 255 have statistics and 1,745 are left out'
        """
        return (
            f"of {self.paths:,} paths of {column}, {self.kept:,} have statistics "
            f"and {self.left_out:,} are left out"
        )


def kept_paths(stats: pa.Table, column_id: int) -> Ints:
    """Return how many paths below the root of a JSON column have statistics, for each part.

    Shape: `stats` a row a part.
    """
    counts = np.zeros(stats.num_rows, np.int64)
    for name in stats.column_names:
        parsed = parse_name(name)
        if parsed is not None and parsed[0] == column_id and parsed[1]:
            counts += np.asarray(stats[name].is_valid())
    return counts


def most_left_out(stats: pa.Table) -> Mapping[int, CountedPaths]:
    """Return of each JSON column the counts of the part in which most paths are left out.

    Parts that do not say how many paths they have (as those of earlier versions) do not count; a
    column that has no other parts is missing. Shape: as of `kept_paths`; by the column's id.
    """
    found = {}
    for name in stats.column_names:
        parsed = parse_name(name)
        if parsed is None or stats[name].type != DOCUMENTS:
            continue
        paths = pc.struct_field(stats[name], "paths").combine_chunks()
        counted = np.asarray(paths.is_valid(), np.bool_)
        if counted.any():
            least = np.asarray(paths.fill_null(0), np.int64)
            kept = kept_paths(stats, parsed[0])
            worst = int(np.where(counted, least - kept, np.iinfo(np.int64).min).argmax())
            found[parsed[0]] = CountedPaths(int(least[worst]), int(kept[worst]))
    return found

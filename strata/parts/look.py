"""Look at a filter's columns first: a row group without an accepted row is not decoded further.

Nothing is concluded from statistics: the filter is executed on the rows themselves, on each update
of a row alike. So all updates of a row that it accepts are read, and what is left out would have
been dropped.
Law (tests/laws/test_look.py): a read yields the same rows without looking.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from strata.errors import Corrupt, InvalidRequest
from strata.format.manifest import PartRef
from strata.format.part import read_part
from strata.kernels.arrays import Bools
from strata.parts.fetch import PartSource

LEAST_GROUPS: Final = 4  # of fewer row groups too little is spared
MOST_PASSES: Final = 16
LOOK_ROWS: Final = 1 << 20  # whose columns of the filter are held at a time


@dataclass(slots=True)
class Look:
    """A filter on rows as they are stored, for the parts of one read.

    After a look that spares nothing the next part is not looked at, then the next two, and so on.
    """

    columns: frozenset[int]  # ids that it reads
    accepts: Callable[[pa.RecordBatch], pa.BooleanArray]
    in_vain: int = 0  # parts that are passed by after the latest look
    passes: int = 0  # parts of them that are still to come

    def groups(
        self, source: PartSource, ref: PartRef, data: bytes, groups: Sequence[int] | None
    ) -> Sequence[int] | None:
        """Return those row groups of a part that have an accepted row; None: all.

        `groups`: those that are asked for, None all. They are returned as they are where most of a
        few have such a row, and where looking fails: then reading fails, too, or says what to do.
        """
        asked = list(range(len(ref.splits))) if groups is None else list(groups)
        if len(asked) < LEAST_GROUPS or "row" in (ref.layout, source.read_format):
            return groups
        if self.passes > 0:
            self.passes -= 1
            return groups
        found = self._found(source, ref, data, asked)
        spared = found is not None and len(found) < len(asked)
        self.in_vain = 0 if spared else min(2 * self.in_vain or 1, MOST_PASSES)
        self.passes = self.in_vain
        return found if spared else groups

    def _found(
        self, source: PartSource, ref: PartRef, data: bytes, asked: Sequence[int]
    ) -> list[int] | None:
        few = [asked[0], asked[len(asked) // 2], asked[-1]]
        try:
            found = self._accepted(source, ref, data, few)
            if 2 * len(found) > len(few):
                return None
            rest = [group for group in asked if group not in few]
            for some in _steps(ref, rest):
                found += self._accepted(source, ref, data, some)
        except (Corrupt, InvalidRequest, pa.ArrowException, ValueError, ArithmeticError):
            return None
        return sorted(found)

    def _accepted(
        self, source: PartSource, ref: PartRef, data: bytes, groups: Sequence[int]
    ) -> list[int]:
        batches = read_part(
            data,
            source.relation,
            relations=source.relations,
            read_format=source.read_format,
            columns=self.columns,
            row_groups=groups,
            threads=False,
        )
        flags = [self.accepts(batch).to_numpy(zero_copy_only=False) for batch in batches]
        rows: Bools = np.concatenate(flags) if flags else np.zeros(0, np.bool_)
        ends = np.cumsum([_rows(ref, group) for group in groups])
        if len(rows) != ends[-1]:
            raise ValueError("the row groups are not those of the manifest")
        counts = np.diff(np.cumsum(rows)[ends - 1], prepend=0)
        return [group for group, count in zip(groups, counts.tolist(), strict=True) if count]


def _rows(ref: PartRef, group: int) -> int:
    """Return the number of rows of a row group, at least one."""
    end = ref.splits[group + 1].row if group + 1 < len(ref.splits) else ref.rows
    if end <= ref.splits[group].row:
        raise ValueError("a row group without rows")
    return end - ref.splits[group].row


def _steps(ref: PartRef, groups: Sequence[int]) -> list[list[int]]:
    """Return the row groups in steps of at most about LOOK_ROWS rows."""
    steps: list[list[int]] = []
    rows = LOOK_ROWS
    for group in groups:
        rows += _rows(ref, group)
        if rows > LOOK_ROWS:
            steps.append([])
            rows = _rows(ref, group)
        steps[-1].append(group)
    return steps

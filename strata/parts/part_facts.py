"""Collect what a manifest says about a part's rows, row group by row group.

Each fact is a sum, a minimum or a maximum over rows, or the key of a row group's first or last row.
Small row groups are examined several at once, because the fixed cost of one call equals that of
5,000 rows. Twin: all facts from all rows at once (`tests/laws/test_observed.py`).
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.format.columns import D, T
from strata.format.digest import content_digest, diffs_sum
from strata.format.manifest import Split
from strata.format.values.coded import alike
from strata.model.schema import Relation
from strata.model.sums import wrapped
from strata.stats import collect, concat, union
from strata.stats.members import Gathering, PlaceValues, Sought
from strata.stats.pairs import PairGathering, SoughtPair
from strata.stats.shapes import Shapes
from strata.stats.worth import NO_WORTH, StatsWorth
from strata.updates.order import encode_keys, first_and_last, high_key, rows_at, shared_bytes

KEY_BYTES: Final = 64  # length of key bounds in manifests, and usually of split points
MOST_KEY_BYTES: Final = 1024  # length of split points where keys begin alike
APART_BYTES: Final = 8  # of a split point's key, after the prefix shared with its neighbours
TOGETHER_BYTES: Final = 4 * 1024 * 1024  # of row groups that are examined together
SMALL: Final = 1 / 4  # of these bytes; larger row groups are examined one by one
FEW_BYTES: Final = 2 * TOGETHER_BYTES  # of row groups whose first and last rows are copied at once
ENDS_BYTES: Final = 1024 * 1024  # of first and last rows that wait to be encoded as keys


@dataclass(frozen=True, slots=True)
class PartFacts:
    """The facts about the rows of a part. Units: times as stored."""

    rows: int
    t_low: int
    t_high: int
    diffs_sum: int  # modulo 2**64, signed: see `strata.model.sums`
    digest: int
    retractions: bool
    key_low: bytes
    key_high: bytes | None  # None: no bytes are high enough
    splits: tuple[Split, ...]
    stats: pa.RecordBatch | None  # None: none were requested
    members: tuple[PlaceValues, ...] = ()  # values at the wanted places


class Observed:
    """Takes the rows of a part as they come, and holds those not yet examined."""

    def __init__(  # noqa: PLR0913  what a part gets, by name
        self,
        relation: Relation,
        group_bytes: int,
        *,
        stats: bool,
        wanted: Sequence[Sought] = (),
        pairs: Sequence[SoughtPair] = (),
        keep: Sequence[str] = (),
        worth: StatsWorth = NO_WORTH,
    ) -> None:
        """Begin without rows. `group_bytes`: largest row group; `stats`: whether to collect any.

        `wanted`, `pairs`: the places whose values, and the pairs whose differences are collected
        as well. `keep`: as of `collect`. `worth`: which paths of JSON come first and last.
        """
        self._members = Gathering(wanted if stats else ())
        self._shapes = Shapes(relation)
        self._pairs = PairGathering(pairs if stats else ())
        self._relation, self._keep, self._worth = relation, keep, worth
        self._limit = TOGETHER_BYTES if group_bytes <= SMALL * TOGETHER_BYTES else 0
        self._wants_stats = stats
        self._waiting: list[pa.Table] = []
        self._waiting_bytes = 0
        self._starts: list[int] = []
        self._ends: list[pa.Table] = []  # first and last row of each row group
        self._ends_bytes = 0
        self._keys: list[bytes] = []  # keys of the first and last rows so far
        self._stats: list[pa.RecordBatch] = []
        self._counts: list[int] = []  # number of rows behind each of these
        self._times: list[int] = []
        self._rows = self._digest = self._diffs_sum = 0
        self._retractions = False
        self.seconds = 0.0  # processor time spent on statistics

    def add(self, group: pa.Table, size_bytes: int) -> None:
        """Add a row group of at least one row."""
        self._waiting.append(group)
        self._waiting_bytes += size_bytes
        self._starts.append(self._rows)
        self._rows += group.num_rows

    def look(self) -> None:
        """Examine the waiting rows if there are enough."""
        if self._waiting_bytes >= self._limit:
            self._look()

    def finish(self) -> PartFacts:
        """Examine the remaining rows and return all facts; there must have been a row."""
        self._look()
        if self._keys or not self._encode_few_bytes():
            self._encode_ends()
        began = time.thread_time()
        stats = self._union()
        members = tuple(self._members.finish(stats))
        stats = None if stats is None else self._pairs.beside(self._shapes.beside(stats))
        self.seconds += time.thread_time() - began
        splits = map(Split, self._starts, _told_apart(self._keys[::2]))
        return PartFacts(
            self._rows,
            min(self._times),
            max(self._times),
            self._diffs_sum,
            self._digest,
            self._retractions,
            self._keys[0][:KEY_BYTES],
            high_key(self._keys[-1], KEY_BYTES),
            tuple(splits),
            stats,
            members,
        )

    def _look(self) -> None:
        if not self._waiting:
            return
        whole, few = self._waiting, self._waiting_bytes <= FEW_BYTES
        rows = whole[0] if len(whole) == 1 else pa.concat_tables(alike(whole)).combine_chunks()
        self._waiting, self._waiting_bytes = [], 0
        self._take_ends(rows, [group.num_rows for group in whole], few)
        times, diffs = pc.min_max(rows[T]).as_py(), rows[D]
        self._times += [times["min"], times["max"]]
        self._diffs_sum = wrapped(self._diffs_sum + diffs_sum(rows))
        self._retractions |= pc.min(diffs).as_py() < 0
        self._digest = (self._digest + content_digest(rows, self._relation)) % 2**64
        if self._wants_stats:
            began = time.thread_time()
            self._stats.append(
                collect(
                    rows,
                    self._relation,
                    self._keep,
                    used=self._worth.used,
                    same=self._worth.same,
                    shapes=self._shapes,
                )
            )
            self._counts.append(rows.num_rows)
            self._members.add(rows)
            self._shapes.add(rows)
            self._pairs.add(rows)
            self.seconds += time.thread_time() - began

    def _take_ends(self, rows: pa.Table, counts: Sequence[int], few: bool) -> None:
        """Take the first row and the last of each row group; all at once of `few` bytes."""
        edges = list(accumulate(counts, initial=0))
        if few:  # rows may be wide: a call for each column costs more than it copies
            places = [at for start, end in pairwise(edges) for at in (start, end - 1)]
            self._ends.append(rows_at(rows, self._relation, places))
            self._check_ends()
            return
        for start, count in zip(edges, counts, strict=False):
            group = rows.slice(start, count)
            self._ends.append(first_and_last(group, self._relation, MOST_KEY_BYTES))
            self._check_ends()

    def _check_ends(self) -> None:
        self._ends_bytes += self._ends[-1].nbytes
        if self._ends_bytes > ENDS_BYTES:
            self._encode_ends()

    def _encode_ends(self) -> None:
        if self._ends:
            ends = pa.concat_tables(self._ends)
            self._keys += encode_keys(ends, self._relation, MOST_KEY_BYTES).to_pylist()
            self._ends, self._ends_bytes = [], 0

    def _encode_few_bytes(self) -> bool:
        """Encode the ends as far as the facts need them; return whether that tells them apart.

        Wide rows have many columns behind those that do.
        """
        ends = pa.concat_tables(self._ends)
        keys = encode_keys(ends, self._relation, KEY_BYTES + 1).to_pylist()
        firsts = pairwise(keys[::2])
        enough = all(shared_bytes(a, b) + APART_BYTES <= KEY_BYTES for a, b in firsts)
        self._keys = keys if enough else []
        return enough

    def _union(self) -> pa.RecordBatch | None:
        found = self._stats
        return union(concat(found, self._counts)) if len(found) > 1 else (found or [None])[0]


def _told_apart(keys: Sequence[bytes]) -> Iterator[bytes]:
    """Yield prefixes of sorted keys, long enough to distinguish each from its neighbours.

    Otherwise no slice could end among row groups whose keys begin alike. Rows that begin with a
    prefix count as rows of the row group before, so the next group must not share the prefix.
    """
    shared = [shared_bytes(before, key) for before, key in pairwise(keys)]
    for key, behind, ahead in zip(keys, [0, *shared], [*shared, 0], strict=True):
        yield key[: max(KEY_BYTES, max(behind, ahead) + APART_BYTES)]

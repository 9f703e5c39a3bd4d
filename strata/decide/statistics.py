"""The statistics of many parts: columns, bounds and members, each decoded once, on first use."""

from collections.abc import Collection, Iterable

import pyarrow as pa

from strata.decide.fields import Part, StatsArray, seen, seen_part
from strata.decide.members import PlaceMembers, is_bloom
from strata.decide.pairs import PairBounds
from strata.model.schema import Relation
from strata.model.types import ColumnType
from strata.stats.pairs import pair_named
from strata.stats.wire import PAIR, SET, SHAPE, bloom_name, pair_name, set_name, shape_name


class Statistics:
    """The statistics of many parts, decoded once."""

    def __init__(
        self,
        stats: pa.Table | pa.RecordBatch,
        relation: Relation,
        quarantine: Collection[str],
        *,
        hopeful: bool = False,
    ) -> None:
        """Take statistics. `quarantine` has column ids as text; its other words are ignored.

        `hopeful`: bloom filters that are not fetched hold nothing, see `PlaceMembers`.
        """
        self.relation = relation
        self._hopeful = hopeful
        self._members: dict[str, PlaceMembers | None] = {}
        self._pairs: dict[str, PairBounds | None] = {}
        self.quarantine = frozenset(quarantine)
        self.num_rows = stats.num_rows
        self._stats = stats
        self._arrays: dict[str, pa.Array | None] = {}
        self._fields: dict[tuple[str, str], StatsArray | None] = {}
        self._parts: dict[tuple[str, int], Part | None] = {}

    def field(self, column: str, name: str = "") -> StatsArray | None:
        """Return a column of the table, or a field of a struct column; None if there is none."""
        key = (column, name)
        if key not in self._fields:
            self._fields[key] = self._load(column, name)
        return self._fields[key]

    def bound(self, column: str, side: str, declared: ColumnType) -> StatsArray | None:
        """Return the bounds of one side as Spark sees the type's values; None if there are none.

        Bounds of a type that the declared one has widened are widened with it.
        """
        key = (column, f"{side} as {declared}")
        if key not in self._fields:
            raw = self.field(column, side)
            self._fields[key] = None if raw is None else seen(raw, declared)
        return self._fields[key]

    def part(self, column: str, declared: ColumnType, ordinal: int) -> Part | None:
        """Return the bounds of one field of values stored as a number and shown as a struct."""
        key = (column, ordinal)
        if key not in self._parts:
            low, high = (self.bound(column, side, declared) for side in ("low", "high"))
            self._parts[key] = seen_part(low, high, ordinal) if low and high else None
        return self._parts[key]

    def members(self, place: str, form: str | None) -> PlaceMembers | None:
        """Return what is known of the values at a place; None if nothing is."""
        if place not in self._members:
            sets, blooms = self._column(set_name(place)), self._column(bloom_name(place))
            sets = sets if sets is not None and sets.type == SET else None
            blooms = blooms if blooms is not None and is_bloom(blooms.type) else None
            shapes = self._column(shape_name(place))
            shapes = shapes if shapes is not None and shapes.type == SHAPE else None
            known = form is not None and not (sets is blooms is shapes is None)
            found = (sets, blooms, shapes, form or "", self.num_rows)
            self._members[place] = PlaceMembers(*found, hopeful=self._hopeful) if known else None
        return self._members[place]

    def pair(self, left: str, right: str) -> PairBounds | None:
        """Return how the values of two places differ; None if nothing is known of them."""
        name = pair_name(left, right)
        if name not in self._pairs:
            array, pair = self._column(name), pair_named(self.relation, name)
            found = None
            if array is not None and array.type == PAIR and pair is not None:
                trusted = not {str(i) for i in pair.ids} & self.quarantine
                found = PairBounds.decoded(array, pair.form) if trusted else None
            self._pairs[name] = found
        return self._pairs[name]

    def _load(self, column: str, name: str) -> StatsArray | None:
        chunks = self._chunks(column)
        if not chunks:
            return None
        kind = chunks[0].type
        if not pa.types.is_struct(kind):
            return None if name else StatsArray(_joined(chunks))
        if not name:
            return StatsArray(_joined(chunks if len(chunks) == 1 else map(_without_fields, chunks)))
        if kind.get_field_index(name) < 0:
            return None
        return StatsArray(_joined([chunk.field(name) for chunk in chunks]))

    def _column(self, column: str) -> pa.Array | None:
        """Return a column of the table as one chunk; copies only if it has several."""
        if column not in self._arrays:
            chunks = self._chunks(column)
            self._arrays[column] = _joined(chunks) if chunks else None
        return self._arrays[column]

    def _chunks(self, column: str) -> list[pa.Array]:
        """Return the chunks of a column of the table, at least one; none if there is none."""
        if self._stats.schema.get_field_index(column) < 0:
            return []
        found = self._stats.column(column)
        if not isinstance(found, pa.ChunkedArray):
            return [found]
        return found.chunks or [found.combine_chunks()]


def _joined(chunks: Iterable[pa.Array]) -> pa.Array:
    some = list(chunks)
    return some[0] if len(some) == 1 else pa.concat_arrays(some)


def _without_fields(array: pa.StructArray) -> pa.StructArray:
    """Return structs without fields that are null where these are."""
    valid, nulls = array.buffers()[0], array.null_count
    return pa.Array.from_buffers(pa.struct([]), len(array), [valid], nulls, array.offset)

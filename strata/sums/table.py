"""The columns of sums by groups, and their rows as exact Python numbers.

    a, b (key) | count | sum_c, count_c for each column c | min_c for some | max_c for some

`count_c` counts values that are not null. A group has no row when all its numbers are 0 and it has
no value. `sum_c` is null when `count_c` is 0, as in SQL.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, TypeAlias

import pyarrow as pa

from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.format.columns import D, T, updates_schema
from strata.format.values.view import view_type
from strata.model.schema import Column, Relation
from strata.model.spec import ColumnSpec, ShardSpec, SourceSpec
from strata.model.types import ColumnType, Kind
from strata.plain.conditions import And
from strata.plain.of_arrow import among
from strata.plain.weaker import weaker
from strata.state.state import State
from strata.sums.ends import End, EndsFold
from strata.sums.values import (
    DIGITS,
    EXACT,
    fitting_numbers,
    has_order,
    ordered_values,
    units,
    unordered,
)
from strata.sums.wish import SumsWish

COUNT: Final = "count"
FEW: Final = 200  # values of a key column that a filter names
SMALL: Final = frozenset({Kind.INT16, Kind.INT32, Kind.UINT8, Kind.UINT16, Kind.UINT32})
WIDE: Final = frozenset({Kind.INT64, Kind.UINT64})
_SCALARS: Final = "bool int16 int32 int64 date timestamp timestamptz string varchar bytes"
GROUPS: Final = frozenset(map(Kind, _SCALARS.split()))
Group: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class GroupSums:
    """The numbers of a group: a count, of each summed column the sum and how many values, ends."""

    count: int
    sums: tuple[int, ...]  # in units of the last digit
    known: tuple[int, ...]
    ends: tuple[Any, ...] = ()  # the least and greatest values; None where there is none

    def plus(self, other: "GroupSums") -> "GroupSums":
        """Return both together; ends do not add up, and stay."""
        return GroupSums(
            self.count + other.count,
            tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)),
            tuple(a + b for a, b in zip(self.known, other.known, strict=True)),
            self.ends,
        )


@dataclass(frozen=True)
class SumsTable:
    """The columns of a source that make groups, and those that are added up."""

    by: tuple[Column, ...]
    added: tuple[Column, ...]
    least: tuple[Column, ...] = ()
    greatest: tuple[Column, ...] = ()

    @staticmethod
    def of(source: State, wish: SumsWish) -> "SumsTable":
        """Return them. Raises: InvalidRequest for columns that cannot be."""
        chosen = (wish.by, wish.sums, wish.least, wish.greatest)
        table = SumsTable(*(tuple(map(source.relation.column, some)) for some in chosen))
        if not wish.by:
            raise InvalidRequest("sums need a group", shard=source.name, cure="--by COLUMN")
        for column in table.by:
            if column.type.kind not in GROUPS:
                raise InvalidRequest(
                    "values of this column make no groups",
                    column=column.name,
                    type=str(column.type),
                    cure="group by " + ", ".join(sorted(GROUPS)),
                )
        for column in table.added:
            _sum_type(column)
        for column in table.valued:
            if not has_order(column.type):
                raise InvalidRequest(
                    "values of this column have no order here",
                    column=column.name,
                    type=str(column.type),
                    cure="numbers, texts, dates, timestamps or booleans",
                )
        names = [name.lower() for name, _ in table._declared]
        if len(set(names)) < len(names):
            raise InvalidRequest(
                "two columns of the sums would have one name",
                columns=names,
                cure="name each column once; rename a group column that is called as a sum",
            )
        return table

    @cached_property
    def columns(self) -> list[str]:
        """Return the names of what is read of the source."""
        return list(dict.fromkeys(c.name for c in (*self.by, *self.added, *self.valued)))

    @property
    def ids(self) -> tuple[int, ...]:
        """Return the ids of the columns: a name may come to mean another column."""
        return tuple(c.id for c in (*self.by, *self.added, *self.least, *self.greatest))

    @cached_property
    def valued(self) -> tuple[Column, ...]:
        """Return the columns with an end."""
        return tuple(dict.fromkeys((*self.least, *self.greatest)))

    @cached_property
    def fold(self) -> EndsFold:
        """Return how the ends of a group follow changes."""
        ends = [End(self.valued.index(c), greatest=False) for c in self.least]
        ends += [End(self.valued.index(c), greatest=True) for c in self.greatest]
        return EndsFold(tuple(ends), len(self.valued))

    @cached_property
    def nothing(self) -> GroupSums:
        """Return the numbers of a group without rows."""
        zeros = (0,) * len(self.added)
        return GroupSums(0, zeros, zeros, (None,) * len(self.fold.ends))

    @cached_property
    def _declared(self) -> list[tuple[str, ColumnType]]:
        whole = ColumnType(Kind.INT64)
        found = [*((c.name, c.type) for c in self.by), (COUNT, whole)]
        for c in self.added:
            found += [(f"sum_{c.name}", _sum_type(c)), (f"count_{c.name}", whole)]
        return found + self._end_columns

    @property
    def _end_columns(self) -> list[tuple[str, ColumnType]]:
        found = [(f"min_{c.name}", c.type) for c in self.least]
        return found + [(f"max_{c.name}", c.type) for c in self.greatest]

    def declaration(self, wish: SumsWish) -> ShardSpec:
        """Return the declaration of the shard that holds these sums."""
        columns = tuple(ColumnSpec(n, kind) for n, kind in self._declared)
        key = tuple(c.name for c in self.by)
        source = SourceSpec(envelope="diff", diff_column="d_")
        return ShardSpec(wish.target, columns, key, source=source, sums=wish.declared)

    def changes(
        self, rows: Iterable[pa.RecordBatch]
    ) -> Iterator[tuple[Group, int, GroupSums, Group]]:
        """Yield the group, time, numbers and values (of `valued`) of each update of the source."""
        for batch in rows:
            groups = self._of_columns(batch, self.by)
            added = _rows(batch, [units(_column(batch, c.name), c.type) for c in self.added])
            valued = self._of_columns(batch, self.valued)
            times, diffs = batch.column(T).to_pylist(), batch.column(D).to_pylist()
            for group, some, values, t, d in zip(groups, added, valued, times, diffs, strict=True):
                sums = tuple(0 if v is None else v * d for v in some)
                known = tuple(0 if v is None else d for v in some)
                yield group, t, GroupSums(d, sums, known, self.nothing.ends), values

    def held(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[Group, GroupSums, int]]:
        """Yield the group, the numbers and the diff of each row of the target."""
        numbers = self._declared[len(self.by) : len(self.by) + 1 + 2 * len(self.added)]
        for batch in rows:
            columns = [units(_column(batch, name), kind) for name, kind in numbers]
            ends = [ordered_values(_column(batch, name), kind) for name, kind in self._end_columns]
            groups, diffs = self._of_columns(batch, self.by), batch.column(D).to_pylist()
            for group, row, outer, d in zip(
                groups, _rows(batch, columns), _rows(batch, ends), diffs, strict=True
            ):
                count, *others = (value or 0 for value in row)
                yield group, GroupSums(count, tuple(others[::2]), tuple(others[1::2]), outer), d

    def arrow(
        self, updates: Sequence[tuple[Group, GroupSums, int, int]], relation: Relation
    ) -> pa.Table:
        """Return updates of the target. Raises: InvalidRequest for a number that does not fit."""
        schema = updates_schema(relation)
        types, arrays = iter(schema.types), []
        declared = iter(self._declared)
        for i in range(len(self.by)):
            _, kind = next(declared)
            arrays.append(unordered([u[0][i] for u in updates], kind, next(types)))
        numbers: list[list[int | None]] = [[u[1].count for u in updates]]
        for i in range(len(self.added)):
            pairs = [(u[1].sums[i], u[1].known[i]) for u in updates]
            numbers.append([s if s or known else None for s, known in pairs])
            numbers.append([known for _, known in pairs])
        for values in numbers:
            arrays.append(fitting_numbers(values, *next(declared), next(types)))
        for i, (_, kind) in enumerate(declared):
            arrays.append(unordered([u[1].ends[i] for u in updates], kind, next(types)))
        arrays += [pa.array([u[i] for u in updates], pa.int64()) for i in (2, 3)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def few(self, relation: Relation, groups: Iterable[Group]) -> Filter | None:
        """Return a plain filter, of source or target, that is true for these groups.

        None: they are too many to name, or have values that it cannot name.
        """
        listed = []
        for column, values in zip(self.by, map(set, zip(*groups, strict=True)), strict=False):
            if len(values) <= FEW and None not in values:
                wanted = view_type(column.type)
                listed.append(among(column.name, unordered(list(values), column.type, wanted)))
        return weaker(relation, And(listed)) if listed else None

    def shown(
        self, group: Group, held: GroupSums | None, right: GroupSums | None
    ) -> dict[str, Any]:
        """Return a group that differs, as people read it."""
        key = {c.name: _seen(v, c.type) for v, c in zip(group, self.by, strict=True)}
        return {"group": key, "held": self._named(held), "right": self._named(right)}

    def _named(self, sums: GroupSums | None) -> dict[str, Any] | None:
        if sums is None or sums == self.nothing:
            return None
        found: dict[str, Any] = {COUNT: sums.count}
        for c, total, known in zip(self.added, sums.sums, sums.known, strict=True):
            scale = _sum_type(c).scale or 0
            found[f"sum_{c.name}"] = str(Decimal(total).scaleb(-scale, EXACT)) if scale else total
            found[f"count_{c.name}"] = known
        for (name, kind), value in zip(self._end_columns, sums.ends, strict=True):
            found[name] = _seen(value, kind)
        return found

    def _of_columns(self, batch: pa.RecordBatch, columns: Sequence[Column]) -> Iterator[Group]:
        return _rows(batch, [ordered_values(_column(batch, c.name), c.type) for c in columns])


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    return batch.column(batch.schema.get_field_index(name))


def _rows(batch: pa.RecordBatch, columns: list[Any]) -> Iterator[Group]:
    return zip(*columns, strict=True) if columns else iter([()] * batch.num_rows)


def _seen(value: Any, kind: ColumnType) -> Any:
    """Return a value as JSON has it; a time beyond Python's years as its number."""
    try:
        found = unordered([value], kind, view_type(kind))[0].as_py()
    except (OverflowError, ValueError):
        return value
    return str(found) if isinstance(found, Decimal) else found


def _sum_type(column: Column) -> ColumnType:
    """Return the type of a column's sum. Raises: InvalidRequest if it has no exact one."""
    kind = column.type.kind
    if kind in SMALL:
        return ColumnType(Kind.INT64)
    if kind in WIDE:
        return ColumnType(Kind.NUMERIC, DIGITS, 0)
    if kind == Kind.NUMERIC and column.type.precision is not None:
        return ColumnType(Kind.NUMERIC, DIGITS, column.type.scale)
    raise InvalidRequest(
        "this column has no exact sum, which retractions could undo",
        column=column.name,
        type=str(column.type),
        cure="whole numbers or numeric(p,s); sums of floats depend on the order of the rows",
    )

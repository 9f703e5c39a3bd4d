"""The columns of sums by groups, and their rows as exact Python numbers.

    a, b (key) | count | sum_c, count_c for each column c      count_c: values that are not null

A group has no row when all its numbers are 0. `sum_c` is null when `count_c` is 0, as in SQL.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Context, Decimal
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
from strata.plain.of_arrow import among
from strata.plain.weaker import weaker
from strata.state.state import State

COUNT: Final = "count"
FEW: Final = 200  # values of the first key column that a filter names
DIGITS: Final = 38
EXACT: Final = Context(prec=2 * DIGITS)
SMALL: Final = frozenset({Kind.INT16, Kind.INT32, Kind.UINT8, Kind.UINT16, Kind.UINT32})
WIDE: Final = frozenset({Kind.INT64, Kind.UINT64})
_SCALARS: Final = "bool int16 int32 int64 date timestamp timestamptz string varchar bytes"
GROUPS: Final = frozenset(map(Kind, _SCALARS.split()))
Group: TypeAlias = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class GroupSums:
    """The numbers of a group: a count, and of each summed column the sum and how many values."""

    count: int
    sums: tuple[int, ...]  # in units of the last digit
    known: tuple[int, ...]

    def plus(self, other: "GroupSums") -> "GroupSums":
        """Return both together."""
        return GroupSums(
            self.count + other.count,
            tuple(a + b for a, b in zip(self.sums, other.sums, strict=True)),
            tuple(a + b for a, b in zip(self.known, other.known, strict=True)),
        )


@dataclass(frozen=True)
class SumsTable:
    """The columns of a source that make groups, and those that are added up."""

    by: tuple[Column, ...]
    added: tuple[Column, ...]

    @staticmethod
    def of(source: State, by: Sequence[str], sums: Sequence[str]) -> "SumsTable":
        """Return them. Raises: InvalidRequest for columns that cannot be."""
        columns = source.relation
        table = SumsTable(
            tuple(columns.column(n) for n in by), tuple(columns.column(n) for n in sums)
        )
        if not by:
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
        return list(dict.fromkeys(c.name for c in (*self.by, *self.added)))

    @property
    def ids(self) -> tuple[int, ...]:
        """Return the ids of the columns: a name may come to mean another column."""
        return tuple(c.id for c in (*self.by, *self.added))

    @cached_property
    def nothing(self) -> GroupSums:
        """Return the numbers of a group without rows."""
        zeros = (0,) * len(self.added)
        return GroupSums(0, zeros, zeros)

    @cached_property
    def _declared(self) -> list[tuple[str, ColumnType]]:
        whole = ColumnType(Kind.INT64)
        found = [*((c.name, c.type) for c in self.by), (COUNT, whole)]
        for c in self.added:
            found += [(f"sum_{c.name}", _sum_type(c)), (f"count_{c.name}", whole)]
        return found

    def declaration(self, name: str) -> ShardSpec:
        """Return the declaration of the shard that holds these sums."""
        columns = tuple(ColumnSpec(n, kind) for n, kind in self._declared)
        key = tuple(c.name for c in self.by)
        return ShardSpec(name, columns, key, source=SourceSpec(envelope="diff", diff_column="d_"))

    def changes(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[Group, int, GroupSums]]:
        """Yield the group, the time and the numbers of each update of the source."""
        for batch in rows:
            groups = self._groups(batch)
            added = [
                _units(batch.column(batch.schema.get_field_index(c.name)), c.type)
                for c in self.added
            ]
            values = zip(*added, strict=True) if added else ((),) * batch.num_rows
            times, diffs = batch.column(T).to_pylist(), batch.column(D).to_pylist()
            for group, some, t, d in zip(groups, values, times, diffs, strict=True):
                sums = tuple(0 if v is None else v * d for v in some)
                yield group, t, GroupSums(d, sums, tuple(0 if v is None else d for v in some))

    def held(self, rows: Iterable[pa.RecordBatch]) -> Iterator[tuple[Group, GroupSums, int]]:
        """Yield the group, the numbers and the diff of each row of the target."""
        for batch in rows:
            names = batch.schema.names
            columns = [
                _units(batch.column(names.index(name)), kind)
                for name, kind in self._declared[len(self.by) :]
            ]
            diffs = batch.column(D).to_pylist()
            for group, row, d in zip(
                self._groups(batch), zip(*columns, strict=True), diffs, strict=True
            ):
                numbers = [value or 0 for value in row]
                yield group, GroupSums(numbers[0], tuple(numbers[1::2]), tuple(numbers[2::2])), d

    def arrow(
        self, updates: Sequence[tuple[Group, GroupSums, int, int]], relation: Relation
    ) -> pa.Table:
        """Return updates of the target. Raises: InvalidRequest for a number that does not fit."""
        schema = updates_schema(relation)
        arrays = [
            _grouped([u[0][i] for u in updates], schema.field(i).type) for i in range(len(self.by))
        ]
        numbers: list[list[int | None]] = [[u[1].count for u in updates]]
        for i in range(len(self.added)):
            pairs = [(u[1].sums[i], u[1].known[i]) for u in updates]
            numbers.append([s if s or known else None for s, known in pairs])
            numbers.append([known for _, known in pairs])
        for values, (name, kind) in zip(numbers, self._declared[len(self.by) :], strict=True):
            arrays.append(_numbers(values, name, kind, schema.field(len(arrays)).type))
        arrays += [pa.array([u[i] for u in updates], pa.int64()) for i in (2, 3)]
        return pa.Table.from_arrays(arrays, schema=schema)

    def few(self, target: Relation, groups: Iterable[Group]) -> Filter | None:
        """Return a plain filter that is true for these groups; None if they are many."""
        values = {group[0] for group in groups}
        if len(values) > FEW or None in values:
            return None
        listed = _grouped(list(values), view_type(self.by[0].type))
        return weaker(target, among(self.by[0].name, listed))

    def shown(
        self, group: Group, held: GroupSums | None, right: GroupSums | None
    ) -> dict[str, Any]:
        """Return a group that differs, as people read it."""
        keys = [_grouped([v], view_type(c.type))[0] for v, c in zip(group, self.by, strict=True)]
        key = {c.name: k.as_py() for c, k in zip(self.by, keys, strict=True)}
        return {"group": key, "held": self._named(held), "right": self._named(right)}

    def _named(self, tally: GroupSums | None) -> dict[str, Any] | None:
        if tally is None or tally == self.nothing:
            return None
        found: dict[str, Any] = {COUNT: tally.count}
        for c, total, known in zip(self.added, tally.sums, tally.known, strict=True):
            scale = _sum_type(c).scale or 0
            found[f"sum_{c.name}"] = str(Decimal(total).scaleb(-scale, EXACT)) if scale else total
            found[f"count_{c.name}"] = known
        return found

    def _groups(self, batch: pa.RecordBatch) -> Iterator[Group]:
        names = batch.schema.names
        columns = (_plain(batch.column(names.index(c.name))).to_pylist() for c in self.by)
        return zip(*columns, strict=True)


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


def _plain(array: pa.Array) -> pa.Array:
    """Return times as whole numbers: Python has no years beyond 9999."""
    if pa.types.is_timestamp(array.type):
        return array.view(pa.int64())
    return array.view(pa.int32()) if pa.types.is_date32(array.type) else array


def _grouped(values: list[Any], wanted: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(wanted):
        return pa.array(values, pa.int64()).view(wanted)
    if pa.types.is_date32(wanted):
        return pa.array(values, pa.int32()).view(wanted)
    return pa.array(values, wanted)


def _units(array: pa.Array, kind: ColumnType) -> list[int | None]:
    """Return numbers in units of their last digit."""
    values = array.to_pylist()
    if kind.kind != Kind.NUMERIC:
        return [None if v is None else int(v) for v in values]
    scale = kind.scale or 0
    return [None if v is None else int(v.scaleb(scale, EXACT)) for v in values]


def _numbers(
    values: list[int | None], name: str, kind: ColumnType, wanted: pa.DataType
) -> pa.Array:
    """Return numbers as a column. Raises: InvalidRequest for one that does not fit."""
    most = 10**DIGITS - 1 if kind.kind == Kind.NUMERIC else 2**63 - 1
    for value in values:
        if value is not None and abs(value) > most:
            raise InvalidRequest(
                "a sum exceeds its column; nothing was written",
                column=name,
                type=str(kind),
                value=value,
                cure="more groups, or a filter (--where) that leaves the outlier out",
            )
    if kind.kind != Kind.NUMERIC:
        return pa.array(values, wanted)
    scale = kind.scale or 0
    return pa.array(
        [None if v is None else Decimal(v).scaleb(-scale, EXACT) for v in values], wanted
    )

"""Whether the columns of a table fit those of a shard, and how its rows become the shard's."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from shlex import quote
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from strata.adopt.inner import inside, json_forms, only_grew, undeclared
from strata.adopt.peer import CHANGE_TYPE, REPLACE, Flow, Peer, PeerVersion
from strata.errors import Corrupt, InvalidRequest
from strata.ingest.readers.column_names import proposed_names
from strata.ingest.readers.guess import guess_arrow
from strata.ingest.values.cast import from_arrow
from strata.model.names import as_pair
from strata.model.schema import Column, Relation
from strata.model.types import ColumnType

SIGNS: Final = {"insert": 1, "update_postimage": 1, "delete": -1, "update_preimage": -1}


@dataclass(frozen=True, slots=True)
class Fit:
    """A shard's columns beside those of a table."""

    shard: str
    relation: Relation
    diff: str  # name of the column that carries the diff of a row

    @staticmethod
    def of(shard: str, relation: Relation) -> "Fit":
        """Return the columns of a shard; the name of the diff is one that no column has."""
        diff = "strata_d"
        while diff in relation.by_name:
            diff += "_"
        return Fit(shard, relation, diff)

    def check(self, peer: Peer, version: PeerVersion) -> None:
        """Refuse a table whose columns the shard cannot hold.

        Raises: InvalidRequest with column, type and cure.
        """
        declared, found = self.relation.by_name, version.columns
        where = {"shard": self.shard, "table": peer.address, "version": version.shown}
        for one in found:
            column = declared.get(one.name)
            if column is None:
                raise InvalidRequest(
                    "the table has a column that the shard does not declare",
                    **where,
                    column=one.name,
                    type=str(one.type),
                    cure=self._to_declare(one, found),
                )
            if not _may_hold(one.type, column.type):
                raise InvalidRequest(
                    "no value of this column of the table has the declared type",
                    **where,
                    column=one.name,
                    type=str(one.type),
                    declared=str(column.type),
                    cure=f"declare a shard with {one.name}: {guess_arrow(one.type)}",
                )
            for path in undeclared(one.type, column.type):
                raise InvalidRequest(
                    "the table has a field that the shard does not declare",
                    **where,
                    column=one.name,
                    field=".".join((one.name, *path)),
                    type=str(one.type),
                    declared=str(column.type),
                    cure=f"strata schema widen {self.shard} {quote(one.name)} 'record<…>' with the"
                    " field at the end; else a new shard",
                )
        for column in declared.values():
            if column.name not in found.names and column.default is None:
                raise InvalidRequest(
                    "the table lacks a declared column",
                    **where,
                    column=column.name,
                    cure=f"strata schema drop {self.shard} {quote(column.name)}, if the table"
                    " dropped it; else a shard that does not declare it, or has a default for it",
                )

    def _to_declare(self, column: pa.Field, found: pa.Schema) -> str:
        """Return what declares a column of a table."""
        other = proposed_names(found.names).get(column.name)
        name = column.name if other is None else other[0]
        added = f"strata schema add {self.shard} {quote(name)} {quote(guess_arrow(column.type))}"
        if other is None:
            return added
        return f"{added}, and {as_pair(column.name, name)} in the declaration: {other[1]}"

    def check_same(self, before: Relation, old: PeerVersion, new: PeerVersion) -> None:
        """Refuse columns that shard and table have changed in different ways since `old`.

        Rows that the table has kept are not read again. So the shard must show in them what the
        table shows: a column new to both is null in them, and any other is what it was.
        Raises: InvalidRequest.
        """
        for column in self.relation.columns:
            if column.name not in new.columns.names:
                continue  # filled with its default, in old rows as in new ones
            earlier = before.by_id.get(column.id)
            if earlier is None:
                reason = self._new_to_both(column.name, column.default, old, new)
            elif earlier.name not in old.columns.names:
                reason = "the shard filled it with its default, and the table has it now"
            elif not only_grew(earlier.type, column.type) and _has_texts(
                old.columns.field(earlier.name).type
            ):
                reason = "its texts are read as another type now"
            elif old.ids.get((earlier.name,)) != new.ids.get((column.name,)):
                reason = "the table dropped it and has another one of this name now"
            else:
                reason = _changed_inside(earlier, old, column, new)
            if reason:
                raise InvalidRequest(
                    "rows that the table kept have other values of this column in the shard",
                    shard=self.shard,
                    column=column.name,
                    reason=reason,
                    cure=REPLACE,
                )

    def check_rejected(self, before: Relation) -> None:
        """Refuse columns under which rows may be read that were rejected under earlier ones.

        Their retractions would be stored, and they themselves were not.
        Raises: InvalidRequest.
        """
        for earlier in before.columns:
            column = self.relation.by_id.get(earlier.id)
            if column is None or (column.type, column.nullable) != (earlier.type, earlier.nullable):
                raise InvalidRequest(
                    "rows were rejected before this column was changed, and would be taken now",
                    shard=self.shard,
                    column=earlier.name,
                    cure=REPLACE,
                )

    @staticmethod
    def _new_to_both(name: str, default: object, old: PeerVersion, new: PeerVersion) -> str:
        path = (name,)
        known = name in old.columns.names if not new.ids else new.ids[path] in old.ids.values()
        if known:
            return "the table had it before the shard did"
        if default is not None or path in new.defaults:
            return "it has a default in one of them"
        return ""

    def schema(self, flow: Flow, before: Relation | None, newest: PeerVersion) -> pa.Schema:
        """Return the schema of a flow: the columns of the shard that its rows have, and the diff.

        Columns with a default are left out, to be filled as the ingest of any rows fills them. A
        column that is new to shard and table is null in old rows.
        """
        names, fields = self._names(flow, before), []
        for column in self.relation.columns:
            if column.name in names:
                kind = flow.version.columns.field(names[column.name]).type
                fields.append(pa.field(column.name, kind))
            elif column.default is None:
                fields.append(newest.columns.field(column.name).with_metadata(None))
        return pa.schema(
            [*(f.with_nullable(True) for f in fields), pa.field(self.diff, pa.int64())]
        )

    def tables(
        self, flow: Flow, before: Relation | None, schema: pa.Schema, counted: "RowTally"
    ) -> Iterator[pa.Table]:
        """Yield the rows of a flow in its `schema`.

        `before`: the columns of the shard when it took in the version that old rows are of.
        """
        names = self._names(flow, before)
        for batch in flow.batches():
            if not batch.num_rows:
                continue
            diffs = _diffs(batch, flow.sign)
            counted.add(diffs)
            columns = []
            for field in schema:
                if field.name == self.diff:
                    columns.append(diffs)
                elif field.name in names:
                    columns.append(batch.column(names[field.name]).cast(field.type))
                else:
                    columns.append(pa.nulls(batch.num_rows, field.type))
            yield pa.Table.from_arrays(columns, schema=schema)

    def _names(self, flow: Flow, before: Relation | None) -> Mapping[str, str]:
        """Return the shard's columns that rows have, each with the table's name."""
        found = flow.version.columns.names
        if before is None or not flow.old:
            return {n: n for n in self.relation.by_name if n in found}
        pairs = ((c.name, before.by_id.get(c.id)) for c in self.relation.columns)
        return {name: c.name for name, c in pairs if c is not None and c.name in found}


class RowTally:
    """How many rows came, added less retracted."""

    def __init__(self) -> None:
        """Begin at none."""
        self.sum = 0

    def add(self, diffs: pa.Array) -> None:
        """Add the diffs of a batch."""
        self.sum += pc.sum(diffs).as_py()


def _changed_inside(earlier: Column, old: PeerVersion, now: Column, new: PeerVersion) -> str:
    """Return why kept rows have other values inside a column; empty: they have the same."""
    was, name = earlier.name, now.name
    kind, kind_now = old.columns.field(was).type, new.columns.field(name).type
    before, after = inside(kind), inside(kind_now)
    forms = json_forms(kind_now, now.type)
    for path, form in json_forms(kind, earlier.type).items():
        if forms.get(path) != form:
            return f"the JSON of {'.'.join((name, *path))} has other fields or numbers now"
    lacking = next(undeclared(kind, earlier.type), None)
    if lacking is not None:
        return f"the shard did not declare {'.'.join((name, *lacking))} when it took them in"
    for path in before:
        if path not in after:
            return f"the table does not have {'.'.join((name, *path))} any more"
    for path in after:
        shown, number = ".".join((name, *path)), new.ids.get((name, *path))
        if path in before and old.ids.get((was, *path)) != number:
            return f"the table dropped {shown} and has another one of this name now"
        if path not in before and (name, *path) in new.defaults:
            return f"{shown} has a default in the table"
    return ""


def _diffs(batch: pa.RecordBatch, sign: int | None) -> pa.Array:
    if sign is not None:
        return pa.array(np.full(batch.num_rows, sign, np.int64))
    kinds = batch.column(CHANGE_TYPE).cast(pa.string())
    unknown = pc.unique(kinds.filter(pc.invert(pc.is_in(kinds, pa.array(list(SIGNS))))))
    if len(unknown) or kinds.null_count:
        raise Corrupt("a change feed has changes of an unknown kind", kinds=unknown.to_pylist())
    places = pc.index_in(kinds, pa.array(list(SIGNS)))
    return pa.array(list(SIGNS.values()), pa.int64()).take(places)


def _has_texts(kind: pa.DataType) -> bool:
    return "string" in str(kind) or "binary" in str(kind)


def _may_hold(kind: pa.DataType, target: ColumnType) -> bool:
    """Return whether some value of an Arrow type can be a value of a declared type.

    Errs: True where it depends on the value; then each row is judged.
    """
    sample = _sample(kind)
    return sample is None or not len(from_arrow(sample, target).bad)


def _sample(kind: pa.DataType) -> pa.Array | None:
    """Return one value of a type whose form says nothing of others; None for texts."""
    if pa.types.is_boolean(kind):
        return pa.array([False])
    if pa.types.is_decimal(kind):
        return pa.array([Decimal(0)], kind)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return pa.array([0], pa.int64()).cast(kind)
    if pa.types.is_date(kind):
        return pa.array([0], pa.int32()).cast(pa.date32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return pa.array([0], pa.int64()).cast(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_map(kind):
        return pa.array([[]], kind)
    if pa.types.is_struct(kind):
        return pa.array([{}], kind)
    return None

"""Compares the columns of a change stream with the shard's: a table may be altered at any place."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from strata.errors import InvalidRequest
from strata.ingest.readers.change import WHOLE
from strata.ingest.readers.source import RawFile
from strata.ingest.readers.stream_tables import of_several_tables
from strata.ingest.readers.turns import SNAPSHOT, Turn, Turns, table_turns
from strata.ingest.task import IngestTask
from strata.ingest.values.cast import Rows
from strata.ingest.values.no_row import message_of
from strata.ingest.values.spelt import spelt_otherwise
from strata.kernels.arrays import Bools
from strata.model.names import as_pair

DELETED: Final = "__deleted"  # in rows that a connector of Debezium has flattened


def check_columns(raw: RawFile, task: IngestTask) -> None:
    """Refuse changes of a table whose columns differ from the shard's, if that is declared.

    A column that the shard dropped or added later may be missing on one side. Changes that the
    shard has may differ in any way.
    Raises: InvalidRequest.
    """
    _check_mark(raw, task)
    told = raw.message_names
    if told is None or task.spec.source.schema_changes != "refuse":
        return
    rejected = set(range(len(told.told))).difference(told.of_row.tolist())
    kinds = sorted(rejected.union(told.of_row[_fresh(raw, task)].tolist()))
    some = [(told.told[n], told.names[n]) for n in kinds]
    own = [(raw.called.get(c.name, c.name), c.name) for c in task.relation.columns]
    new = sorted({name for pair in some for name in _undeclared(*pair, task, raw)})
    gone = [c for name, c in own if c not in task.later and any(name not in n for _, n in some)]
    if new or gone:
        raise InvalidRequest(
            "the source table has a column that the shard does not declare"
            if new
            else "the source table lacks a column that the shard declares",
            file=raw.file,
            column=raw.called.get(*(new or gone)[:1] * 2),
            cure=_cure(raw, task, new, gone),
        )


def _undeclared(
    told: frozenset[str], names: frozenset[str], task: IngestTask, raw: RawFile
) -> frozenset[str]:
    """Return what a row has that no column is, or was when the row was written.

    A former name beside the present one is that of another column.
    """
    own = {raw.called.get(column.name, column.name) for column in task.relation.columns}
    before = task.former - {old for old, now in task.renamed.items() if now in told}
    return names - own - before - (raw.columns.keys() - task.relation.by_name.keys())


def _fresh(raw: RawFile, task: IngestTask) -> Bools:
    """Return which changes carry a whole row, and are not in the shard."""
    assert raw.ops is not None
    whole: Bools = np.isin(raw.ops, WHOLE)
    if raw.places is None or task.progress is None:
        return whole
    return whole & ~task.progress.has(raw.places)


def _check_mark(raw: RawFile, task: IngestTask) -> None:
    """Refuse rows that say whether they were deleted, if nobody asks. Raises: InvalidRequest."""
    source = task.spec.source
    if source.envelope == "upsert" and not source.deleted_column and DELETED in raw.undeclared:
        raise InvalidRequest(
            "the rows say which of them were deleted, and the declaration leaves that out",
            file=raw.file,
            column=DELETED,
            cure=f"source.deleted_column: {DELETED}",
        )


def _cure(raw: RawFile, task: IngestTask, new: Sequence[str], gone: Sequence[str]) -> str:
    """Return what helps where columns differ; `new`: those that the shard lacks."""
    what = message_of(raw.undeclared, ())
    if what is not None:
        return f"these keys are those of {what.what}: {what.cure}"
    same = spelt_otherwise(new[:1], [*task.relation.by_name])
    if same:
        column = same[new[0]][0]
        return f"call it {column!r} in the source, as the shard does, or {as_pair(new[0], column)}"
    former = next((one for one in sorted(raw.undeclared) if task.renamed.get(one) in gone), None)
    if former is not None:
        pair = as_pair(former, task.renamed[former])
        return (
            f"the shard called this column {former!r} before it was renamed: declare {pair}, or "
            "rename it back with `strata schema rename`"
        )
    renamed = ""
    if len(new) == len(gone) == 1:
        renamed = f"if it is {gone[0]!r} by a new name: strata schema rename; if not: "
    return (
        f"{renamed}strata schema {'add' if new else 'drop'}, then run again; or declare "
        "source.schema_changes: report (what is not declared is left out, what lacks is null)"
    )


def turns_of(raw: RawFile, task: IngestTask, at: Rows) -> Turns:
    """Return the turns that the events of a file show, or do not; `at`: their places in the batch.

    Tables that come together are not altered at one place, so each is followed by itself.
    """
    source, tables = task.spec.source, raw.tables
    if source.envelope != "debezium" or raw.ops is None:
        return {}
    found = dict(table_turns(tables.known, placed=raw.places is not None))
    if not of_several_tables(source.tables):
        return found | _turns(_Own(raw, task, at, np.ones(raw.count, bool)))
    for number, table in enumerate(tables.of_number):
        found |= _turns(_Own(raw, task, at, tables.of_row == number, table, f"{table}: "))
    return found


@dataclass(frozen=True, slots=True)
class _Own:
    """The events of one table in a file."""

    raw: RawFile
    task: IngestTask
    at: Rows  # places of all events of the file in the batch
    rows: Bools  # which are its
    table: str | None = None  # None: it fills the shard alone
    prefix: str = ""  # of the keys of its turns


def _turns(own: _Own) -> dict[str, Turn]:
    """Return the turns that the events of one table show, or do not."""
    raw, source = own.raw, own.task.spec.source
    whole, places = _fresh(raw, own.task) & own.rows, own.at + 1
    found = {}
    if raw.places is not None:
        places = np.where(raw.places.snapshot > 0, raw.places.snapshot, raw.places.lsn)
        whole &= places >= 0
    elif raw.are_read is not None and source.snapshots != "merge":
        shown, other = own.rows & ~raw.are_read, own.rows & raw.are_read
        found[own.prefix + SNAPSHOT] = _turn(own, SNAPSHOT, False, places, shown, other)
    told = raw.message_names
    for key, names, gone in _watched(own.task) if source.schema_changes == "refuse" else ():
        has = whole & (not gone) if told is None else whole & told.have(names)
        lacks = whole & ~has
        shown, other = (lacks & _behind(own, key, has, places), has) if gone else (has, lacks)
        found[own.prefix + key] = _turn(own, min(names), gone, places, shown, other)
    return found


def _turn(own: _Own, column: str, gone: bool, places: Rows, shown: Bools, other: Bools) -> Turn:
    """Return a turn that some rows show and others do not."""
    done, undone = np.flatnonzero(shown), np.flatnonzero(other)
    first = int(places[done].min()) if len(done) else None
    turn = Turn(column, gone, first, None, own.raw.places is not None, table=own.table)
    if not len(undone):
        return turn
    last = undone[np.argmax(places[undone])]
    line = own.raw.locate(np.array([last]))[0][0]
    return replace(turn, undone=int(places[last]), file=own.raw.file, line=line)


def _behind(own: _Own, key: str, has: Bools, places: Rows) -> Bools:
    """Return which places are behind that where a column came which the table then lost.

    Rows from before it lack the column as well.
    """
    if int(key) in own.task.first:
        return np.ones(len(places), bool)
    begins = f"{own.prefix}{key} "
    came = [place for other, place in own.task.shown.items() if other.startswith(begins)]
    came += places[has].tolist()
    return places > min(came) if came else np.zeros(len(places), bool)


def _watched(task: IngestTask) -> Iterator[tuple[str, frozenset[str], bool]]:
    """Yield the columns that came, were renamed, or went: a key, the names, whether it went."""
    called = task.spec.source.names_of_source
    for column, key in task.came.items():
        name = called.get(column, column)
        yield f"{key} {name}", frozenset({name}), False
    for id, names in task.went.items():
        yield str(id), names, True

"""A whole state as JSON that says each thing once: tables instead of objects, columns by place.

    {"by": "0.1.0", "columns": <table>, "format": 3, "state": {"commits": <table>, ...}}

A **table** names the fields once, then has a row for each item; no items are `[]`:

    {"fields": ["token", "seqno"], "rows": [["a", 2], ["b", 3]]}

Each column of the relations is a row of `columns`. Relations, and the declaration if all of its
columns are among them, name **places** in it as ranges: `0-199`. The spine is three tables, as one
slot holds several batches and one batch several runs: a slot has the number of its batches, a
batch that of its runs. All else is as in format 1, and so is what `from_tables` returns, whose
fields are then checked as those of older documents. Keys of blobs are never shortened: what a state
names is found in its text (`strata.machine.named`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from functools import cache
from operator import attrgetter
from threading import Lock
from typing import Any, Final

import orjson

from strata.errors import Corrupt
from strata.model.schema import Column, Relation
from strata.model.spec import ColumnSpec, ShardSpec
from strata.state.order import SPELLED_OUT, order_of, order_text
from strata.state.plain import dump, plain
from strata.state.seal import digest_of
from strata.state.state import Batch, Commit, Merge, RolloutEntry, RunSummary, SpineBatch, State

Raw = dict[str, Any]

# Successive states share most values, whose JSON is cached here by the value's id.
_PIECES: Final[dict[int, tuple[object, orjson.Fragment]]] = {}
_PIECES_MAX: Final = 4096
_DECLARED: Final[dict[tuple[int, int], tuple[object, Raw]]] = {}
_DECLARED_MAX: Final = 64
_LOCK: Final = Lock()


class MismatchError(Exception):
    """A value that does not fit its field; becomes Corrupt with the path to it."""


class NewerError(MismatchError):
    """An unknown field; becomes the refusal of a state from a newer version."""


def to_tables(state: State) -> Raw:
    """Return the fields of a document for a state: `columns` and `state`.

    Raises: InvalidRequest for a value that JSON cannot hold; Corrupt for statistics of a batch that
    differ from those it was made with.
    """
    declared = _declared(state.spec, state.relations)
    rest = {name: getattr(state, name) for name in _names(State) if name not in declared}
    rest["commits"] = _table(Commit, state.commits)
    rest["merges"] = _table(Merge, state.merges)
    entries: Any = _table(RolloutEntry, state.rollout.entries)
    rest["rollout"] = replace(state.rollout, entries=entries)
    rest["spine"] = _spine(state)
    columns = declared["columns"]
    named = {name: declared[name] for name in ("spec", "relations")}
    return {"columns": columns, "state": rest | named}


def from_tables(document: Raw) -> Raw:
    """Return the state in a parsed document of this format as one of format 1 has it.

    Raises: MismatchError, with the path in the state; NewerError.
    """
    state = dict(_object(document["state"], ""))
    columns = _items(document.get("columns", []), " columns")
    for name in ("commits", "merges"):
        if name in state:
            state[name] = _items(state[name], f".{name}")
    if type(rollout := state.get("rollout")) is dict and "entries" in rollout:
        entries = _items(rollout["entries"], ".rollout.entries")
        state["rollout"] = {**rollout, "entries": entries}
    if "spine" in state:
        state["spine"] = _spine_from_tables(_object(state["spine"], ".spine"))
    if type(relations := state.get("relations")) is list:
        state["relations"] = [
            _relation(one, columns, f".relations[{at}]") for at, one in enumerate(relations)
        ]
    if type(spec := state.get("spec")) is dict:
        state["spec"] = _spec(spec, columns)
    return state


def check_batch(batch: Batch) -> None:
    """Refuse statistics that differ from those the batch was made with; old ones have no digest.

    Raises: Corrupt.
    """
    if batch.stats_digest is not None and batch.stats_digest != digest_of(batch.stats_union):
        raise Corrupt(
            "the statistics of a batch are damaged: their digest is another one",
            lower=batch.lower,
            upper=batch.upper,
            manifest=batch.manifest,
        )


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _values(kind: Any) -> Callable[[object], tuple[object, ...]]:
    return attrgetter(*_names(kind))


def _table(kind: Any, values: Sequence[object], row: Callable[[Any], object] | None = None) -> Any:
    """Return a table of values; each row is encoded once while its value stays in states."""
    return _rows(kind, _pieces(values, row or _values(kind)))


def _rows(kind: Any, rows: Sequence[object]) -> Any:
    return {"fields": _names(kind), "rows": rows} if rows else []


def _pieces(values: Iterable[object], row: Callable[[Any], object]) -> list[orjson.Fragment]:
    found = []
    with _LOCK:
        if len(_PIECES) > _PIECES_MAX:
            _PIECES.clear()
        for value in values:
            known = _PIECES.get(id(value))
            if known is None:
                # The value is kept with it, so that no other value gets its id meanwhile.
                known = _PIECES[id(value)] = (value, orjson.Fragment(dump(row(value))))
            found.append(known[1])
    return found


def _spine(state: State) -> Raw:
    spine, batches = state.spine, state.batches
    slots = [(s.id_lower, s.id_upper, s.level, len(s.batches)) for s in spine.slots]
    return {
        "next_id": spine.next_id,
        "slots": _rows(SpineBatch, slots),
        "batches": _table(Batch, batches, _batch_row),
        "runs": _table(RunSummary, [run for batch in batches for run in batch.runs], _run_row),
    }


def _batch_row(batch: Batch) -> list[object]:
    check_batch(batch)
    return [len(batch.runs) if n == "runs" else getattr(batch, n) for n in _names(Batch)]


def _run_row(run: RunSummary) -> list[object]:
    return [_short(run.order) if n == "order" else getattr(run, n) for n in _names(RunSummary)]


def _declared(spec: ShardSpec, relations: tuple[Relation, ...]) -> Raw:
    """Return the columns, the declaration and the relations as JSON; most states share them."""
    with _LOCK:
        known = _DECLARED.get((id(spec), id(relations)))
        if known is None:
            if len(_DECLARED) >= _DECLARED_MAX:
                _DECLARED.clear()
            ready = {
                name: orjson.Fragment(dump(value))
                for name, value in _by_place(spec, relations).items()
            }
            known = _DECLARED[id(spec), id(relations)] = ((spec, relations), ready)
    return known[1]


def _by_place(spec: ShardSpec, relations: tuple[Relation, ...]) -> Raw:
    rows: dict[bytes, int] = {}  # by JSON, since 1 and True and 1.0 are equal
    described: dict[bytes, int] = {}  # without the id, as a declaration does; the newest counts
    found = []
    for relation in relations:
        places = []
        for column in relation.columns:
            row = [plain(value) for value in _values(Column)(column)]
            places.append(place := rows.setdefault(dump(row), len(rows)))
            described[dump(row[1:])] = place
        ids = {name: _short(getattr(relation, name)) for name in ("key", "order")}
        found.append({**plain(relation), "columns": order_text(places), **ids})
    columns = _rows(Column, [orjson.Fragment(row) for row in rows])
    return {"columns": columns, "spec": _spec_by_place(spec, described), "relations": found}


def _spec_by_place(spec: ShardSpec, described: dict[bytes, int]) -> Raw:
    """Return a declaration; itself, spelled out, if the relations lack a column of it."""
    found: Raw = plain(spec)
    rows = [dump([*plain(column).values()]) for column in spec.columns]
    if not rows or not all(row in described for row in rows):
        return found
    places = {c.name: described[row] for c, row in zip(spec.columns, rows, strict=True)}
    found["columns"] = order_text([described[row] for row in rows])
    for name in ("key", "order"):
        if len(found[name]) > SPELLED_OUT and all(one in places for one in found[name]):
            found[name] = order_text([places[one] for one in found[name]])
    return found


def _short(ids: tuple[int, ...]) -> object:
    return order_text(ids) if len(ids) > SPELLED_OUT else ids


def _object(raw: Any, at: str) -> Raw:
    if type(raw) is not dict:
        raise MismatchError(f"{at}: {str(raw)[:80]} is not dict")
    return raw


def _items(raw: Any, at: str) -> Any:
    """Return the items of a table as objects; anything else as it is."""
    if type(raw) is not dict:
        return raw
    if unknown := sorted(raw.keys() - {"fields", "rows"}):
        raise NewerError(f"{at}.{unknown[0]}")
    names, rows = raw.get("fields"), raw.get("rows")
    if type(names) is not list or {type(name) for name in names} != {str}:
        raise MismatchError(f"{at}.fields: no names")
    if type(rows) is not list or len(set(names)) != len(names):
        raise MismatchError(f"{at}: no table")
    for place, row in enumerate(rows):
        if type(row) is not list or len(row) != len(names):
            raise MismatchError(f"{at}.rows[{place}]: no list of {len(names)} values")
    return [dict(zip(names, row, strict=True)) for row in rows]


def _spine_from_tables(raw: Raw) -> Raw:
    runs, batches, slots = (
        _items(raw.get(name, []), f".spine.{name}") for name in ("runs", "batches", "slots")
    )
    batches = _grouped(batches, "runs", runs, ".spine.batches")
    slots = _grouped(slots, "batches", batches, ".spine.slots")
    rest = {name: value for name, value in raw.items() if name not in ("runs", "batches")}
    return {**rest, "slots": slots}


def _grouped(owners: Any, field: str, items: Any, at: str) -> Any:
    """Return objects with their items in a field, instead of their number."""
    if type(owners) is not list or type(items) is not list:
        raise MismatchError(f"{at}: no table")
    found, begin = [], 0
    for place, owner in enumerate(owners):
        count = _object(owner, f"{at}[{place}]").get(field)
        if type(count) is not int or not 0 <= count <= len(items) - begin:
            raise MismatchError(f"{at}[{place}].{field}: {count} of {len(items) - begin} left")
        found.append({**owner, field: items[begin : begin + count]})
        begin += count
    if begin != len(items):
        raise MismatchError(f"{at}: {len(items) - begin} {field} belong to none")
    return found


def _relation(raw: Any, columns: Any, at: str) -> Any:
    if type(raw) is not dict:
        return raw
    found = dict(raw)
    if type(text := raw.get("columns")) is str:
        found["columns"] = _at_places(text, columns, f"{at}.columns")
    for name in ("key", "order"):
        if type(text := raw.get(name)) is str:
            found[name] = list(_places(text, f"{at}.{name}"))
    return found


def _spec(raw: Raw, columns: Any) -> Raw:
    found = dict(raw)
    if type(text := raw.get("columns")) is str:
        declared = set(_names(ColumnSpec))
        found["columns"] = [
            {name: value for name, value in column.items() if name in declared}
            for column in _at_places(text, columns, ".spec.columns")
        ]
    for name in ("key", "order"):
        if type(text := raw.get(name)) is str:
            at = f".spec.{name}"
            found[name] = [column.get("name") for column in _at_places(text, columns, at)]
    return found


def _at_places(text: str, columns: Any, at: str) -> list[Raw]:
    places = _places(text, at)
    if type(columns) is not list or max(places) >= len(columns):
        raise MismatchError(f"{at}: no column {max(places)}")
    return [_object(columns[place], at) for place in places]


def _places(text: str, at: str) -> tuple[int, ...]:
    try:
        return order_of(text)
    except ValueError as error:
        raise MismatchError(f"{at}: {error}") from error

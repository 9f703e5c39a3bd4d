"""Statistics of nested columns: one column of statistics for each place inside.

Steps lead to a place: into a field of a record (of a range, an array, a numeric without precision),
into the elements of a list, into the keys or the values of a map. Every place has a count of nulls,
lists and maps have the least and the greatest length, and ordered values have bounds. The declared
type fixes the places, so they are the same for every part.

Below a null there are only nulls: a field of a null record reads as null. The elements of all rows
of a part count together; a null list, like an empty one, has none.
"""

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.format.encodings import encoding
from strata.model.types import ColumnType, Field, Kind
from strata.stats.flat import Values, as_entry_list, collect_flat
from strata.stats.wire import ELEMENT, KEYS, VALUES, Steps, field_step, inside_name

MAX_DEPTH: Final = 8  # steps; deeper places are unknown
MAX_PLACES: Final = 256  # of one column, outer ones first; the rest is unknown


@dataclass(frozen=True, slots=True)
class Place:
    """A place inside a column: its type, and the steps to it."""

    steps: Steps
    type: ColumnType
    counted: bool = False  # whether a step leads into the elements of lists or maps
    names: tuple[str, ...] = ()  # of those fields on the way that a user has named


@lru_cache(maxsize=1024)
def places(column_type: ColumnType) -> tuple[Place, ...]:
    """Return the places inside a column, the column itself first, parents before children.

    >>> from strata.model.types import parse_type
    >>> [place.steps for place in places(parse_type("list<record<lat: float64>>"))]
    [(), ('[]',), ('[]', 'lat')]
    """
    found: list[Place] = []
    waiting = deque([Place((), column_type)])
    while waiting and len(found) < MAX_PLACES:
        place = waiting.popleft()
        found.append(place)
        if len(place.steps) < MAX_DEPTH:
            waiting += _below(place)
    return tuple(found)


def collect_nested(values: Values, column_type: ColumnType, column_id: int) -> dict[str, pa.Array]:
    """Return the statistics of every place inside a column, by name, one row each."""
    arrays: dict[Steps, Values] = {(): values}
    result = {}
    for place in places(column_type):
        if place.steps:
            arrays[place.steps] = enter(arrays[place.steps[:-1]], place.steps[-1])
        name = inside_name(column_id, place.steps)
        result[name] = collect_flat(arrays[place.steps], place.type, counted=place.counted)
    return result


def _below(place: Place) -> list[Place]:
    declared = place.type
    if declared.kind is Kind.LIST:
        return [Place((*place.steps, ELEMENT), declared.inner, True, place.names)]
    if declared.kind is Kind.MAP:
        keys = Place((*place.steps, KEYS), ColumnType(Kind.STRING), True, place.names)
        return [keys, Place((*place.steps, VALUES), declared.inner, True, place.names)]
    named = declared.kind is Kind.RECORD
    return [
        Place(
            (*place.steps, field_step(field.name)),
            field.type,
            place.counted,
            (*place.names, field.name) if named else place.names,
        )
        for field in stored_fields(declared)
    ]


def stored_fields(declared: ColumnType) -> tuple[Field, ...]:
    """Return those fields of a type's stored struct that have statistics."""
    return encoding(declared).parts(declared)


def enter(values: Values, step: str) -> Values:
    """Return the values behind a step; values below a null are null or absent."""
    if not isinstance(values, pa.ChunkedArray):
        return _enter_array(values, step)
    chunks = [_enter_array(chunk, step) for chunk in values.chunks]
    return pa.chunked_array(chunks) if chunks else pa.nulls(0, _enter_type(values.type, step))


def _enter_type(kind: pa.DataType, step: str) -> pa.DataType:
    return _enter_array(pa.nulls(0, kind), step).type


def _enter_array(values: pa.Array, step: str) -> pa.Array:
    if step == ELEMENT:
        return values.flatten()
    if step in (KEYS, VALUES):
        entries = as_entry_list(values).flatten()
        return pc.struct_field(entries, [0 if step == KEYS else 1])
    steps = [field_step(field.name) for field in values.type]
    return pc.struct_field(values, [steps.index(step)])

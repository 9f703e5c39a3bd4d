"""Statistics of nested columns: one column of statistics for each place inside.

A place is reached by steps: into a field of a record (of a range, an array, a numeric without
precision), into the elements of a list, into the keys or the values of a map. Every place has its
nulls, lists and maps the lengths of the shortest and the longest, and what has an order its
bounds. Places are those of the declared type, so that they are the same for every part.

Below a null there are nulls: a field of a record that is null reads as null. Elements are those
of all rows of the part together; a null list, like an empty one, has none.
"""

from collections import deque
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from strata.format.encodings import encoding
from strata.model.types import ColumnType, Field, Kind
from strata.stats.flat import Values, as_list, collect_flat
from strata.stats.wire import ELEMENT, KEYS, VALUES, Steps, field_step, inside_name

MAX_DEPTH: Final = 8  # steps; what is deeper is unknown
MAX_PLACES: Final = 256  # of one column, outer ones first; the rest is unknown


@dataclass(frozen=True, slots=True)
class Place:
    """A place inside a column: what is there, and how it is reached."""

    steps: Steps
    type: ColumnType
    counted: bool = False  # some step leads into the elements of lists or maps
    names: tuple[str, ...] = ()  # of the fields on the way that a user has named


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
            arrays[place.steps] = _enter(arrays[place.steps[:-1]], place.steps[-1])
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
        for field in fields(declared)
    ]


def fields(declared: ColumnType) -> tuple[Field, ...]:
    """Return the fields of the struct that a type is stored as, where they have statistics."""
    return encoding(declared).parts(declared)


def _enter(values: Values, step: str) -> Values:
    """Return the values behind a step; what is below a null is null, or not there."""
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
        entries = as_list(values).flatten()
        return pc.struct_field(entries, [0 if step == KEYS else 1])
    steps = [field_step(field.name) for field in values.type]
    return pc.struct_field(values, [steps.index(step)])

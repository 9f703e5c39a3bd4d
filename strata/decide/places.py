"""Find the statistics that an expression depends on: columns, JSON paths, places inside columns."""

from collections.abc import Iterator
from typing import Final

from strata.expr.functions.json import parse_list_path, parse_path
from strata.expr.functions.variants import field_key
from strata.expr.nodes import Call, Column, Expr, Literal
from strata.expr.records import field_name
from strata.stats.wire import (
    ELEMENT,
    KEYS,
    VALUES,
    Path,
    Steps,
    column_name,
    field_step,
    inside_name,
    parse_inside,
    path_name,
)

Place = tuple[int, Steps]  # a column, and the steps to a place inside it

# Functions that access a place inside a column; statistics treat the place like a column.
READS: Final = frozenset(
    {"get_json_object", "get_struct_field", "get_array_item", "element_at", "get_map_value",
     "element", "array_min", "array_max", "size", "get_array_struct_fields", "map_keys",
     "map_values", "map_entries"}
)  # fmt: skip
_ITEMS: Final = frozenset({"get_array_item", "element_at", "element", "array_min", "array_max"})
_SAME_ELEMENTS: Final = frozenset(
    {
        "filter",
        "sort_array",
        "array_distinct",
        "array_sort",
        "reverse_list",
        "array_remove",
        "array_except",
        "array_intersect",
        "slice",
    }
)
_OUTSIDE: Final = frozenset({"size", "is_null", "is_not_null"})  # of lists with any elements
_EQUALITIES: Final = frozenset(
    {
        "equal_to",
        "equal_null_safe",
        "in",
        "array_contains",
        "array_position",
        "arrays_overlap",
        "element_at",
        "get_map_value",
    }
)
_MANY: Final = frozenset({ELEMENT, KEYS, VALUES})
# They read what a text is written like
_SHAPED: Final = frozenset({"cast", "get_timestamp", "string_split", "variant_get"})
_ENTRY: Final = "{}"  # stands for a step into an entry of a map, for which there are no statistics


def statistics_of(expr: Expr) -> Iterator[str]:
    """Yield the statistics columns that an expression depends on, some more than once."""
    if isinstance(expr, Column):
        yield column_name(expr.id)
    if isinstance(expr, Call):
        if (found := _json_path(expr)) is not None:
            column_id, path = found
            yield from (path_name(column_id, path[:depth]) for depth in range(len(path) + 1))
        yield from (inside_name(*place) for place in _read(expr) if _ENTRY not in place[1])
        for arg in expr.args:
            yield from statistics_of(arg)


def compared_places(expr: Expr) -> Iterator[str]:
    """Yield the statistics of all places that are compared for equality, some more than once."""
    if isinstance(expr, Call):
        if expr.function in _EQUALITIES:
            yield from statistics_of(expr)
        else:
            for arg in expr.args:
                yield from compared_places(arg)


def _read(call: Call) -> Iterator[Place]:
    """Yield the places that a call reads itself, and those in its arguments."""
    if (own := _place(call)) is not None:
        yield own
    if call.function == "flatten" and (inner := _elements(call)) is not None:
        yield inner
    for arg in call.args if call.function not in _OUTSIDE else ():
        if arg.type.startswith("array<") and (inside := _elements(arg)) is not None:
            yield inside
        if arg.type.startswith("map<") and (around := _place(arg)) is not None:
            yield from ((around[0], (*around[1], step)) for step in (KEYS, VALUES))


def _place(expr: Expr) -> Place | None:
    """Return the place whose value an expression is; None if it is not a place."""
    if isinstance(expr, Column):
        return expr.id, ()
    if not isinstance(expr, Call) or not expr.args:
        return None
    source = expr.args[0]
    if expr.function == "get_struct_field":
        return _field(_place(source), expr)
    if source.type.startswith("map<") and expr.function in ("element_at", "get_map_value"):
        return _deeper(_place(source), VALUES)
    return _elements(source) if expr.function in _ITEMS else None


def _elements(expr: Expr) -> Place | None:
    """Return the place of the elements of a list."""
    if isinstance(expr, Call) and expr.args:
        source = expr.args[0]
        if expr.function in ("map_keys", "map_values", "map_entries"):
            steps = {"map_keys": KEYS, "map_values": VALUES, "map_entries": _ENTRY}
            return _deeper(_place(source), steps[expr.function])
        if expr.function == "get_array_struct_fields":
            return _field(_elements(source), expr)
        if expr.function in _SAME_ELEMENTS:
            return _elements(source)
        if expr.function == "flatten":
            return _deeper(_elements(source), ELEMENT)
        if expr.function == "transform":
            return _place(expr.args[1])
    return _deeper(_place(expr), ELEMENT)


def _deeper(place: Place | None, step: str) -> Place | None:
    return None if place is None else (place[0], (*place[1], step))


def _field(place: Place | None, expr: Call) -> Place | None:
    name = field_name(expr)
    if place is None or name is None:
        return None
    if place[1][-1:] == (_ENTRY,):
        return place[0], (*place[1][:-1], KEYS if name == "key" else VALUES)
    return _deeper(place, field_step(name))


def _json_path(expr: Expr) -> tuple[int, Path] | None:
    """Return the column and path that nested JSON accesses lead to: paths, variants, structs."""
    if isinstance(expr, Column):
        return expr.id, ()
    if not isinstance(expr, Call) or expr.function not in _READS_JSON:
        return None
    inner = _json_path(expr.args[0])
    if inner is None or expr.function in ("parse_json", "from_json"):
        return inner
    step = expr.args[1].value if isinstance(expr.args[1], Literal) else None
    if expr.function == "get_struct_field":
        key = _parsed_field(expr.args[0], step)
        return None if key is None else (inner[0], (*inner[1], key))
    keys = parse_path(step) if isinstance(step, str) else None
    if keys is None and isinstance(step, str) and expr.function == "get_json_object":
        keys = parse_list_path(step)
    return None if keys is None else (inner[0], (*inner[1], *keys))


_READS_JSON: Final = frozenset(
    {"get_json_object", "parse_json", "variant_get", "from_json", "get_struct_field"}
)


def _parsed_field(expr: Expr, ordinal: object) -> str | None:
    """Return the key of a field of `from_json`, or of a struct inside it."""
    steps: list[object] = [ordinal]
    while isinstance(expr, Call) and expr.function == "get_struct_field":
        inner = expr.args[1]
        steps.append(inner.value if isinstance(inner, Literal) else None)
        expr = expr.args[0]
    if not isinstance(expr, Call) or expr.function != "from_json":
        return None
    return field_key(expr, tuple(reversed(steps)))


def accessed(expr: Expr) -> str | None:
    """Return the statistics of the place whose single value an expression is."""
    plain = isinstance(expr, Column)
    if isinstance(expr, Call) and expr.function in ("get_json_object", "get_struct_field"):
        plain = isinstance(expr.args[0], Column) or accessed(expr.args[0]) is not None
    if not plain:
        return None
    names = sorted(set(statistics_of(expr)), key=len)
    inside = parse_inside(names[-1]) if names else None
    steps = () if inside is None else inside[1]
    return names[-1] if names and not _MANY & set(steps) else None


def shaped_places(expr: Expr) -> Iterator[str]:
    """Yield the statistics of the places of text whose shape says what a function makes of them."""
    if not isinstance(expr, Call):
        return
    for arg in expr.args:
        yield from shaped_places(arg)
    source = expr.args[0] if expr.args else None
    if source is None or expr.function not in _SHAPED:
        return
    if source.type == "variant" or expr.function == "variant_get":  # strings that a cast reads
        found = _json_path(expr if expr.function == "variant_get" else source)
        if found is not None and found[1]:
            yield path_name(*found)
    elif source.type == "string" and (place := accessed(source)) is not None:
        yield place

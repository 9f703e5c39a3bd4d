"""What lies inside nested columns: the fields of structs, of the elements of lists, of maps."""

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from strata.model.types import ColumnType, Kind

Path: TypeAlias = tuple[str, ...]  # a column, a field in it, a field in that, …


def field_paths(fields: Iterable[pa.Field]) -> dict[Path, pa.Field]:
    """Return the fields, and all that are inside them, by their paths."""
    found: dict[Path, pa.Field] = {}
    for field in fields:
        found[(field.name,)] = field
        for path, inner in inside(field.type).items():
            found[(field.name, *path)] = inner
    return found


def inside(kind: pa.DataType) -> dict[Path, pa.Field]:
    """Return what is inside a type by its path; nothing of one that is not nested."""
    found: dict[Path, pa.Field] = {}
    for name, field in _children(kind):
        found[(name,)] = field
        found.update({(name, *path): inner for path, inner in inside(field.type).items()})
    return found


def undeclared(kind: pa.DataType, target: ColumnType) -> Iterator[Path]:
    """Yield the fields in a type that values of a declared type leave out."""
    for name, field, inner in _pairs(kind, target):
        if inner is not None:
            yield from ((name, *path) for path in undeclared(field.type, inner))
        elif target.kind is Kind.RECORD:
            yield (name,)


def json_forms(kind: pa.DataType, target: ColumnType) -> dict[Path, object]:
    """Return what decides the form of each JSON text that a declared type makes of a type.

    The text has all fields that the type has, and the digits of its numbers.
    """
    if target.kind is Kind.JSONB:
        leaves = {path: str(f.type) for path, f in inside(kind).items() if not inside(f.type)}
        return {(): leaves or str(kind)}
    return {
        (name, *path): form
        for name, field, inner in _pairs(kind, target)
        if inner is not None
        for path, form in json_forms(field.type, inner).items()
    }


def _pairs(
    kind: pa.DataType, target: ColumnType
) -> Iterator[tuple[str, pa.Field, ColumnType | None]]:
    """Yield what is directly inside a type, with the declared type of each; None: it has none."""
    fields = {field.name: field.type for field in target.fields}
    listed = target.kind in (Kind.LIST, Kind.ARRAY, Kind.MAP)
    for name, field in _children(kind):
        inner = target.element if listed and name in ("element", "value") else fields.get(name)
        yield name, field, inner


def only_grew(before: ColumnType, now: ColumnType) -> bool:
    """Return whether a type is another one, but for more fields at the ends of records."""
    if before.element is not None and now.element is not None:
        return before.kind == now.kind and only_grew(before.element, now.element)
    if not before.fields:
        return before == now
    pairs = zip(before.fields, now.fields, strict=False)
    return len(before.fields) <= len(now.fields) and all(
        one.name == other.name and only_grew(one.type, other.type) for one, other in pairs
    )


def _children(kind: Any) -> Iterator[tuple[str, pa.Field]]:
    if pa.types.is_struct(kind):
        yield from ((field.name, field) for field in kind)
    elif pa.types.is_map(kind):
        yield from (("key", kind.key_field), ("value", kind.item_field))
    elif hasattr(kind, "value_field"):  # libraries have other names for it
        yield "element", kind.value_field

"""Read JSON: one object a line, or one array of objects; values by key.

A missing key is null; keys that nobody asked for are ignored.
"""

from collections.abc import Collection, Sequence

import orjson

from strata.ingest.cast import from_objects
from strata.ingest.files import SourceFile
from strata.ingest.objects import Objects, exact_lines, read_array, read_lines
from strata.ingest.source import Raw, RawFile

__all__ = ["exact_lines", "read_json", "read_jsonl", "shown"]


def read_jsonl(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return the values of the keys `names`, and the lines that are no JSON objects.

    Of keys that are `optional` it is told where they are missing; null is not missing.

    Raises: InvalidRequest for a file without a single JSON object in two lines or more.
    Cost: the whole file in memory.
    """
    return _columns(source, read_lines(source), names, optional)


def read_json(source: SourceFile, names: Sequence[str], optional: Collection[str] = ()) -> RawFile:
    """Return the values of the keys `names` of the objects in an array; otherwise the same."""
    return _columns(source, read_array(source), names, optional)


def _columns(
    source: SourceFile, found: Objects, names: Sequence[str], optional: Collection[str]
) -> RawFile:
    nulls = [row for row, value in enumerate(found.values) if value is None]
    if nulls:
        kept = [row for row, value in enumerate(found.values) if value is not None]
        bad = [found.reject(source, row, "not a JSON object") for row in nulls]
        found = found.only(kept, [found.values[row] for row in kept], bad)
    objects = found.values
    return RawFile(
        file=source.name,
        count=len(objects),
        columns={name: [o.get(name) for o in objects] for name in names},
        convert=from_objects,
        shown=shown,
        locate=found.locate,
        malformed=found.malformed,
        lacking={name: [name not in o for o in objects] for name in optional},
    )


def shown(values: Raw, row: int) -> str | None:
    """Return a value as people read it."""
    value = values[row]
    if value is None or isinstance(value, str):
        return value
    return orjson.dumps(value, default=str).decode()

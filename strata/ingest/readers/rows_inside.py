"""Notices a JSON file whose rows lie inside of one object, which is read as one row."""

import json
import shlex
from collections.abc import Sequence
from typing import Any, Final

SHOWN: Final = 3  # names in a note
LEAST: Final = 2  # objects that look like rows


def note_of_rows(values: Sequence[Any], file: str) -> str | None:
    """Return a note, with a cure, about the only object of a file that holds rows; else None.

    Rows are objects with a key in common: under a key each, or in a list.
    """
    [value] = values if len(values) == 1 else [None]
    if not isinstance(value, dict):
        return None
    if _alike(list(value.values())):
        some = ", ".join(map(json.dumps, list(value)[:SHOWN]))
        return _note(file, f"the {len(value):,} objects {some} …", "to_entries[] | {key} + .value")
    lists = {name: one for name, one in value.items() if isinstance(one, list) and _alike(one)}
    if not lists:
        return None
    name = max(lists, key=lambda one: len(lists[one]))
    return _note(
        file, f"the {len(lists[name]):,} objects in {json.dumps(name)}", f".[{json.dumps(name)}][]"
    )


def _alike(values: Sequence[Any]) -> bool:
    """Return whether values are objects that have a key in common."""
    if len(values) < LEAST or not all(isinstance(one, dict) for one in values):
        return False
    return bool(frozenset.intersection(*map(frozenset, values)))


def _note(file: str, what: str, program: str) -> str:
    command = f"jq -c {shlex.quote(program)} {shlex.quote(file)} > rows.jsonl"
    return f"{file} is one object, and so one row; for a row of each of {what}: {command}"

"""JSON paths: the statistics of the path are the range of the result.

A missing key, JSON null and text that is not JSON give null; nothing fails.
"""

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from strata.expr.entry import Context, Entry, Outcome, literal, opened, strict
from strata.expr.nodes import Call
from strata.expr.spec import YES, Json, Spec, everything, gate, uniform

# Spark skips white space at the start of a key for `get_json_object`, and not for `variant_get`.
_STEP: Final = re.compile(r"\.([^.\[\]*'\"\s]+)|\['([^'\\?*\s][^'\\?*]*)'\]")

_LISTED: Final = re.compile(rf"(\$(?:{_STEP.pattern})+)\[[0-9]+\](?:{_STEP.pattern}|\[[0-9]+\])*")


def parse_path(path: str) -> tuple[str, ...] | None:
    """Return the keys of a path; None for a path with wildcards, indexes or odd spelling.

    >>> parse_path("$.a.b"), parse_path("$['odd key']"), parse_path("$.a[0]")
    (('a', 'b'), ('odd key',), None)
    """
    if not path.startswith("$"):
        return None
    keys, position = [], 1
    while position < len(path):
        step = _STEP.match(path, position)
        if step is None:
            return None
        keys.append(step[1] or step[2])
        position = step.end()
    return tuple(keys)


def parse_list_path(path: str) -> tuple[str, ...] | None:
    """Return the keys that lead to the list of a path with an index; None for another path.

    >>> parse_list_path("$.a.b[0].c[1]"), parse_list_path("$.a[*]"), parse_list_path("$[0]")
    (('a', 'b'), None, None)
    """
    found = _LISTED.fullmatch(path)
    return (parse_path(found[1]) or None) if found else None


def _get_json_object(call: Call, args: Sequence[Spec], context: Context) -> Spec:
    path, values = literal(call, 1), args[0].values
    keys = parse_path(path.value) if path is not None and isinstance(path.value, str) else None
    listed = None
    if keys is None and path is not None and isinstance(path.value, str):
        keys = listed = parse_list_path(path.value)
    if keys is None or not keys or not isinstance(values, Json):
        return opened(call, args, fail=False)
    if not values.quoted and not values.strings.empty.all():
        # A string may itself hold a JSON document.
        return strict(args, Outcome(everything("string"), null=np.array([True])))
    spec = Spec(values)
    for key in keys:
        if not isinstance(spec.values, Json):
            return opened(call, args, fail=False)
        spec = spec.values.child(key)
    if listed is not None:  # null but where there is a list
        some = spec.values.lists if isinstance(spec.values, Json) else YES
        inside = gate(everything("string"), uniform(some))
        return strict(args, Outcome(inside, null=np.array([True])))
    found = strict(args, Outcome(spec.values, null=spec.null))
    return Spec(found.values, found.null, found.fail)


ENTRIES: Final = (
    Entry(
        "get_json_object",
        "json, path",
        (2, 2),
        _get_json_object,
        "the statistics of a constant path of keys; null without a list behind them",
        passes=True,
    ),
)

r"""The only place that turns data, names and errors into text of a report's pages.

Great Expectations' own pages show table cells and names of runs and batches unescaped. Ours escape
them (pages.py), but either may show a stored result. So every string of a table is escaped before
the library sees it. Every stored result, even an older one or one of another machine, is checked
again before pages are built from it. Readers see the text as it was written; invisible characters
(control characters, changes of direction) are spelled out.
"""

import json
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any, Final

import pandas as pd

from strata.errors import Corrupt, bounded
from strata.jobs.validate.whole import write_whole
from strata.model.shown import visible

TEXT_MAX: Final = 20_000  # characters of one text; the shard of verdicts has all of it
_LIVE: Final = str.maketrans({"<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"})


def text(value: str) -> str:
    r"""Return a value as HTML that shows it and does nothing else.

    >>> text("<img src=x onerror='go()'> & \u202e")
    '&lt;img src=x onerror=&#x27;go()&#x27;&gt; &amp; \\u202e'
    """
    return escape(visible(bounded(value, TEXT_MAX)), quote=True)


def frame(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with every string escaped: in each cell, and in lists inside a cell."""
    return table.map(_cell)


def _cell(value: Any) -> Any:
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list | tuple):
        return type(value)(_cell(one) for one in value)
    return value


def make_results_inert(results: Path) -> int:
    """Rewrite stored results that hold live markup, in place; return how many changed.

    Text that is already escaped does not change, so a repetition changes nothing.
    Raises: Corrupt for a result that is not JSON.
    """
    changed = 0
    for file in sorted(results.rglob("*.json")):
        try:
            before = json.loads(file.read_bytes())
        except ValueError as error:
            raise Corrupt(
                "a stored result of the report is no JSON",
                file=str(file),
                reason=str(error),
                cure="delete it; its page is made no more",
            ) from error
        after = _inert(before)
        if after != before:
            write_whole(file, json.dumps(after).encode())
            changed += 1
    return changed


def _inert(value: Any) -> Any:
    if isinstance(value, str):
        return value.translate(_LIVE)
    if isinstance(value, Mapping):
        return {key.translate(_LIVE): _inert(one) for key, one in value.items()}
    return [_inert(one) for one in value] if isinstance(value, list) else value

"""Names and Arrow types of statistics: the columns that a manifest carries for each part.

    rows                 int64    updates in the part
    s.{id}               struct   one column of the relation, by id: a rename keeps it
    s.{id}$  s.{id}$.a   struct   one path of a JSON column: the root, then a key, and so on

A whole struct that is null, or a column that is missing, means *unknown*. One exception: a path
without statistics whose nearest known ancestor is `complete` is known to be absent in every row.
A path is the tuple of its keys; lists are not descended. A low or high that is null means that
no bound is known on that side, unless the counts show that there are no values at all.
"""

import re
from collections.abc import Callable
from typing import Final

import pyarrow as pa

from strata.format.encodings import arrow_type, encoding
from strata.model.types import ColumnType

STATS_VERSION: Final = 1  # grows when statistics mean something else; older ones are backfilled

ROWS: Final = "rows"
PREFIX: Final = "s."
ROOT: Final = "$"

Path = tuple[str, ...]

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NAME: Final = re.compile(r"s\.([0-9]+)(\$.*)?", re.DOTALL)
_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_]*)|\['((?:[^'\\]|\\.)*)'\]", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(u[0-9a-f]{4}|.)", re.DOTALL)
_TO_ESCAPE: Final = re.compile(r"[\\'\x00-\x1f\x7f]")
# What Spark's get_json_object reads as one key. Narrower than Spark: white space in front of a
# key, wildcards and indexes are left out, and what is left out has no statistics.
_SPARK_STEP: Final = re.compile(r"\.([^.\[*\s][^.\[]*)|\['([^'?*\s][^'?]*)'\]")

_JSON_FIELDS: Final = (
    ("present", pa.int64()),  # rows in which the path exists
    ("json_nulls", pa.int64()),
    ("bools", pa.int64()),
    ("trues", pa.int64()),
    ("numbers", pa.int64()),
    ("num_low", pa.float64()),  # rounded outward
    ("num_high", pa.float64()),
    ("num_exact", pa.bool_()),  # both number bounds are values that occur
    ("strings", pa.int64()),
    ("str_low", pa.string()),
    ("str_high", pa.string()),
    ("str_low_exact", pa.bool_()),
    ("str_high_exact", pa.bool_()),
    ("lists", pa.int64()),
    ("maps", pa.int64()),
    ("complete", pa.bool_()),  # every key of the maps here has a path column of its own
)

JSON_PATH: Final = pa.struct(list(_JSON_FIELDS))
COUNTED: Final = pa.struct([("nulls", pa.int64())])  # JSON columns and types without bounds


def column_name(column_id: int) -> str:
    """Return the name of the statistics of a column of the relation."""
    return f"{PREFIX}{column_id}"


def path_name(column_id: int, path: Path) -> str:
    r"""Return the name of the statistics of a path inside a JSON column.

    >>> path_name(5, ("a", "it's odd"))
    "s.5$.a['it\\'s odd']"
    """
    return f"{PREFIX}{column_id}{ROOT}" + "".join(_step(key) for key in path)


def parse_name(name: str) -> tuple[int, Path | None] | None:
    """Return the column id and the path that a statistics name stands for.

    The path is None for the column itself; the result is None for what is no such name.

    >>> parse_name("s.5"), parse_name("s.5$"), parse_name("s.5$.a['b c']"), parse_name("rows")
    ((5, None), (5, ()), (5, ('a', 'b c')), None)
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    if match[2] is None:
        return int(match[1]), None
    path = _steps(match[2], _STEP, _unescape)
    return None if path is None else (int(match[1]), path)


def spark_path(text: str) -> Path | None:
    """Return the keys that a path as written for Spark's `get_json_object` names.

    Errs: None, which means "no statistics", for indexes, wildcards and anything unusual.

    >>> spark_path("$.a['b c']"), spark_path("$"), spark_path("$.list[0]")
    (('a', 'b c'), (), None)
    """
    return _steps(text, _SPARK_STEP, str)


def scalar_type(column_type: ColumnType) -> pa.StructType:
    """Return the Arrow type of the statistics of a column that is not JSON."""
    if encoding(column_type).stats != "range":
        return COUNTED
    value = arrow_type(column_type)
    nans = [("nans", pa.int64())] if pa.types.is_floating(value) else []
    exact = [("low_exact", pa.bool_()), ("high_exact", pa.bool_())]
    return pa.struct([("nulls", pa.int64()), *nans, ("low", value), ("high", value), *exact])


def _step(key: str) -> str:
    if _PLAIN.fullmatch(key):
        return f".{key}"
    return f"['{_TO_ESCAPE.sub(_escape, key)}']"


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    # Control characters are written out: a NUL would end the name in Arrow's C interface.
    return f"\\{char}" if char in "\\'" else f"\\u{ord(char):04x}"


def _unescape(key: str) -> str:
    return _ESCAPED.sub(lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else m[1], key)


def _steps(text: str, step: re.Pattern[str], read_quoted: Callable[[str], str]) -> Path | None:
    if not text.startswith(ROOT):
        return None
    keys: list[str] = []
    position = len(ROOT)
    while position < len(text):
        match = step.match(text, position)
        if match is None:
            return None
        keys.append(match[1] if match[1] is not None else read_quoted(match[2]))
        position = match.end()
    return tuple(keys)

"""Statistics of JSON columns: recursive, per path and per kind.

The column is taken in chunks of bounded size, each read by Arrow or, where that will not do,
folded value by value; then the chunks are united. Text that is
no JSON, or that parsers read in more than one way (a key twice in a map, nesting or numbers
beyond what Spark's parser takes), makes the whole column unknown: what a filter would see in
such a row is not for us to guess.
"""

import gc
import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata.stats.flat import Values, struct_row
from strata.stats.json_fold import Fields, fold
from strata.stats.json_read import Reader
from strata.stats.union import union_columns
from strata.stats.wire import COUNTED, JSON_PATH, ROWS, Path, column_name, path_name

CHUNK_ROWS: Final = 16_384  # parsed values take some twenty times the memory of their text
CHUNK_BYTES: Final = 8 * 1024 * 1024

# Spark's JSON parser refuses deeper nesting, longer numbers and longer names than these, and
# then yields null for every path of the row. We stop well before.
_LONG_ROW: Final = 900  # bytes; a shorter row cannot reach any limit
_LONG_NUMBER: Final = r"[0-9.eE+\-]{900}"
_DEEP: Final = 400
_HUGE_ROW: Final = 40_000  # bytes; from here on a name could be too long
_HUGE_NAME: Final = re.compile(rb'"(?:[^"\\]|\\.){40000,}"\s*:', re.DOTALL)
_STRING: Final = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


def collect_json(values: Values, column_id: int) -> dict[str, pa.Array]:
    """Return the statistics columns of one JSON column of any number of rows.

    Shape: `s.{id}` and `s.{id}$...`, one row each; only `s.{id}`, null, when some row cannot be
    read. The root is first, then the paths in order of depth and key.
    """
    name = column_name(column_id)
    texts = pc.drop_null(values)
    try:
        parts = list(_statistics(_chunks(texts)))
    except ValueError:
        return {name: pa.nulls(1, COUNTED)}
    columns = {name: struct_row(COUNTED, {"nulls": int(values.null_count)})}
    return columns | _unite(parts, column_id)


def _statistics(chunks: Iterable[pa.Array]) -> Iterator[dict[Path, Fields]]:
    """Yield the statistics of each chunk, by the fast way for as long as that works."""
    reader, fast = Reader(), True
    for texts in chunks:
        check_limits(texts)
        found = reader.read(texts) if fast else None
        fast = found is not None
        yield fold_texts(texts) if found is None else found


def fold_texts(texts: pa.Array) -> dict[Path, Fields]:
    """Return the statistics of every path in JSON texts within the limits: exact, and slow.

    Raises: ValueError when some text cannot be read, or not in one way only.
    """
    rows = texts.cast(pa.binary()).to_pylist()
    with _without_collector():
        parsed = [orjson.loads(row) for row in rows]
        _refuse_repeated_keys(rows, parsed)
        return fold(parsed)


@contextmanager
def _without_collector() -> Iterator[None]:
    """Keep Python's cycle collector from walking a growing heap of values that have no cycles."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def check_limits(texts: pa.Array) -> None:
    """Raise ValueError when Spark's parser would refuse one of the texts for its extent."""
    long = texts.filter(pc.greater_equal(pc.binary_length(texts), _LONG_ROW)).cast(pa.binary())
    if not len(long):
        return
    if pc.any(pc.match_substring_regex(long, _LONG_NUMBER)).as_py():
        raise ValueError("a number is too long")
    many = pc.greater_equal(pc.count_substring_regex(long, r"[\[{]"), _DEEP)
    if any(_depth(row) >= _DEEP for row in long.filter(many).to_pylist()):
        raise ValueError("nested too deeply")
    huge = long.filter(pc.greater_equal(pc.binary_length(long), _HUGE_ROW))
    if any(_HUGE_NAME.search(row) for row in huge.to_pylist()):
        raise ValueError("a name is too long")


def _depth(row: bytes) -> int:
    depth = deepest = 0
    for char in _STRING.sub(b"", row):
        depth += (char in b"[{") - (char in b"]}")
        deepest = max(deepest, depth)
    return deepest


def _refuse_repeated_keys(rows: list[bytes], parsed: list[Any]) -> None:
    """Raise ValueError when a map holds a key twice: parsers differ in which one they take.

    Canonical text is what it parses to, written again, and a repeated key would be gone from
    that; so only the rows that differ need the slow look.
    """
    if orjson.dumps(parsed) == b"[" + b",".join(rows) + b"]":
        return
    for row, value in zip(rows, parsed, strict=True):
        if orjson.dumps(value) != row:
            json.loads(row, object_pairs_hook=_unrepeated)


def _unrepeated(pairs: list[tuple[str, Any]]) -> None:
    if len({key for key, _ in pairs}) != len(pairs):
        raise ValueError("a key occurs twice in one map")


def _chunks(texts: Values) -> Iterator[pa.Array]:
    """Yield the texts in pieces of bounded rows and bytes, at least one piece."""
    pieces = texts.chunks if isinstance(texts, pa.ChunkedArray) else [texts]
    yielded = False
    for piece in pieces:
        step = max(1, min(CHUNK_ROWS, CHUNK_BYTES * len(piece) // max(1, piece.nbytes)))
        for start in range(0, len(piece), step):
            yielded = True
            yield piece.slice(start, step)
    if not yielded:
        yield pa.array([], pa.string())


def _unite(parts: list[dict[Path, Fields]], column_id: int) -> dict[str, pa.Array]:
    rows = [_columns(part, column_id) for part in parts]
    if len(rows) == 1:
        return rows[0]
    names = dict.fromkeys(name for row in rows for name in row)
    missing = pa.nulls(1, JSON_PATH)
    aligned = {n: pa.chunked_array([row.get(n, missing) for row in rows]) for n in names}
    return union_columns(pa.table({ROWS: pa.nulls(len(rows), pa.int64()), **aligned}))


def _columns(part: dict[Path, Fields], column_id: int) -> dict[str, pa.Array]:
    return {path_name(column_id, path): struct_row(JSON_PATH, part[path]) for path in part}

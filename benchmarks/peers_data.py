"""The data that all contenders of `benchmarks.peers` take in: CSV files, and what is asked of them.

Three shapes: `events` (nine columns of usual types), `wide` (200 columns) and `nested` (a column of
JSON texts). Rows have an `id` that grows with time; each file holds a stretch of ids in any order,
as sources write them. Values follow from id and version alone, so that an upsert is a later version
of some ids.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

Ids = npt.NDArray[np.int64]
START: Final = datetime(2013, 1, 1, tzinfo=UTC)
DAYS: Final = 100  # from the first event to the last
DAY_US: Final = 86_400_000_000
FILES: Final = 8  # of a table's source
SMALL: Final = 20  # batches that a compaction merges
# How often each is asked, with other constants: one alone is too short to measure.
QUESTIONS: Final = {"plan": 10, "last": 5, "lookup": 10, "count": 10}
EVENTS: Final = {
    "id": "int64",
    "at": "timestamptz",
    "host": "string",
    "value": "float64",
    "hits": "int64",
    "price": "decimal(12,2)",
    "day": "date",
    "flag": "bool",
    "note": "string",
}
ARROW: Final[Mapping[str, pa.DataType]] = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "timestamptz": pa.timestamp("us", "UTC"),
    "date": pa.date32(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "jsonb": pa.string(),
    "decimal(12,2)": pa.decimal128(12, 2),
}


@dataclass(frozen=True)
class Condition:
    """A column compared with a constant; each contender has its own words for it."""

    column: str
    sign: str
    value: int | datetime | date


@dataclass(frozen=True)
class Shape:
    """One kind of table: its columns by name and how values follow from ids."""

    name: str
    columns: Mapping[str, str]
    values: Callable[[Ids, int, int], Sequence[pa.Array]]

    def table(self, ids: Ids, rows: int, version: int = 0) -> pa.Table:
        """Return the rows with these ids, of a table of `rows`."""
        return pa.table(list(self.values(ids, rows, version)), names=list(self.columns))


def mixed(ids: Ids, salt: int) -> npt.NDArray[np.uint64]:
    """Return numbers that look drawn and follow from ids and salt alone."""
    with np.errstate(over="ignore"):
        found = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        found += np.uint64((salt + 1) * 0x632BE59BD9B4E019 % 2**64)
        found ^= found >> np.uint64(31)
        found *= np.uint64(0xBF58476D1CE4E5B9)
        return found ^ (found >> np.uint64(29))


def below(ids: Ids, salt: int, limit: int) -> Ids:
    """Return drawn numbers from 0 to below `limit`."""
    return (mixed(ids, salt) % np.uint64(limit)).astype(np.int64)


def times(ids: Ids, rows: int) -> Ids:
    """Return the microseconds since 1970 of events that are spread evenly over all days."""
    return int(START.timestamp()) * 1_000_000 + ids * (DAYS * DAY_US // rows)


def words(prefix: str, numbers: Ids, count: int) -> pa.Array:
    """Return texts with numbers in them, of `count` different ones."""
    return _every_word(prefix, count).take(pa.array(numbers))


@cache
def _every_word(prefix: str, count: int) -> pa.Array:
    return pa.array([f"{prefix}{n:05d}" for n in range(count)])


def events(ids: Ids, rows: int, version: int) -> list[pa.Array]:
    """Return the columns of `events`; a later version changes all but time and host."""
    micros, salt = times(ids, rows), 100 * version
    notes = [words("word", below(ids, salt + n, 20_000), 20_000) for n in (1, 2, 3)]
    cents = pa.array(below(ids, salt + 4, 10**7)).cast(pa.decimal128(21, 0))
    return [
        pa.array(ids),
        pa.array(micros).cast(ARROW["timestamptz"]),
        words("host", below(ids, 5, 50), 50),
        pa.array(below(ids, salt + 6, 10**9) / 10**9),
        pa.array(below(ids, salt + 7, 10**6)),
        pc.divide(cents, pa.scalar(100, pa.decimal128(3, 0))).cast(ARROW["decimal(12,2)"]),
        pa.array((micros // DAY_US).astype(np.int32)).cast(pa.date32()),
        pa.array(below(ids, salt + 8, 2) == 1),
        pc.binary_join_element_wise(*notes, " "),
    ]


def wide_columns(count: int = 200) -> dict[str, str]:
    """Return the columns of `wide`: an id, a time, and numbers and short texts by turns."""
    kinds = ("int64", "float64", "string")
    rest = {f"c{n:04d}": kinds[n % 3] for n in range(2, count)}
    return {"id": "int64", "at": "timestamptz", **rest}


def wide(columns: Mapping[str, str]) -> Callable[[Ids, int, int], list[pa.Array]]:
    """Return the function that makes the columns of `wide`."""

    def values(ids: Ids, rows: int, version: int) -> list[pa.Array]:
        made = [pa.array(ids), pa.array(times(ids, rows)).cast(ARROW["timestamptz"])]
        for number, kind in enumerate(list(columns.values())[2:]):
            drawn = below(ids, number + 1000 * version, 1000 * (number + 1))
            if kind == "string":
                made.append(words("w", drawn % 1000, 1000))
            else:
                made.append(pa.array(drawn / 8 if kind == "float64" else drawn))
        return made

    return values


def nested(ids: Ids, rows: int, version: int) -> list[pa.Array]:
    """Return an id, a time and a JSON text of three levels, its keys in order."""
    drawn = [below(ids, salt + 100 * version, limit) for salt, limit in enumerate((10**6, 90, 7))]
    texts = []
    for number, user, age, kind in zip(ids.tolist(), *(d.tolist() for d in drawn), strict=True):
        document: dict[str, Any] = {
            "items": [{"n": n, "sku": f"s{(user + n) % 1000:04d}"} for n in range(kind % 4)],
            "kind": f"k{kind}",
            "user": {"age": age, "id": user, "tags": [f"t{user % 50}", f"t{age}"]},
        }
        if kind:
            document["when"] = {"seq": number, "zone": f"z{kind}"}
        texts.append(orjson.dumps(document).decode())
    micros = pa.array(times(ids, rows)).cast(ARROW["timestamptz"])
    return [pa.array(ids), micros, pa.array(texts)]


SHAPES: Final = {
    "events": Shape("events", EVENTS, events),
    "wide": Shape("wide", wide_columns(), wide(wide_columns())),
    "nested": Shape("nested", {"id": "int64", "at": "timestamptz", "payload": "jsonb"}, nested),
}


def write(table: pa.Table, path: Path) -> None:
    """Write a CSV file with a header, times in UTC."""
    path.parent.mkdir(parents=True, exist_ok=True)
    at = pc.strftime(table["at"], "%Y-%m-%dT%H:%M:%SZ")
    pacsv.write_csv(table.set_column(table.column_names.index("at"), "at", at), path)


def sources(folder: Path, shape: Shape, rows: int) -> list[Path]:
    """Write the files of a table, and those of upserts and small batches of `events`."""
    draw, made = np.random.default_rng(7), []
    for number in range(FILES):
        ids = np.arange(number * rows // FILES, (number + 1) * rows // FILES)
        made.append(folder / f"all/{number:02d}.csv")
        write(shape.table(draw.permutation(ids), rows), made[-1])
    return made


def upserts(folder: Path, shape: Shape, rows: int, turns: int) -> None:
    """Write a file of new values of 1 % of the ids for each turn: in one cluster, and spread."""
    few = rows // 100
    for turn in range(turns):
        ids = rows // 3 + np.arange(few)
        write(shape.table(ids, rows, 1 + 2 * turn), folder / f"clustered{turn}.csv")
        spread = np.arange(turn, rows, 100)
        write(shape.table(spread, rows, 2 + 2 * turn), folder / f"spread{turn}.csv")


def small(folder: Path, shape: Shape, rows: int) -> None:
    """Write small batches whose ids interleave, a fifth of the rows together."""
    for number in range(SMALL):
        ids = np.arange(number, rows // 5, SMALL)
        write(shape.table(ids, rows), folder / f"small/{number:03d}.csv")


def asked(rows: int) -> dict[str, list[list[Condition]]]:
    """Return the conditions of each question; a list holds where all of its do."""
    days = [START + timedelta(days=9 * n + 4) for n in range(QUESTIONS["plan"])]
    one_day = [
        [Condition("at", ">=", day), Condition("at", "<", day + timedelta(days=1))] for day in days
    ]
    last = [Condition("at", ">=", START + timedelta(days=DAYS - 1))]
    ids = [(7919 * n + 13) % rows for n in range(1, 1 + QUESTIONS["lookup"])]
    return {
        "plan": one_day,
        "last": [last] * QUESTIONS["last"],
        "lookup": [[Condition("id", "=", number)] for number in ids],
        "count": [[Condition("day", "=", day.date())] for day in days],
        "full": [[]],
    }


def digest(batches: Sequence[pa.RecordBatch] | pa.Table, shape: Shape) -> dict[str, Any]:
    """Return what equal rows in any order have in common: their number and a sum of each column.

    `rows tied` sums products of two columns, so that values in the wrong row are noticed.
    """
    table = batches if isinstance(batches, pa.Table) else pa.Table.from_batches(batches)
    found: dict[str, Any] = {"rows": table.num_rows}
    for name, kind in shape.columns.items():
        found[name] = _sum(table[name], kind)
    tied = next(n for n in reversed(shape.columns) if shape.columns[n] == "int64")
    ids, other = (table[n].cast(pa.int64()) for n in ("id", tied))
    rests = pc.subtract(ids, pc.multiply(pc.divide(ids, 1009), 1009))
    found["rows tied"] = pc.sum(pc.multiply(rests, other)).as_py()
    return found


def _sum(column: pa.ChunkedArray, kind: str) -> Any:
    if kind in ("string", "jsonb"):
        whole = pa.concat_arrays([c.cast(pa.large_binary()) for c in column.chunks])
        whole = pc.binary_join_element_wise(whole, b"", b"") if whole.offset else whole
        return int(np.frombuffer(whole.buffers()[2], np.uint8).sum(dtype=np.int64))
    if kind == "timestamptz":
        return pc.sum(column.cast(ARROW[kind]).cast(pa.int64())).as_py() or 0
    if kind == "date":
        return pc.sum(column.cast(pa.int32())).as_py()
    if kind == "float64":
        return f"{pc.sum(column).as_py():.9e}"
    return str(pc.sum(column.cast(ARROW[kind])).as_py())

"""Cells of the wall: a type and a source; how rows are made, written, taken in and judged."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final

from strata.errors import InvalidRequest
from strata.ingest.twin import Unreadable
from strata.model.types import ColumnType, Kind, parse_type
from tests.wall import duck, events, packed, sources, typed
from tests.wall.rows import File, Row, frozen
from tests.wall.sources import Ids
from tests.wall.world import World

SIMPLE: Final = (
    "bool", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "oid",
    "mz_timestamp", "float32", "float64", "numeric", "numeric(10,2)", "numeric(38,0)",
    "numeric(38,10)", "numeric(38,38)", "numeric(18,6)", "numeric(1,0)", "date", "time",
    "timestamp", "timestamptz", "interval", "interval day to second", "interval year to month",
    "string", "char(3)", "varchar(3)", "bytes", "jsonb", "uuid", "aclitem", "mz_aclitem",
)  # fmt: skip
NESTED: Final = (
    "list<numeric(38,10)>", "list<time>", "list<float32>", "list<jsonb>", "list<list<int64>>",
    "array<numeric>", "array<timestamp>", "array<float64>", "array<string>", "int2vector",
    "map<numeric(38,0)>", "map<timestamptz>", "map<float64>", "map<string>",
    "record<a: numeric(10,2), b: time, c: float64>", "record<a: string, b: list<uuid>>",
    "range<numeric>", "range<timestamptz>", "range<float64>", "range<int32>", "range<date>",
    "list<record<d: date, n: numeric>>",
)  # fmt: skip
TYPES: Final = (*SIMPLE, *NESTED)
TRIES: Final = 20
NONE_FITS: Final = "every row of the file is unreadable in one column"
NUMERIC: Final = frozenset({Kind.NUMERIC, Kind.FLOAT32, Kind.FLOAT64})
MAKE = Callable[[Random, ColumnType, int, Ids], list[Row]]
BUILD = Callable[[Sequence[Row]], list[File]]


@dataclass(frozen=True)
class Source:
    """How the rows of a cell are made and written."""

    name: str
    spec: dict[str, Any]
    make: Callable[[Random, ColumnType, int, Ids], list[Row]]
    build: BUILD
    key: str = "id"
    retry: bool = False  # at first no row fits, as n is too narrow
    holds: Callable[[ColumnType], bool] = lambda _: True


@dataclass(frozen=True)
class Failure:
    """A value that is neither stored equal nor rejected with its place."""

    type: str
    source: str
    value: str
    expected: str
    got: str


@dataclass
class Verdict:
    """What became of the values of a cell."""

    values: int = 0
    stored: int = 0
    rejected: int = 0
    undecided: int = 0
    must: int = 0
    failures: list[Failure] = field(default_factory=list)


# ---- how rows are written


def _csv(rows: Sequence[Row]) -> list[File]:
    tame, wild = sources.split(rows)
    return [sources.csv_file("in/tame.csv", tame), sources.csv_file("in/wild.csv", wild)]


def _jsonl(rows: Sequence[Row]) -> list[File]:
    tame, wild = sources.split(rows)
    return [
        sources.json_file("in/tame.jsonl", tame, pad=len(tame) > 200),
        sources.json_file("in/wild.jsonl", wild),
    ]


def _events(rows: Sequence[Row]) -> list[File]:
    tame, wild = sources.split(rows)
    return [
        sources.event_file("in/tame.jsonl", tame, pad=len(tame) > 200),
        sources.event_file("in/wild.jsonl", wild, first=10**6),
    ]


def _array(rows: Sequence[Row]) -> list[File]:
    return [sources.array_file("in/x.json", rows)]


def _by_type(suffix: str, write: Callable[[str, list[Row], Any], File | None]) -> BUILD:
    def build(rows: Sequence[Row]) -> list[File]:
        groups: dict[Any, list[Row]] = defaultdict(list)
        for row in rows:
            groups[row.cell[0]].append(row)
        some = [
            write(f"in/{n:02}.{suffix}", group, arrow_type)
            for n, (arrow_type, group) in enumerate(groups.items())
        ]
        return [file for file in some if file is not None]

    return build


def _typed(
    holds: Callable[[Any], bool], shape: Callable[[Any, Any], Any] = lambda value, _: value
) -> Callable[[Random, ColumnType, int, Ids], list[Row]]:
    def make(draw: Random, column_type: ColumnType, count: int, ids: Ids) -> list[Row]:
        types = [one for one in typed.arrow_types(column_type) if holds(one)]
        each = max(1, count // max(1, len(types)))
        return [
            row
            for one in types
            for row in sources.typed_rows(draw, column_type, one, each, ids, shape)
        ]

    return make


def _only(make: MAKE, wanted: Callable[[Row], bool]) -> MAKE:
    return lambda *facts: [row for row in make(*facts) if wanted(row)]


def _in_arrays(draw: Random, column_type: ColumnType, count: int, ids: Ids) -> list[Row]:
    return [r for r in sources.json_rows(draw, column_type, count, ids) if sources.fits_an_array(r)]


def _told(tell: sources.Tell) -> Callable[[Random, ColumnType, int, Ids], list[Row]]:
    return lambda draw, column_type, count, ids: sources.event_rows(
        draw, column_type, count, ids, tell
    )


def _any(_: Any) -> bool:
    return True


def _csv_in(encoding: str) -> Source:
    """Return CSV in an encoding, some of whose bytes are quotes, delimiters or line breaks."""
    return Source(
        f"csv in {encoding}",
        {"format": "csv", "encoding": encoding},
        _only(sources.csv_rows, partial(sources.has_letters, encoding)),
        lambda rows: [sources.recoded(file, encoding) for file in _csv(rows)],
    )


ENCODINGS: Final = ("utf-16", "utf-32-be", "cp1252", "koi8-r", "shift_jis", "gb18030", "cp037")
DEBEZIUM: Final = {"format": "jsonl", "envelope": "debezium"}
UPSERT: Final = {"envelope": "upsert"}
WIDE: Final = "70000"
PARQUET: Final = _by_type("parquet", sources.parquet_file)
SOURCES: Final = {
    source.name: source
    for source in (
        Source("csv", {"format": "csv"}, sources.csv_rows, _csv),
        *map(_csv_in, ENCODINGS),
        Source("jsonl", {"format": "jsonl"}, sources.json_rows, _jsonl),
        Source("json", {"format": "json"}, _in_arrays, _array),
        Source("parquet", {"format": "parquet"}, _typed(_any), PARQUET),
        Source(
            "orc", {"format": "orc"},
            _only(_typed(packed.orc_holds), lambda row: packed.is_near(row.cell[1], row.cell[0])),
            _by_type("orc", packed.orc_file),
        ),
        Source(
            "avro", {"format": "avro"}, _typed(packed.avro_holds, packed.as_avro),
            _by_type("avro", packed.avro_file),
        ),
        Source("debezium", DEBEZIUM, _told(events.plain), _events),
        Source("debezium schema", DEBEZIUM, _told(events.with_schema), _events),
        Source(
            "debezium base64", DEBEZIUM, _told(events.as_base64), _events,
            holds=lambda t: t.kind in NUMERIC or t.kind is Kind.INT64,
        ),
        Source(
            "retry csv", {"format": "csv"}, sources.csv_rows,
            lambda rows: [sources.csv_file("in/x.csv", rows, extra=WIDE)], retry=True,
        ),
        Source(
            "retry jsonl", {"format": "jsonl"}, sources.json_rows,
            lambda rows: [sources.json_file("in/x.jsonl", rows, extra=WIDE)], retry=True,
        ),
        Source(
            "retry parquet", {"format": "parquet"}, _typed(_any),
            _by_type("parquet", lambda n, r, t: sources.parquet_file(n, r, t, extra=int(WIDE))),
            retry=True,
        ),
        Source(
            "retry debezium", DEBEZIUM, _told(events.plain),
            lambda rows: [sources.event_file("in/x.jsonl", rows, extra=WIDE)], retry=True,
        ),
        Source("key csv", {"format": "csv", **UPSERT}, sources.csv_rows, _csv, key="v"),
        Source("key jsonl", {"format": "jsonl", **UPSERT}, sources.json_rows, _jsonl, key="v"),
        Source(
            "key parquet", {"format": "parquet", **UPSERT}, _typed(_any), PARQUET, key="v",
        ),
    )
}  # fmt: skip


# ---- how a cell is run


def run(name: str, source: Source, seed: int, values: int, root: Path) -> Verdict:
    """Make, take in and judge the values of a cell."""
    column_type = parse_type(name)
    if not source.holds(column_type):
        return Verdict()
    draw = Random(f"{seed} {name} {source.name}")
    rows = source.make(draw, column_type, values, Ids())
    if source.key == "v":
        rows = [row for row in rows if row.expected is not None]
    return judged(name, source, rows, root)


def judged(name: str, source: Source, rows: list[Row], root: Path) -> Verdict:
    """Take rows in and judge each.

    Of a run that fails as a whole first the rows that are readable are taken in, then halves of
    the others, until TRIES runs have shown enough of what ends them.
    """
    verdict = Verdict(values=len(rows), must=sum(row.must and row.readable for row in rows))
    pending, tries = [rows], 0
    while pending and tries < TRIES:
        some, tries = pending.pop(), tries + 1
        try:
            world = _taken(name, source, some, root)
        except Exception as error:
            refused = _refused(error, some)
            if refused:
                tries -= 1
                verdict.rejected += len(refused)
                pending.append([row for row in some if row not in refused])
                promised = [row for row in refused if row.must and row.readable]
                verdict.failures += [_failure(name, source, r, str(error)) for r in promised]
            elif len(some) == 1:
                told = f"the run fails: {type(error).__name__}: {str(error)[:200]}"
                verdict.failures.append(_failure(name, source, some[0], told))
            elif not some:
                raise
            else:
                pending += _parted(some)
            continue
        judge = _judge_keys if source.key == "v" else _judge_rows
        judge(name, source, some, world, verdict)
    return verdict


def _refused(error: Exception, rows: list[Row]) -> list[Row]:
    """Return the rows of a file that is refused as a whole, as documented: none of them fits."""
    if not isinstance(error, InvalidRequest) or error.message != NONE_FITS:
        return []
    return [row for row in rows if row.file == error.details["file"]]


def _parted(rows: list[Row]) -> list[list[Row]]:
    """Return the unreadable and the readable rows, or halves if they are all one or the other."""
    readable = [row for row in rows if row.readable]
    if 0 < len(readable) < len(rows):
        return [[row for row in rows if not row.readable], readable]
    middle = len(rows) // 2
    return [rows[middle:], rows[:middle]]


def _taken(name: str, source: Source, rows: list[Row], root: Path) -> World:
    extra = "int16" if source.retry else ""
    world = World(root, parse_type(name), source.spec, key=source.key, extra=extra)
    world.ingest(source.build(rows))
    if source.retry:
        world.widen("n", parse_type("int64"))
        world.retry()
    return world


def _failure(name: str, source: Source, row: Row, got: str) -> Failure:
    expected = repr(row.expected)
    return Failure(name, source.name, row.text, expected[:300], got[:400])


# ---- how rows are judged


def _judge_rows(name: str, source: Source, rows: list[Row], world: World, verdict: Verdict) -> None:
    found: dict[int, list[tuple[Any, int]]] = defaultdict(list)
    for number, value, diff in world.rows():
        found[number].append((value, diff))
    rejects: dict[tuple[str, int | None], list[dict[str, Any]]] = defaultdict(list)
    for one in world.rejected():
        rejects[one["file"], one["line"]].append(one)
    for row in rows:
        if not row.file:
            continue
        got = _fault(row, found.get(row.id, []), rejects.get((row.file, row.line), []))
        if got is not None:
            verdict.failures.append(_failure(name, source, row, got))
        verdict.undecided += not row.judged
        verdict.stored += row.id in found
        verdict.rejected += row.id not in found
    if source.name in ("csv", "parquet"):
        kept = [row for row in rows if row.file and len(found.get(row.id, [])) == 1]
        told = duck.readings(world.type, source.name, kept, world.root)
        for row in kept:
            value = found[row.id][0][0]
            if row.id in told and not duck.agree(value, told[row.id]):
                got = f"stored as {value!r}, DuckDB reads {told[row.id]!r}"
                verdict.failures.append(_failure(name, source, row, got))
    places = {(row.file, row.line) for row in rows}
    for place in rejects.keys() - places:
        fault = Row(0, str(rejects[place][0]["raw"])[:200], None, False)
        verdict.failures.append(_failure(name, source, fault, f"rejected at {place}: no such row"))


def _fault(row: Row, found: list[tuple[Any, int]], rejects: list[dict[str, Any]]) -> str | None:
    """Return what is wrong with what became of a row, None if nothing."""
    if bool(found) + bool(rejects) != 1 or len(found) + len(rejects) != 1:
        return f"stored {len(found)} times, rejected {len(rejects)} times"
    if found:
        value, diff = found[0]
        if diff != 1:
            return f"stored with the diff {diff}"
        if not row.judged:
            return None
        if not row.readable or not same(value, row.expected):
            return f"stored as {value!r}"
        return None
    return _reject_fault(row, rejects[0])


def _reject_fault(row: Row, reject: dict[str, Any]) -> str | None:
    if row.must and row.readable:
        return f"rejected: {reject['reason']}"
    if not row.readable and reject["column_name"] is None and "not JSON" in reject["reason"]:
        return None
    wanted = None if row.whole else "v"
    if reject["column_name"] != wanted and not (wanted is None and reject["column_name"] == "v"):
        return f"rejected in the column {reject['column_name']}: {reject['reason']}"
    if row.shown is not None and wanted == "v" and reject["value"] != row.shown:
        return f"rejected with the value {reject['value']!r:.100}"
    return None


def same(one: Any, other: Any) -> bool:
    """Tell whether two canonical forms are one value: True is not 1, and 1 not 1.0."""
    if isinstance(one, Unreadable) or isinstance(other, Unreadable):
        return False
    return type(one) is type(other) and bool(one == other)


def _judge_keys(name: str, source: Source, rows: list[Row], world: World, verdict: Verdict) -> None:
    """The last row of each key is there, once; of rows that are rejected nothing is."""
    places = {(one["file"], one["line"]) for one in world.rejected()}
    order = {row.id: n for n, row in enumerate(sorted(rows, key=lambda r: (r.file, r.line or 0)))}
    wanted: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda r: order[r.id]):
        if not row.file:
            continue
        rejected = (row.file, row.line) in places
        verdict.rejected += rejected
        if not row.judged or (
            rejected and not (row.must and row.readable and row.expected is not None)
        ):
            verdict.undecided += not row.judged
            continue
        if rejected or not row.readable:
            got = "rejected" if rejected else "not rejected"
            if row.expected is not None:
                verdict.failures.append(_failure(name, source, row, got))
            continue
        wanted[frozen(row.expected)] = row
    undecided = {row.id for row in rows if not row.judged}
    held: dict[Any, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for number, value, diff in world.rows():
        held[frozen(value)][number] += diff
    verdict.stored += len(held)
    for key, row in wanted.items():
        there = {n: d for n, d in held.get(key, {}).items() if d and n not in undecided}
        if there != {row.id: 1} and not undecided & held.get(key, {}).keys():
            verdict.failures.append(_failure(name, source, row, f"held for the key: {there}"))

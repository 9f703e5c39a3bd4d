"""Source files from nowhere, for each format: rows, rejected rows or a refusal, never a crash.

An input is a file. It is read as an ingest reads it: typed, its bad rows rejected and encoded for
the quarantine. All rows of it are counted, and a row that was rejected is rejected again when it is
read by itself, as `strata quarantine retry` does. What Arrow may read as a table is read so, and
one by one, whatever its size: with the same result.
"""

import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import cycle
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import fastavro
import orjson
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq

from strata.errors import StrataError
from strata.ingest.changes.tasks import file_changes
from strata.ingest.land.files import FileRange, SourceFile
from strata.ingest.plan import whole_task
from strata.ingest.quarantine import _row
from strata.ingest.readers import debezium as read_debezium
from strata.ingest.readers import jsonl as read_jsonl
from strata.ingest.readers.formats.interface import KEPT as KEPT_FORMAT
from strata.ingest.readers.read import read_file
from strata.ingest.readers.rejects import Reject, encode_rejects
from strata.ingest.readers.source import RawFile
from strata.ingest.retry import _can_be_read, _file
from strata.ingest.task import IngestTask, JudgedRows, Step
from strata.ingest.updates import file_updates
from strata.machine.machine import Machine
from strata.model.settings import Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.state.state import Commit
from strata.store.open import open_stores

FOLDER: Final = Path(tempfile.mkdtemp(prefix="strata-fuzz-"))
TYPES: Final = {
    "id": "int64",
    "v": "string",
    "n": "numeric(10,2)",
    "at": "timestamptz",
    "j": "jsonb",
    "l": "list<int32>",
    "x": "float64",
    "b": "bytes",
    "r": "record<a: int16>",
    "day": "date",
}
PLAIN: Final = frozenset({"id", "v", "n", "at", "x", "day"})  # those that Arrow may read
ROW: Final[dict[str, Any]] = {
    "id": 7,
    "v": "é",
    "n": "1.50",
    "at": "2026-01-02T03:04:05Z",
    "j": {"k": [1, 1.5e300]},
    "l": [1, None],
    "x": -0.5,
    "b": "ab",
    "r": {"a": 1},
    "day": "2026-01-02",
}


@dataclass(frozen=True)
class Source:
    """What is fuzzed: a reader of files, and files that it reads."""

    name: str
    format: str
    envelope: str
    seeds: Callable[[], list[bytes]]
    encoding: str = "utf-8"
    written: tuple[tuple[str, str | bool], ...] = ()  # what else a declaration says of the files

    def check(self, data: bytes) -> None:
        """Read a file. Raises: whatever is not a refusal."""
        task = _task(self.format, self.envelope, encoding=self.encoding, written=self.written)
        path = FOLDER / "input"
        path.write_bytes(data)
        file = SourceFile(str(path), "input", len(data))
        if self.format == "jsonl" and self.envelope in ("append", "debezium"):
            for names in (PLAIN, PLAIN - {"n"}):  # where there are decimals, 1e5 is not for Arrow
                _both_ways(data, _task(self.format, self.envelope, names))
        try:
            rejected = _rejected(file, task)
        except StrataError as error:
            str(error).encode()
            return
        lines = encode_rejects(rejected).splitlines()
        assert len(lines) == len(rejected)
        for line in lines:
            self._again(line, task)

    def _again(self, line: bytes, task: IngestTask) -> None:
        row = _row(COMMIT, 0, orjson.loads(line))
        if self.envelope != "append" or not _can_be_read(row, self.format):
            return
        header = str(row["header"] or "")
        kept = header.startswith("\0")
        format = KEPT_FORMAT if kept else "csv" if header else "jsonl"
        spec = replace(task.spec, source=replace(task.spec.source, format=format))
        file = _file("t", row, format, task.spec.source.encoding)
        try:
            again = _rejected(file, replace(task, spec=spec))
        except StrataError:
            return
        assert again, f"a rejected row was taken in when it was read again: {line!r}"


def _both_ways(data: bytes, task: IngestTask) -> None:
    """Read a file as a table, however small it is, and one by one: with the same result."""
    piece = FileRange(0, len(data), len(data), 0, data=data, whole=True)
    file = SourceFile(str(FOLDER / "input"), "input", len(data), piece=piece)
    with patch.object(read_jsonl, "SMALL_BYTES", 0), patch.object(read_debezium, "SMALL_BYTES", 0):
        fast = _outcome(file, task)
    slow = _outcome(file, task)
    assert fast == slow, (data, fast, slow)


def _outcome(file: SourceFile, task: IngestTask) -> object:
    """Return all that comes of a file, in a form that can be compared."""
    try:
        found = [
            _read_raw(raw, task) for raw in read_file(file, task.spec, task.relation, task.renamed)
        ]
    except StrataError as error:
        return str(error)
    return repr(
        [
            (table.to_pylist(), stored, rows, [_shown(one) for one in bad])
            for table, stored, rows, bad in found
        ]
    )


def _shown(reject: Reject) -> object:
    """Return a rejected row; the text of a value is its JSON, or what it was made of that."""
    value = reject.value and reject.value.strip('"')
    return orjson.loads(encode_rejects([replace(reject, value=value)]))


COMMIT: Final = Commit.__new__(Commit)
object.__setattr__(COMMIT, "token", "t")


@cache
def _task(
    format: str,
    envelope: str,
    names: frozenset[str] = frozenset(TYPES),
    encoding: str = "utf-8",
    written: tuple[tuple[str, str | bool], ...] = (),
) -> IngestTask:
    """Return a task that reads some columns of such files."""
    types = {name: kind for name, kind in TYPES.items() if name in names}
    columns = [{"name": n, "type": k, "nullable": n != "id"} for n, k in types.items()]
    source = {"format": format, "envelope": envelope, **dict(written)}
    if encoding != "utf-8":
        source["encoding"] = encoding
    said = "-".join(name for name, _ in written)
    name = f"memory://fuzz-{format}-{envelope}-{encoding}-{said}-{'-'.join(types)}"
    store = StoreSettings(name, name, str(FOLDER))
    machine = Machine(open_stores(store))
    machine.create(parse_spec({"name": "s", "columns": columns, "key": ["id"], "source": source}))
    step = Step(0, 10, "fuzz", ())
    return whole_task(Settings(store=store), machine.load("s"), step)


def _rejected(file: SourceFile, task: IngestTask) -> Sequence[Reject]:
    """Read a file and return its rejected rows; all rows are counted."""
    found: list[Reject] = []
    for raw in read_file(file, task.spec, task.relation, task.renamed):
        table, stored, rows, bad = _read_raw(raw, task)
        table.validate(full=True)
        assert stored + len(bad) == rows, (stored, len(bad), rows)
        found += bad
    return found


def _read_raw(raw: RawFile, task: IngestTask) -> tuple[pa.Table, int, int, Sequence[Reject]]:
    """Return what is stored of a file: rows, how many, of how many, and the rejected ones."""
    if task.spec.source.envelope == "append":
        updates = file_updates(raw, task)
        return updates.updates, updates.updates.num_rows, *_rows_of(updates.judged)
    read = file_changes(raw, task)
    stored = read.changes.num_rows + len(read.truncations)
    return read.changes, stored, *_rows_of(read.judged)


def _rows_of(judged: JudgedRows) -> tuple[int, Sequence[Reject]]:
    return judged.counts.rows, judged.rejected


def _json(value: object) -> bytes:
    return orjson.dumps(value)


def csv() -> list[bytes]:
    """Return CSV files."""
    header = b",".join(name.encode() for name in TYPES)
    row = b'7,"a ""b""\n c",1.50,2026-01-02T03:04:05Z,"{""k"":1}",[],NA,ab,"{""a"":1}",2026-01-02'
    bad = b'x,,1e9,,{,[,"",\xff,,'
    found = [b"\n".join([header, row, row]), b"\r\n".join([header, row, bad, b"1,2", row, b""])]
    return [*found, b"\xef\xbb\xbf" + found[0], b"\r".join([header, row]), header + b"\n", b""]


def csv_escaped() -> list[bytes]:
    """Return CSV files whose quotes are escaped by backslashes."""
    found = [data.replace(b'a ""b""', b'a \\"b\\\\').replace(b'""', b'\\"') for data in csv()]
    return [*found, found[0].replace(b"NA", b'"\\\\\\""'), found[0].replace(b"NA", b"\\N")]


def csv_padded() -> list[bytes]:
    """Return such files with blanks around their fields."""
    return [
        data.replace(b",", comma)
        for data, comma in zip(csv_escaped(), cycle((b", ", b" ,\t", b"  , ")), strict=False)
    ]


def csv_in(encoding: str) -> list[bytes]:
    """Return CSV files in an encoding; bytes that are no text in it come by mutation."""
    texts = [data.decode(errors="ignore") for data in csv()]
    letters = [text.replace("ab", "ソ表") for text in texts]  # with a byte 0x5C in Shift JIS
    return [text.encode(encoding, "ignore") for text in (*texts, *letters)]


def jsonl() -> list[bytes]:
    """Return files of JSON lines, some of which may be read as a table."""
    rows = [ROW, {"id": 1}, {"id": "x", "v": 5}, {"id": 2, "j": 10**18, "x": 1e-300}]
    small = b"\n".join(map(_json, rows))
    exact = b'{"id":1.0,"n":1.10000000000000000000,"j":[1e400,-0]}\nnull\n[]\n\n{"id":3}\r\n'
    table = b"\n".join(
        [
            b'{"id":7,"v":"\xc3\xa9","n":1.50,"at":"2026-01-02T03:04:05Z","x":-0.5}',
            b'{"id":-4, "zz":[{"v":5}], "x":12.5, "day":"2026-01-02"}',
            b'{"n":"2.5","id":9,"v":null}\n\n{"id":0}\n',
        ]
    )
    tables = [table, table.replace(b"12.5", b"1.25E1"), table.replace(b"\n\n", b"\r\n")]
    return [small, exact, *tables * 3, b'\xef\xbb\xbf{"id":1}']


def array() -> list[bytes]:
    """Return files that are one JSON document."""
    return [
        _json([ROW, {"id": 1}, 5, None]),
        _json(ROW),
        b"[]",
        b"",
        b'[{"id":1.00000000000000001}]',
    ]


def debezium() -> list[bytes]:
    """Return change events, plain, with a schema, in records."""
    source = {"ts_ms": 5, "lsn": 7, "sequence": '["3","7"]', "connector": "postgresql"}
    events = [
        {"op": op, "before": before, "after": after, "source": source, "ts_ms": 6}
        for op, before, after in (
            ("c", None, ROW),
            ("u", {"id": 7}, ROW),
            ("d", {"id": 7}, None),
            ("r", None, ROW),
            ("t", None, None),
            ("x", None, ROW),
            ("c", None, {"id": "x"}),
        )
    ]
    fields = [
        {"field": "id", "type": "int64"},
        {
            "field": "n",
            "type": "bytes",
            "name": "org.apache.kafka.connect.data.Decimal",
            "parameters": {"scale": "2"},
        },
        {"field": "at", "type": "string", "name": "io.debezium.time.ZonedTimestamp"},
        {"field": "day", "type": "int32", "name": "io.debezium.time.Date"},
    ]
    schema = {"fields": [{"field": side, "fields": fields} for side in ("before", "after")]}
    row = {**ROW, "n": "AJY=", "day": 20000}
    long = [{"schema": schema, "payload": {**e, "after": e["after"] and row}} for e in events]
    keyed = [{"key": {"id": 7}, "value": e} for e in events]
    found = [b"\n".join(map(_json, some)) for some in (events, long, keyed)]
    return [*found, found[0] + b"\nnull\n", *_tables() * 4]


def _tables() -> list[bytes]:
    """Return change events of which each tells all of the plain columns, and its place."""
    source = {"ts_ms": 5, "lsn": 7, "sequence": '["3","7"]', "connector": "postgresql"}
    row = {name: value for name, value in ROW.items() if name in PLAIN} | {"day": 20000}
    events = [
        {"op": op, "before": before, "after": after, "source": {**source, "snapshot": snapshot}}
        for op, before, after, snapshot in (
            ("r", None, row, "last"),
            ("c", None, {**row, "v": None, "x": 0}, "false"),
            ("u", None, {**row, "id": -1, "n": None}, "false"),
            ("d", row, None, "false"),
        )
    ]
    keyed = [{"key": {"id": 7}, "value": event} for event in (*events[:2], events[3], None)]
    return [b"\n".join(map(_json, some)) + b"\n" for some in (events, keyed, events[1:])]


def records() -> list[bytes]:
    """Return keyed records."""
    rows = [
        {"key": {"id": 7}, "value": ROW},
        {"key": 7, "value": None},
        {"key": "x", "value": {}},
        ROW,
        {
            "key": {"payload": {"id": 1}, "schema": {}},
            "value": {"payload": ROW, "schema": {"fields": [{"field": "v", "type": "string"}]}},
        },
    ]
    return [b"\n".join(map(_json, rows))]


def _table() -> pa.Table:
    return pa.table(
        {
            "id": pa.array([1, 2, None]),
            "v": ["a", None, "b\0"],
            "n": pa.array([1, 2, None]),
            "at": pa.array([1, 2**40, 2**62], pa.timestamp("us", "UTC")),
            "j": ["1", "{", None],
            "l": pa.array([[1], None, [None, 5]], pa.list_(pa.int32())),
            "x": [0.5, None, 1e300],
            "b": [b"\xff", b"", None],
            "day": pa.array([0, 1, 2**31 - 1], pa.date32()),
            "r": pa.array([{"a": 1}, None, {"a": 70000}], pa.struct([("a", pa.int32())])),
        }
    )


def parquet() -> list[bytes]:
    """Return Parquet files."""
    found = []
    for how in ({}, {"use_dictionary": False, "compression": "gzip"}, {"data_page_version": "2.0"}):
        out = io.BytesIO()
        pq.write_table(_table(), out, **how)  # type: ignore[arg-type]
        found.append(out.getvalue())
    return found


def orc() -> list[bytes]:
    """Return ORC files."""
    found = []
    for compression in ("uncompressed", "zlib"):
        out = io.BytesIO()
        po.write_table(_table(), out, compression=compression)
        found.append(out.getvalue())
    return found


def avro() -> list[bytes]:
    """Return Avro files."""
    kinds: dict[str, Any] = {
        "id": "long",
        "v": ["null", "string"],
        "n": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}],
        "at": {"type": "long", "logicalType": "timestamp-micros"},
        "j": ["null", "string", "long"],
        "l": {"type": "array", "items": ["null", "int"]},
        "x": "double",
        "b": "bytes",
        "r": {"type": "record", "name": "q", "fields": [{"name": "a", "type": "int"}]},
        "day": {"type": "int", "logicalType": "date"},
    }
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    schema = {"type": "record", "name": "r", "fields": fields}
    rows = [{"id": 1, "v": "a", "n": None, "at": 5, "j": "{", "l": [1, None], "x": 0.5,
             "b": b"\xff", "r": {"a": 70000}, "day": 3}] * 3  # fmt: skip
    found = []
    for codec in ("null", "deflate"):
        out = io.BytesIO()
        fastavro.writer(out, schema, rows, codec=codec)
        found.append(out.getvalue())
    return found


ENCODINGS: Final = ("utf-16", "cp1252", "shift_jis", "gb18030")
SOURCES: Final = {
    source.name: source
    for source in (
        Source("csv", "csv", "append", csv),
        *(
            Source(
                f"csv_{encoding.replace('-', '')}",
                "csv",
                "append",
                partial(csv_in, encoding),
                encoding,
            )
            for encoding in ENCODINGS
        ),
        Source("csv_escaped", "csv", "append", csv_escaped, written=(("escape", "\\"),)),
        Source(
            "csv_padded",
            "csv",
            "append",
            csv_padded,
            written=(("escape", "\\"), ("skip_blanks", True)),
        ),
        Source("jsonl", "jsonl", "append", jsonl),
        Source("array", "json", "append", array),
        Source("avro", "avro", "append", avro),
        Source("orc", "orc", "append", orc),
        Source("parquet_file", "parquet", "append", parquet),
        Source("debezium", "jsonl", "debezium", debezium),
        Source("records", "jsonl", "upsert", records),
    )
}

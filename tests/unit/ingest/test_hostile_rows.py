"""Nothing that a row holds stops an ingest: it is rejected with its place, the others are in."""

import bz2
import gzip
import io
import lzma
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import orjson
import pyarrow as pa
import pytest

from strata.errors import InvalidRequest, StrataError
from strata.format.manifest import decode_manifest, part_refs
from strata.ingest.land.source_file import SourceFile
from strata.ingest.quarantine import rejected
from strata.ingest.readers.formats import avro as read_avro
from strata.ingest.readers.rejects import Reject, encode_rejects
from strata.ingest.retry import retry_rejected
from strata.ingest.tables import Rows
from strata.read.scan import read_updates
from tests.support.sizes import slice_of
from tests.unit.ingest import hostile
from tests.unit.ingest.test_engine import World
from tests.unit.ingest.test_tables import write

pytestmark = pytest.mark.slow

WIDE = 140_000  # bytes: so much text is read as a table where it can be


def world_of(root: Path, kind: str, format: str, envelope: str = "append") -> World:
    columns = [{"name": "id", "type": "int64", "nullable": False}, {"name": "v", "type": kind}]
    source = {"format": format, "envelope": envelope, "max_rejected": 1.0}
    if envelope == "debezium":
        source["contradictions"] = "count"
    return World(root, columns=columns, key=["id"], source=source)


def put(world: World, name: str, data: bytes) -> str:
    path = world.root / name
    path.write_bytes(data)
    return str(path)


def judge(world: World, *files: str, rows: int = 3) -> set[int]:
    """Ingest, show and retry; return the ids that are in. Whatever happens is said, not raised."""
    try:
        report = world.ingest(*files, lower=0, upper=10)
    except InvalidRequest as error:
        return _refused(error)
    stored = ids(world)
    seen = len(stored) + report["rejected"]
    assert seen == rows, report
    for group in rejected(world.stores, "s"):
        for row in group.rows:
            assert row["file"], row
            assert row["reason"], row
            assert row["line"], row
    before = stored
    for one in retry_rejected(world.stores, world.settings, "s"):
        assert one.taken == 0 or one.reason == "", one
        assert one.taken == 0, "what was refused was taken in by a retry"
    assert ids(world) == before
    return set(stored)


def _refused(error: InvalidRequest) -> set[int]:
    str(error).encode()
    assert error.details["file"]
    return set()


def ids(world: World) -> list[int]:
    """Return the ids of the rows that the shard holds."""
    found: Counter[int] = Counter()
    for batch in world.state.batches:
        manifest = world.stores.blob.get(batch.manifest) if batch.manifest else None
        for ref in part_refs(decode_manifest(manifest)) if manifest else []:
            rows = read_updates(world.stores, world.state, ref)
            for number, diff in zip(
                rows.columns[0].to_pylist(), rows.columns[-1].to_pylist(), strict=True
            ):
                found[number] += diff
    return sorted(found.elements())


def lines(value: bytes) -> bytes:
    return b'{"id":0}\n{"id":1,"v":' + value + b'}\n{"id":2}\n'


def widened(text: bytes) -> bytes:
    """Return a text with blanks before the end of its last object."""
    assert text.endswith(b"}\n")
    return text[:-2] + b" " * WIDE + b"}\n"


def array(value: bytes) -> bytes:
    return b'[{"id":0},{"id":1,"v":' + value + b'},{"id":2}]'


def events(*values: bytes) -> bytes:
    one = b'{"op":"c","before":null,"after":{"id":%d,"v":%s},"ts_ms":5}\n'
    return b"".join(one % pair for pair in enumerate((b"null", *values, b"null")))


def schema_events(*values: bytes) -> bytes:
    fields = b'[{"field":"id","type":"int64"},{"field":"v","type":"string"}]'
    schema = b'{"fields":[{"field":"after","fields":' + fields + b"}]}"
    found = events(*values).split(b"\n")[:-1]
    return b"".join(b'{"schema":' + schema + b',"payload":' + e + b"}\n" for e in found)


def records(*values: bytes) -> bytes:
    one = b'{"key":{"id":%d},"value":{"v":%s}}\n'
    return b"".join(one % pair for pair in enumerate((b"null", *values, b"null")))


JSON_KINDS = ("string", "jsonb", "numeric(10,2)")  # they share the files of each way
SOME_KINDS = ("string", "timestamptz", "jsonb")
SMALL_ONES = (
    "deep-255", "deep-1024", "deep-100000", "deep-number-255", "half", "digits", "exponent",
    "small exponent", "twice", "no utf-8", "nul", "object",
)  # fmt: skip
LARGE = (("string", "lines"), ("jsonb", "array"), ("string", "debezium"))
TOGETHER = ("debezium", "schema", "records")  # values of one form but for their depth
WAYS: dict[str, tuple[str, str, Callable[..., bytes]]] = {
    "lines": ("jsonl", "append", lines),
    "fast lines": ("jsonl", "append", lambda value: widened(lines(value))),
    "array": ("json", "append", array),
    "debezium": ("jsonl", "debezium", events),
    "fast debezium": ("jsonl", "debezium", lambda value: widened(events(value))),
    "schema": ("jsonl", "debezium", schema_events),
    "records": ("jsonl", "upsert", records),
}


def files_of(way: str, kind: str) -> list[dict[str, bytes]]:
    """Return the values of each file that is tried: one, or several that differ in depth."""
    found: dict[str, dict[str, bytes]] = {}
    for name, value in hostile.VALUES.items():
        if way.startswith("fast") and name not in SMALL_ONES:
            continue
        if len(value) > 300_000 and (kind, way) not in LARGE:
            continue
        form = name.rstrip("0123456789") if way in TOGETHER else name
        found.setdefault(form, {})[name] = value
    return list(found.values())


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", JSON_KINDS)
def test_a_json_value_never_stops_an_ingest(tmp_path: Path, way: str, kind: str) -> None:
    format, envelope, make = WAYS[way]
    files = files_of(way, kind)
    for number, values in enumerate(slice_of(files, JSON_KINDS.index(kind), len(JSON_KINDS))):
        (tmp_path / str(number)).mkdir()
        world = world_of(tmp_path / str(number), kind, format, envelope)
        file, last = put(world, "x", make(*values.values())), len(values) + 1

        found = judge(world, file, rows=last + 1)

        if format == "jsonl" and not any(b"\n" in value for value in values.values()):
            assert {0, last} <= found, values.keys()


@pytest.mark.parametrize("kind", hostile.KINDS)
def test_no_type_is_stopped_by_a_json_value(tmp_path: Path, kind: str) -> None:
    world = world_of(tmp_path, kind, "jsonl")
    values = [v for v in hostile.VALUES.values() if len(v) < 300_000]
    data = b'{"id":-1}\n' + b"".join(b'{"id":%d,"v":%s}\n' % pair for pair in enumerate(values))

    report = world.ingest(put(world, "x", data), lower=0, upper=10)

    assert len(ids(world)) + report["rejected"] == len(values) + 1
    before = ids(world)
    retry_rejected(world.stores, world.settings, "s")
    assert ids(world) == before


@pytest.mark.parametrize(
    ("kind", "quoted"),
    [
        (kind, quoted)
        for number, kind in enumerate(hostile.KINDS)
        for quoted in slice_of((True, False), number, 2)
    ],
)
def test_no_type_is_stopped_by_a_csv_field(tmp_path: Path, kind: str, quoted: bool) -> None:
    world = world_of(tmp_path, kind, "csv")
    texts = [v.strip(b'"') for v in hostile.VALUES.values() if len(v) < 300_000]
    texts += [b"a\nb", b"a\r\nb", b"a\rb", b"\x00", b"\xff", b"a,b", b'a""b', b"\xef\xbb\xbf"]
    fields = [b'"' + text.replace(b'"', b'""') + b'"' if quoted else text for text in texts]
    data = b"id,v\n-1,\n" + b"".join(b"%d,%s\n" % (n, field) for n, field in enumerate(fields))

    report = world.ingest(put(world, "x", data), lower=0, upper=10)

    if quoted:
        assert len(ids(world)) + report["rejected"] == len(texts) + 1
    before = ids(world)
    retry_rejected(world.stores, world.settings, "s")
    assert ids(world) == before


def arrow_file(name: str, how: str) -> tuple[pa.Table, bytes | None]:
    """Return a column as a table, and as a file of a format; None: it cannot be written so."""
    column = hostile.arrow_columns()[name]
    table = pa.table({"id": pa.array([0, 1, 2]), "v": column})
    try:
        return table, b"" if how == "table" else getattr(hostile, how)(table)
    except (pa.ArrowException, NotImplementedError, OverflowError):
        return table, None


WRITABLE = [
    (name, how)
    for how in ("table", "parquet", "orc")
    for name in hostile.arrow_columns()
    if arrow_file(name, how)[1] is not None
]


def test_most_arrow_values_can_be_written() -> None:
    assert len(WRITABLE) > 2 * len(hostile.arrow_columns())


@pytest.mark.parametrize(("name", "how"), WRITABLE)
def test_an_arrow_value_never_stops_an_ingest(tmp_path: Path, name: str, how: str) -> None:
    table, data = arrow_file(name, how)
    assert data is not None
    turn = WRITABLE.index((name, how))
    for number, kind in enumerate(slice_of(SOME_KINDS, turn, len(SOME_KINDS))):
        (tmp_path / str(number)).mkdir()
        world = world_of(tmp_path / str(number), kind, "parquet" if how == "table" else how)
        if how == "table":
            try:
                report = write(world, Rows(0, 10), table)
            except StrataError:
                continue
            assert len(ids(world)) + report.counts.rejected == 3
            retry_rejected(world.stores, world.settings, "s")
            assert len(ids(world)) + report.counts.rejected == 3
        else:
            judge(world, put(world, "x", data))


AVRO: dict[str, tuple[Any, list[Any]]] = {
    "far date": ({"type": "int", "logicalType": "date"}, [0, 2**31 - 1, 0]),
    "early date": ({"type": "int", "logicalType": "date"}, [0, -(2**31), 0]),
    "far time": ({"type": "long", "logicalType": "timestamp-micros"}, [0, 2**63 - 1, 0]),
    "early time": ({"type": "long", "logicalType": "timestamp-millis"}, [0, -(2**63), 0]),
    "time": ({"type": "long", "logicalType": "time-micros"}, [0, 2**63 - 1, 0]),
    "union": (
        ["null", "string", "long", "double", "bytes", {"type": "array", "items": "long"}],
        ["a", b"\xff", [2**63 - 1]],
    ),
    "many": (
        ["null", *({"type": "record", "name": f"r{n}", "fields": []} for n in range(500)), "long"],
        [None, 5, None],
    ),
    "nan": (["double", "string"], [1.5, float("nan"), "a"]),
}


@pytest.mark.parametrize("name", AVRO)
def test_an_avro_value_never_stops_an_ingest(tmp_path: Path, name: str) -> None:
    kind, values = AVRO[name]
    data = hostile.avro(kind, values) if isinstance(kind, list) else _lengthened(kind, values)
    for number, target in enumerate(SOME_KINDS):
        (tmp_path / str(number)).mkdir()
        world = world_of(tmp_path / str(number), target, "avro")
        judge(world, put(world, "x", data))


def _lengthened(kind: dict[str, Any], values: list[Any]) -> bytes:
    """Return an Avro file whose values were written as plain numbers and are logical ones."""
    fields = [{"name": "id", "type": "long"}, {"name": "v", "type": {"type": kind["type"]}}]
    schema = fastavro.parse_schema({"type": "record", "name": "r", "fields": fields})
    body = io.BytesIO()
    for n, value in enumerate(values):
        fastavro.schemaless_writer(body, schema, {"id": n, "v": value})
    empty = hostile.avro(kind, [])
    sync = empty[-16:]
    return empty + bytes([len(values) * 2]) + _zigzag(len(body.getvalue())) + body.getvalue() + sync


def _zigzag(number: int) -> bytes:
    number <<= 1
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])


def test_a_rejected_row_is_written_whatever_is_in_it() -> None:
    odd = "a\ud800b\udcff\x00\x1b\n"
    data = encode_rejects([Reject(odd, 1, odd, odd, odd, odd, odd)])

    [row] = [orjson.loads(line) for line in data.splitlines()]

    assert row["raw"] == "a\\ud800b\\udcff\x00\x1b\n"
    assert set(row) >= {"file", "line", "column", "value", "reason", "raw", "header"}


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz"])
def test_a_block_of_avro_that_unpacks_to_too_much_is_refused(
    tmp_path: Path, codec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(tmp_path, "bytes", "avro")
    file = put(world, "x", hostile.avro("bytes", [b"a" * 3000] * 3, codec))
    monkeypatch.setattr(read_avro, "BLOCK_BYTES", 5000)
    with pytest.raises(InvalidRequest, match="holds too much"):
        world.ingest(file, lower=0, upper=10)
    monkeypatch.setattr(read_avro, "BLOCK_BYTES", 50_000)
    monkeypatch.setattr(read_avro, "BLOCK_ROWS", 2)
    with pytest.raises(InvalidRequest, match="holds too much"):
        world.ingest(file, lower=0, upper=10)
    monkeypatch.setattr(read_avro, "BLOCK_ROWS", 3)
    assert world.ingest(file, lower=0, upper=10)["updates"] == 3


@pytest.mark.parametrize(
    ("codec", "packed"),
    [
        ("null", lambda data: data),
        ("deflate", lambda data: zlib.compress(data, wbits=-zlib.MAX_WBITS)),
        ("bzip2", lambda data: bz2.compress(data[:9]) + bz2.compress(data[9:])),  # two streams
        ("xz", lambda data: lzma.compress(data[:9]) + lzma.compress(data[9:])),
        ("zstandard", lambda data: pa.compress(data, "zstd", asbytes=True)),
        ("snappy", lambda data: pa.compress(data, "snappy", asbytes=True)),
        ("lz4", lambda data: len(data).to_bytes(4, "little") + b"whatever"),
    ],
)
def test_no_block_is_unpacked_beyond_the_most(codec: str, packed: Callable[[bytes], bytes]) -> None:
    data = packed(b"a" * 100_000)

    assert read_avro.unpacked_size(codec, data, 1 << 20) == 100_000
    assert read_avro.unpacked_size(codec, data, 50_000) > 50_000


@pytest.mark.parametrize("packing", ["", ".gz"])
@pytest.mark.parametrize("limit", ["PART_UNPACKED", "PART_ROWS", "PART_BYTES"])
def test_no_part_of_avro_holds_more_than_some_blocks(
    tmp_path: Path, packing: str, limit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A small file, packed or not, may unpack to gigabytes: its blocks are not read together."""
    monkeypatch.setattr(read_avro, limit, {"PART_ROWS": 2}.get(limit, 2500))
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "string"}]}
    sink = io.BytesIO()
    rows = [{"x": f"{n}" * 1000} for n in range(8)]
    codec = "null" if limit == "PART_BYTES" else "deflate"
    fastavro.writer(sink, schema, rows, codec=codec, sync_interval=1)
    data = gzip.compress(sink.getvalue()) if packing else sink.getvalue()
    file = tmp_path / f"a.avro{packing}"
    file.write_bytes(data)

    parts = list(read_avro.FORMAT.parts(SourceFile(str(file), file.name, len(data))))

    assert [len(read_avro.avro_records(part)[1]) for part in parts] == [2, 2, 2, 2]
    assert [part.before for part in parts] == [0, 2, 4, 6]
    assert [r for part in parts for r in read_avro.avro_records(part)[1]] == rows
    monkeypatch.undo()
    [whole] = read_avro.FORMAT.parts(SourceFile(str(file), file.name, len(data)))
    assert whole.is_whole
    assert read_avro.FORMAT.guesses(SourceFile(str(file), file.name, len(data)), "append")[1] == 8


@pytest.mark.parametrize("cut", [1, 5, 17, 30])
def test_a_packed_file_of_avro_that_ends_early_is_refused(tmp_path: Path, cut: int) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "x", "type": "string"}]}
    sink = io.BytesIO()
    fastavro.writer(sink, schema, [{"x": "a" * 9}] * 3, sync_interval=1)
    data = gzip.compress(sink.getvalue()[:-cut])
    file = tmp_path / "a.avro.gz"
    file.write_bytes(data)

    with pytest.raises(InvalidRequest, match="not a readable Avro file"):
        list(read_avro.FORMAT.parts(SourceFile(str(file), file.name, len(data))))

"""A file in pieces is the file: the same rows, rejected rows and places, wherever it is cut."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.land.files import FileRange, SourceFile, fingerprint
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import TextFormat, split_file
from strata.ingest.readers.formats.interface import format_of
from strata.ingest.readers.records import CsvRecords, JsonElements
from strata.ingest.readers.source import RawFile, WantedColumn, rejects, typed_rows
from strata.model.spec import parse_spec
from strata.model.types import parse_type

NAMES = ["a", "b"]
TYPES = {"json": "jsonb", "jsonl": "jsonb"}
CSV = st.lists(
    st.sampled_from(['"', ",", "\n", "\r\n", "1", "x", '""', '"1"', "1,x\n", '1,"a\nb"\n', "é"]),
    max_size=30,
).map("".join)
VALUES = st.recursive(
    st.one_of(st.none(), st.integers(-5, 5), st.sampled_from(["", "[", "}", ",", '"', "\\", "\n"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xy"), inner),
    max_leaves=6,
)
OBJECTS = st.lists(
    st.fixed_dictionaries({}, optional={"a": st.integers(0, 9), "b": VALUES}) | VALUES, max_size=8
)


def of_rows(raws: Sequence[RawFile], kind: str) -> list[Any]:
    """Return rows, places included, and rejected rows, those that are no rows included."""
    types = (parse_type("int64"), parse_type(TYPES.get(kind, "string")))
    wanted = [WantedColumn(name, type_, True) for name, type_ in zip(NAMES, types, strict=True)]
    found: list[Any] = []
    aside: list[Any] = []
    for raw in raws:
        typed = typed_rows(raw, wanted)
        bad = rejects(raw, typed.bad)
        places = raw.locate(np.arange(raw.count))
        columns = [typed.columns[name].to_pylist() for name in NAMES]
        found += [
            (place, *(column[row] for column in columns))
            for row, place in enumerate(places)
            if row not in typed.bad
        ]
        aside += [(r.line, r.column, r.value, r.reason, r.raw, r.header) for r in bad]
    return [found, aside]


def readers(file: SourceFile, kind: str, part_bytes: int) -> list[RawFile]:
    return [reader(part, kind) for part in text_format(kind).parts(file, part_bytes)]


def reader(part: SourceFile, kind: str) -> RawFile:
    return text_format(kind).rows(part, columns_of(kind))


def text_format(kind: str) -> TextFormat:
    found = format_of(kind)
    assert isinstance(found, TextFormat)
    return found


def columns_of(kind: str) -> SourceColumns:
    columns = [{"name": name, "type": TYPES.get(kind, "string")} for name in NAMES]
    spec = parse_spec({"name": "s", "columns": columns, "source": {"format": kind}})
    names = tuple(NAMES)
    optional = names if kind.startswith("json") else ()
    return SourceColumns(spec.relation(), spec.source, names, optional)


def judge(read: Callable[[], list[RawFile]], kind: str) -> Any:
    """Return what the parts of a file hold, or why it was refused."""
    try:
        raws = read()
        for raw in raws:
            object.__setattr__(raw, "whole", False)  # what is judged of whole files is not asked
        return of_rows(raws, kind)
    except InvalidRequest as error:
        return error.message, error.details.get("line") if kind == "csv" else None


COMMAS = Dialect()


def check(
    data: bytes,
    kind: str,
    piece_bytes: int,
    part_bytes: int,
    folder: Path,
    dialect: Dialect = COMMAS,
) -> None:
    path = folder / f"x.{kind}"
    path.write_bytes(data)
    file = SourceFile(str(path), "x", len(data), dialect=dialect)
    bare = data.removeprefix(b"\xef\xbb\xbf")
    pieces: list[SourceFile] = []
    parts: list[SourceFile] = []

    def in_pieces() -> list[RawFile]:
        pieces.extend(split_file(file, kind, piece_bytes))
        parts.extend(part for one in pieces for part in text_format(kind).parts(one, part_bytes))
        return [reader(part, kind) for part in parts]

    found = judge(in_pieces, kind)
    alone = kind == "json" or (len(parts) == 1 and parts[0].is_whole)
    held = replace(file, piece=FileRange(0, 1, 1, data=bare, whole=alone))
    assert found == judge(lambda: [reader(held, kind)], kind)
    if pieces:
        assert pieces[0].piece is not None
        assert pieces[0].piece.fingerprint == fingerprint(file)


SIZES = st.integers(1, 40)
Folder = pytest.TempPathFactory


@given(text=CSV, piece=SIZES, part=SIZES)
@example(text='1,a"b\n2,"c\nd"\n3,"e"\n', piece=1, part=1)
@example(text='1,"a""b\n"\n2,x"y"\n\n"3"x,\n', piece=3, part=2)
@example(text='1,"never\n2,ends\n', piece=4, part=40)
def test_csv(text: str, piece: int, part: int, tmp_path_factory: Folder) -> None:
    check(b"a,b\n" + text.encode(), "csv", piece, part, tmp_path_factory.getbasetemp())


@given(text=CSV, delimiter=st.sampled_from(";\t|^]\x01"), piece=SIZES, part=SIZES)
@example(text='1,"a,b"\n2;,x"y"\n"3"x,\n', delimiter=";", piece=3, part=2)
def test_csv_of_another_delimiter(
    text: str, delimiter: str, piece: int, part: int, tmp_path_factory: Folder
) -> None:
    swapped = ("a,b\n" + text).translate({ord(","): delimiter, ord(delimiter): ","})
    dialect = Dialect(delimiter, ("", "NULL"))
    folder = tmp_path_factory.getbasetemp()
    check(swapped.encode(), "csv", piece, part, folder, dialect)


@given(text=CSV, bom=st.booleans(), piece=SIZES, part=SIZES)
def test_a_csv_file_that_begins_with_blank_lines(
    text: str, bom: bool, piece: int, part: int, tmp_path_factory: Folder
) -> None:
    data = b"\xef\xbb\xbf" * bom + b'\n\r\n"a\n","b"\n' + text.encode()
    check(data.replace(b"a\n", b"a"), "csv", piece, part, tmp_path_factory.getbasetemp())


@given(
    values=OBJECTS,
    bad=st.sampled_from(["", "{", "\n", "7\n", "\ufeff{}\n"]),
    piece=SIZES,
    part=SIZES,
)
def test_json_lines(
    values: list[Any], bad: str, piece: int, part: int, tmp_path_factory: Folder
) -> None:
    lines = [orjson.dumps(value) + b"\n" for value in values]
    data = bad.encode().join(lines)
    check(data, "jsonl", piece, part, tmp_path_factory.getbasetemp())


@given(
    values=OBJECTS,
    hurt=st.tuples(st.integers(0, 200), st.sampled_from('[]{},"\\ 1')) | st.none(),
    piece=SIZES,
    part=SIZES,
)
@example(values=[{}, {}], hurt=(4, ","), piece=1, part=1)
@example(values=[{}, {}], hurt=(3, "]"), piece=1, part=1)
def test_json_arrays(
    values: list[Any],
    hurt: tuple[int, str] | None,
    piece: int,
    part: int,
    tmp_path_factory: Folder,
) -> None:
    data = orjson.dumps(values, option=orjson.OPT_INDENT_2 if len(values) % 2 else 0)
    if hurt is not None:  # what is no JSON is none in pieces, either
        data = data[: hurt[0]] + hurt[1].encode() + data[hurt[0] :]
    check(data, "json", piece, part, tmp_path_factory.getbasetemp())


ROWS = st.lists(st.tuples(st.integers(0, 9), st.text("xy", max_size=3)), min_size=1, max_size=30)


@pytest.mark.parametrize("kind", ["parquet", "orc", "avro"])
@given(rows=ROWS, group=st.integers(1, 9), piece=st.integers(1, 2000))
@settings(max_examples=30)
def test_formats_with_groups(
    kind: str, rows: list[tuple[int, str]], group: int, piece: int, tmp_path_factory: Folder
) -> None:
    path = tmp_path_factory.getbasetemp() / f"x.{kind}"
    table = pa.table({"a": [row[0] for row in rows], "b": [row[1] for row in rows]})
    write_groups(path, table, kind, group)
    file = SourceFile(str(path), "x", path.stat().st_size)

    def read(one: SourceFile) -> list[RawFile]:
        return list(format_of(kind).read(one, columns_of(kind)))

    pieces = split_file(file, kind, piece)

    assert of_rows([raw for one in pieces for raw in read(one)], kind) == of_rows(read(file), kind)
    assert pieces[0].piece is not None
    assert pieces[0].piece.fingerprint == fingerprint(file)
    if piece == 1 and kind != "orc":
        assert len(pieces) >= len(rows) // max(group, 9)


def write_groups(path: Path, table: pa.Table, kind: str, group: int) -> None:
    if kind == "parquet":
        pq.write_table(table, path, row_group_size=group)
    elif kind == "orc":
        po.write_table(table, str(path), stripe_size=64, batch_size=group)
    else:
        fields = [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}]
        schema: Any = {"type": "record", "name": "row", "fields": fields}
        with path.open("wb") as stream:
            fastavro.writer(stream, schema, table.to_pylist(), sync_interval=group * 4)


@given(st.binary().map(lambda b: bytes(b'",\n\rx"'[byte % 6] for byte in b)), st.integers(1, 9))
def test_records_of_csv_end_where_a_walk_byte_by_byte_says(data: bytes, block: int) -> None:
    expected = walked(data)
    for delimiter in ",|]":
        mine = data.replace(b",", delimiter.encode())
        assert scanned(mine, block, delimiter) == expected_of(expected, len(data), block)


def expected_of(expected: tuple[list[int], bool], size: int, block: int) -> tuple[list[int], bool]:
    """Return the last end in each block, 0 for none, and whether a quote is open."""
    in_block = [
        [end for end in expected[0] if at < end <= at + block] for at in range(0, size, block)
    ]
    return [found[-1] if found else 0 for found in in_block], expected[1]


def scanned(data: bytes, block: int, delimiter: str) -> tuple[list[int], bool]:
    """Return the same as the scanner finds it."""
    scanner = CsvRecords(delimiter)
    ends = []
    for at in range(0, len(data), block):
        end, before, count = scanner.take(data[at : at + block])
        assert (before, count) == (
            data[at : at + end].count(b"\n"),
            data[at : at + block].count(b"\n"),
        )
        ends.append(at + end if end else 0)
    return ends, scanner.open()


def walked(data: bytes) -> tuple[list[int], bool]:
    """Return where records end, and whether a quote is open: the parser's machine, by the byte."""
    ends, state = [], "begin"
    for at, byte in enumerate(data):
        char = chr(byte)
        if state == "quoted":
            state = "closing" if char == '"' else "quoted"
        elif char == '"' and state in ("begin", "closing"):
            state = "quoted"
        elif char in ",\r\n":
            state = "begin"
            if char == "\n":
                ends.append(at + 1)
        else:
            state = "field"
    return ends, state == "quoted"


@given(st.lists(VALUES, max_size=6), st.integers(1, 9))
def test_elements_of_an_array_end_at_its_own_commas(values: list[Any], block: int) -> None:
    texts = [orjson.dumps(value) for value in values]
    data = b" [" + b",".join(texts) + b"]"
    scanner = JsonElements()
    found = [(at, scanner.take(data[at : at + block])) for at in range(0, len(data), block)]

    ends = [2 + len(b",".join(texts[:n])) + 1 for n in range(1, len(texts))]

    for at, (end, before, count) in found:
        inside = [one for one in ends if at < one <= at + block]
        assert (at + end if end else 0) == (inside[-1] if inside else 0)
        assert before == count == len(inside)

"""Texts of several files, and ranges of one: what is read together, and what by itself."""

from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.orc as po
import pytest

from strata.ingest.land.files import SourceFile, read_text
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.columns import SourceColumns
from strata.ingest.readers.file_ranges import split_file
from strata.ingest.readers.formats.csv import FORMAT as CSV
from strata.ingest.readers.formats.json import FORMAT as JSON
from strata.ingest.readers.formats.jsonl import FORMAT as LINES
from strata.model.spec import parse_spec

BOM = b"\xef\xbb\xbf"
SPEC = parse_spec(
    {
        "name": "s",
        "columns": [{"name": "id", "type": "int64"}],
        "source": {"paths": ["in/"], "format": "json"},
    }
)


def put(folder: Path, name: str, data: bytes) -> SourceFile:
    (folder / name).write_bytes(data)
    return SourceFile(str(folder / name), name, len(data))


@pytest.mark.parametrize(
    ("texts", "together"),
    [
        ([b"a,b\n1,2"], b"a,b\n1,2\n"),
        ([b"a,b\n1,2", b"a,b\n", b"a,b", b"a,b\n3,4\n"], b"a,b\n1,2\n3,4\n"),
        ([b"a,b\n1,2", b"b,a\n1,2"], None),
        ([b"a,b\n1,2", BOM + b"a,b\n1,2"], None),
        ([BOM + b"a,b\n1,2"], None),
        ([b"a,b\n1,2", b'a,b\n1,"2"'], b'a,b\n1,2\n1,"2"\n'),
        ([b'"a","b"\n1,"2\n3"', b'"a","b"\n1,"2""'], None),
        ([b'"a","b"\n1,"2\n3"', b'"a","b"\n1,"2"""'], b'"a","b"\n1,"2\n3"\n1,"2"""\n'),
        ([b'a,b\n1,2"3', b'a,b\n4,5"6'], b'a,b\n1,2"3\n4,5"6\n'),
        ([b'a,b\n1,2"3,"', b'a,b\n4,5"6'], None),
        ([b'"a\n",b\n1,2', b'"a\n",b\n3,4'], None),
        ([b"a,b\r\n1,2", b"a,b\r\n3,4\r\n"], b"a,b\r\n1,2\n3,4\r\n"),
        ([b"a,b\r\n1,2\r"], None),
        ([b"a,b\r1,2", b"a,b\r1,2"], None),
        ([b" \n1,2"], None),
    ],
)
def test_csv_of_one_header_is_one_text(texts: list[bytes], together: bytes | None) -> None:
    assert CSV.joined(texts, Dialect()) == together


def test_where_a_quote_opens_depends_on_the_delimiter() -> None:
    texts = [b'a;b\n1,";2', b"a;b\n3;4"]
    assert CSV.joined(texts, Dialect(";")) == b'a;b\n1,";2\n3;4\n'
    assert CSV.joined(texts, Dialect(",")) is None


def test_lines_of_json_are_one_text_unless_one_has_a_mark() -> None:
    """Within a text the mark would be a character of its line, which no file has there."""
    assert LINES.joined([b'{"a":1}', b'{"a":2}\n'], Dialect()) == b'{"a":1}\n{"a":2}\n'
    assert LINES.joined([BOM + b'{"a":1}', b'{"a":2}'], Dialect()) is None
    assert LINES.joined([b'{"a":1}', BOM + b'{"a":2}'], Dialect()) is None


def test_an_array_is_read_as_one_however_its_lines_break(tmp_path: Path) -> None:
    columns = SourceColumns.of(SPEC, SPEC.relation())
    for text in (b'[\n{"id":\n1},\n{"id":2}\n]', b'[{"id":1},{"id":2}]'):
        [raw] = JSON.read(put(tmp_path, "x.json", text), columns)

        assert raw.count == 2
        assert raw.malformed == []


def test_a_large_array_is_cut_between_its_elements(tmp_path: Path) -> None:
    rows = [{"id": n, "of": [n, {"a": ","}]} for n in range(40)]
    file = put(tmp_path, "x.json", orjson.dumps(rows))

    pieces = split_file(file, "json", 200)

    assert len(pieces) > 3
    found = [part for piece in pieces for part in JSON.parts(piece)]
    assert [row for part in found for row in orjson.loads(read_text(part))] == rows
    assert [part.before for part in found] == sorted({part.before for part in found})


def test_stripes_share_the_bytes_of_an_orc_file(tmp_path: Path) -> None:
    path = tmp_path / "x.orc"
    with po.ORCWriter(path, stripe_size=1 << 10, batch_size=1 << 10) as writer:
        for start in range(0, 1 << 16, 1 << 14):
            writer.write(
                pa.table({"id": [n * 7919 % 65537 for n in range(start, start + (1 << 14))]})
            )
    stripes = po.ORCFile(path).nstripes
    file = SourceFile(str(path), "x.orc", path.stat().st_size)

    assert stripes > 3
    assert len(split_file(file, "orc", file.size_bytes)) == 1
    assert len(split_file(file, "orc", file.size_bytes // 2)) == 2
    assert len(split_file(file, "orc", 1)) == stripes

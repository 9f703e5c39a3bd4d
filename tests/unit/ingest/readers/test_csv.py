"""CSV files: fields, nulls and rejected rows with the line on which they really stand."""

import bz2
import csv
import gzip
import io
from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile
from strata.ingest.land.source_file import Dialect, FileRange
from strata.ingest.readers.csv_lines import located_records
from strata.ingest.readers.formats import csv as module
from strata.ingest.readers.formats.csv import read_csv
from strata.ingest.readers.records import CsvRecords
from strata.ingest.readers.source import BadValue, RawFile, WantedColumn, rejects, typed_rows
from strata.kernels.csv_scan import swallowing
from strata.model.types import Kind, parse_type
from strata.model.written import parse_form
from tests.twins.csv_starts import record_starts, swallowed_at


@pytest.fixture
def put(tmp_path: Path):
    def write(data: bytes, name: str = "x.csv") -> SourceFile:
        (tmp_path / name).write_bytes(data)
        return SourceFile(str(tmp_path / name), name, len(data))

    return write


def fields(raw: RawFile) -> dict[str, list[bytes | None]]:
    return {name: column.to_pylist() for name, column in raw.columns.items()}


def test_unquoted_empty_and_na_are_null_and_quoted_are_text(put) -> None:
    raw = read_csv(put(b'a,b\n1,NA\n"NA",""\n,x\n'), ["a", "b"])

    assert fields(raw) == {"a": [b"1", b"NA", None], "b": [None, b"", b"x"]}


def test_quoted_nulls_are_null_where_the_type_has_no_texts(put) -> None:
    """Programs that quote each field write `""` for null."""
    data = b'id,n,day,at,s,j\n"1","","NA","","",""\n"2","5","2024-01-31","31.01.2024","NA","{}"\n'
    names, types = ["id", "n", "day", "at", "s", "j"], "int64 float64 date date varchar(1) jsonb"
    kinds = dict(zip(names, types.split(), strict=True))
    forms = {"at": parse_form("dd.MM.yyyy", Kind.DATE)}
    wanted = [WantedColumn(n, parse_type(k), True, form=forms.get(n)) for n, k in kinds.items()]

    rows = typed_rows(read_csv(put(data), list(kinds)), wanted)

    read = {name: column.to_pylist() for name, column in rows.columns.items()}
    day = date(2024, 1, 31)
    assert (read["n"], read["day"], read["at"]) == ([None, 5.0], [None, day], [None, day])
    assert (read["s"], read["j"]) == (["", None], [None, "{}"])
    assert rows.bad == {1: BadValue("s", "not readable as varchar(1)")}
    strict = [WantedColumn("n", parse_type("int64"), False)]
    assert typed_rows(read_csv(put(data), list(kinds)), strict).bad == {
        0: BadValue("n", "null in a column that may not be null")
    }


def test_a_column_without_a_name_gets_that_of_its_place(put) -> None:
    """R writes the names of rows, and pandas the index, below an empty name."""
    for data in (b'"","a"," "\n"1",2,3\n', b",a,\n1,2,3\n"):
        raw = read_csv(put(data), ["_c0", "a", "_c2"])
        assert fields(raw) == {"_c0": [b"1"], "a": [b"2"], "_c2": [b"3"]}
        assert raw.header == "_c0,a,_c2"
    with pytest.raises(InvalidRequest, match="column twice"):
        read_csv(put(b",_c0\n1,2\n"), ["_c0"])


def test_a_header_that_lacks_one_name_is_answered_with_who_writes_so(put) -> None:
    with pytest.raises(InvalidRequest, match="no row of the file fits its header") as refused:
        read_csv(put(b"a,b\n1,2,3\n4,5,6\n"), ["a", "b"])
    assert "write.table" in (refused.value.cure or "")
    with pytest.raises(InvalidRequest, match="no row of the file fits its header") as refused:
        read_csv(put(b"a,b\n1,2,3\n4,5,6,7\n"), ["a", "b"])
    assert "source.delimiter" in (refused.value.cure or "")


@pytest.mark.parametrize("data", [b"sep=;\na;b\n1;2\n", b",,\na,b,c\n", b"SEP=\t\na\tb\n"])
def test_a_first_line_that_names_no_column_is_refused(put, data: bytes) -> None:
    with pytest.raises(InvalidRequest, match="the first line is no header"):
        read_csv(put(data), ["a", "b"])


def test_why_bytes_that_are_no_text_are_rejected_is_said(put) -> None:
    raw = read_csv(put(b"id,a\n1,x\n2,\xe9\n"), ["id", "a"])
    wanted = [
        WantedColumn("id", parse_type("int64"), True),
        WantedColumn("a", parse_type("string"), True),
    ]

    (reject,) = rejects(raw, typed_rows(raw, wanted).bad)

    assert reject.reason == (
        "not readable as string: its bytes are not UTF-8: declare source.encoding as the file is "
        "written, and retry; or mend the file"
    )


def test_a_header_that_is_not_utf8_is_refused(put) -> None:
    with pytest.raises(InvalidRequest, match="the header is not UTF-8") as refused:
        read_csv(put("größe,b\n1,2\n".encode("latin-1")), ["b"])

    assert refused.value.details["column"] == "gr\\xf6\\xdfe"
    assert "source.encoding" in (refused.value.cure or "")


@pytest.mark.parametrize(
    "data",
    [
        b'a,b\n0,"x\n1,"y",2\n2,z\n',
        b'a,b\n0,"x""x\n1,y\n2,"y\n2,z\n',
        b'a,b\no"dd,1\n0,"x\n1,"y\n2,z\n'.replace(b'o"dd,1\n', b"") + b'3,o"dd\n',
    ],
)
def test_rows_in_the_text_of_a_field_whose_quote_was_not_closed_are_found(put, data) -> None:
    """The quote of a later row ends the field; the rows between were lost in it."""
    with pytest.raises(InvalidRequest, match="goes on behind its closing quote") as refused:
        read_csv(put(data), ["a", "b"])

    assert refused.value.details["line"] == 2


def test_text_behind_a_quote_is_taken_where_no_line_is_lost(put) -> None:
    raw = read_csv(put(b'a,b\n"x"y,"z\nz" \n"p ""q""","r\n""s"""\n'), ["a", "b"])

    assert fields(raw) == {"a": [b"xy", b'p "q"'], "b": [b"z\nz ", b'r\n"s"']}


@pytest.mark.parametrize("declared", [",", "|"])
def test_the_delimiter_of_a_file_is_named_where_another_is_declared(put, declared: str) -> None:
    file = replace(put(b"a;b;c\n1;2;3\n"), dialect=Dialect(declared))

    with pytest.raises(InvalidRequest, match="separated otherwise than declared") as refused:
        read_csv(file, ["a", "b", "c"])

    assert refused.value.cure == 'source.delimiter: ";"'


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (gzip.compress(b"a\n1\n", mtime=0), "gzip"),
        (bz2.compress(b"a\n1\n"), "bzip2"),
        (b"PK\x03\x04\x14\x00\x06", "zip, as files of Excel are"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 16, "an old file of Excel"),
        (b"a.csv" + b"\0" * 252 + b"ustar\x0000", "tar"),
    ],
)
def test_a_file_that_is_no_text_is_named_as_what_it_is(put, data: bytes, kind: str) -> None:
    with pytest.raises(InvalidRequest, match="the file is no text") as refused:
        read_csv(put(data), ["a"])

    assert refused.value.details["begins_as"] == kind
    late = b"ORC\n" + b"1\n" * 200 + b"\0\n"
    assert fields(read_csv(put(late), ["ORC"]))["ORC"][-1] == b"\0"


def test_another_delimiter_and_other_nulls(put) -> None:
    file = replace(put(b'a;b\n1;NA\n\\N;"x;y"\n1,5;\n7\n'), dialect=Dialect(";", ("\\N",)))

    raw = read_csv(file, ["a", "b"])

    assert fields(raw) == {"a": [b"1", None, b"1,5"], "b": [b"NA", b"x;y", b""]}
    (malformed,) = raw.malformed
    assert (malformed.line, malformed.raw, malformed.header) == (5, "7", "a;b")


def test_quotes_breaks_marks_and_blank_lines(put) -> None:
    data = b'\xef\xbb\xbfb,a\r\n"x,\r\ny","say ""hi"""\r\n\r\n1,2'

    raw = read_csv(put(data), ["a", "b"])

    assert fields(raw) == {"b": [b"x,\r\ny", b"1"], "a": [b'say "hi"', b"2"]}


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("before", [b"x", b'"x"', b'"x""y"', b'"x\ny"', b'""', b'"\xff"', b'"NA"'])
@pytest.mark.parametrize("last", [b"", b'""', b"NA", b'"NA"', b"z"])
def test_the_last_field_is_what_it_is_without_a_line_break_behind_it(
    put, end: bytes, before: bytes, last: bytes
) -> None:
    """Arrow takes an empty one for quoted where the field before is quoted and nothing follows."""
    raw = read_csv(put(b"a,b,c\n1,x,y\n2," + before + b"," + last + end), ["a", "b", "c"])

    expected = None if last in (b"", b"NA") else last.strip(b'"')
    assert fields(raw)["c"] == [b"y", expected]


@pytest.mark.parametrize("head", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize(
    "text", [b"\xef\xbb\xbfx", b"\xef\xbb\xbf", b'\xef\xbb\xbf"x"', b"\xef\xbb\xbf" * 2]
)
@pytest.mark.parametrize("rest", [b"y\n", b"\xff\n"])
def test_a_mark_behind_the_header_is_a_letter(put, head: bytes, text: bytes, rest: bytes) -> None:
    """Arrow takes off one in front of what it gets, and that is what is behind the header."""
    raw = read_csv(put(head + b"a,b\n" + text + b",1\n" + text + b"," + rest), ["a", "b"])

    assert fields(raw) == {"a": [text, text], "b": [b"1", rest[:-1]]}


def test_a_mark_at_the_beginning_of_a_piece_is_a_letter(put) -> None:
    """Which rows begin a piece of a large file is nobody's choice."""
    row = b"\xef\xbb\xbfx,1\n"
    data = b"a,b\n" + row * 3
    piece = FileRange(4 + len(row), 4 + 2 * len(row), len(row), 2, b"a,b\n", data=b"a,b\n" + row)

    raw = read_csv(replace(put(data), piece=piece), ["a", "b"])

    assert fields(raw) == {"a": [b"\xef\xbb\xbfx"], "b": [b"1"]}


def test_a_compressed_file_is_unpacked(put) -> None:
    raw = read_csv(put(gzip.compress(b"a\n1\n"), "x.csv.gz"), ["a"])

    assert fields(raw) == {"a": [b"1"]}


def test_a_header_alone_is_a_file_without_rows(put) -> None:
    for data in (b"a,b", b"a,b\n", b"a,b\r\n\r\n"):
        assert read_csv(put(data), ["a", "b"]).count == 0


def test_rejects_name_the_physical_line(put) -> None:
    data = b'a,b\n1,x\n\n"2","two\nlines"\nbad,y\n3\n4,z,more\nworse,"quoted\nbreak"\n5,v\n'
    raw = read_csv(put(data), ["a", "b"])
    wanted = [
        WantedColumn("a", parse_type("int32"), True),
        WantedColumn("b", parse_type("string"), True),
    ]

    found = rejects(raw, typed_rows(raw, wanted).bad)

    assert [(r.line, r.column, r.value, r.raw) for r in found] == [
        (6, "a", "bad", "bad,y"),
        (7, None, None, "3"),
        (8, None, None, "4,z,more"),
        (9, "a", "worse", 'worse,"quoted\nbreak"'),
    ]
    assert found[1].reason == "1 fields where the header has 2"
    assert found[0].reason == "not readable as int32"


def test_lines_are_right_across_the_parsers_blocks(put, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK_BYTES", 64)
    monkeypatch.setattr(module, "MIN_BLOCK_BYTES", 64)
    body = b"".join(b"%d,x\n" % n if n % 10 else b"%d\n" % n for n in range(100))
    raw = read_csv(put(b"a,b\n" + body), ["a", "b"])

    assert raw.count == 90
    assert [(r.line, r.raw) for r in raw.malformed] == [(n + 2, str(n)) for n in range(0, 100, 10)]


def test_a_stray_quote_does_not_shift_the_lines(put) -> None:
    data = b'a,b\n1,5" pipe\n2,"x"\nbad,6" pipe\n'
    raw = read_csv(put(data), ["a", "b"])

    found = rejects(raw, {2: BadValue("a", "why")})

    assert [(r.line, r.raw) for r in found] == [(4, 'bad,6" pipe')]


@pytest.mark.parametrize(
    ("data", "problem", "named"),
    [
        (b"", "the file is empty: it has no header", {}),
        (b"a\n1\n", "the file lacks a declared column", {"column": "b"}),
        (
            b"a,b,c\n1,2,3\n",
            "the file has a column that the shard does not declare",
            {"column": "c"},
        ),
        (b"a,b,a\n1,2,3\n", "the file has a column twice", {"column": "a"}),
        (b"a,b\r1,2\r", "not a readable CSV header", {"line": 1}),
        (b"a,b\n1\n2\n3\n", "no row of the file fits its header", {"line": 2, "value": "1"}),
        (b'a,b\n1,"2\n3,4\n', "a quoted field never ends", {"line": 2}),
    ],
)
def test_a_file_of_the_wrong_shape_is_refused_by_name(put, data, problem, named) -> None:
    with pytest.raises(InvalidRequest) as error:
        read_csv(put(data), ["a", "b"])

    assert error.value.message == problem
    assert error.value.details["file"] == "x.csv"
    assert named.items() <= error.value.details.items()


def test_a_column_that_no_row_can_read_is_the_wrong_shape(put) -> None:
    raw = read_csv(put(b"a\nx\ny\n"), ["a"])

    with pytest.raises(InvalidRequest) as error:
        typed_rows(raw, [WantedColumn("a", parse_type("int32"), True)])
    assert error.value.details == {
        "file": "x.csv",
        "line": 2,
        "column": "a",
        "value": "x",
        "reason": "not readable as int32",
    }


CELLS = st.text(st.sampled_from('ab,"\n\r é'), max_size=5)


@given(
    st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=8),
    st.sampled_from(["\n", "\r\n", "\n\n", "\r"]),
    st.sampled_from(",;"),
)
@example([["a", '"'], ["", ""]], "\n", ",")
def test_records_are_found_where_the_twin_finds_them(
    rows: list[list[str]], end: str, delimiter: str
) -> None:
    sink = io.StringIO()
    csv.writer(sink, lineterminator=end, delimiter=delimiter).writerows([["x", "y"], *rows])
    data = sink.getvalue().encode()
    starts = record_starts(data, delimiter)
    source = SourceFile("x.csv", "x.csv", 0, dialect=Dialect(delimiter))
    total = len(starts) - 1
    order = [*range(total)][::-1]

    found = located_records(source, data, order, total)

    assert [line for line, _ in found] == [
        data.count(b"\n", 0, start) + 1 for start in starts[:0:-1]
    ]
    stops = [*starts[1:], len(data)]
    texts = [data[a:b].rstrip(b"\r\n").decode() for a, b in zip(starts, stops, strict=True)]
    assert [text.rstrip("\r\n") for _, text in found] == texts[:0:-1]
    if total:
        assert located_records(source, data, [0], total + 1) == [(None, "")]


@given(st.text(st.sampled_from('ab,"\n\r \t;'), max_size=24), st.sampled_from(",;"))
@example('"a\n"b', ",")
@example('"a\n""b"c,', ",")
def test_a_quote_that_ends_late_is_found_where_the_twin_finds_it(text: str, delimiter: str) -> None:
    scanner = CsvRecords(delimiter)
    scanner.take(text.encode())
    if not scanner.open():  # else the file is refused for that
        found = swallowing(np.frombuffer(text.encode(), np.uint8), ord(delimiter))
        assert found == swallowed_at(text.encode(), delimiter)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2), max_size=8))
def test_fields_agree_with_the_standard_library(tmp_path_factory, rows: list[list[str]]) -> None:
    sink = io.StringIO()
    csv.writer(sink, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    path = tmp_path_factory.mktemp("csv") / "x.csv"
    path.write_bytes(sink.getvalue().encode())

    raw = read_csv(SourceFile(str(path), "x.csv", 0), ["a", "b"])

    assert fields(raw) == {
        "a": [row[0].encode() for row in rows],
        "b": [row[1].encode() for row in rows],
    }
    assert not raw.malformed


@pytest.mark.parametrize("row", [rb'1,"a\"b"', rb'1,"say \"hi\", he said"', b'"x\ny\\"z",2'])
def test_a_quote_that_is_escaped_by_a_backslash_is_refused(tmp_path: Path, row: bytes) -> None:
    """Spark writes so by default; the field lost its quote, and kept the backslash."""
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n0,1\n" + row + b"\n")
    with pytest.raises(InvalidRequest, match="escaped by a backslash") as refused:
        read_csv(SourceFile(str(path), "x.csv", path.stat().st_size), ["a", "b"])
    assert refused.value.details["line"] == 3
    assert "source.escape: '\\'" in str(refused.value.cure)


@pytest.mark.parametrize("text", [rb'"C:\dir\"', rb'"\"""', rb"x\"y", rb'"a\""b"', rb'"a"b'])
def test_a_backslash_is_a_character_like_any_other(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(b"a,b\n1," + text + b"\n" + text + b",2\n")
    raw = read_csv(SourceFile(str(path), "x.csv", path.stat().st_size), ["a", "b"])
    assert (raw.count, len(raw.malformed)) == (2, 0)

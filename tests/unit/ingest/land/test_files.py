"""Files of the landing folder and the times that their paths carry."""

from dataclasses import replace
from itertools import product
from pathlib import Path, PurePosixPath

import pytest

from strata.errors import InvalidRequest
from strata.ingest.land.files import (
    FileRange,
    SourceFile,
    files_at,
    files_by_time,
    fingerprint,
    read_bytes,
    read_text,
)
from strata.ingest.land.path_time import path_time
from strata.ingest.land.source_file import Dialect
from strata.model.time import parse_time


def fill(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


@pytest.mark.parametrize(
    ("path", "time"),
    [
        ("2013-01-31.csv", "2013-01-31"),
        ("flights-2013-01-31.csv.gz", "2013-01-31"),
        ("20130131.csv", "2013-01-31"),
        ("20130131T05.csv", "2013-01-31T05:00"),
        ("20130131-0530.csv", "2013-01-31T05:30"),
        ("2013-01-31T05.csv", "2013-01-31T05:00"),
        ("2013-01-31T05:30.csv", "2013-01-31T05:30"),
        ("2013-01-31_0530.csv", "2013-01-31T05:30"),
        ("date=2013-01-31/x.parquet", "2013-01-31"),
        ("date=2013-01-31/hour=05/x.parquet", "2013-01-31T05:00"),
        ("date=20130131/hour=05/x.parquet", "2013-01-31T05:00"),
        ("year=2013/month=1/day=31/x.csv", "2013-01-31"),
        ("2013/01/31/x.csv", "2013-01-31"),
        ("2013/01/31/05/x.csv", "2013-01-31T05:00"),
        ("date=2013-01-31/part-20140101.csv", "2013-01-31"),
        ("v12345678/2013-01-31.csv", "2013-01-31"),
        ("2013-01-31_2013-02-01.csv", "2013-01-31"),
        ("2013-01-31-2013-02-01.csv", "2013-01-31"),
        ("2013010177/2013-01-31.csv", "2013-01-31"),
        ("date=2013-01-31/53.csv", "2013-01-31"),
        ("date=2013-01-31/05-x.csv", "2013-01-31"),
        ("2013/01/31/05.csv", "2013-01-31"),
        ("2013-01-31/05/x.csv", "2013-01-31T05:00"),
        ("20130131/2013-01-30.csv", "2013-01-30"),
        ("2013/01/31/2013-01-31T05.csv", "2013-01-31T05:00"),
    ],
)
def test_a_path_carries_the_time(path: str, time: str) -> None:
    assert path_time(path) == parse_time(time)


@pytest.mark.parametrize(
    "path", ["x.csv", "part-00000.csv", "2013-13-01.csv", "99999999.csv", "1.2"]
)
def test_digits_that_are_no_date_are_no_time(path: str) -> None:
    assert path_time(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "1970-04-01/30/x.csv",
        "1970-04-01/30/1970-04-02.csv",
        "1970/04/01/24/x.csv",
        "date=1970-04-01/hour=30/x.csv",
        "1970-04-01-99.csv",
        "1970-04-01T12-70.csv",
        "19700401_9934.csv",
    ],
)
def test_what_stands_like_an_hour_and_is_none_is_refused(path: str, tmp_path: Path) -> None:
    fill(tmp_path, f"in/{path}")

    with pytest.raises(InvalidRequest, match="stands like an hour") as error:
        files_by_time(str(tmp_path), ["in"])
    assert error.value.details["path"] == path


def test_a_declared_path_says_that_digits_are_no_hour(tmp_path: Path) -> None:
    fill(tmp_path, "in/1970-04-01/30/x.csv", "in/1970-04-01/05/x.csv")

    found = files_by_time(str(tmp_path), ["in/%Y-%m-%d/*/*.csv"])

    assert {f.time_ms for f in found} == {parse_time("1970-04-01")}


def test_files_come_by_time_and_markers_are_passed_over(tmp_path: Path) -> None:
    fill(tmp_path, "in/2013-01-02.csv", "in/2013-01-01.csv", "in/_SUCCESS", "in/.x/2013-01-01.csv")

    found = files_by_time(str(tmp_path), ["in/"])

    assert [(f.name, f.time_ms) for f in found] == [
        ("in/2013-01-01.csv", parse_time("2013-01-01")),
        ("in/2013-01-02.csv", parse_time("2013-01-02")),
    ]


BESIDE = (
    "2013-01-01.csv.tmp", "2013-01-01.csv.TEMP", "2013-01-01.csv.part", "2013-01-01.csv.partial",
    "2013-01-01.csv.filepart", "2013-01-01.csv.crdownload", "2013-01-01.csv._COPYING_",
    "2013-01-01.csv_.gstmp", "2013-01-01.csv.inprogress", "2013-01-01.csv~", "2013-01-01.csv.bak",
    "2013-01-01.csv.swp", "#2013-01-01.csv#", "~$2013-01-01.csv", "2013-01-01.csv.crc",
    "2013-01-01.csv.md5", "last.csv.tmp", "a/b/2013-01-01.csv.tmp",
)  # fmt: skip
WHOLE = ("2013-01-01.part.csv", "a.tmp/2013-01-01.csv", "#2013-01-01.csv", "part-2013-01-01")


def test_files_that_are_not_whole_or_lie_beside_others_are_passed_over(tmp_path: Path) -> None:
    fill(tmp_path, *(f"in/{name}" for name in (*BESIDE, *WHOLE)))

    for found in (files_by_time(str(tmp_path), ["in/"]), files_at(str(tmp_path), ["in"])):
        assert {f.name for f in found} == {f"in/{name}" for name in WHOLE}


@pytest.mark.parametrize("name", BESIDE)
def test_a_file_that_is_named_is_taken_as_it_is_called(tmp_path: Path, name: str) -> None:
    fill(tmp_path, f"in/{name}")

    assert [f.name for f in files_at(str(tmp_path), [f"in/{name}"])] == [f"in/{name}"]
    assert [f.name for f in files_at(str(tmp_path), [str(tmp_path / "in" / name)])]


def test_a_path_may_declare_files_that_are_called_so(tmp_path: Path) -> None:
    fill(tmp_path, "in/2013-01-01.csv.part", "in/2013-01-02.csv.PART", "in/2013-01-02.csv.tmp")

    found = files_by_time(str(tmp_path), ["in/%Y-%m-%d.csv.part", "in/2013-01-02.csv.PART"])

    assert [f.name for f in found] == ["in/2013-01-01.csv.part", "in/2013-01-02.csv.PART"]
    fill(tmp_path, "in/#2013-01-03.csv#", "in/~$2013-01-04.csv")
    found = files_by_time(str(tmp_path), ["in/#%Y-%m-%d.csv#", "in/~$*.csv"])
    assert [f.name for f in found] == ["in/#2013-01-03.csv#", "in/~$2013-01-04.csv"]


@pytest.mark.parametrize("declared", ["in.tmp", "in.tmp/", "in.tmp/*"])
def test_the_name_of_a_folder_asks_for_no_file_that_is_called_so(
    tmp_path: Path, declared: str
) -> None:
    """Half of a file was taken in, if its folder ended as its name did."""
    fill(tmp_path, "in.tmp/2013-01-01.csv.tmp", "in.tmp/2013-01-02.csv")

    found = files_by_time(str(tmp_path), [declared])

    assert [f.name for f in found] == ["in.tmp/2013-01-02.csv"]


def test_a_file_without_a_time_is_refused_by_name(tmp_path: Path) -> None:
    fill(tmp_path, "in/2013-01-01.csv", "in/last.csv")

    with pytest.raises(InvalidRequest, match="no time in the path") as error:
        files_by_time(str(tmp_path), ["in"])
    assert error.value.details == {"file": "in/last.csv"}


def test_a_missing_folder_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="source folder is missing") as error:
        files_by_time(str(tmp_path), ["nowhere/"])
    assert error.value.details["path"] == "nowhere/"
    with pytest.raises(InvalidRequest, match="no such file"):
        files_at(str(tmp_path), ["nowhere/x.csv"])


def test_directives_say_where_the_time_stands(tmp_path: Path) -> None:
    fill(tmp_path, "in/2013/01/31-05.csv", "in/2013/01/31-05.txt", "in/other/x.csv")

    found = files_by_time(str(tmp_path), ["in/%Y/%m/%d-%H.csv"])

    assert [(f.name, f.time_ms) for f in found] == [
        ("in/2013/01/31-05.csv", parse_time("2013-01-31T05:00"))
    ]
    with pytest.raises(InvalidRequest, match="unknown directive"):
        files_by_time(str(tmp_path), ["in/%Q.csv"])


def test_wildcards_choose_files_whose_paths_carry_times(tmp_path: Path) -> None:
    fill(tmp_path, "in/a/2013-01-01.csv", "in/b/2013-01-02.csv", "in/b/2013-01-03.txt")

    found = files_by_time(str(tmp_path), ["in/**/*.csv"])

    assert [f.name for f in found] == ["in/a/2013-01-01.csv", "in/b/2013-01-02.csv"]


def test_named_paths_are_found_each_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(tmp_path, "in/a.csv", "in/deep/b.csv", "elsewhere/c.csv")
    monkeypatch.chdir(tmp_path / "elsewhere")

    found = files_at(str(tmp_path), ["in", "in/a.csv", "c.csv", str(tmp_path / "in/deep")])

    assert [f.name for f in found] == ["elsewhere/c.csv", "in/a.csv", "in/deep/b.csv"]
    assert [f.size_bytes for f in found] == [15, 8, 13]


def test_the_fingerprint_is_of_the_bytes(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b")
    (tmp_path / "b").write_text("a")
    a, b = files_at(str(tmp_path), [str(tmp_path / "a"), str(tmp_path / "b")])

    assert fingerprint(a) == fingerprint(b)
    (tmp_path / "b").write_text("c")
    assert fingerprint(a) != fingerprint(b)


def test_a_broken_archive_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "x.csv.gz").write_bytes(b"not gzip")

    with pytest.raises(InvalidRequest, match="cannot be read") as error:
        read_bytes(SourceFile(str(tmp_path / "x.csv.gz"), "x.csv.gz", 8))
    assert error.value.details["file"] == "x.csv.gz"


def test_the_landing_root_is_a_folder_or_on_s3(tmp_path: Path) -> None:
    fill(tmp_path, "in/2013-01-01.csv")

    assert len(files_by_time(f"file://{tmp_path}", ["in"])) == 1
    with pytest.raises(InvalidRequest, match="no landing root has such an address"):
        files_by_time("ftp://host", ["in"])


def test_a_file_gets_its_time_and_number_and_keeps_the_rest() -> None:
    file = SourceFile("/a.csv", "a.csv", 3, 4, 5, "v", FileRange(1, 2, 3), 8, Dialect(";"))

    assert file.of_time(9) == replace(file, time_ms=9)
    assert file.numbered(9) == replace(file, number=9)


def test_suffixes_are_those_of_paths() -> None:
    for words in product("a.B", repeat=5):
        path = f"/x.y/{''.join(words)}"

        expected = [suffix.lower() for suffix in PurePosixPath(path).suffixes]

        assert SourceFile(path, "", 1).suffixes == expected
    assert SourceFile("s3://bucket/x.csv.GZ?endpoint=a.b", "", 1).suffix == ".gz"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_wide_letters_are_refused_with_and_without_a_mark(
    encoding: str, mark: str, tmp_path: Path
) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(f"{mark}id,name\n1,a\n".encode(encoding))

    with pytest.raises(InvalidRequest, match="the file is not UTF-8") as refused:
        read_text(SourceFile(str(path), "x.csv", path.stat().st_size))
    marked = encoding[:6] if mark else encoding
    assert f"CSV: source.encoding: {marked}; else convert it" in (refused.value.cure or "")


def test_bytes_that_are_zero_are_no_wide_letters(tmp_path: Path) -> None:
    for text in (b"\0\0\0\0", b"id\0\0", b"\0\0id", b"i", b""):
        (tmp_path / "x.csv").write_bytes(text)
        assert read_text(SourceFile(str(tmp_path / "x.csv"), "x.csv", len(text))) == text

"""The encoding of files to infer from: a mark says it, UTF-8 is checked, others are asked for."""

import gzip
from pathlib import Path

import pytest

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, files_at
from strata.ingest.readers import found_encoding
from strata.ingest.readers.found_encoding import encoding_of
from strata.ingest.readers.infer import infer
from strata.ingest.task import Step
from strata.model.spec import parse_spec
from tests.unit.ingest.test_engine import World

TEXT = "id;größe;name\n" + "".join(f"{n};{n},5;ä{n}\n" for n in range(30))


def put(root: Path, name: str, data: bytes) -> SourceFile:
    (root / name).write_bytes(data)
    return SourceFile(str(root / name), name, len(data))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32"])
@pytest.mark.parametrize("order", ["le", "be"])
@pytest.mark.parametrize("pack", ["", ".gz"])
def test_a_mark_says_the_encoding(tmp_path: Path, encoding: str, order: str, pack: str) -> None:
    world = World(tmp_path)
    data = ("\ufeff" + TEXT).encode(f"{encoding}-{order}")
    put(tmp_path, f"x.csv{pack}", gzip.compress(data) if pack else data)

    found = infer(world.settings, "new", f"x.csv{pack}")

    source = found.declaration["source"]
    assert (source["encoding"], source["delimiter"], source["decimal"]) == (encoding, ";", ",")
    world.machine.create(parse_spec(found.declaration))
    assert world.machine.load("new").spec.source.encoding == encoding


@pytest.mark.parametrize("asked", ["latin-1", "windows-1252", "cp850", "utf-16-le"])
def test_an_encoding_is_asked_for(tmp_path: Path, asked: str) -> None:
    world = World(tmp_path)
    put(tmp_path, "x.csv", TEXT.encode(asked))

    with pytest.raises(InvalidRequest, match="the file is not UTF-8") as refused:
        infer(world.settings, "new", "x.csv")
    assert (refused.value.details["file"], refused.value.details["line"]) == ("x.csv", 1)
    assert "--encoding" in (refused.value.cure or "")
    found = infer(world.settings, "new", "x.csv", encoding=asked)

    types = {c["name"]: c["type"] for c in found.declaration["columns"]}
    assert types == {"id": "int64", "größe": "float64", "name": "string"}
    world.machine.create(parse_spec(found.declaration))
    step = Step(0, 1, "t", tuple(files_at(str(tmp_path), ["x.csv"])))
    from strata.ingest.engine import ingest_steps

    [report] = ingest_steps(world.stores, world.settings, "new", [step])
    assert (report.updates, report.counts.rejected) == (30, 0)


def test_utf8_is_checked_as_far_as_a_file_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(found_encoding, "CHUNK_BYTES", 7)  # cuts letters
    good = "aä€𝔘\n".encode() * 10
    for end, byte in ((b"\xe4", "0xe4"), (b"\xff\n", "0xff"), (b"\xf0\x9d", "0xf0")):
        file = put(tmp_path, "x.csv", good + end)

        assert encoding_of([file], len(good) - 7) == "utf-8"
        with pytest.raises(InvalidRequest, match="the file is not UTF-8") as refused:
            encoding_of([file], len(good) + 100)

        assert (refused.value.details["line"], refused.value.details["byte"]) == (11, byte)
    assert encoding_of([put(tmp_path, "y.csv", good), put(tmp_path, "z.csv", b"")], 99) == "utf-8"
    assert encoding_of([put(tmp_path, "x.csv", b"\xef\xbb\xbfid\n")], 99) == "utf-8"


def test_files_of_several_encodings_are_refused(tmp_path: Path) -> None:
    files = [put(tmp_path, "1.csv", b"id\n"), put(tmp_path, "2.csv", "id\n".encode("utf-16"))]

    with pytest.raises(InvalidRequest, match="not in one encoding") as refused:
        encoding_of(files, 99)
    assert refused.value.details["file"] == "2.csv"
    assert encoding_of(files, 99, "latin1") == "iso8859-1"
    with pytest.raises(InvalidRequest, match="no encoding of texts"):
        encoding_of(files, 99, "klingon")


def test_bytes_that_the_encoding_forbids_are_named(tmp_path: Path) -> None:
    world = World(tmp_path)
    put(tmp_path, "x.csv", b"id,name\n1,\xe4\n2,\x81\n")

    found = infer(world.settings, "new", "x.csv", encoding="cp1252")

    assert any("line 3 is not cp1252" in note for note in found.notes)


def test_only_csv_has_an_encoding(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.put("x.jsonl", '{"id": 1}\n')

    with pytest.raises(InvalidRequest, match="said of CSV only"):
        infer(world.settings, "new", "x.jsonl", encoding="latin-1")


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (gzip.compress(TEXT.encode(), mtime=0), "gzip"),
        (b"PAR1\x15\0\xbc", "parquet"),
        (b"SQLite format 3\0\x10\0\xdf", "sqlite"),
    ],
)
def test_what_is_no_text_has_no_encoding(tmp_path: Path, data: bytes, kind: str) -> None:
    """Another encoding would not help, and was the cure."""
    with pytest.raises(InvalidRequest, match="the file is no text") as refused:
        encoding_of([put(tmp_path, "x.csv", data)], 1_000)

    assert refused.value.details["begins_as"] == kind

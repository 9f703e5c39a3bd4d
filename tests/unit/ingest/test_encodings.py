"""CSV in other encodings: the same rows as in UTF-8, however a file is read, and in a retry."""

import gzip
import lzma
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

from strata.erase.texts import Terms
from strata.errors import Corrupt, InvalidRequest
from strata.ingest.engine import ingest_steps
from strata.ingest.land import recode
from strata.ingest.land.files import files_at, fingerprint
from strata.ingest.land.source_file import Dialect
from strata.ingest.quarantine import rejected
from strata.ingest.readers import file_ranges
from strata.ingest.readers.bundle import bundles, joined
from strata.ingest.readers.cures import Problem
from strata.ingest.readers.file_ranges import split_file
from strata.ingest.retry import retry_rejected
from strata.ingest.task import Step
from strata.ingest.values.column import NONE_BAD, Cast
from strata.model.runner import threads
from strata.model.settings import IngestSettings
from strata.model.spec import ShardSpec
from strata.state.declare import redeclare
from tests.unit.ingest.test_engine import DAY, World

COLUMNS = [
    {"name": "größe", "type": "int64"},
    {"name": "name", "type": "string"},
    {"name": "rest", "type": "string"},
]
WIDE = ("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")
ENCODINGS = ("utf-8", "latin-1", "windows-1252", "iso8859-15", "cp850", *WIDE, "gb18030", "cp037")


def world_of(root: Path, encoding: str, **source: Any) -> World:
    source = {"format": "csv", "paths": ["in/"], "max_rejected": 0.9, "verify": "always", **source}
    return World(root, columns=COLUMNS, key=["größe"], source={**source, "encoding": encoding})


def put(world: World, name: str, data: bytes) -> str:
    path = world.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def written(count: int, *, bad: Sequence[int] = ()) -> str:
    """Return rows, some in two lines; those of `bad` have no number."""
    lines = [
        f'{"x" if n in bad else n},"ä{n}{chr(10) if n % 3 else ""}ö",ü\n' for n in range(count)
    ]
    return "größe,name,rest\n" + "".join(lines)


def declare(world: World, **source: Any) -> None:
    """Give the shard another declaration."""
    spec: ShardSpec = replace(world.state.spec, source=replace(world.state.spec.source, **source))
    world.machine.apply("s", partial(redeclare, asked=spec, seen=world.state.spec))


def names(world: World) -> list[Any]:
    return sorted(row[:2] for row in world.rows())


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("pack", ["", ".gz", ".xz"])
def test_a_file_has_the_same_rows_in_each_encoding(
    tmp_path: Path, encoding: str, pack: str
) -> None:
    world = world_of(tmp_path, encoding)
    packs: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}
    packed = packs.get(pack, bytes)

    text = written(40, bad=[7])
    file = put(world, f"a.csv{pack}", packed(text.encode(encoding)))
    report = world.ingest(file, lower=0, upper=1)

    assert (report["updates"], report["rejected"], report["verified"]) == (39, 1, 39)
    assert names(world)[:2] == [(0, "ä0ö"), (1, "ä1\nö")]
    [found] = rejected(world.stores, "s")
    assert found.rows[0]["raw"].decode() == 'x,"ä7\nö",ü'
    assert found.rows[0]["header"] == "größe,name,rest"
    assert found.rows[0]["line"] == 2 + 7 + 4


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_large_file_is_read_in_parts_and_cut_where_that_can_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    monkeypatch.setattr(file_ranges, "BLOCK_BYTES", 64)
    monkeypatch.setattr(file_ranges.TextFormat.parts, "__defaults__", (200,))
    monkeypatch.setattr(recode, "CHUNK_BYTES", 53)
    world = world_of(tmp_path, encoding)
    world.settings = replace(world.settings, ingest=IngestSettings(task_bytes=500))
    file = put(world, "a.csv", written(200, bad=[90]).encode(encoding))

    report = world.ingest(file, lower=0, upper=1)

    assert (report["updates"], report["rejected"]) == (199, 1)
    assert names(world) == sorted(
        (n, f"ä{n}{chr(10) * (n % 3 > 0)}ö") for n in range(200) if n != 90
    )
    [found] = rejected(world.stores, "s")
    assert found.rows[0]["line"] == 2 + 90 + 60
    assert found.rows[0]["raw"].decode() == 'x,"ä90ö",ü'
    [source] = files_at(str(tmp_path), [file])
    source = replace(source, dialect=Dialect.of(world.state.spec.source))
    pieces = split_file(source, "csv", 500)
    assert (len(pieces) > 5) == recode.is_cut_at_bytes(world.state.spec.source.encoding)
    assert {piece.piece.fingerprint for piece in pieces[1:] if piece.piece} <= {""}
    [first] = {piece.piece.header for piece in pieces[:1] if piece.piece}
    assert first == b""
    assert all(p.piece.header == "größe,name,rest\n".encode() for p in pieces[1:] if p.piece)


def test_a_piece_may_begin_like_a_mark(tmp_path: Path) -> None:
    world = world_of(tmp_path, "cp1252")
    world.settings = replace(world.settings, ingest=IngestSettings(task_bytes=100))
    rows = "".join(f"ï»¿{n},{n},a\n" for n in range(40))

    file = put(world, "a.csv", f"name,größe,rest\n{rows}".encode("cp1252"))
    report = world.ingest(file, lower=0, upper=1)

    assert report["updates"] == 40
    assert names(world)[0] == (0, "ï»¿0")


def test_pieces_in_threads_are_the_whole(tmp_path: Path) -> None:
    world = world_of(tmp_path, "cp1252")
    settings = replace(world.settings, ingest=IngestSettings(task_bytes=400))
    put(world, "in/1970-01-01.csv", written(150).encode("cp1252"))

    steps = [Step(0, DAY)]
    [report] = ingest_steps(world.stores, settings, "s", steps, runner=threads(2))

    assert report.updates == 150
    assert {row[2] for row in world.rows()} == {"ü"}


def test_a_dry_run_says_what_a_run_does(tmp_path: Path) -> None:
    world = world_of(tmp_path, "cp1252")
    put(world, "in/1970-01-01.csv", written(30, bad=[3]).encode("cp1252") + b"5,\x81,a\n")

    steps = [Step(0, DAY)]
    [dry] = ingest_steps(world.stores, world.settings, "s", steps, dry_run=True)
    [wet] = ingest_steps(world.stores, world.settings, "s", steps)

    assert (dry.updates, dry.counts.rejected) == (wet.updates, wet.counts.rejected) == (29, 2)


def test_small_files_are_read_together_in_each_encoding(tmp_path: Path) -> None:
    for encoding in ENCODINGS:
        root = tmp_path / encoding
        world = world_of(root, encoding)
        for number in range(3):
            put(world, f"in/{number}.csv", f"größe,name,rest\n{number},ä,ö\n".encode(encoding))
        files = files_at(str(root), ["in"])
        [group] = bundles(files, world.state.spec)

        hashes: dict[str, str] = {}
        whole = joined(group, "csv", hashes, Dialect.of(world.state.spec.source))

        assert whole is not None
        assert whole.piece is not None
        assert hashes == {file.path: fingerprint(file) for file in files}  # of their own bytes
        assert (whole.piece.data or b"").decode() == "größe,name,rest\n0,ä,ö\n1,ä,ö\n2,ä,ö\n"
        report = world.ingest("in/", lower=0, upper=1)
        assert report["updates"] == 3


def test_a_file_in_another_encoding_among_small_ones_is_found(tmp_path: Path) -> None:
    world = world_of(tmp_path, "cp1252")
    put(world, "in/1.csv", "größe,name,rest\n1,ä,ö\n".encode("cp1252"))
    put(world, "in/2.csv", "größe,name,rest\n1,ä,ö\n".encode("utf-16"))

    with pytest.raises(InvalidRequest, match="begins as utf-16 does") as refused:
        world.ingest("in/", lower=0, upper=1)
    assert refused.value.details["file"] == "in/2.csv"
    assert refused.value.cure == "source.encoding: utf-16"


def test_a_forbidden_byte_rejects_its_row_and_no_other(tmp_path: Path) -> None:
    world = world_of(tmp_path, "cp1252")
    data = b"gr\xf6\xdfe,name,rest\n1,\xe4,a\n2,M\xfc\x81r,a\n3,c,a\x8d,b\n4,d,\xc3\x9d\n5,e,f\n"

    report = world.ingest(put(world, "a.csv", data), lower=0, upper=1)

    assert (report["updates"], report["rejected"]) == (2, 3)
    assert names(world) == [(1, "ä"), (5, "e")]
    rows = [row for one in rejected(world.stores, "s") for row in one.rows]
    assert [(row["line"], row["column_name"], row["value"]) for row in rows] == [
        *((3, "name", "Mü\\x81r"), (4, None, None), (5, "rest", "Ã\\x9d"))
    ]
    assert rows[0]["reason"] == (
        "not readable as string: the byte 0x81 is none of cp1252: declare source.encoding as the "
        "file is written, and retry; or mend the file"
    )
    assert Terms(("Mü",)).within(rows[0]["raw"])  # as an erasure looks for it


def test_rejected_rows_are_read_by_the_encoding_that_is_declared_now(tmp_path: Path) -> None:
    world = world_of(tmp_path, "utf-8")
    rows = b"M\xfcller,1,a\nM\xc3\xbcller,x,a\nc,3,a\n"
    file = put(world, "a.csv", "name,größe,rest\n".encode() + rows)
    world.ingest(file, lower=0, upper=1)
    assert names(world) == [(3, "c")]

    [before] = retry_rejected(world.stores, world.settings, "s")
    declare(world, encoding="cp1252")
    [after] = retry_rejected(world.stores, world.settings, "s")

    assert (before.taken, after.rows, after.taken) == (0, 2, 1)
    assert names(world) == [(1, "Müller"), (3, "c")]
    [left] = [row for one in rejected(world.stores, "s") for row in one.rows]
    assert left["raw"].decode() == "Müller,x,a"  # its letters were known: they stay what they are


def test_a_row_with_a_forbidden_byte_comes_in_under_the_true_encoding(tmp_path: Path) -> None:
    world = world_of(tmp_path, "cp1252")
    data = b"gr\xf6\xdfe,name,rest\n1,\xe4,a\n2,M\xc3\x81r,a\n3,c,a,\x8d\n"
    world.ingest(put(world, "a.csv", data), lower=0, upper=1)

    tried = retry_rejected(world.stores, world.settings, "s")
    assert [(one.rows, one.taken) for one in tried] == [(2, 0)]
    declare(world, encoding="utf-8")
    tried = retry_rejected(world.stores, world.settings, "s")

    assert [(one.rows, one.taken) for one in tried] == [(2, 1)]
    assert names(world) == [(1, "ä"), (2, "MÁr")]


def test_numbers_of_rejected_rows_are_read_by_the_marks_that_are_declared_now(
    tmp_path: Path,
) -> None:
    world = world_of(tmp_path, "cp1252")
    data = "größe,name,rest\n1,a,b\n1.234,ä,b\n"
    world.ingest(put(world, "a.csv", data.encode("cp1252")), lower=0, upper=1)

    declare(world, decimal=",", thousands=".", encoding="utf-8")
    [found] = retry_rejected(world.stores, world.settings, "s")

    assert found.taken == 1
    assert names(world) == [(1, "a"), (1234, "ä")]


def test_a_header_with_a_forbidden_byte_is_refused(tmp_path: Path) -> None:
    world = world_of(tmp_path, "cp1252")

    for data in (b"gr\xf6\x81e,name,rest\n1,a,b\n", b"gr\xf6\x81e,name,rest\n1,a,b\n" * 50):
        world.settings = replace(world.settings, ingest=IngestSettings(task_bytes=60))
        with pytest.raises(InvalidRequest, match="the header is not cp1252") as refused:
            world.ingest(put(world, "a.csv", data), lower=0, upper=1)
        assert refused.value.details["column"] == "grö\\x81e"


def test_a_file_of_bytes_that_its_encoding_forbids_is_refused_with_the_cure(tmp_path: Path) -> None:
    world = world_of(tmp_path, "cp1252")
    data = "größe,name,rest\n".encode("cp1252") + b"1,\x81,b\n2,\x81,b\n"

    with pytest.raises(InvalidRequest, match="every row of the file is unreadable") as refused:
        world.ingest(put(world, "a.csv", data), lower=0, upper=1)
    assert "the byte 0x81 is none of cp1252" in refused.value.details["reason"]
    assert refused.value.cure == Problem.OTHER_ENCODING.cure


def test_a_row_cut_within_a_letter_is_rejected(tmp_path: Path) -> None:
    world = world_of(tmp_path, "utf-16")
    data = "größe,name,rest\n1,ä,b\n2,ä,b".encode("utf-16")

    report = world.ingest(put(world, "a.csv", data[:-1]), lower=0, upper=1)

    assert (report["updates"], report["rejected"]) == (1, 1)
    [found] = rejected(world.stores, "s")
    assert "the byte 0x62 is none of utf-16" in found.rows[0]["reason"]


def test_wide_letters_without_a_mark_are_refused(tmp_path: Path) -> None:
    world = world_of(tmp_path, "utf-16")

    with pytest.raises(InvalidRequest, match="not begin with the mark of utf-16") as refused:
        world.ingest(put(world, "a.csv", written(3).encode("utf-16-le")), lower=0, upper=1)
    assert "utf-16-le" in (refused.value.cure or "")


@pytest.mark.parametrize(
    "source",
    [
        {"encoding": "latin-1"},
        {"decimal": ","},
        {"thousands": "'"},
        {"escape": "\\"},
        {"format": "jsonl"},
    ],
)
def test_other_formats_are_written_in_one_way(tmp_path: Path, source: dict[str, str]) -> None:
    world = World(tmp_path, columns=COLUMNS, key=["größe"], source={"format": "jsonl", **source})
    file = world.put("a.jsonl", '{"größe": 1}\n')
    if len(source) == 1 and "format" in source:
        assert world.ingest(file, lower=0, upper=1)["updates"] == 1
        return
    with pytest.raises(InvalidRequest, match="only CSV is written") as refused:
        world.ingest(file, lower=0, upper=1)
    assert refused.value.details["setting"] == f"source.{next(iter(source))}"


@pytest.mark.parametrize("marks", [{"decimal": ",", "thousands": ","}, {"thousands": "."}])
def test_one_mark_does_not_mean_two_things(tmp_path: Path, marks: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest, match="one mark cannot stand") as refused:
        World(tmp_path, columns=COLUMNS, key=["größe"], source={"format": "csv", **marks})
    assert refused.value.details["setting"] == "source.thousands"


def test_numbers_with_marks_are_read_twice_and_agree(tmp_path: Path) -> None:
    kinds = {"i": "int64", "f": "float64", "n": "numeric(12,2)", "s": "string", "j": "jsonb"}
    columns = [{"name": name, "type": kind} for name, kind in kinds.items()]
    source = {"format": "csv", "verify": "always", "max_rejected": 0.5}
    marks = {"decimal": ",", "thousands": "."}
    world = World(tmp_path, columns=columns, key=["s"], source={**source, **marks})
    lines = ['"1.234","-1.234,5","1,25","1.234,5","[1.5]"', '"",7,"","",{}', '"1.5",1,1,x,1']

    report = world.ingest(world.put("a.csv", "i,f,n,s,j\n" + "\n".join(lines)), lower=0, upper=1)

    assert (report["updates"], report["rejected"], report["verified"]) == (2, 1, 2)
    values = sorted((row[:5] for row in world.rows()), key=str)
    assert values[0][0] == 1234
    assert values[0][1:2] == (-1234.5,)
    assert str(values[0][2]) == "1.25"
    assert values[0][3:] == ("1.234,5", "[1.5]")
    assert values[1][:3] == (None, 7.0, None)
    [found] = rejected(world.stores, "s")
    assert (found.rows[0]["column_name"], found.rows[0]["value"]) == ("i", "1.5")


def test_a_wrong_reading_of_marks_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = {"format": "csv", "verify": "always", "decimal": ","}
    world = World(tmp_path, columns=COLUMNS[:1], key=["größe"], source=source)
    file = world.put("a.csv", "größe\n1\n5\n")
    monkeypatch.setattr(
        "strata.ingest.values.numerals.plain_numbers",
        lambda texts, *marks: Cast(pc.replace_substring(texts, "5", "6"), NONE_BAD),
    )

    with pytest.raises(Corrupt, match="would have been stored as another one"):
        world.ingest(file, lower=0, upper=1)

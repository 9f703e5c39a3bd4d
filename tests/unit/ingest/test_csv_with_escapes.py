r"""CSV whose quotes are escaped by backslashes: the same rows as with doubled quotes."""

import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from strata.errors import InvalidRequest
from strata.ingest.land.files import files_at
from strata.ingest.quarantine import rejected
from strata.ingest.readers import file_ranges
from strata.ingest.readers.file_ranges import split_file
from strata.ingest.readers.infer import infer
from strata.ingest.retry import retry_rejected
from strata.model.settings import IngestSettings, Settings, StoreSettings
from tests.unit.ingest.test_encodings import declare, put
from tests.unit.ingest.test_engine import World

ESCAPE = "\\"
COLUMNS = [{"name": "id", "type": "int64"}, {"name": "text", "type": "string"}]
TEXTS = [
    'say "hi"', "\\", '"', '\\"', "a\\", '"\\', "\\\\", "", "a,b\\,", "a\nb", '\\\n"', "ä\\ö",
    '""', "\\N",
]  # fmt: skip


def world_of(root: Path, **source: Any) -> World:
    source = {"format": "csv", "max_rejected": 0.9, "verify": "always", "escape": ESCAPE, **source}
    return World(root, columns=COLUMNS, key=["id"], source=source)


def escaped(texts: Sequence[str], first: int = 0) -> str:
    """Return rows as Spark writes them."""
    rows = (t.replace(ESCAPE, 2 * ESCAPE).replace('"', ESCAPE + '"') for t in texts)
    return "".join(f'{first + n},"{row}"\n' for n, row in enumerate(rows))


def rows_of(world: World) -> list[tuple[Any, ...]]:
    return sorted(row[:2] for row in world.rows())


@pytest.mark.parametrize("pack", ["", ".gz"])
@pytest.mark.parametrize("encoding", ["utf-8", "cp1252", "utf-16"])
def test_each_text_is_the_one_that_was_written(tmp_path: Path, pack: str, encoding: str) -> None:
    world = world_of(tmp_path, encoding=encoding)
    data = f'id,"te\\"xt"\n{escaped(TEXTS)}'.replace('te\\"xt', "text").encode(encoding)
    file = put(world, f"a.csv{pack}", gzip.compress(data) if pack else data)

    report = world.ingest(file, lower=0, upper=1)

    assert (report["updates"], report["verified"]) == (len(TEXTS), len(TEXTS))
    assert rows_of(world) == list(enumerate(TEXTS))


def test_doubled_quotes_and_backslashes_outside_quotes_are_what_they_are(tmp_path: Path) -> None:
    world = world_of(tmp_path, nulls=["", "\\N"])

    file = put(world, "a.csv", b'\xef\xbb\xbf"id","text"\n1,"a""b"\n2,c\\"d\\\n3,\\N\n4,"\\N"'[:-5])
    world.ingest(file, lower=0, upper=1)

    assert rows_of(world)[:3] == [(1, 'a"b'), (2, 'c\\"d\\'), (3, None)]


def test_names_may_have_quotes_behind_a_mark(tmp_path: Path) -> None:
    world = world_of(tmp_path, names={'te"xt\\': "text"})

    world.ingest(put(world, "a.csv", b'\xef\xbb\xbf"te\\"xt\\\\",id\n"\\"",1\n'), lower=0, upper=1)

    assert rows_of(world) == [(1, '"')]


@pytest.mark.parametrize(
    ("data", "line", "value"),
    [
        (b'id,text\n1,"a"\n2,"b\\n"\n', 3, '2,"b\\n'),
        (b'id,text\n1,"a\nb\\\nc"\n', 3, "b\\\n"),
        (b'id,text\n1,"C:\\dir"\n', 2, '1,"C:\\d'),
    ],
)
@pytest.mark.parametrize("pack", ["", ".gz"])
def test_a_backslash_without_a_meaning_is_refused(
    tmp_path: Path, data: bytes, line: int, value: str, pack: str
) -> None:
    world = world_of(tmp_path)
    file = put(world, f"a.csv{pack}", gzip.compress(data) if pack else data)

    with pytest.raises(InvalidRequest, match="neither a quote nor a backslash") as refused:
        world.ingest(file, lower=0, upper=1)

    assert refused.value.details["file"].endswith(f"a.csv{pack}")
    assert (refused.value.details["line"], refused.value.details["value"]) == (line, value)
    assert rows_of(world) == []


@pytest.mark.parametrize("end", [b'"a', b'"a\\', b'"a\\"', b'"a\\\\\\"\n'])
def test_a_quote_that_stays_open_is_refused(tmp_path: Path, end: bytes) -> None:
    world = world_of(tmp_path)

    with pytest.raises(InvalidRequest, match="a quoted field never ends") as refused:
        world.ingest(put(world, "a.csv", b"id,text\n1,b\n2," + end), lower=0, upper=1)

    assert refused.value.details["line"] == 3


@pytest.mark.parametrize("pack", ["", ".gz"])
def test_a_large_file_is_read_in_parts_and_not_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pack: str
) -> None:
    monkeypatch.setattr(file_ranges, "BLOCK_BYTES", 7)
    monkeypatch.setattr("strata.ingest.land.recode.CHUNK_BYTES", 5)
    monkeypatch.setattr(file_ranges.TextFormat.parts, "__defaults__", (60,))
    world = world_of(tmp_path)
    world.settings = replace(world.settings, ingest=IngestSettings(task_bytes=200))
    texts = [*TEXTS, "x"] * 20
    data = f"id,text\n{escaped(texts[:150])}x,y\n{escaped(texts[150:], 150)}".encode()
    file = put(world, f"a.csv{pack}", gzip.compress(data) if pack else data)

    report = world.ingest(file, lower=0, upper=1)

    assert (report["updates"], report["rejected"], report["verified"]) == (300, 1, 300)
    assert rows_of(world) == list(enumerate(texts))
    [found] = rejected(world.stores, "s")
    assert found.rows[0]["line"] == 1 + sum(1 + t.count("\n") for t in texts[:150]) + 1
    [source] = files_at("", [file])
    dialect = replace(source.dialect, escape=ESCAPE)
    assert len(split_file(replace(source, dialect=dialect), "csv", 200)) == 1


def test_small_files_are_read_together(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    for number, text in enumerate(TEXTS):
        put(world, f"in/{number}.csv", f"id,text\n{escaped([text], number)}".encode())

    report = world.ingest(str(world.root / "in"), lower=0, upper=1)

    assert report["updates"] == len(TEXTS)
    assert rows_of(world) == list(enumerate(TEXTS))


def test_a_rejected_row_is_read_again_as_it_was_kept(tmp_path: Path) -> None:
    world = world_of(tmp_path)
    world.ingest(put(world, "a.csv", b'id,text\n1,"b"\n1.000,"a\\"\\\\"\n'), lower=0, upper=1)
    [found] = rejected(world.stores, "s")
    assert found.rows[0]["raw"] == b'1.000,"a""\\"'
    declare(world, decimal=",", thousands=".")

    [retried] = retry_rejected(world.stores, world.settings, "s")

    assert (retried.rows, retried.taken) == (1, 1)
    assert rows_of(world)[1] == (1000, 'a"\\')


@pytest.mark.parametrize("header", [(), ("id", "text")])
@pytest.mark.parametrize("text", ['say "hi"', '"', 'a"', '{"a": "b"}'])
def test_a_proposal_says_that_quotes_are_escaped(
    tmp_path: Path, header: tuple[str, ...], text: str
) -> None:
    names = "" if header else "id,text\n"
    (tmp_path / "a.csv").write_text(f'{names}0,"plain\\\\"\n{escaped([text, "b"], 1)}')
    (tmp_path / "b.csv").write_text(f"{names}7,c\n")
    settings = Settings(StoreSettings(landing=str(tmp_path)))

    found = infer(settings, "s", str(tmp_path), header=header).declaration

    assert found["source"]["escape"] == ESCAPE
    assert [column["type"] for column in found["columns"]] == ["int64", "string"]


def test_a_proposal_says_so_where_a_quote_would_stay_open(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,text\n1,"\\\\\\""\n2,\n')

    found = infer(Settings(StoreSettings(landing=str(tmp_path))), "s", str(tmp_path))

    assert found.declaration["source"]["escape"] == ESCAPE
    assert not any("no ingest" in note for note in found.notes)


@pytest.mark.parametrize("text", ['"a\\\\b"', '"C:\\dir\\"', 'a\\"b', '"a""b"'])
def test_a_proposal_without_need_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.csv").write_text(f"id,text\n1,{text}\n2,b\n")
    settings = Settings(StoreSettings(landing=str(tmp_path)))

    found = infer(settings, "s", str(tmp_path))

    assert "escape" not in found.declaration["source"]
    assert any("come in pairs" in note for note in found.notes) == (text == '"a\\\\b"')


@pytest.mark.parametrize("text", [b'"a\\"b"', b'"\\""\n3,"\\""', b'"\\"a'])
def test_a_file_that_needs_it_is_refused_with_the_cure(tmp_path: Path, text: bytes) -> None:
    world = world_of(tmp_path, escape="")

    with pytest.raises(InvalidRequest) as refused:
        world.ingest(put(world, "a.csv", b"id,text\n1,b\n2," + text + b"\n"), lower=0, upper=1)

    assert "source.escape: '\\'" in str(refused.value.cure)


def test_no_other_letter_escapes(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="escape"):
        world_of(tmp_path, escape="^")

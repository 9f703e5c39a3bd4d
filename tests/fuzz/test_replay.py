"""What fuzzing has found and kept is read again, by the machine code this time.

`make fuzz` looks for more (tests/fuzz/__main__.py); the files in `corpus` are the inputs that
reached something new, a few hundred of each, and every one that once failed.
"""

import importlib
import random
import zipfile
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from strata.ingest.readers import debezium, jsonl
from tests.fuzz import sources
from tests.fuzz.mutate import run

TARGETS = ("protobuf", "json", "parquet")
CORPUS = Path(__file__).parent / "corpus"
CHANGED = {"protobuf": 300, "json": 150, "parquet": 30}  # inputs changed at random, always the same


def target(name: str) -> ModuleType:
    return importlib.import_module(f"tests.fuzz.{name}")


def kept(name: str) -> list[bytes]:
    with zipfile.ZipFile(CORPUS / f"{name}.zip") as archive:
        return [archive.read(file) for file in sorted(archive.namelist())]


@pytest.mark.parametrize("name", TARGETS)
def test_every_input_that_was_kept_is_read_or_refused(name: str) -> None:
    inputs = kept(name)
    assert inputs
    for data in inputs:
        target(name).check(data)


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_changed_at_random_are_read_or_refused(name: str) -> None:
    chance = random.Random(7)
    seeds = target(name).seeds()
    for _ in range(CHANGED[name]):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(1, len(data) + 1)
            data[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 3))
        target(name).check(bytes(data))


def test_a_decoder_that_lies_is_found() -> None:
    protobuf = target("protobuf")
    right = protobuf.decode_rows
    protobuf.decode_rows = lambda rows, kinds: [right(rows, kinds)[0].take([1, 0])]
    try:
        with pytest.raises(AssertionError):
            protobuf.check(protobuf.seeds()[0])
    finally:
        protobuf.decode_rows = right


@pytest.mark.parametrize("name", sorted(sources.SOURCES))
def test_source_files_are_read_or_refused(name: str, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    source = sources.SOURCES[name]
    for data in source.seeds():
        source.check(data)
    assert run(source, 7, cases=100) == 100


@pytest.mark.parametrize(
    ("name", "module", "reader"),
    [("jsonl", jsonl, "read_objects"), ("debezium", debezium, "read_events")],
)
def test_tables_are_read_and_one_that_differs_is_found(
    name: str, module: ModuleType, reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right, read = getattr(module, reader), []

    def other(*asked):
        found = right(*asked)
        read.append(found is not None)
        return found and replace(found, columns={**found.columns, "v": found.columns["v"][::-1]})

    monkeypatch.setattr(module, reader, other)
    source = sources.SOURCES[name]
    with pytest.raises(AssertionError):
        [source.check(data) for data in source.seeds()]
    assert any(read)


def test_a_reader_that_loses_a_row_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sources.file_updates

    def loses(raw, task):
        found = right(raw, task)
        return replace(found, updates=found.updates.slice(1))

    monkeypatch.setattr(sources, "file_updates", loses)
    with pytest.raises(AssertionError):
        sources.SOURCES["csv"].check(sources.csv()[0])


def test_a_retry_that_takes_what_was_refused_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = sources._file

    def cured(token, row, format, encoding):
        return right(token, {**row, "raw": row["raw"].replace(b'"x"', b"5")}, format, encoding)

    monkeypatch.setattr(sources, "_file", cured)
    with pytest.raises(AssertionError, match="taken in"):
        sources.SOURCES["jsonl"].check(b'{"id":"x"}\n{"id":1}')


FOUND = sorted((CORPUS / "found").iterdir())


@pytest.mark.parametrize("file", FOUND, ids=lambda file: file.name)
def test_a_source_file_that_failed_once_is_read_or_refused(file: Path) -> None:
    """`TARGET-what`: for instance a column of structs without fields, of which Arrow reads none."""
    sources.SOURCES[file.name.partition("-")[0]].check(file.read_bytes())

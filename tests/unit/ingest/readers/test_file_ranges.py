"""What a task holds does not grow with the file that it reads some of."""

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile
from strata.ingest.readers import file_ranges
from strata.ingest.readers.file_ranges import split_file
from tests.unit.ingest.test_engine import World

COLUMNS = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
WORKER = """
import resource, sys
from strata.ingest import run
from strata.ingest.engine import ingest
from strata.machine.machine import Machine
from strata.model.settings import IngestSettings, Settings, StoreSettings
from strata.model.spec import parse_spec
from strata.store.open import open_stores

root, path = sys.argv[1:]
run.RUN_BYTES = 8 << 20
store = StoreSettings(f"file://{root}/blob", f"sqlite:///{root}/state.db", root)
stores = open_stores(store)
columns = [{"name": "id", "type": "int64"}, {"name": "name", "type": "string"}]
declared = {"columns": columns, "source": {"format": "csv"}, "write_format": "structured"}
Machine(stores).create(parse_spec({"name": "s", **declared, "part_bytes": 1 << 20}))
settings = Settings(store=store, ingest=IngestSettings(4 << 20))
report = ingest(stores, settings, "s", paths=[path], lower=0, upper=1)
print(report.updates, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10)
"""
MORE_MIB = 60  # of noise; the file that is larger is so by 110 MiB, and three times that decoded


def test_a_record_that_is_too_long_is_refused_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_ranges, "RECORD_BYTES", 50)
    monkeypatch.setattr(file_ranges, "BLOCK_BYTES", 10)
    path = tmp_path / "x.csv"
    path.write_text("id,name\n1,x\n2," + "y" * 100 + "\n")
    file = SourceFile(str(path), "x.csv", path.stat().st_size)

    with pytest.raises(InvalidRequest, match="too long") as error:
        split_file(file, "csv", 20)
    assert error.value.details["line"] == 3


def test_a_packed_file_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_ranges, "BLOCK_BYTES", 64)
    monkeypatch.setattr(file_ranges.TextFormat.parts, "__defaults__", (200,))
    world = World(tmp_path, columns=COLUMNS, source={"format": "csv", "max_rejected": 0.5})
    rows = "".join(f'{n},"a\n{n}"\n' if n != 70 else "x,y\n" for n in range(100))
    (tmp_path / "x.csv.gz").write_bytes(gzip.compress(f"id,name\n{rows}".encode()))

    report = world.ingest("x.csv.gz", lower=0, upper=1)

    assert (report["updates"], report["rejected"]) == (99, 1)
    [key] = report["quarantine"]
    data = world.stores.blob.get(key)
    assert data is not None
    assert b'"line":142,' in data


@pytest.mark.long
@pytest.mark.parametrize("packed", [False, True])
def test_memory_does_not_grow_with_the_file(packed: bool, tmp_path: Path) -> None:
    peaks = []
    for times in (3, 9):  # of fewer, a task does not come to hold what it may
        root = tmp_path / str(times)
        root.mkdir()
        path = root / ("x.csv.gz" if packed else "x.csv")
        rows = 700_000 * times
        with gzip.open(path, "wb", 1) if packed else path.open("wb") as stream:
            stream.write(b"id,name\n")
            for start in range(0, rows, 100_000):
                lines = (f'{n},"a name, number\n{n}"\n' for n in range(start, start + 100_000))
                stream.write("".join(lines).encode())
        told = subprocess.run(
            [sys.executable, "-c", WORKER, str(root), path.name],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        assert int(told[0]) == rows
        peaks.append(int(told[1]))
    assert peaks[1] < peaks[0] + MORE_MIB, peaks

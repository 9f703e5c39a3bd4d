"""A declaration is inferred from the beginning of a large file, and cheaply from odd texts."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest

from strata.ingest.readers import examined, guess, infer
from strata.ingest.readers.guess import type_of_texts
from strata.ingest.values.cast import Cast, from_text
from strata.model.types import ColumnType
from tests.unit.ingest.test_engine import World

ROWS = 2_000
SMALL = 4_096  # bytes of a head here
Writer = Callable[[Path, pa.Table], None]


def _csv(path: Path, table: pa.Table) -> None:
    rows = [f'{row["id"]};"a{row["id"]}\nsecond; line"' for row in table.to_pylist()]
    path.write_text("id;note\n" + "\n".join(rows) + "\n", "utf-8")


def _jsonl(path: Path, table: pa.Table) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()), "utf-8")


def _json(path: Path, table: pa.Table) -> None:
    path.write_text(json.dumps(table.to_pylist()), "utf-8")


def _packed(path: Path, table: pa.Table) -> None:
    _jsonl(path, table)
    path.write_bytes(gzip.compress(path.read_bytes()))


def _parquet(path: Path, table: pa.Table) -> None:
    pq.write_table(table, path, row_group_size=100)


def _orc(path: Path, table: pa.Table) -> None:
    po.write_table(table, path, stripe_size=1 << 16, batch_size=100)


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("x.csv", _csv),
        ("x.jsonl", _jsonl),
        ("x.json", _json),
        ("x.jsonl.gz", _packed),
        ("x.parquet", _parquet),
    ],
)
def test_only_the_head_of_a_large_file_is_examined(
    name: str, write: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    path = tmp_path / name
    ids = list(range(ROWS))
    write(path, pa.table({"id": ids, "note": [f"a{n}\nsecond; line" for n in ids]}))
    whole = infer.infer(world.settings, "new", name)
    for module in (infer, examined):
        monkeypatch.setattr(module, "LOOKED_BYTES", SMALL)
    found = infer.infer(world.settings, "new", name)
    assert found.declaration == whole.declaration
    assert found.declaration["key"] == ["id"]
    (key,) = [why for why in found.why if why.setting == "key"]
    seen = int(key.because.split("all ")[1].split(" ")[0].replace(",", ""))
    assert 20 <= seen < ROWS


def test_the_first_stripes_of_a_large_orc_file_are_its_head(tmp_path: Path) -> None:
    world = World(tmp_path)
    _orc(tmp_path / "x.orc", pa.table({"id": list(range(ROWS))}))
    assert infer.infer(world.settings, "new", "x.orc").declaration["key"] == ["id"]


def test_texts_of_no_type_are_tried_a_few_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []

    def counted(texts: pa.Array, kind: ColumnType) -> Cast:
        tried.append(len(texts))
        return from_text(texts, kind)

    monkeypatch.setattr(guess, "from_text", counted)
    assert type_of_texts(pa.array([f"/page/{n}" for n in range(20_000)])) == "string"
    assert tried == [1] * len(guess.TRIED)
    tried.clear()
    late = [*map(str, range(20_000)), "x"]
    assert type_of_texts(pa.array(late)) == "string"
    assert max(tried) < len(late)
    assert tried[-1] == 1  # the texts after numbers are no dates, either

"""Sums follow their source after the compact job; the validate job compares them with it."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from strata.cli.app import main as strata
from strata.jobs.compact.main import main as compact
from strata.jobs.validate.main import main as validate
from strata.model.settings import StoreSettings
from strata.store.open import Stores, open_stores
from strata.sums.run import maintain_sums
from strata.sums.table import SumsTable
from strata.sums.wish import SumsWish
from tests.laws.test_kept_sums import RELATION, take
from tests.support.stored import create

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of the libraries that GX loads
]

WISH = SumsWish("shard", "sums", ("a", "b"), ("n",), None, ("f",), ("p", "a"))


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    blob, database = f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/consensus.db"
    (tmp_path / "strata.toml").write_text(
        f'[store]\nblob = "{blob}"\nconsensus = "{database}"\n'
        f'[validate]\nreport_dir = "{tmp_path}/report"\n'
    )
    stores = open_stores(StoreSettings(blob, database))
    create(stores, RELATION)
    take(stores, 0, 10, [((n, "xyz"[n % 3], n % 2, n, None, 0.5 * n), n, 1) for n in range(9)])
    maintain_sums(stores, WISH)
    take(stores, 10, 20, [((9, "x", 0, 9, None, 0.0), 12, 1), ((8, "z", 0, 8, None, 4.0), 12, -1)])
    return stores


def done(tmp_path: Path, job: Any, *words: str) -> tuple[int, dict[str, Any]]:
    result = tmp_path / "result.json"
    config = str(tmp_path / "strata.toml")
    code = job([*words, "--config", config, "--result", str(result)])
    found: dict[str, Any] = json.loads(result.read_text())
    return code, found


def test_sums_follow_and_are_compared(spark: SparkSession, stores: Stores, tmp_path: Path) -> None:
    assert done(tmp_path, compact, "--shard", "shard", "--full")[0] == 0
    assert maintain_sums(stores, WISH).changes == 2
    code, clean = done(tmp_path, validate)
    assert (code, clean["alerts"]) == (0, [])
    (sums,) = (one for one in clean["shards"] if one["shard"] == "sums")
    assert (sums["sums_groups"], sums["sums_different"]) == (6, 0)


def test_one_changed_sum_ends_the_validation_with_3(
    spark: SparkSession,
    stores: Stores,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    whole = SumsTable.arrow

    def falsely(self: SumsTable, updates: Any, relation: Any) -> pa.Table:
        table = whole(self, updates, relation)
        count = table.column(2).combine_chunks().to_pylist()
        count[-1] += 1
        return table.set_column(2, table.schema.field(2), [count])

    with monkeypatch.context() as patch:
        patch.setattr(SumsTable, "arrow", falsely)
        maintain_sums(stores, WISH)

    code, found = done(tmp_path, validate, "--shard", "sums")

    assert code == 3
    (alert,) = found["alerts"]
    assert (alert["shard"], alert["check"]) == ("sums", "kept sums")
    assert alert["replay"] == "strata sums shard --into sums --check"
    capsys.readouterr()
    with pytest.raises(SystemExit) as end:
        strata(["validate", "sums", "--json", "--config", str(tmp_path / "strata.toml")])
    said = json.loads(capsys.readouterr().out)
    assert (end.value.code, said["mismatches"], said["sums"]["different"]) == (3, 0, 1)
    assert "first" not in said["sums"]

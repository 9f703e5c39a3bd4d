"""The hold around a run, taken and given back as its two tasks do."""

from types import SimpleNamespace

import pytest

from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.store.open import open_stores
from strata_airflow.holding import give_back_hold, take_hold

pytestmark = pytest.mark.dags

RUN = SimpleNamespace(dag_id="d", run_id="manual__2026-01-01T00:00:00+00:00", run_type="manual")


def test_a_run_holds_its_shards_until_it_gives_them_back(tmp_path, monkeypatch):
    store = StoreSettings(f"file://{tmp_path}/blob", f"sqlite:///{tmp_path}/c.db")
    machine = Machine(open_stores(store))
    for name in ("a", "b"):
        columns = [{"name": "id", "type": "int64"}]
        machine.create(parse_spec({"name": name, "columns": columns, "key": ["id"]}))
    config = tmp_path / "strata.toml"
    config.write_text(f'[store]\nblob = "{store.blob}"\nconsensus = "{store.consensus}"\n')
    monkeypatch.setenv("STRATA_CONFIG", str(config))

    take_hold({"shards": ["a"], "dry_run": True}, RUN)
    assert not machine.load("a").holds
    take_hold({"shards": ["a"]}, RUN)
    assert [(hold.name, hold.opaque) for hold in machine.load("a").holds] == [
        (f"d {RUN.run_id}", f"d {RUN.run_id}")
    ]
    assert not machine.load("b").holds
    give_back_hold(RUN)
    assert not machine.load("a").holds

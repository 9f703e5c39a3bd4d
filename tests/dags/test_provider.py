"""The provider's parts for other people's DAGs: connection, operators, sensor, trigger, assets."""

import asyncio
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.providers.common.compat.openlineage import facet
from airflow.providers_manager import _create_provider_info_schema_validator
from airflow.sdk import Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException, TaskDeferred
from airflow.sdk.execution_time.context import OutletEventAccessors

from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.model.spec import parse_spec
from strata.model.time import MIN_TIME, parse_time
from strata.store.open import open_stores
from strata_airflow import assets, operators
from strata_airflow.assets import shard_asset
from strata_airflow.frontier import is_reached
from strata_airflow.hooks import StoreAccess, StrataHook, access_of
from strata_airflow.provider import get_provider_info
from strata_airflow.sensors import StrataShardSensor
from strata_airflow.setup import connection_json
from strata_airflow.triggers import ShardReachedTrigger

pytestmark = pytest.mark.dags

DECLARATION = {
    "name": "orders",
    "columns": [{"name": "id", "type": "int64", "nullable": False}],
    "key": ["id"],
}


def connection(**extra: str) -> Connection:
    return Connection(
        conn_id="eu", conn_type="strata", login="ann", password="a/b@c", extra=json.dumps(extra)
    )


@pytest.fixture
def store(tmp_path, monkeypatch):
    """Return the addresses of a store with the shard `orders`, complete up to 2026-03-02."""
    addresses = {
        "blob": f"file://{tmp_path}/blob",
        "consensus": f"sqlite:///{tmp_path}/c.db",
    }
    document = {"conn_type": "strata", "extra": addresses}
    monkeypatch.setenv("AIRFLOW_CONN_EU", json.dumps(document))
    machine = Machine(open_stores(StoreSettings(**addresses)))
    machine.create(parse_spec(DECLARATION))
    machine.append("orders", token="t", lower=MIN_TIME, upper=parse_time("2026-03-02"))
    return addresses


def test_the_provider_is_described_as_airflow_wants_it():
    info = get_provider_info()
    _create_provider_info_schema_validator().validate(info)
    for kind in ("operators", "sensors", "hooks", "triggers"):
        for name in info[kind][0]["python-modules"]:
            importlib.import_module(name)
    classes = [*info["notifications"], *info["extra-links"]]
    for name in [*classes, info["connection-types"][0]["hook-class-name"]]:
        module, _, attribute = name.rpartition(".")
        assert isinstance(getattr(importlib.import_module(module), attribute), type)


def test_a_connection_gives_a_file_or_addresses_with_the_password_in_its_place():
    assert access_of(connection(settings="/etc/eu.toml")) == StoreAccess("/etc/eu.toml")
    access = access_of(
        connection(blob="s3://b/x", consensus="postgresql://db/x", spark_conn_id="spark_eu")
    )
    assert access.spark == "spark_eu"
    assert access.environment == {
        "STRATA_CONFIG": "",
        "STRATA__STORE__BLOB": "s3://b/x",
        "STRATA__STORE__CONSENSUS": "postgresql://ann:a%2Fb%40c@db/x",
    }
    assert "a%2Fb" not in repr(access)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ({}, "extra lacks 'blob'"),
        ({"blob": "s3://b"}, "extra lacks 'consensus'"),
        ({"password=pw": "x"}, "extra has 'password' .cure"),
        ({"setings": "/x"}, "extra has 'setings' .cure: one of blob, consensus, "),
        ({"settings": "/x", "blob": "s3://b"}, "both 'settings' and 'blob'"),
    ],
)
def test_a_wrong_connection_says_what_fits(extra, said):
    with pytest.raises(AirflowFailException, match=said):
        access_of(connection(**extra))


def test_a_missing_connection_is_named():
    with pytest.raises(AirflowFailException, match="no connection 'nowhere'"):
        StrataHook("nowhere").get_conn()


def test_the_hook_asks_the_store_of_its_connection(store, monkeypatch):
    monkeypatch.setenv("STRATA_CONFIG", "/nowhere/strata.toml")  # another store's: not looked at
    assert StrataHook("eu").test_connection() == (True, "1 shards")


def test_a_command_that_answers_and_fails_says_why(store, tmp_path):
    """The doctor's answer is on standard output; its error was `strata ended with 1`."""
    (tmp_path / "c.db").unlink()
    (tmp_path / "c.db").mkdir()
    with pytest.raises(AirflowException) as caught:
        StrataHook("eu").run("doctor")
    said = str(caught.value)
    assert "consensus: the consensus database cannot be used" in said
    assert "c.db is a folder" in said
    assert "(cure: see docs/reference/state.md, Databases)" in said
    assert "python" not in said.partition(":")[0]


@pytest.fixture
def submitted(tmp_path, monkeypatch, store):
    """Run an operator with a `spark-submit` that notes its words and its stores."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "spark-submit"
    program.write_text(
        f"#!{sys.executable}\nimport json, os, sys\nargs = sys.argv[1:]\n"
        "file = args[args.index('--result') + 1]\n"
        "stores = {k: v for k, v in os.environ.items() if k.startswith('STRATA_')}\n"
        "document = {'shards': [{'shard': 'orders', 'rows': 3}], 'args': args, 'env': stores}\n"
        "json.dump(document, open(file, 'w'))\n"
    )
    program.chmod(0o755)
    (folder / "python").symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setenv("STRATA_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("AIRFLOW_CONN_STRATA_SPARK", connection_json("local[1]", "512m"))

    def run(operator):
        ti = SimpleNamespace(
            dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1, task=operator
        )
        context = {"ti": ti, "outlet_events": OutletEventAccessors()}
        returned = operator.execute(context)
        return json.loads(Path(returned["result"]).read_text()), context

    return run


def words(args: list[str]) -> list[str]:
    """Return what a job is asked for: after its program, before its settings and its result."""
    program = next(n for n, word in enumerate(args) if word.endswith("main.py"))
    return args[program + 1 : args.index("--result")]


DAY = {"from_time": "2026-03-01", "to_time": "2026-03-02"}


def test_an_ingest_works_on_its_store_and_makes_the_event_of_its_shard(submitted, store):
    operator = operators.StrataIngestOperator(
        task_id="t", shard="orders", strata_conn_id="eu", **DAY
    )
    said, context = submitted(operator)

    assert words(said["args"]) == [
        "--shard",
        "orders",
        "--from-time",
        "2026-03-01",
        "--to-time",
        "2026-03-02",
    ]
    assert said["env"]["STRATA__STORE__BLOB"] == store["blob"]
    assert said["env"]["STRATA__STORE__CONSENSUS"] == store["consensus"]
    assert said["env"]["STRATA_CONFIG"] == ""
    asset = shard_asset("orders", "eu")
    assert operator.outlets == [asset]
    assert context["outlet_events"][asset].extra == {"shards": 1, "rows": 3}
    assert operator.retry_policy is not None
    assert operator.pool == "default_pool"


@pytest.mark.parametrize(
    ("operator", "asked"),
    [
        (
            operators.StrataCompactOperator(task_id="t", shard="a b", full=True, dry_run=True),
            ["--shard", "a", "--shard", "b", "--full", "--plan"],
        ),
        (operators.StrataCollectGarbageOperator(task_id="t"), ["--sweep"]),
        (
            operators.StrataStatsBackfillOperator(
                task_id="t", shard=["a"], columns=["x", "y"], max_parts=5
            ),
            ["backfill", "--shard", "a", "--column", "x", "--column", "y", "--max-parts", "5"],
        ),
        (
            operators.StrataStatsTrimOperator(task_id="t", budget_bytes=900),
            ["trim", "--budget", "900"],
        ),
        (
            operators.StrataValidateOperator(task_id="t", shard="a", filters="late", percent=10),
            ["--shard", "a", "--filter", "late", "--percent", "10"],
        ),
    ],
    ids=lambda one: type(one).__name__,
)
def test_each_operator_asks_its_job_for_what_it_was_given(submitted, operator, asked):
    operator.strata_conn_id = "eu"
    operator.arguments.pop("--run", None)  # a template
    assert words(submitted(operator)[0]["args"]) == asked
    assert operator.outlets == []


@pytest.mark.parametrize("end", ["", "2026-03-01"])
def test_a_run_without_an_interval_ingests_nothing_and_says_so(submitted, end):
    operator = operators.StrataIngestOperator(
        task_id="t", shard="orders", from_time="2026-03-01", to_time=end, strata_conn_id="eu"
    )
    with pytest.raises(AirflowFailException, match="no interval to ingest"):
        submitted(operator)


@pytest.mark.parametrize("master", ["yarn", "k8s://host"])
def test_a_password_is_not_put_on_a_command_line(submitted, monkeypatch, master):
    monkeypatch.setenv("AIRFLOW_CONN_STRATA_SPARK", connection_json(master, "512m"))
    with pytest.raises(AirflowFailException, match="'settings' in its extra"):
        submitted(operators.StrataCompactOperator(task_id="t", strata_conn_id="eu"))


def test_a_shard_has_reached_what_its_state_says(store):
    access = StrataHook("eu").get_conn()
    assert is_reached(access, "orders", "2026-03-02")
    assert not is_reached(access, "orders", "2026-03-02T00:00:00.001Z")
    with pytest.raises(AirflowFailException, match="no such shard"):
        is_reached(access, "ordres", "2026-03-02")
    with pytest.raises(AirflowFailException, match="yesterday"):
        is_reached(access, "orders", "yesterday")
    away = StoreAccess(
        "", {**access.environment, "STRATA__STORE__CONSENSUS": "postgresql://u@127.0.0.1:9/x"}
    )
    assert not is_reached(away, "orders", "2026-03-02")


def sensor(**kwargs) -> StrataShardSensor:
    return StrataShardSensor(task_id="t", shard="orders", strata_conn_id="eu", **kwargs)


def test_a_sensor_waits_in_the_triggerer_and_goes_on_with_what_it_says(store, monkeypatch):
    asked = sensor(reached="2026-03-03", deferrable=True, poke_interval=0.01)
    with pytest.raises(TaskDeferred) as deferred:
        asked.execute({})
    path, arguments = deferred.value.trigger.serialize()
    assert path == "strata_airflow.triggers.ShardReachedTrigger"
    assert "blob" not in json.dumps(arguments)

    looks = iter([False, False, True])
    monkeypatch.setattr("strata_airflow.triggers.is_reached", lambda *_: next(looks))
    assert events(ShardReachedTrigger(**arguments)) == [{"error": ""}]
    asked.execute_complete({}, {"error": ""})
    with pytest.raises(AirflowFailException, match="no such shard"):
        asked.execute_complete({}, {"error": "no such shard"})


def test_a_trigger_that_waits_in_vain_says_so(store):
    (event,) = events(ShardReachedTrigger("eu", "ordres", "2026-03-02", 0.01))
    assert "no such shard" in event["error"]


def test_a_sensor_without_a_triggerer_looks_by_itself(store):
    assert sensor(reached="2026-03-02", deferrable=False).execute({}) is None
    assert sensor(reached="2026-03-02", deferrable=True).execute({}) is None
    with pytest.raises(AirflowException):
        sensor(reached="2026-03-03", deferrable=False, timeout=0.01, poke_interval=0.01).execute({})


def events(trigger: ShardReachedTrigger) -> list[dict]:
    async def collect() -> list[dict]:
        return [event.payload async for event in trigger.run()]

    return asyncio.run(collect())


def test_the_example_loads(project):
    bag = DagBag(str(project / "plugins" / "strata_airflow" / "example_dags"))
    assert bag.import_errors == {}
    assert set(bag.dags) == {"example_strata", "example_strata_report"}


@pytest.mark.parametrize(
    ("asset", "namespace", "name"),
    [
        (shard_asset("orders", "eu"), "strata://eu", "orders"),
        (assets.BATCHES, "strata", "batches"),
        (assets.VERDICTS, "strata", "verdicts"),
    ],
    ids=lambda one: getattr(one, "name", one),
)
def test_openlineage_calls_an_asset_by_connection_and_shard(
    asset: assets.Asset, namespace: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facet, "Dataset", dict)
    [uris] = get_provider_info()["asset-uris"]
    module, _, function = uris["to_openlineage_converter"].rpartition(".")
    convert = getattr(importlib.import_module(module), function)
    assert uris["schemes"] == [urlsplit(asset.uri).scheme]
    assert convert(asset, None) == {"namespace": namespace, "name": name}


def test_what_airflow_imports_while_it_makes_an_asset_imports_no_asset() -> None:
    """A module that makes one would be imported while it is being imported, and be ignored."""
    seen = "import sys, strata_airflow.lineage; print('airflow' in sys.modules)"
    path = Path(assets.__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", seen], cwd=path, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False"

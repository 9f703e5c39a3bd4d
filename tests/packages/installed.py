"""The packages as people get them: installed into empty environments, used far from the checkout.

`make test-packages` runs it: it installs from the package index, as `make setup` does, so no other
run of the tests collects this file.
"""

import json
import re
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest

from tests.support.empty_environment import DIST, PROJECT, UV, Place, built

EXPRESSION = "total > 90"
FOR_SPARK = "sin(total) > 0.5"  # nothing else understands it
# Compiles nothing: every kernel that a first read and a first ingest call is in the wheel.
FIRST_CALLS = """\
import importlib, sys
from numba.core import event

class Compiled(event.Listener):
    names = []
    def on_start(self, found): self.names.append(str(found.data["dispatcher"]))
    def on_end(self, found): pass

from strata.kernels import WARM
event.register("numba:compile", Compiled())
for one in WARM:
    module, _, function = one.partition(":")
    getattr(importlib.import_module(module), function)()
print(Compiled.names)
"""
ARROW = """\
from strata.config.settings import load_settings
from strata.shard import open_shard

shard = open_shard(load_settings(None, {}), "orders")
print(sum(batch.num_rows for batch in shard.scan(columns=["total"])))
"""
ENGINES = """\
import duckdb, polars as pl, pyarrow.compute as pc
import strata

orders = strata.open()["orders"]
print(
    orders.dataset().count_rows(filter=pc.field("total") > 90),
    orders.polars().filter(pl.col("total") > 90).select(pl.len()).collect().item(),
    orders.duckdb(duckdb.connect()).filter("total > 90").count("*").fetchall()[0][0],
)
"""
SPARK = """\
from strata.config.settings import load_settings
from strata.model.settings import SparkSettings
from strata.spark import spark_session

with spark_session("installed", SparkSettings()) as spark:
    rows = spark.read.format("strata").option("shard", "orders").load()
    print(rows.where("total > 90").count())
"""


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return BytesParser().parsebytes(archive.read(name))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("engine"), str(built("strata_shards", ".whl")))
    place.fill()
    return place


@pytest.mark.parametrize(
    ("name", "packages"),
    [
        ("strata_shards", {"strata", "pyspark_strata"}),
        ("airflow_provider_strata", {"strata_airflow"}),
    ],
)
def test_a_wheel_owns_its_packages_and_nothing_else(name: str, packages: set[str]) -> None:
    wheel = built(name, ".whl")
    files = [file for file in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in file]

    assert {file.partition("/")[0] for file in files} == packages
    assert f"{sorted(packages)[-1]}/py.typed" in files
    said = metadata(wheel)
    assert said["License-Expression"] == "Apache-2.0"
    assert said["License-File"] == "LICENSE"
    assert said["Requires-Python"] == "<3.14,>=3.11"
    assert "Typing :: Typed" in said.get_all("Classifier", [])
    assert all(
        "<" in one or "~=" in one or "strata-shards[" in one
        for one in said.get_all("Requires-Dist", [])
    )
    with tarfile.open(built(name, ".tar.gz")) as sources:
        inside = {file.partition("/")[2].partition("/")[0] for file in sources.getnames()}
    assert inside - packages <= {
        "",
        "LICENSE",
        "README.md",
        "CHANGELOG.md",
        "PKG-INFO",
        "pyproject.toml",
        ".gitignore",
    }


def test_no_wheel_names_a_place_of_the_machine_that_built_it() -> None:
    for wheel in DIST.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            named = [n for n in archive.namelist() if str(PROJECT).encode() in archive.read(n)]
        assert named == []


def test_both_have_one_version() -> None:
    versions = {metadata(wheel)["Version"] for wheel in DIST.glob("*strata*.whl")}
    assert len(versions) == 1


def test_without_extras_the_command_line_creates_ingests_and_reads(engine: Place) -> None:
    assert engine.run("strata", "--version").stdout.startswith("strata 0.")
    (shard,) = json.loads(engine.run("strata", "shards", "--json").stdout)["shards"]
    assert (shard["shard"], shard["updates"]) == ("orders", 4000)
    rows = engine.run("strata", "read", "orders", "--columns", "total", "--limit", "3").stdout
    assert "0.5" in rows
    assert engine.run("python", "-c", ARROW).stdout.strip() == "4000"
    found = engine.run("strata", "read", "orders", "--where", EXPRESSION, "--count", "--json")
    assert json.loads(found.stdout)["rows"] == 400


def test_no_kernel_is_compiled_at_the_first_call(engine: Place) -> None:
    assert engine.run("python", "-c", FIRST_CALLS).stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("extra", "words", "variables"),
    [
        ("spark", ("explain", "orders", "--where", FOR_SPARK), {}),
        ("spark", ("read", "orders", "--where", FOR_SPARK), {}),
        ("ui", ("ui",), {}),
        ("s3", ("shards",), {"STRATA__STORE__BLOB": "s3://bucket/x"}),
        ("postgres", ("shards",), {"STRATA__STORE__CONSENSUS": "postgresql://u@127.0.0.1:9/x"}),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_missing_extra_is_named_with_its_cure(
    engine: Place, extra: str, words: tuple[str, ...], variables: Mapping[str, str]
) -> None:
    said = engine.run("strata", *words, code=2, **variables).stderr

    assert f"pip install 'strata-shards[{extra}]'" in said
    assert said.count("\n") == 1, said


def test_a_job_names_its_missing_extra(engine: Place) -> None:
    for job, extra in (("compact", "spark"), ("validate", "validate")):
        done = engine.run("python", "-m", f"strata.jobs.{job}.main", code=2)
        assert f"pip install 'strata-shards[{extra}]'" in done.stderr


def test_the_oldest_releases_serve_as_well(tmp_path: Path) -> None:
    oldest = tmp_path / "oldest.txt"
    subprocess.run(
        [
            UV,
            "pip",
            "compile",
            "--quiet",
            "--resolution",
            "lowest-direct",
            "--no-emit-index-url",
            "--extra",
            "polars",
            "--extra",
            "duckdb",
            "--output-file",
            oldest,
            PROJECT / "pyproject.toml",
        ],
        check=True,
        capture_output=True,
    )
    assert "numba==0.65.0" in oldest.read_text()
    place = Place(tmp_path, "-r", str(oldest), str(built("strata_shards", ".whl")))
    place.fill()
    assert place.run("python", "-c", ARROW).stdout.strip() == "4000"
    assert place.run("python", "-c", ENGINES).stdout.split() == ["400"] * 3


def test_other_engines_find_their_rows(tmp_path: Path) -> None:
    place = Place(tmp_path, f"{built('strata_shards', '.whl')}[polars,duckdb]")
    place.fill()
    assert place.run("python", "-c", ENGINES).stdout.split() == ["400"] * 3


@pytest.mark.timeout(3000)  # the index has pyspark as source only
def test_with_spark_filters_skip_and_spark_knows_the_format(tmp_path: Path) -> None:
    place = Place(tmp_path, f"{built('strata_shards', '.whl')}[spark]")
    place.fill()
    found = json.loads(
        place.run("strata", "explain", "orders", "--where", FOR_SPARK, "--json").stdout
    )
    assert found["parts_total"] >= 1
    read = place.run("strata", "read", "orders", "--where", EXPRESSION, "--count", "--json").stdout
    assert json.loads(read)["rows"] == 400
    python = str(place.venv / "bin" / "python")
    assert place.run("python", "-c", SPARK, PYSPARK_PYTHON=python).stdout.strip() == "400"


AIRFLOW = {
    "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
    "GX_ANALYTICS_ENABLED": "false",
}
DAG = """\
import pendulum
from airflow.sdk import dag

from strata_airflow.operators import StrataIngestOperator
from strata_airflow.sensors import StrataShardSensor


@dag(schedule=None, start_date=pendulum.datetime(2026, 1, 1, tz="UTC"))
def installed():
    ingest = StrataIngestOperator(
        task_id="ingest", shard="orders", from_time="2026-03-01", to_time="2026-03-03"
    )
    ingest >> StrataShardSensor(
        task_id="complete", shard="orders", reached="2026-03-03", deferrable=False, timeout=60
    )


installed()
"""


@pytest.mark.timeout(3000)
def test_an_airflow_that_has_only_the_packages_runs_a_dag_of_its_own(tmp_path: Path) -> None:
    pins = tmp_path / "pins.txt"
    locked = (PROJECT / "requirements" / "runtime.txt").read_text("utf-8")
    pins.write_text("\n".join(re.findall(r"^([\w.-]+==[^\\\n]+)", locked, re.MULTILINE)))
    place = Place(
        tmp_path,
        "--constraints",
        str(pins),
        "--excludes",
        str(PROJECT / "requirements" / "excludes.txt"),
        f"{built('strata_shards', '.whl')}[spark]",
        str(built("airflow_provider_strata", ".whl")),
    )
    place.declare()
    stores = {
        "blob": f"file://{place.work}/blob",
        "consensus": f"sqlite:///{place.work}/c.db",
        "shards_dir": f"{place.work}/config/shards",
        "landing": str(place.work),
    }
    spark = {"deploy-mode": "client", "spark-binary": "spark-submit"}
    variables = AIRFLOW | {
        "AIRFLOW_HOME": f"{place.work}/airflow",
        "AIRFLOW__CORE__DAGS_FOLDER": f"{place.work}/dags",
        "AIRFLOW_CONN_STRATA_DEFAULT": json.dumps({"conn_type": "strata", "extra": stores}),
        "AIRFLOW_CONN_STRATA_SPARK": json.dumps(
            {"conn_type": "spark", "host": "local[1]", "extra": spark}
        ),
    }
    (place.work / "dags").mkdir()
    (place.work / "dags" / "installed.py").write_text(DAG)
    place.run("airflow", "db", "migrate", **variables)

    found = place.run(
        "airflow", "providers", "get", "airflow-provider-strata", "-o", "json", **variables
    )
    assert "airflow-provider-strata" in found.stdout
    hooks = place.run("airflow", "providers", "hooks", "-o", "json", **variables).stdout
    assert "strata_airflow.hooks.StrataHook" in hooks
    assert "strata" in place.run("airflow", "plugins", "-o", "json", **variables).stdout
    place.run("airflow", "dags", "test", "installed", **variables)

    at = {"STRATA__STORE__BLOB": stores["blob"], "STRATA__STORE__CONSENSUS": stores["consensus"]}
    shards = json.loads(place.run("strata", "shards", "--json", **at).stdout)["shards"]
    assert [(one["shard"], one["updates"]) for one in shards] == [("orders", 4000)]

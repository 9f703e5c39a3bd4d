"""The files of deploy/ say what the cluster demo runs; their steps run without containers."""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import pytest
import sqlalchemy as sa
import yaml
from packaging.requirements import Requirement

import strata
from demo import airflow as demo_airflow
from demo import cluster
from strata.config.settings import load_settings
from strata.errors import StrataError
from strata.model.settings import StoreSettings
from strata.store.open import open_stores
from tests.support import postgres, seaweed
from tests.support.containers import DEPLOY, PROJECT, asked_for, services, steps

GIVEN: Final = {name: f"given-{name}" for name in asked_for()}
SERVICES: Final = services(GIVEN)
OURS: Final = {name: one for name, one in SERVICES.items() if one["image"] == "strata"}
AIRFLOWS: Final = {name: one for name, one in OURS.items() if name.startswith("airflow-")}
SETTINGS: Final = load_settings(str(DEPLOY / "strata.toml"), {})
EXTRAS: Final = ("spark", "s3", "postgres", "ui", "validate")
SECRET: Final = re.compile(r"PASSWORD$|SECRET|KEY")


def first() -> ModuleType:
    """Return deploy/first.py, which is no part of a package."""
    spec = importlib.util.spec_from_file_location("first", DEPLOY / "first.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def of_kind(kind: str) -> list[list[str]]:
    return [step.words for step in steps() if step.kind == kind]


def variables() -> dict[str, str]:
    return dict(words[0].split("=", 1) for words in of_kind("ENV"))


def copied() -> dict[str, str]:
    """Return each source of the Dockerfile with the folder that it goes to."""
    return {source: words[-1] for words in of_kind("COPY") for source in words[:-1]}


def toml(file: str) -> dict[str, Any]:
    return tomllib.loads((PROJECT / file).read_text("utf-8"))


# ---------------------------------------------------------------------------- the image


def test_what_is_copied_exists_and_nothing_else_reaches_the_build() -> None:
    wheels = [
        f"{name}-{strata.__version__}-py3-none-any.whl"
        for name in ("strata_shards", "airflow_provider_strata")
    ]
    for source in copied():
        if source.startswith("dist/"):
            assert [w for w in wheels if fnmatch(f"dist/{w}", source)], source
        else:
            assert (PROJECT / source).exists(), source
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert "*" in lines
    assert sorted(line[1:] for line in lines if line.startswith("!")) == sorted(copied())


def test_pip_takes_hashed_lists_and_these_wheels_only() -> None:
    installs = [words for words in of_kind("RUN") if words[1:2] == ["install"]]
    assert len(installs) == 3
    lists = {
        f"{place}{Path(source).name}"
        for source, place in copied().items()
        if source.startswith("requirements/")
    }
    taken = set()
    for words in installs:
        assert "--no-deps" in words
        if "-r" in words:
            assert "--require-hashes" in words
            taken.add(words[words.index("-r") + 1])
        else:
            assert words[-1] == f"{copied()['dist/strata_shards-*.whl']}*.whl"
    assert taken == lists
    text = "".join(step.text for step in steps())
    assert "://" not in text
    assert "registry" not in text


def test_the_lists_hold_what_the_wheels_ask_for() -> None:
    runtime = (PROJECT / "requirements/runtime.txt").read_text("utf-8")
    pins = dict(re.findall(r"^([a-z0-9.-]+)==(\S+)", runtime, re.M))
    engine, provider = toml("pyproject.toml")["project"], toml("plugins/pyproject.toml")["project"]
    asked = [*engine["dependencies"], *provider["dependencies"]]
    asked += [line for extra in EXTRAS for line in engine["optional-dependencies"][extra]]
    wanted = [Requirement(line) for line in asked]
    assert {r.name for r in wanted} >= {"pyspark", "boto3", "psycopg", "apache-airflow"}
    for one in wanted:
        if one.name != engine["name"]:
            assert one.specifier.contains(pins[one.name]), one


def test_nobody_in_the_image_is_root() -> None:
    kinds = [step.kind for step in steps()]
    assert of_kind("USER") == [["strata"]]
    assert "RUN" not in kinds[kinds.index("USER") :]
    assert any(words[0] == "useradd" for words in of_kind("RUN"))
    assert [name for name, one in OURS.items() if "user" in one] == []


def test_the_base_and_java_are_arguments_and_new_enough() -> None:
    given = dict(words[0].split("=") for words in of_kind("ARG") if "=" in words[0])
    assert of_kind("FROM") == [["${PYTHON_IMAGE}"]]
    python = re.search(r"3\.(\d+)", given["PYTHON_IMAGE"])
    assert python is not None
    assert f"python{python[0]}/site-packages/pyspark" in variables()["SPARK_HOME"]
    assert [f"python{python[0]}", "-m", "venv", "/opt/strata"] in of_kind("RUN")
    java = re.search(r"openjdk-(\d+)-jre-headless", given["JAVA_PACKAGE"])
    assert java is not None
    from strata.config.environment import JAVA_FLOOR

    assert int(java[1]) >= JAVA_FLOOR


def test_every_module_and_program_that_is_started_is_there() -> None:
    commands = [*first().COMMANDS, *(one["command"] for one in OURS.values())]
    commands += [one["healthcheck"]["test"][1:] for one in OURS.values() if "healthcheck" in one]
    commands += [json.loads(step.text) for step in steps() if step.kind == "CMD"]
    for words in commands:
        assert (Path(sys.executable).parent / words[0]).exists(), words
    for words in [*of_kind("RUN"), *commands]:
        if "-m" in words:
            name = words[words.index("-m") + 1]
            assert importlib.util.find_spec(name) is not None, name
    for words in commands:
        if words[0] == "python" and words[1].startswith("/"):
            place = Path(words[1])
            assert copied()[f"deploy/{place.name}"] == f"{place.parent}/"


# ---------------------------------------------------------------------------- settings


def test_the_settings_lead_to_what_the_image_and_the_services_have() -> None:
    assert variables()["STRATA_CONFIG"] == copied()["deploy/strata.toml"] + "strata.toml"
    assert f"{SETTINGS.shards_dir}/" == copied()["config/shards"]
    assert f"{SETTINGS.filters_dir}/" == copied()["config/filters"]
    store = open_stores(SETTINGS.store).settings  # the addresses are understood; nothing is asked
    assert sa.make_url(store.consensus).password is None
    assert sa.make_url(store.consensus).host in SERVICES
    assert (
        sa.make_url(store.consensus).username
        == SERVICES["postgres"]["environment"]["POSTGRES_USER"]
    )
    assert (
        sa.make_url(store.consensus).database == SERVICES["postgres"]["environment"]["POSTGRES_DB"]
    )
    endpoint = first().S3Address.parse(store.blob).endpoint
    name, port = endpoint.removeprefix("http://").split(":")
    assert f"-s3.port={port}" in SERVICES[name]["command"]
    for one in AIRFLOWS.values():
        assert f"{one['environment']['AIRFLOW__CORE__DAGS_FOLDER']}/" == copied()["dags"]


def test_drivers_and_workers_share_the_folders_that_both_write() -> None:
    both = [mounts(OURS[name]) for name in ("airflow-scheduler", "spark-worker")]
    shared = {place for place, volume in both[0].items() if both[1].get(place) == volume}
    results = OURS["airflow-scheduler"]["environment"]["STRATA_RESULTS"]
    for folder in (SETTINGS.store.landing, SETTINGS.validate.report_dir, results):
        assert any(Path(folder).is_relative_to(place) for place in shared), folder
    (made,) = (words for words in of_kind("RUN") if words[0] == "useradd")
    for one in OURS.values():
        assert mounts(one).keys() <= set(made[made.index("chown") :])
    assert {v for one in SERVICES.values() for v in mounts(one).values() if "/" not in v} == set(
        yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))["volumes"]
    )


def mounts(service: dict[str, Any]) -> dict[str, str]:
    pairs = (volume.split(":") for volume in service.get("volumes", ()))
    return {pair[1]: pair[0] for pair in pairs}


def test_every_variable_is_one_that_somebody_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder,) = importlib.util.find_spec("airflow").submodule_search_locations  # type: ignore[union-attr]
    described = yaml.safe_load(Path(folder, "config_templates/config.yml").read_text("utf-8"))
    known = {
        f"AIRFLOW__{section}__{option}".upper()
        for section, of in described.items()
        for option in of["options"]
    }
    for name in set(os.environ):
        monkeypatch.delenv(name)
    demo = demo_airflow.environment(tmp_path, PROJECT / "config/local.toml", 1, schedules=False)
    known |= demo.keys() | cluster.worker_environment().keys()
    known |= {"PGPASSWORD", first().PASSWORD, first().USERS, first().PASSWORDS_FILE}
    for name, one in OURS.items():
        assert one.get("environment", {}).keys() <= known, name
        load_settings(str(DEPLOY / "strata.toml"), one.get("environment", {}))
    assert variables().keys() <= known | {"PATH", "SPARK_HOME"}


# ---------------------------------------------------------------------------- secrets and ports


def test_ports_are_published_on_the_loopback_only() -> None:
    published = [port for one in SERVICES.values() for port in one.get("ports", ())]
    assert len(published) == 2
    for port in published:
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port), port
    assert [
        name for name, one in SERVICES.items() if "network_mode" in one or "privileged" in one
    ] == []


def test_every_secret_is_given_from_outside() -> None:
    text = (DEPLOY / "compose.yaml").read_text("utf-8")
    assert set(re.findall(r"\$\{(\w+):\?", text)) == set(asked_for())
    assert text.count("${") == len(re.findall(r"\$\{\w+:\?[^}]+\}", text)), "one has a default"
    for name in asked_for():
        with pytest.raises(KeyError, match=name):
            services({**GIVEN, name: ""})
    for line in (DEPLOY / "env.example").read_text("utf-8").splitlines():
        assert line.startswith("#") or line.endswith("="), "a value in the example"
    assert ".env" in (PROJECT / ".gitignore").read_text("utf-8").splitlines()
    for name, one in SERVICES.items():
        for variable, value in one.get("environment", {}).items():
            if SECRET.search(variable):
                assert value.startswith("given-"), f"{name}: {variable}"
    assert "PGPASSWORD" not in OURS["spark-worker"]["environment"]  # executors see no database


# ---------------------------------------------------------------------------- as in the demo


def options(words: list[str]) -> set[str]:
    return {word.partition("=")[0] for word in words if word.startswith("-")}


def test_spark_starts_as_in_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    started: dict[str, list[str]] = {}

    class Recorder:
        def start(self, name: str, command: list[str], *_: object) -> None:
            started[name] = command

    monkeypatch.setattr(cluster, "_until", lambda *_: None)
    master = cluster._spark(Recorder())
    for name, there in (("spark-master", "master"), ("spark-worker", "worker-1")):
        ours, demo = OURS[name]["command"], started[there]
        assert (ours[0], ours[1]) == (Path(demo[0]).name, demo[1])
        assert options(ours) == options(demo)
        assert ours[ours.index("--host") + 1] == name == OURS[name]["hostname"]
    address = OURS["spark-worker"]["command"][-1]
    port = OURS["spark-master"]["command"][OURS["spark-master"]["command"].index("--port") + 1]
    assert address == f"spark://spark-master:{port}" == SETTINGS.spark.master
    assert started["worker-1"][-1] == master


def test_jobs_are_submitted_as_in_the_demo() -> None:
    text = OURS["airflow-scheduler"]["environment"]["AIRFLOW_CONN_STRATA_SPARK"]
    connection, demo = json.loads(text), json.loads(connection_of_the_demo())
    assert connection["host"] == SETTINGS.spark.master
    conf = connection["extra"].pop("spark-conf")
    assert connection["extra"] == {
        name: value
        for name, value in demo["extra"].items()
        if name not in ("spark-conf", "driver-java-options")
    }
    # Executors have Strata in their image, and the flag of short jobs is the demo's.
    elsewhere = {"spark.archives", "spark.executor.extraJavaOptions"}
    assert conf.keys() == cluster.CONF.keys() - elsewhere
    places = {"spark.pyspark.python", "spark.driver.host", "spark.driver.bindAddress"}
    for name in conf.keys() - places:
        assert conf[name] == cluster.CONF[name], name
    assert conf["spark.driver.host"] == OURS["airflow-scheduler"]["hostname"]
    venv = next(words[-1] for words in of_kind("RUN") if "venv" in words)
    image = json.loads((PROJECT / "config/deploy/kubernetes-client.json").read_text("utf-8"))
    assert conf["spark.pyspark.python"] == f"{venv}/bin/python"
    assert image["extra"]["spark-conf"]["spark.pyspark.python"] == conf["spark.pyspark.python"]


def connection_of_the_demo() -> str:
    return next(iter(cluster._connection("spark://somewhere:1").values()))


def test_airflow_has_the_processes_of_the_demo() -> None:
    commands = [one["command"][1:] for one in AIRFLOWS.values()]
    assert commands == list(demo_airflow.COMPONENTS.values())
    variable = AIRFLOWS["airflow-api"]["environment"]
    assert variable["AIRFLOW__CORE__EXECUTION_API_SERVER_URL"] == (
        f"http://airflow-api:{variable['AIRFLOW__API__PORT']}/execution/"
    )
    assert sa.make_url(variable["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]).host in SERVICES
    (folder,) = importlib.util.find_spec("airflow").submodule_search_locations  # type: ignore[union-attr]
    sources = [file.read_text("utf-8") for file in Path(folder, "jobs").glob("*_runner.py")]
    jobs = re.findall(r'job_type = "(\w+)"', "".join(sources))
    for one in AIRFLOWS.values():
        words = one["healthcheck"]["test"]
        if "--job-type" in words:
            assert words[words.index("--job-type") + 1] in jobs


def test_whoever_is_waited_for_says_when_it_is_ready() -> None:
    waits = 0
    for one in SERVICES.values():
        for name, how in one.get("depends_on", {}).items():
            waits += 1
            if how["condition"] == "service_healthy":
                assert SERVICES[name]["healthcheck"]["test"][0] == "CMD"
            else:
                assert SERVICES[name]["restart"] == "no"
    assert waits >= 6


# ---------------------------------------------------------------------------- run here


@pytest.fixture
def store(tmp_path: Path) -> Iterator[str]:
    """Start the store with the words of compose.yaml, places and ports replaced; give its S3."""
    program = seaweed._program()
    master, volume, filer, s3 = seaweed._free_ports(4)
    replaced = {
        "-ip": "127.0.0.1",
        "-ip.bind": "127.0.0.1",
        "-dir": str(tmp_path),
        "-s3.port": str(s3),
    }
    words = []
    for word in SERVICES["s3"]["command"]:
        name, equals, value = word.partition("=")
        words.append(f"{name}{equals}{replaced.get(name, value)}")
    words += [f"-master.port={master}", f"-volume.port={volume}", f"-filer.port={filer}"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(program), *words],
            env={**os.environ, **seaweed.IDENTITY},
            cwd=tmp_path,
            stdout=log,
            stderr=log,
            preexec_fn=postgres.die_with_parent,  # noqa: PLW1509  no thread starts it
        )
    try:
        endpoint = f"http://127.0.0.1:{s3}"
        assert seaweed._answers(endpoint, process), (tmp_path / "log").read_text(errors="replace")
        yield endpoint
    finally:
        process.kill()  # it takes its time to end otherwise, and nothing of it is kept
        process.wait()


def test_the_store_takes_our_key_and_no_other(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in seaweed.IDENTITY.items():
        monkeypatch.setenv(name, value)
    place = SETTINGS.store.blob.replace("http://s3:8333", store).replace(
        "s3://strata/", "s3://new/"
    )
    first().make_bucket(place)
    first().make_bucket(place)
    blob = open_stores(StoreSettings(blob=place, consensus="memory://deploy")).blob
    blob.set("a", b"here")
    assert blob.get("a") == b"here"
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises(StrataError):
        open_stores(StoreSettings(blob=place, consensus="memory://deploy")).blob.get("a")


def test_the_store_is_the_release_that_is_tested_here() -> None:
    said = subprocess.run(
        [seaweed._program(), "version"], capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"\b\d+\.\d+\b", said)
    assert found is not None
    assert SERVICES["s3"]["image"] == f"chrislusf/seaweedfs:{found[0]}"
    # what the demo's store is started with, but for its file of identities
    text = (PROJECT / "tests/support/seaweed.py").read_text("utf-8")
    assert options(SERVICES["s3"]["command"]) <= set(re.findall(r'"(-[\w.]+)', text)) | set(
        re.findall(r'f"(-[\w.]+)=', text)
    )


def test_the_databases_are_made_once(tmp_path: Path) -> None:
    server = postgres.Server(postgres._QUICK)
    try:
        engine = sa.create_engine(server.address, isolation_level="AUTOCOMMIT")
        script = (DEPLOY / "databases.sql").read_text("utf-8")
        with engine.connect() as connection:
            connection.execute(sa.text(script))
            names = set(connection.scalars(sa.text("SELECT datname FROM pg_database")))
        engine.dispose()
    finally:
        server.close()
    address = AIRFLOWS["airflow-api"]["environment"]["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    assert sa.make_url(address).database in names
    assert any("databases.sql" in volume for volume in SERVICES["postgres"]["volumes"])


def test_the_password_of_airflow_is_kept_from_others(tmp_path: Path) -> None:
    module, file = first(), tmp_path / "passwords.json"
    users = AIRFLOWS["airflow-api"]["environment"][module.USERS]
    given = {module.USERS: users, module.PASSWORDS_FILE: str(file), module.PASSWORD: "secret"}
    module.keep_password(given)
    module.keep_password({**given, module.PASSWORD: "changed"})
    assert json.loads(file.read_text("utf-8")) == {"admin": "changed"}
    assert file.stat().st_mode & 0o077 == 0

"""Each connection in config/deploy gives the spark-submit that docs/how-to/deploy.md promises."""

import json
from pathlib import Path

import pytest
from airflow.providers.apache.spark.hooks import spark_submit

from strata.config.settings import load_settings
from strata_airflow import spark
from strata_airflow.setup import VARIABLE

pytestmark = pytest.mark.dags

CONFIG = Path(__file__).parents[2] / "config"
PROFILES = sorted((CONFIG / "deploy").glob("*.json"))


def submitted(profile: Path, monkeypatch) -> tuple[list[str], dict[str, str]]:
    """Return the command that the operator would start, and the environment on top of its own."""
    monkeypatch.setenv(VARIABLE, profile.read_text())
    # Without this package, which is not among our requirements, the hook refuses Kubernetes.
    monkeypatch.setattr(spark_submit, "kube_client", object(), raising=False)
    job = spark.spark_job("compact")
    job._prepare_submission(spark.connection_extra(spark.CONNECTION))
    hook = job._get_hook()
    return hook._build_spark_submit_command(job.application), hook._env or {}


def test_there_is_a_profile_for_every_cluster_that_takes_python() -> None:
    assert [file.stem for file in PROFILES] == [
        "kubernetes-client",
        "kubernetes-cluster",
        "standalone-client",
        "yarn-client",
        "yarn-cluster",
    ]


@pytest.mark.parametrize("profile", PROFILES, ids=lambda file: file.stem)
def test_a_profile_becomes_a_command(profile: Path, monkeypatch) -> None:
    command, environment = submitted(profile, monkeypatch)
    told = " ".join(command)
    wanted = json.loads(profile.read_text())
    conf = dict(command[i + 1].split("=", 1) for i, word in enumerate(command) if word == "--conf")
    assert command[command.index("--master") + 1] == wanted["host"]
    assert command[command.index("--deploy-mode") + 1] == wanted["extra"]["deploy-mode"]
    for name, value in wanted["extra"]["spark-conf"].items():
        assert conf[name] == value
    assert conf["spark.speculation"] == "true"
    assert int(conf["spark.task.maxFailures"]) >= 4
    # A driver elsewhere gets no path of this machine, and nobody a secret.
    if wanted["extra"]["deploy-mode"] == "cluster":
        here = [w for w in conf.values() if str(CONFIG.parent) in w or "/.venv/" in w]
        assert here == []
        assert environment == {}
    assert "SECRET" not in told.upper()


def test_the_settings_for_a_cluster_are_valid_and_hold_no_password() -> None:
    settings = load_settings(str(CONFIG / "cluster.toml"), {})
    assert settings.store.blob.startswith("s3://")
    assert "@" in settings.store.consensus
    assert ":" not in settings.store.consensus.removeprefix("postgresql://").split("@")[0]

"""What Airflow's processes are told: one secret, one port, loopback only, nothing phoned home."""

import json
import socket

import pytest

from demo import airflow
from demo.places import write_config
from strata.config.settings import load_settings
from strata.model.settings import Thresholds
from strata.rollout.policy import policy_of
from strata.store.open import open_stores


@pytest.fixture
def environment(tmp_path):
    config = write_config(tmp_path / "demo")

    def make(**answers):
        home = tmp_path / "airflow"
        home.mkdir(exist_ok=True)
        return airflow.environment(home, config, 18080, **answers)

    return make


def test_secrets_are_made_once_and_for_the_owner_only(environment, tmp_path):
    first, second = environment(schedules=False), environment(schedules=False)
    secret = "AIRFLOW__API_AUTH__JWT_SECRET"
    assert len(first[secret]) >= 64
    assert first[secret] == second[secret]
    assert (tmp_path / "airflow" / "secrets.json").stat().st_mode & 0o077 == 0


def test_every_address_is_on_the_loopback_and_follows_the_port(environment):
    env = environment(schedules=False)
    assert env["AIRFLOW__API__HOST"] == "127.0.0.1"
    addresses = [value for value in env.values() if value.startswith("http://127.")]
    assert len(addresses) >= 2
    assert all(value.startswith("http://127.0.0.1:18080") for value in addresses)
    assert env["AIRFLOW__USAGE_DATA_COLLECTION__ENABLED"] == "False"


def test_an_airflow_of_the_users_own_does_not_leak_in(environment, monkeypatch):
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "CeleryExecutor")
    monkeypatch.setenv("AIRFLOW_CONN_STRATA_SPARK", "{}")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    env = environment(schedules=True)
    assert "AIRFLOW__CORE__EXECUTOR" not in env
    assert "PYTHONDONTWRITEBYTECODE" not in env
    assert json.loads(env["AIRFLOW_CONN_STRATA_SPARK"])["host"].startswith("local")
    assert env["STRATA_SCHEDULES"] == "on"


def test_the_port_is_remembered_while_it_is_free(tmp_path):
    port = airflow._port(tmp_path)
    assert airflow._port(tmp_path) == port
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        assert airflow._port(tmp_path) != port


def test_without_an_airflow_there_is_no_address_and_nothing_to_stop(tmp_path, capsys):
    assert airflow.address(tmp_path) == ""
    assert airflow.down(tmp_path) == 0
    assert "nothing was running" in capsys.readouterr().out


def test_people_are_told_how_to_log_in(tmp_path):
    assert "administrator" in airflow.log_in(tmp_path, ())
    said = airflow.log_in(tmp_path, ("ann", "bob:user"))
    assert said == airflow.log_in(tmp_path, ("ann", "bob:user"))
    (ann, first), (bob, second) = (one.split(" ") for one in said.split(", "))
    assert (ann, bob) == ("ann", "bob")
    assert len({first, second}) == 2
    assert (tmp_path / airflow.PASSWORDS).stat().st_mode & 0o077 == 0


def test_two_people_have_gates_that_one_night_passes(tmp_path):
    config = write_config(tmp_path / "demo")
    settings = load_settings(str(config), {})

    def gates():
        return policy_of(open_stores(settings.store), settings.rollout).gates

    assert "thousands" in airflow.gates_of_a_demo(config, ["ann"])
    assert gates() == Thresholds()
    assert "cy asked, dan agreed" in airflow.gates_of_a_demo(config, ["cy", "dan:user"])
    assert (gates().audit_parts, gates().on_days) == (1, 1)
    assert "agreed before" in airflow.gates_of_a_demo(config, ["cy", "dan:user"])


def test_the_schedules_end_with_the_last_day_that_has_files(tmp_path):
    folder = tmp_path / "landing" / "flights"
    folder.mkdir(parents=True)
    for day in ("2013-12-31", "2013-02-01"):
        (folder / f"{day}.csv").touch()
    assert airflow.last_day(tmp_path) == "2013-12-31"
    assert "2013-12-31" in airflow.about_schedules(schedules=True, last="2013-12-31")
    assert airflow.about_schedules(schedules=False, last="2013-12-31").startswith("off")

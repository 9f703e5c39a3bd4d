"""The console inside Airflow: it asks who is there, and reads the stores of the settings."""

import re
import warnings
from functools import partial
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette would like another HTTP client in its test client
    from airflow.api_fastapi.core_api.security import get_user
    from fastapi.testclient import TestClient

from strata.cli.app import main
from strata.config.settings import load_settings
from strata.machine.machine import Machine
from strata.model.settings import StoreSettings
from strata.rollout import ladder
from strata.rollout.policy import Policy
from strata.store.open import open_stores
from strata_airflow import console
from strata_airflow.places import PROJECT

pytestmark = [pytest.mark.dags, pytest.mark.filterwarnings("ignore")]
SPEC = "name: s\ncolumns: [{name: id, type: int64}]\nkey: [id]\nsource: {format: jsonl}\n"


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    config = tmp_path / "strata.toml"
    config.write_text(
        f'[store]\nblob = "file://{tmp_path}/blob"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
    )
    (tmp_path / "s.yaml").write_text(SPEC)
    with pytest.raises(SystemExit):
        main(["create", "s", "--spec", str(tmp_path / "s.yaml"), "--config", str(config)])
    monkeypatch.setenv("STRATA_CONFIG", str(config))
    return console._application()


def test_every_page_depends_on_a_user_who_may(app):
    assert app.openapi_url is app.docs_url is app.redoc_url is None
    for route in app.routes:
        asked = [d.call for d in route.dependant.dependencies]
        below = [d.call for each in route.dependant.dependencies for d in each.dependencies]
        assert get_user in asked + below, route.path


@pytest.mark.parametrize(
    "page", ["/", "/shards/s", "/shards/s/rollout", "/shards/s/audits", "/shards/nothing"]
)
def test_nobody_sees_a_page_without_a_token(app, page):
    answer = TestClient(app, follow_redirects=False).get(page)
    assert answer.status_code in (401, 403)
    assert "shard" not in answer.text.lower()


def test_who_may_sees_the_shards_of_the_settings_below_the_prefix(app):
    for dependency in [d for route in app.routes for d in route.dependant.dependencies]:
        app.dependency_overrides[dependency.call] = lambda: None
    seen = TestClient(app, root_path="/strata")
    assert 'href="/strata/shards/s"' in seen.get("/").text
    plain = seen.get("/shards/s", params={"where": "id > 1"})
    other = seen.get("/shards/s", params={"where": "id * 2 = 2"})
    assert (plain.status_code, other.status_code) == (200, 200)
    refusal = "columns that are compared with constants"  # no Java machine starts in the server
    assert (refusal in plain.text, refusal in other.text) == (False, True)


def test_relative_stores_begin_where_jobs_start():
    placed = console.placed(StoreSettings(blob="file://.strata/b", consensus="sqlite:///.strata/c"))
    assert placed.blob == f"file://{PROJECT}/.strata/b"
    assert placed.consensus == f"sqlite:///{PROJECT}/.strata/c"
    whole = StoreSettings(blob="file:///b", consensus="sqlite:////c")
    assert console.placed(whole) == whole
    far = StoreSettings(blob="s3://bucket/x", consensus="postgresql://host/x")
    assert console.placed(far) == far


def test_a_task_leads_to_its_only_shard(monkeypatch: pytest.MonkeyPatch):
    from types import SimpleNamespace

    link = console.ShardLink()

    def of(shards: str, flag: object) -> str:
        task = SimpleNamespace(shards=shards, arguments={"--shard": flag})
        return link.get_link(task, ti_key=None)

    assert of("", "a b").endswith("/strata/")
    assert of("", None).endswith("/strata/")
    assert of("fl/ights", "").endswith("/strata/shards/fl%2Fights")
    assert of("", "flights").endswith("/strata/shards/flights")


# ---------------------------------------------------------------------------- who may answer


class Somebody:
    def __init__(self, number: str, name: str = "") -> None:
        self.number, self.name = number, name or number

    def get_id(self) -> str:
        return self.number

    def get_name(self) -> str:
        return self.name


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch):
    """Return what the auth manager was asked; it lets everybody answer but `viewer`."""
    from airflow.api_fastapi import app
    from airflow.models.dag import DagModel

    found: list[dict[str, object]] = []

    class Manager:
        def is_authorized_dag(self, **how: object) -> bool:
            found.append(how)
            return how["user"].get_id() != "viewer"  # type: ignore[attr-defined]

    monkeypatch.setattr(app, "get_auth_manager", Manager)
    monkeypatch.setattr(DagModel, "get_team_name", lambda *_, **__: None)
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "False")
    return found


def test_who_may_answer_required_actions_may_answer_here(asks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STRATA_PEOPLE", "Ann Lee=3, bob=7")
    assert console.answerer(Somebody("7", "robert")) == "bob"  # names may change, ids do not
    assert (asks[0]["method"], asks[0]["access_entity"].name) == ("PUT", "HITL_DETAIL")
    assert asks[0]["details"].id == console.GATE


def test_who_may_only_look_may_not_answer(asks, monkeypatch: pytest.MonkeyPatch):
    assert console.answerer(Somebody("viewer")) is None
    monkeypatch.setenv("STRATA_PEOPLE", "ann=3")
    assert console.answerer(Somebody("9", "ann")) is None  # another account of the same name
    assert console.answerer(Somebody("3")) == "ann"
    monkeypatch.setenv("STRATA_PEOPLE", "ann")  # malformed: the page is shown all the same
    assert console.answerer(Somebody("3")) is None


def test_where_everybody_is_an_administrator_nobody_is_known(asks, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS", "True")
    assert console.answerer(Somebody("Anonymous")) is None
    assert asks == []


def test_the_gate_is_a_dag_of_ours():
    assert (PROJECT / "dags" / f"{console.GATE}.py").exists()


def test_all_processes_sign_alike_and_with_another_key_than_airflow(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("AIRFLOW__API__SECRET_KEY", "one")
    assert console._secret() == console._secret() != b"one"
    before = console._secret()
    monkeypatch.setenv("AIRFLOW__API__SECRET_KEY", "two")
    assert console._secret() != before


def test_nobody_answers_without_a_token(app):
    seen = TestClient(app, follow_redirects=False)
    answer = seen.post("/shards/s/rollout", data={"answer": "approve"})
    assert answer.status_code in (401, 403)


# ---------------------------------------------------------------------------- as Airflow knows them

ORIGIN = "http://testserver"


@pytest.fixture
def known(app, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return what makes a browser of a person whom Airflow's own auth manager knows.

    Of Airflow only its database is missing: no token was revoked, and no DAG belongs to a team.
    """
    from airflow.api_fastapi import app as served
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser
    from airflow.models.dag import DagModel
    from airflow.models.revoked_token import RevokedToken

    people = {"alice": "user", "bob": "user", "eve": "viewer"}
    for name, value in {
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{n}:{r}" for n, r in people.items()),
        "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(tmp_path / "passwords"),
        "API_AUTH__JWT_SECRET": "a secret of this test, and long enough to sign with",
        "API__SECRET_KEY": "another",
    }.items():
        monkeypatch.setenv(f"AIRFLOW__{name}", value)
    monkeypatch.setattr(RevokedToken, "is_revoked", lambda *_, **__: False)
    monkeypatch.setattr(DagModel, "get_team_name", lambda *_, **__: None)
    manager = SimpleAuthManager()
    monkeypatch.setattr(served._AuthManagerState, "instance", manager)

    def browser(name: str, token: str = "") -> TestClient:
        user = SimpleAuthManagerUser(username=name, role=people[name])
        seen = TestClient(console._application(), base_url=ORIGIN, follow_redirects=False)
        seen.cookies.set("_token", token or manager.generate_jwt(user))
        return seen

    return browser


@pytest.fixture
def asked(app) -> Machine:
    """Return the machine of the console's stores; alice asks for a step of `s`."""
    import os

    machine = Machine(open_stores(load_settings(os.environ["STRATA_CONFIG"], {}).store))
    ask = partial(ladder.ask, to="soft", percent=0, who="alice", reason="now", policy=Policy())
    machine.apply("s", ask)
    return machine


def form(page: str, answer: str = "approve") -> dict[str, str]:
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
    return {**hidden, "answer": answer, "reason": "I looked at it"}


def test_a_person_of_airflow_answers_and_is_named(known, asked: Machine):
    bob = known("bob")
    page = bob.get("/shards/s/rollout")
    assert "You answer as bob" in page.text
    answer = bob.post("/shards/s/rollout", data=form(page.text), headers={"origin": ORIGIN})
    assert (answer.status_code, answer.headers["location"]) == (303, "/shards/s/rollout")
    rollout = asked.load("s").rollout
    assert (rollout.mode, rollout.changed_by) == ("soft", "bob")
    again = bob.post("/shards/s/rollout", data=form(page.text), headers={"origin": ORIGIN})
    assert again.status_code == 409


def test_a_viewer_of_airflow_looks_and_does_not_answer(known, asked: Machine):
    stolen = form(known("bob").get("/shards/s/rollout").text)
    eve = known("eve")
    page = eve.get("/shards/s/rollout")
    assert page.status_code == 200
    assert "<form" not in page.text
    answer = eve.post("/shards/s/rollout", data=stolen, headers={"origin": ORIGIN})
    assert answer.status_code == 403
    assert asked.load("s").rollout.request is not None


def test_who_asks_in_airflow_does_not_approve(known, asked: Machine):
    stolen = form(known("bob").get("/shards/s/rollout").text)
    alice = known("alice")
    page = alice.get("/shards/s/rollout").text
    assert "You cannot approve it" in page
    for sent in (form(page), stolen):
        answer = alice.post("/shards/s/rollout", data=sent, headers={"origin": ORIGIN})
        assert answer.status_code == 409
    assert asked.load("s").rollout.mode == "off"


def test_another_site_and_a_forged_token_answer_nothing(known, asked: Machine):
    bob = known("bob")
    sent = form(bob.get("/shards/s/rollout").text)
    for headers in ({}, {"origin": "http://evil.example"}, {"origin": "null"}):
        assert bob.post("/shards/s/rollout", data=sent, headers=headers).status_code == 403
    forged = known("bob", token="e30.e30.e30")
    answer = forged.post("/shards/s/rollout", data=sent, headers={"origin": ORIGIN})
    assert answer.status_code in (401, 403)
    assert asked.load("s").rollout.mode == "off"


def test_dags_runs_and_tasks_have_a_tab_that_airflow_shows() -> None:
    """Without a route of its own a view is listed and has no tab: there was none anywhere."""
    from strata_airflow.plugin import StrataPlugin

    shards = [view for view in StrataPlugin.external_views if view["name"] == "Shards"]
    routes = {view["destination"]: view.get("url_route") for view in shards}
    assert set(routes) == {"nav", "dag", "dag_run", "task", "task_instance"}
    assert routes.pop("nav") is None
    assert all(routes.values())
    assert len(set(routes.values())) == len(routes)

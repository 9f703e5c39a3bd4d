"""S4, S5, S10, S12 against an Airflow that runs, by its own REST interface, as people with roles.

One Airflow for all; each attack has a shard of its own. No attack waits for one before it.
"""

import hashlib
import sqlite3
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from demo.api import ENDED
from strata.config.settings import load_settings
from strata.config.shards import ensure_shards
from strata.machine.machine import Machine
from strata.rollout import ladder, policy
from strata.rollout.people import Person
from strata.rollout.policy import Policy
from strata.state.state import State
from strata.store.open import Stores, open_stores
from tests.attacks.visitor import Visitor
from tests.integration.world import DAYS, World, day, take_in, world

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

GATE: Final = "rollout_gate"
RUNS: Final = f"/api/v2/dags/{GATE}/dagRuns"
ROLES: Final = {
    "adam": "admin",
    "alice": "user",
    "bob": "user",
    "mallory": "user",
    "olga": "op",
    "eve": "viewer",
}
SHARDS: Final = ("alone", "forged", "old", "cleared", "swapped", "roles", "looked", "edited", "dry")
HUMAN_S: Final = 10  # nobody reads a question and answers it in less
ANSWER: Final = {"approver_reason": "I looked"}


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    people = [f"{name}:{role}" for name, role in ROLES.items()]
    folder = tmp_path_factory.mktemp("attacked")
    with world(folder, people=people, shards=SHARDS, hours=1) as made:
        settings = load_settings(str(made.config), {})
        for ago in range(1, DAYS + 1):
            made.land("dry", day(ago))
        for shard in SHARDS:  # the schedule's own ingest takes them all
            (folder / "landing" / shard).mkdir(parents=True, exist_ok=True)
        stores = open_stores(settings.store)
        ensure_shards(Machine(stores), settings.shards_dir, SHARDS)
        take_in(settings, day(DAYS), day(0), ["dry"])
        made.wait("the DAG", lambda: GATE in made.airflow.api.dags())
        made.airflow.api.pause(GATE, paused=False)
        yield made


@pytest.fixture(scope="module")
def people(here: World) -> dict[str, Visitor]:
    base, home = here.airflow.api.base, here.airflow.home
    return {name: Visitor(base, name, home) for name in ROLES}


@pytest.fixture
def stores(here: World) -> Stores:
    return open_stores(load_settings(str(here.config), {}).store)


class Gate:
    """The rollout of one shard, seen from Airflow and from the store."""

    def __init__(self, here: World, people: dict[str, Visitor], stores: Stores) -> None:
        self.here, self.people, self.machine = here, people, Machine(stores)

    def state(self, shard: str) -> State:
        return self.machine.load(shard)

    def change(self, shard: str, transition: Any, **said: Any) -> None:
        """Do as a command line would, beside Airflow."""
        self.machine.apply(shard, partial(transition, **said))

    def request(self, shard: str) -> str:
        """The open request; empty if there is none."""
        asked = self.state(shard).rollout.request
        return "" if asked is None else ladder.request_id(shard, asked)

    def trigger(self, who: str, shard: str, **conf: Any) -> str:
        body = {"logical_date": None, "conf": {"shard": shard, "reason": "it is time", **conf}}
        status, said = self.people[who].asks("POST", RUNS, body)
        assert status == 200, (status, said)
        return str(said["dag_run_id"])

    def question(self, run: str) -> dict[str, Any]:
        """What is asked, once the task waits."""
        self.waits(run, "awaiting_input")
        return self.detail(run)

    def waits(self, run: str, *states: str) -> None:
        api = self.here.airflow.api

        def there() -> bool:
            found = api.tasks(GATE, run)["question"]["state"]
            assert found in states or found not in ("failed", "upstream_failed"), self.log(run)
            return found in states

        self.here.wait(f"the question of {run}", there)
        # Answered before the scheduler knows that the task was put aside, it is asked once more.
        time.sleep(HUMAN_S)

    def detail(self, run: str) -> dict[str, Any]:
        status, said = self.people["eve"].asks("GET", self.answers(run))
        assert status == 200, (status, said)
        found: dict[str, Any] = said
        return found

    def answers(self, run: str) -> str:
        return f"{RUNS}/{quote(run)}/taskInstances/question/-1/hitlDetails"

    def answer(
        self, who: str, run: str, option: str, given: dict[str, str] = ANSWER
    ) -> tuple[int, Any]:
        """Answer with what was shown at that run and begins with `option`."""
        (chosen,) = [one for one in self.detail(run)["options"] if one.startswith(option)]
        body = {"chosen_options": [chosen], "params_input": given}
        return self.people[who].asks("PATCH", self.answers(run), body)

    def clear(self, who: str, run: str, *tasks: str, reset: bool = True) -> int:
        body = {
            "dry_run": False,
            "dag_run_id": run,
            "task_ids": tasks,
            "only_failed": False,
            "reset_dag_runs": reset,
        }
        return self.people[who].asks("POST", f"/api/v2/dags/{GATE}/clearTaskInstances", body)[0]

    def ends(self, run: str, state: str) -> str:
        """Wait for the end; return what the tasks said."""
        self.here.ends(GATE, run, state)
        return self.log(run)

    def log(self, run: str) -> str:
        return self.here.log(GATE, run)


@pytest.fixture
def gate(here: World, people: dict[str, Visitor], stores: Stores) -> Gate:
    return Gate(here, people, stores)


def test_one_person_alone_takes_no_step(gate: Gate) -> None:
    """S4. Mallory triggers, claims that Alice asks and that Bob has given a reason, and answers."""
    run = gate.trigger(
        "mallory",
        "alone",
        asked_by="alice",
        by="alice",
        triggering_user_name="alice",
        approver_reason="Bob has looked",
        request="0" * 16,
    )
    body = {"logical_date": None, "conf": {"shard": "alone", "reason": "it is time"}}
    for more in ({"triggering_user_name": "alice"}, {"run_type": "scheduled"}):
        status, _ = gate.people["mallory"].asks("POST", RUNS, body | more)
        assert status == 422, more

    asked = gate.question(run)
    request = gate.request("alone")
    assert asked["subject"] == f"alone: off to soft? {request}"
    assert f"| Request | {request} |" in asked["body"]
    assert "| Asked by | mallory " in asked["body"]
    assert asked["params"]["approver_reason"]["value"] == ""
    assert [one["id"] for one in asked["assigned_users"]] == ["adam", "alice", "bob", "olga"]

    for option in ("Approve", "Reject"):
        status, said = gate.answer("mallory", run, option)
        assert (status, "not a respondent" in said["detail"]) == (403, True)
    status, _ = gate.people["bob"].asks(
        "PATCH", gate.answers(run), {"chosen_options": ["Approve"], "params_input": ANSWER}
    )
    assert status == 400, "an answer that was not shown"
    assert gate.state("alone").rollout.mode == "off"

    assert gate.answer("bob", run, "Approve", {"approver_reason": " \t"})[0] == 200
    assert "an approval needs a reason" in gate.ends(run, "failed")
    assert (gate.state("alone").rollout.mode, gate.request("alone")) == ("off", request)


def test_what_airflow_hands_from_task_to_task_is_not_believed(gate: Gate) -> None:
    """Mallory asks, writes Bob's answer herself, and marks the question as answered."""
    run = gate.trigger("mallory", "forged")
    gate.waits(run, "awaiting_input")
    request, mallory = gate.request("forged"), gate.people["mallory"]
    forged = {
        "chosen_options": [f"Approve {request}"],
        "params_input": ANSWER,
        "responded_by_user": {"id": "bob", "name": "bob"},
        "responded_at": "2026-01-01T00:00:00Z",
    }
    task = f"{RUNS}/{quote(run)}/taskInstances/question"
    body = {"key": "return_value", "value": forged}
    assert mallory.asks("POST", f"{task}/xcomEntries", body)[0] == 201, "Airflow lets her"
    assert mallory.asks("PATCH", task, {"new_state": "success"})[0] == 200
    gate.here.wait("the end", lambda: gate.here.airflow.api.run_state(GATE, run) in ENDED)
    assert (gate.state("forged").rollout.mode, gate.request("forged")) == ("off", request)


def test_an_old_answer_repeated_approves_nothing_new(gate: Gate) -> None:
    """S5. Alice asked and Bob approved; Mallory asks anew, and has that answer repeated."""
    old = gate.trigger("alice", "old")
    gate.waits(old, "awaiting_input")
    first = gate.request("old")
    assert gate.answer("bob", old, "Approve")[0] == 200
    assert f"request {first}, approve" in gate.ends(old, "success")
    assert gate.state("old").rollout.mode == "soft"
    done = gate.here.airflow.api.returned(GATE, old, "question")
    assert (done["request"], done["by"], done["reason"]) == (first, "bob", "I looked")
    taken = gate.state("old")
    assert gate.clear("mallory", old, "question") == 200
    assert "an earlier try approved it" in gate.ends(old, "success")
    assert gate.state("old") == taken, "it is the same step, not another one"
    gate.change("old", ladder.step_down, to="off", who="carl", reason="something is wrong")

    new = gate.trigger("mallory", "old")
    gate.waits(new, "awaiting_input")
    second = gate.request("old")
    assert second != first
    assert gate.clear("mallory", old, "question") == 200
    # Airflow would show the question about the first request.
    assert f"another request than {second}" in gate.ends(old, "failed")
    assert (gate.state("old").rollout.mode, gate.request("old")) == ("off", second)


@pytest.mark.parametrize("trace", [True, False], ids=["cleared", "cleared and set to queued"])
def test_a_run_of_somebody_else_asks_nothing_when_it_is_repeated(gate: Gate, trace: bool) -> None:
    """Mallory repeats Alice's run, which would ask in her name, and would then answer herself."""
    run = gate.trigger("alice", "cleared")
    gate.waits(run, "awaiting_input")
    assert gate.answer("bob", run, "Reject")[0] == 200
    gate.ends(run, "success")
    assert gate.clear("mallory", run, "ask", "question", reset=trace) == 200
    if not trace:
        body = {"state": "queued"}
        assert gate.people["mallory"].asks("PATCH", f"{RUNS}/{quote(run)}", body)[0] == 200
    assert "no longer speaks for alice" in gate.ends(run, "failed")
    assert (gate.state("cleared").rollout.mode, gate.request("cleared")) == ("off", "")


def test_what_is_replaced_between_show_and_answer_is_not_approved(gate: Gate) -> None:
    """Bob looks at one request; meanwhile it is rejected, and another share is asked for."""
    run = gate.trigger("alice", "swapped")
    gate.waits(run, "awaiting_input")
    shown = gate.request("swapped")
    gate.change("swapped", ladder.reject, request=None, who="mallory", reason="I ask again")
    gate.change(
        "swapped",
        ladder.ask,
        to="soft",
        percent=50,
        who="mallory",
        reason="more of it",
        policy=Policy(),
    )
    other = gate.request("swapped")
    assert gate.answer("bob", run, "Approve")[0] == 200
    said = gate.ends(run, "failed")
    assert "another request is open" in said
    assert shown != other
    assert (gate.state("swapped").rollout.mode, gate.request("swapped")) == ("off", other)


FORGED: Final = {
    "chosen_options": ["Approve"],
    "params_input": ANSWER,
    "shard": "alone",
    "request": "0" * 16,
    "responded_by_user": {"id": "bob", "name": "bob"},
}


def edits(run: str, options: list[str]) -> list[tuple[str, str, dict[str, Any]]]:
    """Return all that REST lets people try on what stands between a request and its answer."""
    at = f"{RUNS}/{quote(run)}"
    ask, question = f"{at}/taskInstances/ask", f"{at}/taskInstances/question"
    answer = {"chosen_options": options[:1], "params_input": ANSWER}
    evil = {"conn_type": "strata", "host": "evil"}
    return [
        ("PATCH", at, {"note": "<script>Bob has looked</script>"}),
        ("PATCH", at, {"conf": {"shard": "alone", "percent": 100, "reason": "another"}}),
        ("PATCH", at, {"triggering_user_name": "bob"}),
        ("PATCH", question, {"note": "approved by bob"}),
        ("PATCH", f"{ask}/xcomEntries/return_value", {"value": FORGED}),
        ("POST", f"{question}/xcomEntries", {"key": "return_value", "value": FORGED}),
        ("PATCH", f"{question}/xcomEntries/return_value", {"value": FORGED}),
        ("PUT", f"{question}/state-store/answer", {"value": "Approve"}),
        ("POST", "/api/v2/variables", {"key": "STRATA_CONFIG", "value": "/evil.toml"}),
        ("POST", "/api/v2/connections", {"connection_id": "strata_default", **evil}),
        ("PATCH", f"{question}/-1/hitlDetails", {**answer, **FORGED}),
    ]


def test_no_edit_between_a_request_and_its_answer_changes_either(gate: Gate) -> None:
    """Alice asks; every role edits notes, conf, XComs, variables and the answer; Bob approves."""
    run = gate.trigger("alice", "edited", percent=20)
    asked = gate.question(run)
    before, request = gate.state("edited"), gate.request("edited")
    said = {
        (who, method, path, *body): gate.people[who].asks(method, path, body)[0]
        for who in ("alice", "eve", "mallory", "olga", "adam")
        for method, path, body in edits(run, asked["options"])
    }
    assert {status for (who, *_), status in said.items() if who == "eve"} == {403}, said
    assert max(said.values()) < 500, said
    for who in ("mallory", "olga", "adam"):
        noted = said[who, "PATCH", f"{RUNS}/{quote(run)}", "note"]
        assert noted == 200, "an edit that Airflow lets them make"
    now = gate.detail(run)
    shown = set(now) - {"task_instance"}  # which shows the note, and who wrote it
    assert {name: now[name] for name in shown} == {name: asked[name] for name in shown}
    assert gate.state("edited") == before

    assert gate.answer("bob", run, "Approve")[0] == 200
    gate.ends(run, "success")
    after = gate.state("edited")
    requested, approved = after.rollout.entries[-2:]
    assert after.rollout.mode == "soft"
    assert (requested.what, requested.by, requested.reason) == ("requested", "alice", "it is time")
    assert (approved.what, approved.by, approved.reason) == ("approved", "bob", "I looked")
    assert approved.request == requested.request == request
    assert gate.state("alone").rollout.mode == "off"

    for who in ("adam", "olga", "mallory", "alice"):
        assert gate.answer(who, run, "Reject")[0] != 200, "one answer counts"
    assert gate.state("edited") == after


def test_a_viewer_looks_and_does_nothing(gate: Gate) -> None:
    run = gate.trigger("alice", "looked")
    asked, eve = gate.question(run), gate.people["eve"]
    body = {"logical_date": None, "conf": {"shard": "looked", "reason": "it is time"}}
    task = f"{RUNS}/{quote(run)}/taskInstances/question"
    span = {"from_date": day(3).isoformat(), "to_date": day(2).isoformat()}
    tried = [
        eve.asks("POST", RUNS, body),
        gate.answer("eve", run, "Approve"),
        gate.answer("eve", run, "Reject"),
        eve.asks("PATCH", task, {"new_state": "success"}),
        eve.asks("PATCH", f"{RUNS}/{quote(run)}", {"state": "success"}),
        eve.asks("POST", f"{task}/xcomEntries", {"key": "return_value", "value": {}}),
        eve.asks("PATCH", f"/api/v2/dags/{GATE}", {"is_paused": True}),
        eve.asks("POST", "/api/v2/backfills", {"dag_id": "stats_backfill", **span}),
        (gate.clear("eve", run, "question"), ""),
    ]
    assert [status for status, _ in tried] == [403] * len(tried), tried
    assert gate.detail(run) == asked
    assert (gate.state("looked").rollout.mode, gate.state("looked").rollout.entries[-1].what) == (
        "off",
        "requested",
    )
    assert gate.answer("alice", run, "Approve")[0] == 403


def test_only_whom_the_policy_names_may_answer_whatever_the_role(
    gate: Gate, stores: Stores
) -> None:
    def agree(*approvers: str) -> None:
        """Two people change who may approve."""
        ask = partial(policy.ask, to={"approvers": approvers}, who=Person("x"), reason="y")
        asked = policy.change(stores, ask).request
        assert asked is not None
        answer = partial(policy.approve, request=policy.request_id(asked), reason="y")
        policy.change(stores, partial(answer, who=Person("olga")))

    run = gate.trigger("alice", "roles")
    assert len(gate.question(run)["assigned_users"]) == 4
    assert gate.answer("olga", run, "Reject")[0] == 200
    gate.ends(run, "success")
    agree("Olga", "alice")
    try:
        run = gate.trigger("alice", "roles")
        assert [one["id"] for one in gate.question(run)["assigned_users"]] == ["olga"]
        for who in ("adam", "bob", "mallory", "alice", "eve"):
            assert gate.answer(who, run, "Approve")[0] == 403, who
        assert gate.state("roles").rollout.mode == "off"
        assert gate.answer("olga", run, "Approve")[0] == 200
        gate.ends(run, "success")
        assert (gate.state("roles").rollout.mode, gate.state("roles").rollout.changed_by) == (
            "soft",
            "olga",
        )
    finally:
        agree()


PAGES: Final = (
    "/", "/index.html", "/index.html/", "/site", "/site/", "/site/index.html", "//index.html",
    "/%69ndex.html", "/site%2findex.html", "/validations/x.html", "/static/../index.html",
    "/static/%2e%2e/index.html", "/gx/great_expectations.yml", "/.lock", "/%2e%2e/.lock",
    "/..%2f.lock", "/docs", "/openapi.json", "/redoc", "/missing", "/index.html?token=x",
)  # fmt: skip


@pytest.fixture(scope="module")
def report(here: World) -> Path:
    """A report with secrets in it, as Airflow's own settings say where it lies."""
    folder = here.folder / "report"
    (folder / "site" / "static").mkdir(parents=True)
    (folder / "site" / "index.html").write_text("a secret page")
    (folder / "site" / "static" / "x.html").write_text("a secret page")
    (folder / "site" / "static" / "x.js").write_text("a library")
    (folder / "gx").mkdir()
    for name in (".lock", "gx/great_expectations.yml"):
        (folder / name).write_text("a secret file")
    return folder


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_nobody_sees_anything_of_the_report(
    here: World, people: dict[str, Visitor], report: Path, method: str
) -> None:
    nobody = Visitor(here.airflow.api.base)
    for page in PAGES:
        status, said = nobody.asks(method, f"/strata-report{page}")
        assert "secret" not in str(said), page
        assert status == 401, (page, status)
    # Without the slash it is no address of ours: Airflow gives the shell of its own pages.
    assert nobody.asks(method, "/strata-report") == nobody.asks(method, "/no-such-page")
    # Files that pages load had a route of their own, open to all: pages load none any more.
    assert nobody.asks(method, "/strata-report/static/x.html")[0] == 401
    assert nobody.asks(method, "/strata-report/static/x.js")[0] == 401
    assert people["eve"].asks(method, "/strata-report/static/x.js")[0] == 404, "no page"
    status, said = people["eve"].asks(method, "/strata-report/index.html")
    assert (status, said) == (200, "a secret page" if method == "GET" else "")
    for page in ("/gx/great_expectations.yml", "/.lock", "/%2e%2e/.lock", "/docs", "/openapi.json"):
        status, said = people["eve"].asks(method, f"/strata-report{page}")
        assert (status, "secret file" in str(said)) == (404, False), page
    for other in ("POST", "PUT", "DELETE", "PATCH"):
        assert nobody.asks(other, "/strata-report/index.html")[0] in (401, 405)


OPEN: Final = frozenset({"/api/v2/monitor/health", "/api/v2/version"})
LOG_IN: Final = frozenset({"/api/v2/auth/login", "/api/v2/auth/logout"})  # they lead to the form


def test_nobody_gets_anything_by_rest(here: World) -> None:
    nobody = Visitor(here.airflow.api.base)
    status, document = nobody.asks("GET", "/openapi.json")
    assert status == 200
    found = {}
    for path, methods in document["paths"].items():
        for method in methods:
            address = path.replace("{dag_id}", GATE)
            found[path, method] = nobody.asks(
                method.upper(), address, None if method in ("get", "delete") else {}
            )[0]
    assert len(found) > 80
    let_in = {path for (path, _), status in found.items() if status not in (401, 403)}
    assert let_in <= OPEN | LOG_IN, {key: found[key] for key in found if key[0] in let_in}
    for path in (RUNS, f"{RUNS}/", f"{RUNS}%2f", "/api/v2/dags/%72ollout_gate/dagRuns"):
        assert nobody.asks("GET", path)[0] in (401, 404, 307), path


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("from_time", "2013-01-01 --config=/tmp/evil.toml"),
        ("to_time", "2013-01-01\n--x"),
        ("from_time", "2013-01-01T00:00:00Z --dry-run"),
        ("shards", ["dry --config=x"]),
        ("shards", ["--config=x"]),
        ("every", "P1D --x"),
    ],
)
def test_a_field_holds_no_second_word(gate: Gate, field: str, value: object) -> None:
    form = {"from_time": "2013-01-01", "to_time": "2013-01-02", "shards": ["dry"], field: value}
    runs = gate.here.airflow.api.runs("shard_ingest")
    for conf in (form, form | {"dry_run": False}):
        body = {"logical_date": None, "conf": conf}
        status, said = gate.people["mallory"].asks(
            "POST", "/api/v2/dags/shard_ingest/dagRuns", body
        )
        assert status == 400, said
    assert gate.here.airflow.api.runs("shard_ingest") == runs


def stored(here: World) -> dict[str, str]:
    """Return what lies in the stores, byte by byte: blobs by digest, states as they are."""
    blobs = (file for file in (here.folder / "blob").rglob("*") if file.is_file())
    found = {
        str(file.relative_to(here.folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in blobs
    }
    with sqlite3.connect(f"file:{here.folder}/c.db?mode=ro", uri=True) as base:
        return found | {f"c.db {n}": line for n, line in enumerate(base.iterdump())}


@pytest.mark.parametrize(
    ("dag", "task", "asset"),
    [
        ("stats_backfill", "stats", "strata_statistics"),
        ("shard_ingest", "ingest", "strata_batches"),
    ],
)
def test_a_backfill_with_dry_run_on_changes_nothing(
    here: World, dag: str, task: str, asset: str
) -> None:
    """What the form of a backfill sends, with the switch as it stands there."""
    api = here.airflow.api
    here.land("dry", day(2), "late", rows=5)
    api.pause(dag, paused=False)
    # The schedule's own run comes first: it is real.
    here.wait("the scheduled run", lambda: bool(runs_of(here, dag, "scheduled")))
    (real,) = runs_of(here, dag, "scheduled")
    here.ends(dag, real)
    here.events(asset, f"{day(1):%Y-%m-%d}T00:00:00")
    assert api.returned(dag, real, task)["dry_run"] is False
    before, events = stored(here), len(api.asset_events(asset))
    form, date = {"shards": ["dry"], "dry_run": True}, day(2).isoformat()
    api.backfill(dag, date, date, max_active_runs=1, dag_run_conf=form)
    here.wait("the run", lambda: bool(runs_of(here, dag, "backfill")))
    (run,) = runs_of(here, dag, "backfill")
    here.ends(dag, run)
    assert api.returned(dag, run, task)["dry_run"] is True
    assert stored(here) == before
    assert len(api.asset_events(asset)) == events, "it woke nobody"


def runs_of(here: World, dag: str, run_type: str) -> list[str]:
    runs = here.airflow.api.runs(dag)
    return [run["dag_run_id"] for run in runs if run["run_type"] == run_type]

"""Airflow's REST interface, as far as the demo needs it: wait, trigger, watch, read."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

BUSY_TRIES: Final = 60
BUSY: Final = "Database error"  # Airflow hides SQLite's "database is locked"
TAKEN: Final = ": 409 "
ENDED: Final = frozenset({"success", "failed"})
COMPONENTS: Final = ("metadatabase", "scheduler", "dag_processor")


class ApiError(Exception):
    """A call failed; the message has what Airflow said."""


class Api:
    """One Airflow, reached on the loopback address."""

    def __init__(self, base: str, user: str = "", password: str = "") -> None:
        """Remember the address and who asks; a token is fetched with the first call."""
        self.base = base
        self.user, self._password = user, password
        self._token = ""

    def healthy(self) -> bool:
        """Return whether the database, the scheduler and the DAG processor are healthy."""
        try:
            health = self._call("GET", "/api/v2/monitor/health", authorised=False)
        except (ApiError, OSError):
            return False
        return all(health.get(name, {}).get("status") == "healthy" for name in COMPONENTS)

    def dags(self) -> set[str]:
        """Return the ids of the DAGs that were parsed."""
        return {dag["dag_id"] for dag in self._call("GET", "/api/v2/dags")["dags"]}

    def import_errors(self) -> list[str]:
        """Return the errors of DAG files that could not be parsed."""
        found = self._call("GET", "/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}\n{error['stack_trace']}" for error in found]

    def set_pool(self, name: str, slots: int, purpose: str) -> None:
        """Make a pool, or change its size; try again while Airflow's database is busy."""
        body = {"slots": slots, "description": purpose, "include_deferred": False}
        try:
            self._patiently("POST", "/api/v2/pools", {"name": name, **body}, (BUSY,))
        except ApiError as error:
            if TAKEN not in str(error):
                raise
            self._patiently("PATCH", f"/api/v2/pools/{name}", {"pool": name, **body}, (BUSY,))

    def pause(self, dag: str, *, paused: bool) -> None:
        """Pause a DAG, or let it run."""
        self._patiently("PATCH", f"/api/v2/dags/{dag}", {"is_paused": paused}, (BUSY,))

    def trigger(self, dag: str, conf: Mapping[str, Any]) -> str:
        """Start a run with the answers of its form, and return the run's id."""
        run = f"manual__{datetime.now(UTC).isoformat()}"  # as Airflow names one; a retry has it too
        body = {"dag_run_id": run, "logical_date": None, "conf": dict(conf)}
        try:
            self._patiently("POST", f"/api/v2/dags/{dag}/dagRuns", body, (BUSY,))
        except ApiError as error:
            if TAKEN not in str(error):
                raise
        return run

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """Return the runs of a DAG, the newest first."""
        path = f"/api/v2/dags/{dag}/dagRuns?order_by=-run_after&limit=100"
        return list(self._call("GET", path)["dag_runs"])

    def backfill(
        self, dag: str, first: str, last: str, *, preview: bool = False, **options: Any
    ) -> Any:
        """Run a DAG for each day from `first` to `last`; `preview` returns the keys it would run.

        Returns the backfill's id. Airflow on SQLite refuses while its database is busy, and for up
        to half a minute after the last run of another one of the same DAG; then this tries again.
        """
        body = {"dag_id": dag, "from_date": first, "to_date": last, **options}
        path = "/api/v2/backfills" + ("/dry_run" if preview else "")
        answer = self._patiently("POST", path, body, ("locked", BUSY, TAKEN))
        return [run["partition_key"] for run in answer["backfills"]] if preview else answer["id"]

    def backfilling(self, dag: str) -> bool:
        """Return whether a backfill of a DAG is running; another cannot begin before it ends."""
        found = self._call("GET", f"/api/v2/backfills?dag_id={dag}")["backfills"]
        return any(backfill["completed_at"] is None for backfill in found)

    def question(self, dag: str, run: str, task: str) -> dict[str, Any]:
        """Return what a task asks people, and who answered; empty before it asks."""
        try:
            return dict(self._call("GET", self._asked(dag, run, task)))
        except ApiError:
            return {}

    def answer(self, dag: str, run: str, task: str, option: str, reason: str) -> None:
        """Answer what a task asks people, with the option of the open question that begins so."""
        offered = self.question(dag, run, task)["options"]
        chosen = [one for one in offered if one.startswith(option)]
        body = {"chosen_options": chosen[:1], "params_input": {"approver_reason": reason}}
        self._call("PATCH", self._asked(dag, run, task), body)

    def asset_events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of an asset, the newest first."""
        assets = self._call("GET", f"/api/v2/assets?name_pattern={quote(name)}")["assets"]
        ids = [asset["id"] for asset in assets if asset["name"] == name]
        if not ids:
            return []
        path = f"/api/v2/assets/events?asset_id={ids[0]}&order_by=-timestamp"
        return list(self._call("GET", path)["asset_events"])

    def run_state(self, dag: str, run: str) -> str:
        """Return queued, running, success or failed."""
        return str(self._read(f"/api/v2/dags/{dag}/dagRuns/{quote(run)}")["state"])

    def tasks(self, dag: str, run: str) -> dict[str, dict[str, Any]]:
        """Return the task instances of a run, by the task's name."""
        found = self._call("GET", f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances")
        return {task["task_id"]: task for task in found["task_instances"]}

    def returned(self, dag: str, run: str, task: str) -> dict[str, Any]:
        """Return the value that a task returned; empty when it returned none."""
        path = (
            f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances/{task}/xcomEntries/return_value"
        )
        try:
            value = self._read(path)["value"]
        except ApiError:
            return {}
        loaded = json.loads(value) if isinstance(value, str) else value
        return dict(loaded)

    @staticmethod
    def _asked(dag: str, run: str, task: str) -> str:
        return f"/api/v2/dags/{dag}/dagRuns/{quote(run)}/taskInstances/{task}/-1/hitlDetails"

    def _read(self, path: str) -> Any:
        return self._patiently("GET", path, None, (BUSY,))

    def _patiently(
        self, method: str, path: str, body: Mapping[str, Any] | None, passing: Sequence[str]
    ) -> Any:
        """Call, and call again each second while the error has a word of `passing`."""
        for left in reversed(range(BUSY_TRIES)):
            try:
                return self._call(method, path, body)
            except ApiError as error:
                if not left or not any(why in str(error) for why in passing):
                    raise
                time.sleep(1)
        raise AssertionError("no try at all")

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        *,
        authorised: bool = True,
    ) -> Any:
        headers = {"Content-Type": "application/json"}
        if authorised:
            headers["Authorization"] = f"Bearer {self._bearer()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            said = error.read().decode(errors="replace")[:2000]
            raise ApiError(f"{method} {path}: {error.code} {said}") from error

    def _bearer(self) -> str:
        if not self._token:
            who = {"username": self.user, "password": self._password}
            method, body = ("POST", who) if self.user else ("GET", None)
            self._token = self._call(method, "/auth/token", body, authorised=False)["access_token"]
        return self._token


def wait_until(
    what: str, ready: Callable[[], bool], *, seconds: float, alive: Callable[[], str]
) -> None:
    """Return once `ready` says so. `alive` returns why waiting is in vain, or nothing.

    Raises: TimeoutError naming `what`; RuntimeError with the reason of `alive`.
    """
    deadline = time.monotonic() + seconds
    while not ready():
        if reason := alive():
            raise RuntimeError(reason)
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:.0f} s for {what}")
        time.sleep(0.5)

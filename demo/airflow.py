"""Start and stop an Airflow of one's own: `python -m demo.airflow up|down`.

Three processes (web and REST, scheduler, DAG processor), each in a session of its own, with
everything they write under `.strata/airflow`, SQLite as their database, free ports that are
remembered, and nothing listening outside this machine. There is no log-in: every visitor on the
loopback address is an administrator, which is right for a demo and for nothing else.
"""

import json
import os
import secrets
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType
from typing import Final

from demo.api import Api, ApiError, wait_until
from demo.classes import ClassArchive
from demo.landing import make_landing
from demo.places import AIRFLOW_HOME, CONFIG, PROJECT, RESULTS, WORKSPACE, write_config
from demo.processes import Processes
from demo.rollout import agree
from strata.config.settings import load_settings
from strata.rollout.policy import policy_of
from strata.store.open import open_stores

BIN: Final = Path(sys.executable).parent
DAGS: Final = frozenset({"shard_ingest", "shard_compact", "stats_backfill", "soft_evaluation"})
START_SECONDS: Final = 300.0
SERVERS: Final = ("api-server",)  # it would take 4 s to forget its pages
PASSWORDS: Final = "passwords.json"
# The logs of tasks are read from the folder: no server for them, which would listen everywhere.
COMPONENTS: Final = {
    "api-server": ["api-server"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
}
WATCHER: Final = {"triggerer": ["triggerer", "--skip-serve-logs"]}  # for markers of arrivals

Tell = Callable[[str], None]


class StartError(Exception):
    """Airflow did not start; the message shows where to look."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A running Airflow."""

    api: Api
    processes: Processes
    home: Path

    def as_user(self, name: str) -> Api:
        """Return the interface as one of the people sees it who can log in."""
        return Api(self.api.base, name, _passwords(self.home, (name,))[name])

    def stop(self) -> list[str]:
        """Stop Airflow and all its processes; return their names."""
        return self.processes.stop(SERVERS)


def start(
    *,
    schedules: bool,
    tell: Tell,
    home: Path = AIRFLOW_HOME,
    config: Path = CONFIG,
    people: Sequence[str] = (),
    extra: Mapping[str, str] = MappingProxyType({}),
) -> Instance:
    """Start Airflow and return once it is healthy and knows the DAGs.

    `schedules`: False leaves every DAG to be triggered by hand (`strata_airflow.schedules`).
    `people`: who can log in (`Instance.as_user`), the first an administrator and each other one,
    unless a role of Airflow's follows the name (`eve:viewer`); nobody has to log in if empty.
    `extra`: variables of Airflow's processes on top, for another database or another Spark.
    Raises: StartError.
    """
    home.mkdir(parents=True, exist_ok=True)
    port = _port(home)
    env = {**environment(home, config, port, schedules=schedules, people=people), **extra}
    processes = Processes(home / "processes.json")
    base = f"http://127.0.0.1:{port}"
    names = [one.partition(":")[0] for one in people]
    log_in = (names[0], _passwords(home, names)[names[0]]) if names else ("", "")
    instance = Instance(Api(base, *log_in), processes, home)
    if processes.live():
        processes.stop()
    try:
        ClassArchive().make_ready()
        tell("preparing Airflow's database")
        _migrate(env, home)
        watcher = WATCHER if env.get("STRATA_ARRIVALS") else {}
        for name, words in {**COMPONENTS, **watcher}.items():
            log = home / "logs" / f"{name}.log"
            processes.start(name, [str(BIN / "airflow"), *words], env, log)
        tell("waiting for Airflow")
        _wait(instance)
        _make_pool(instance)
    except BaseException:
        processes.stop()
        raise
    return instance


def environment(
    home: Path, config: Path, port: int, *, schedules: bool, people: Sequence[str] = ()
) -> dict[str, str]:
    """Return the environment of Airflow's processes; the tasks inherit it."""
    sys.path.append(str(PROJECT / "plugins"))
    from strata_airflow.setup import connection_variable

    spark = load_settings(str(config), os.environ).spark
    base = f"http://127.0.0.1:{port}"
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AIRFLOW", "PYTHONDONTWRITEBYTECODE"))
    }
    return {
        **inherited,
        **connection_variable(spark.master, f"{spark.driver_memory_mib}m", ClassArchive().options),
        **_secrets(home),
        "PATH": f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": str(PROJECT / "plugins"),
        "STRATA_CONFIG": str(config),
        "STRATA_RESULTS": str(RESULTS),
        "STRATA_SCHEDULES": "on" if schedules else "off",
        "GX_ANALYTICS_ENABLED": "false",
        "SCARF_ANALYTICS": "false",
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": str(not people),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(
            one if ":" in one else f"{one}:admin" for one in people
        ),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / PASSWORDS),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{base}/execution/",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": base,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__INSTANCE_NAME": "Strata",
        "AIRFLOW__DAG_PROCESSOR__PARSING_PROCESSES": "1",
        "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "30",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
    }


def address(home: Path = AIRFLOW_HOME) -> str:
    """Return where the web pages of a running Airflow are; empty when none runs."""
    if not Processes(home / "processes.json").live():
        return ""
    return f"http://127.0.0.1:{_remembered(home).get('port', 0)}"


def up() -> int:
    """Start Airflow for a person to click through, and print where it is."""
    if where := address():
        print(f"Airflow runs already: {where}   (stop it with: make down)")
        return 0
    fresh = not (WORKSPACE / "consensus.db").exists()
    write_config()
    if not (WORKSPACE / "landing").exists():
        print("laying out the demo's data")
        make_landing(WORKSPACE)
    schedules = os.environ.get("STRATA_SCHEDULES", "on") == "on"
    people = os.environ.get("STRATA_DEMO_PEOPLE", "").split()
    gates = gates_of_a_demo(CONFIG, people)
    instance = start(
        schedules=schedules,
        tell=lambda line: print(f"  {line} ..."),
        people=people,
        extra={"STRATA_SCHEDULES_END": last_day(WORKSPACE)},
    )
    if writing := ClassArchive().writing():
        log = instance.home / "logs" / "class-archive.log"
        instance.processes.start("class-archive", writing, {**os.environ}, log)
    todo = "not yet ingested: backfill days of 2013 of shard_ingest, or run `make demo` first"
    shards = todo if fresh else "as the last `make demo` left them"
    print(
        f"\n  Airflow   {instance.api.base}\n"
        f"  log-in    {log_in(instance.home, people)}\n"
        f"  shards    {shards}\n"
        f"  schedules {about_schedules(schedules=schedules, last=last_day(WORKSPACE))}\n"
        f"  gates     {gates}\n"
        f"  settings  {CONFIG}\n"
        f"  logs      {instance.home / 'logs'}\n"
        "  stop      make down\n"
    )
    return 0


def gates_of_a_demo(config: Path, people: Sequence[str]) -> str:
    """Let two people agree on gates that one night passes, so that a step can be tried at once.

    A policy that somebody has changed before stays. Returns which gates hold, for people.
    """
    names = [one.partition(":")[0] for one in people]
    settings = load_settings(str(config), os.environ)
    stores = open_stores(settings.store)
    found = policy_of(stores, settings.rollout)
    if len(names) > 1 and not found.number:
        agree(stores, names)
        return f"one night is enough: {names[0]} asked, {names[1]} agreed, because it is a demo"
    if not found.number:
        return "those of a real store: thousands of parts (one night: make up PEOPLE='ann bob')"
    return f"as people agreed before: {found.gates.audit_parts:,} parts for audit"


def last_day(workspace: Path) -> str:
    """Return the last day that has files in the demo's landing folder, as YYYY-MM-DD.

    A scheduled run about a later day would take nothing in and close all days before it.
    """
    return max(file.stem for file in (workspace / "landing" / "flights").iterdir())


def about_schedules(*, schedules: bool, last: str) -> str:
    """Return a line about the schedules, for the person who started Airflow."""
    if not schedules:
        return "off, every DAG waits for you (on: make up)"
    return f"on; the data ends on {last}, so do they: Trigger → Backfill replays any days"


def log_in(home: Path, people: Sequence[str]) -> str:
    """Return how people get in: each name with its password, or that nobody has to log in."""
    names = [one.partition(":")[0] for one in people]
    if not names:
        return "none: everybody on this machine is administrator (two: make up PEOPLE='ann bob')"
    return ", ".join(f"{name} {_passwords(home, names)[name]}" for name in names)


def down(home: Path = AIRFLOW_HOME) -> int:
    """Stop what `up` or an interrupted demo left running."""
    stopped = Processes(home / "processes.json").stop()
    print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
    return 0


def main(argv: Sequence[str]) -> int:
    """Run `up` or `down`."""
    commands = {"up": up, "down": down}
    if len(argv) != 1 or argv[0] not in commands:
        print("usage: python -m demo.airflow up|down", file=sys.stderr)
        return 2
    try:
        return commands[argv[0]]()
    except StartError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1


def _migrate(env: dict[str, str], home: Path) -> None:
    """Bring the database to this Airflow's version, once for each version."""
    done = home / "migrated"
    wanted = version("apache-airflow")
    if (home / "airflow.db").exists() and done.exists() and done.read_text("utf-8") == wanted:
        return
    result = subprocess.run(
        [str(BIN / "airflow"), "db", "migrate"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=START_SECONDS,
    )
    if result.returncode:
        raise StartError(f"airflow db migrate failed:\n{(result.stdout + result.stderr)[-3000:]}")
    done.write_text(wanted, "utf-8")


def _make_pool(instance: Instance) -> None:
    """Make the pool of Spark's jobs over the interface: a command of Airflow takes seconds."""
    from strata_airflow.setup import POOL, PURPOSE

    try:
        instance.api.set_pool(POOL, 1, PURPOSE)
    except ApiError as error:
        raise StartError(f"Airflow refuses the pool of Spark's jobs: {error}") from error


def _wait(instance: Instance) -> None:
    def gone() -> str:
        return "\n".join(_tail(record.name, record.log) for record in instance.processes.dead())

    try:
        wait_until("Airflow", instance.api.healthy, seconds=START_SECONDS, alive=gone)
        wait_until(
            "the DAGs", lambda: instance.api.dags() >= DAGS, seconds=START_SECONDS, alive=gone
        )
    except TimeoutError as error:
        errors = instance.api.import_errors() if instance.api.healthy() else []
        logs = [f"its logs: {instance.home / 'logs'}"]
        raise StartError("\n".join([str(error), *errors, *logs])) from error
    except RuntimeError as error:
        raise StartError(str(error)) from error


def _tail(name: str, log: str) -> str:
    lines = Path(log).read_text("utf-8", errors="replace").splitlines()[-30:]
    return "\n".join([f"{name} ended; the end of {log}:", *lines])


def _port(home: Path) -> int:
    """Return a free port: the one used before if it still is."""
    for wanted in (_remembered(home).get("port", 0), 0):
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                trial.bind(("127.0.0.1", int(wanted)))
            except OSError:
                continue
            port = int(trial.getsockname()[1])
        (home / "ports.json").write_text(json.dumps({"port": port}), "utf-8")
        return port
    raise StartError("no free port on 127.0.0.1")


def _remembered(home: Path) -> dict[str, int]:
    try:
        return dict(json.loads((home / "ports.json").read_text("utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def _secrets(home: Path) -> dict[str, str]:
    """Return the keys that Airflow's processes share; made once, readable by the owner only."""
    file = home / "secrets.json"
    if not file.exists():
        made = {
            "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
            "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
        }
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            json.dump(made, out)
    return dict(json.loads(file.read_text("utf-8")))


def _passwords(home: Path, people: Sequence[str]) -> dict[str, str]:
    """Return each person's password; made once, readable by the owner only."""
    file = home / PASSWORDS
    known: dict[str, str] = json.loads(file.read_text("utf-8")) if file.exists() else {}
    if missing := [name for name in people if name not in known]:
        known |= {name: secrets.token_urlsafe(12) for name in missing}
        file.touch(0o600)
        file.write_text(json.dumps(known), "utf-8")
    return known


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

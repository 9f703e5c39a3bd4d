"""A small world for an Airflow of the tests' own: two shards whose files are named by day."""

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from demo.airflow import Instance, start
from demo.api import ENDED, ApiError, wait_until
from demo.tasklog import last_lines, log_file
from strata.config.shards import ensure_shards
from strata.ingest.engine import ingest_steps
from strata.ingest.plan import steps_of
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.store.open import open_stores

PEOPLE: Final = ("ann", "bob")
SHARDS: Final = ("events", "letters")
DAYS: Final = 4  # before today that have a file
ROWS: Final = 200  # a file
RUN_SECONDS: Final = 900.0  # of one DAG run, on a machine that others use as well


@dataclass(frozen=True, slots=True)
class World:
    """A running Airflow, and the stores that its jobs work on."""

    airflow: Instance
    folder: Path
    config: Path

    def ends(self, dag: str, run: str, state: str = "success") -> None:
        """Wait for a run's end, which has to be `state`."""
        last = ""

        def ended() -> bool:
            nonlocal last
            last = self.airflow.api.run_state(dag, run)
            return last in ENDED

        self.wait(f"{dag} {run}", ended)
        assert last == state, self.log(dag, run)

    def wait(self, what: str, ready: Callable[[], bool]) -> None:
        """Wait until `ready`, or fail if a process of Airflow has ended."""

        def ready_at_last() -> bool:
            try:
                return ready()
            except OSError:  # no answer in time: a machine with much else to do
                return False

        wait_until(what, ready_at_last, seconds=RUN_SECONDS, alive=self._dead)

    def _dead(self) -> str:
        return ", ".join(f"{one.name}: {one.log}" for one in self.airflow.processes.dead())

    def log(self, dag: str, run: str) -> str:
        """Return the ends of the logs of a run's tasks."""
        said = []
        for task in sorted(self.airflow.home.glob(f"logs/dag_id={dag}/run_id={run}/task_id=*")):
            name = task.name.partition("=")[2]
            file = log_file(self.airflow.home, dag, run, name)
            said += [name, *(last_lines(file, 30) if file else [])]
        return "\n".join(said)

    def events(self, asset: str, key: str) -> list[dict[str, Any]]:
        """Return the events of an asset about a partition, once there are any.

        Airflow 3.3.2 answers 500 for as long as a run that an event woke waits in the queue.
        """
        found: list[dict[str, Any]] = []

        def there() -> bool:
            try:
                events = self.airflow.api.asset_events(asset)
            except ApiError as error:
                if " 500 " not in str(error):
                    raise
                return False
            found[:] = [event for event in events if event["partition_key"] == key]
            return bool(found)

        self.wait(f"an event of {asset}", there)
        return found

    def result(self, dag: str, run: str, task: str) -> dict[str, dict[str, Any]]:
        """Return what the job of a run wrote of each shard, by name."""
        documents = [
            json.loads(Path(file).read_text("utf-8")) for file in self.results(dag, run, task)
        ]
        return {shard["shard"]: shard for one in documents for shard in one["shards"]}

    def results(self, dag: str, run: str, task: str) -> list[str]:
        """Return the result files of a job: one, or one a group of shards."""
        summed = self.airflow.api.returned(dag, run, f"{task}_sum")
        if summed:
            return list(summed["results"])
        return [self.airflow.api.returned(dag, run, task)["result"]]

    def land(self, shard: str, day: datetime, name: str = "", rows: int = ROWS) -> None:
        """Put a file for a day into the landing folder of a shard."""
        folder = self.folder / "landing" / shard
        folder.mkdir(parents=True, exist_ok=True)
        lines = [f"{day:%Y%m%d}{n:05},word {n % 7}" for n in range(rows)]
        (folder / f"{day:%Y-%m-%d}{name}.csv").write_text("\n".join(["id,word", *lines]) + "\n")


def take_in(
    settings: Settings, first: datetime, last: datetime, shards: Sequence[str] = SHARDS
) -> None:
    """Take in the files of whole days as the job would, but here and now."""
    stores = open_stores(settings.store)
    steps = steps_of(_ms(first), _ms(last), "P1D")
    for shard in ensure_shards(Machine(stores), settings.shards_dir, shards):
        for _ in ingest_steps(stores, settings, shard, steps):
            continue


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


def day(ago: int) -> datetime:
    """Return the midnight, UTC, that began the day so many days ago."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=ago)


@contextmanager
def world(
    folder: Path,
    *,
    people: Sequence[str] = PEOPLE,
    shards: Sequence[str] = SHARDS,
    hours: float = 0.03,
) -> Iterator[World]:
    """Lay out files and settings, start Airflow with its schedules on, and stop it at the end.

    `people`: as of `demo.airflow.start`. `hours`: what nobody answers for so long is rejected.
    """
    config = folder / "strata.toml"
    declared = folder / "shards"
    declared.mkdir()
    (folder / "arrived").mkdir()
    for shard in shards:
        (declared / f"{shard}.yaml").write_text(_declaration(shard))
    (folder / "filters").mkdir()
    config.write_text(
        f'shards_dir = "{declared}"\nfilters_dir = "{folder}/filters"\n'
        f'[store]\nblob = "file://{folder}/blob"\nconsensus = "sqlite:///{folder}/c.db"\n'
        f'landing = "{folder}"\n[validate]\nreport_dir = "{folder}/report"\n'
        "[spark]\ndriver_memory_mib = 1024\n"
    )
    os.environ["STRATA_APPROVAL_HOURS"] = str(hours)
    try:
        airflow = start(
            schedules=True,
            tell=print,
            home=folder / "airflow",
            config=config,
            people=people,
            extra={"STRATA_ARRIVALS": str(folder / "arrived")},
        )
    finally:
        del os.environ["STRATA_APPROVAL_HOURS"]
    try:
        yield World(airflow, folder, config)
    finally:
        airflow.stop()


def _declaration(shard: str) -> str:
    """Return a declaration whose parts are written as rows, without statistics."""
    return (
        f"name: {shard}\n"
        "columns:\n  - {name: id, type: int64, nullable: false}\n  - {name: word, type: string}\n"
        "key: [id]\n"
        f'source: {{paths: ["landing/{shard}/"], format: csv, envelope: append}}\n'
        "time: {from: interval}\nwrite_format: row\n"
    )

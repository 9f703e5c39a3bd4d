"""One stage of the demo: trigger a DAG with the answers of its form, watch, fetch the result."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from demo.airflow import Instance
from demo.api import ENDED
from demo.progress import Progress
from demo.tasklog import last_lines, log_file

POLL_SECONDS: Final = 0.5
TAIL_LINES: Final = 30


class StageError(Exception):
    """A run ended badly; the message has the end of its log and where it lies."""


@dataclass(frozen=True, slots=True)
class Stage:
    """One DAG run that the demo makes."""

    name: str
    dag: str
    task: str
    conf: Mapping[str, Any]

    @property
    def key(self) -> str:
        """What the stage does, in one word: the task's action if it has several."""
        return str(self.conf.get("action", self.task))


def run_stage(instance: Instance, stage: Stage, progress: Progress) -> dict[str, Any]:
    """Run a stage to its end and return what its job wrote.

    The DAG is unpaused for the time of the stage only.
    Raises: StageError.
    """
    progress.stage(stage.name)
    api = instance.api
    api.pause(stage.dag, paused=False)
    try:
        run = api.trigger(stage.dag, stage.conf)
        while (state := api.run_state(stage.dag, run)) not in ENDED:
            progress.detail(_doing(instance, stage, run))
            _check_alive(instance)
            time.sleep(POLL_SECONDS)
    finally:
        api.pause(stage.dag, paused=True)
    if state == "failed":
        raise StageError(_why(instance, stage, run))
    value = api.returned(stage.dag, run, stage.task)
    result: dict[str, Any] = json.loads(Path(value["result"]).read_text("utf-8"))
    return result


def _doing(instance: Instance, stage: Stage, run: str) -> str:
    """Return what the task's log says last; Airflow's own answer costs it five times the time."""
    file = log_file(instance.home, stage.dag, run, stage.task)
    if file is None:
        return "the task has not begun"
    tried = file.stem.partition("=")[2]
    state = "task running" if tried == "1" else f"task running, try {tried}"
    return " · ".join([state, *last_lines(file, 1)])


def _check_alive(instance: Instance) -> None:
    dead = instance.processes.dead()
    if dead:
        raise StageError(f"Airflow's {dead[0].name} ended by itself; its log: {dead[0].log}")


def _why(instance: Instance, stage: Stage, run: str) -> str:
    file = log_file(instance.home, stage.dag, run, stage.task)
    if file is None:
        return (
            f"the run {run} of {stage.dag} failed before its task began: see {instance.home}/logs"
        )
    tail = "\n".join(f"    {line}" for line in last_lines(file, TAIL_LINES))
    return (
        f"the run {run} of {stage.dag} failed. The end of its log:\n{tail}\n  the whole log: {file}"
    )

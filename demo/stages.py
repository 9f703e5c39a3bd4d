"""One stage of the demo: trigger a DAG with the answers of its form, watch, fetch the result."""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from demo.airflow import Instance
from demo.api import ENDED, ApiError
from demo.progress import Progress
from demo.tasklog import last_lines, log_file

POLL_SECONDS: Final = 0.5
TAIL_LINES: Final = 30
# A task in one of these is not tried again.
FAILED: Final = frozenset({"failed", "upstream_failed", "skipped", "removed"})


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


@dataclass(slots=True)
class Runs:
    """The runs of one demo, one after the other; the end of the block waits for all of them.

    Their DAGs are unpaused for the time of the block only.
    """

    instance: Instance
    progress: Progress
    _open: list[tuple[Stage, str]] = field(default_factory=list)  # what follows the task may run

    def stage(self, stage: Stage) -> dict[str, Any]:
        """Trigger a stage's run, wait for the end of its task, and return what its job wrote.

        What the run does after its task goes on beside the next stage.
        Raises: StageError.
        """
        self.progress.stage(stage.name)
        api = self.instance.api
        api.pause(stage.dag, paused=False)
        run = api.trigger(stage.dag, stage.conf)
        self._open.append((stage, run))
        while (state := api.task_state(stage.dag, run, stage.task)) != "success":
            if state in FAILED:
                self._wait(stage, run)
                raise StageError(_why(self.instance, stage, run))
            self.progress.detail(_doing(self.instance, stage, run, state))
            self._pause()
        value = api.returned(stage.dag, run, stage.task)
        result: dict[str, Any] = json.loads(Path(value["result"]).read_text("utf-8"))
        return result

    def __enter__(self) -> Self:
        """Begin without a run."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for all runs, unless one has failed. Raises: StageError."""
        try:
            for stage, run in self._open if kind is None else ():
                if self._wait(stage, run) == "failed":
                    raise StageError(_why(self.instance, stage, run))
        finally:
            for dag in {stage.dag for stage, _ in self._open}:
                with suppress(ApiError, OSError):  # an Airflow that has ended
                    self.instance.api.pause(dag, paused=True)

    def _wait(self, stage: Stage, run: str) -> str:
        while (state := self.instance.api.run_state(stage.dag, run)) not in ENDED:
            self._pause()
        return state

    def _pause(self) -> None:
        dead = self.instance.processes.dead()
        if dead:
            raise StageError(f"Airflow's {dead[0].name} ended by itself; its log: {dead[0].log}")
        time.sleep(POLL_SECONDS)


def _doing(instance: Instance, stage: Stage, run: str, state: str) -> str:
    file = log_file(instance.home, stage.dag, run, stage.task)
    said = last_lines(file, 1) if file else []
    return " · ".join([f"task {state or 'none yet'}", *said])


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

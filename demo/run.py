"""`make demo`: a year of flights through ingest, statistics, compaction and soft evaluation.

Every step is a real run of one of the DAGs, triggered through Airflow's REST interface, which
submits a Spark job. The figures at the end come from what the jobs wrote and from
`strata shards`; none is known beforehand.
"""

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from demo import places
from demo.airflow import Instance, StartError, start
from demo.landing import YEAR_DAYS, make_landing
from demo.memory import PeakMemory
from demo.progress import Progress
from demo.stages import Stage, StageError, run_stage
from demo.summary import Figures, by_name, print_summary

# Nobody edits a DAG meanwhile, and to read them every half minute takes time from the jobs.
READ_ONCE: Final = {"AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "3600"}
START: Final = datetime(2013, 1, 1, tzinfo=UTC)
REPORTED: Final = ("backfill", "trim", "validate")  # stages, by their keys
FIRST_MONTH: Final = 31  # days that arrive in the old row format, without statistics


def stages(days: int, budget_bytes: int) -> list[Stage]:
    """Return the runs of a demo of `days` days, in order.

    The first month (of a short demo: half of the days) is written as it was before: rows, no
    statistics. Everything later is written in both formats.
    """
    old = min(FIRST_MONTH, max(1, days // 2))
    begin, change, end = (_moment(n) for n in (0, old, days))
    found = [
        Stage(
            f"ingest, {old} days, old row format", "shard_ingest", "ingest",
            {"from_time": begin, "to_time": change, "every": "P7D", "write_format": "row",
             "dry_run": False},
        ),
        Stage(
            f"ingest, {days - old} days, both formats", "shard_ingest", "ingest",
            {"from_time": change, "to_time": end, "every": "P7D", "write_format": "both",
             "dry_run": False},
        ),
        Stage(
            "statistics for the old parts", "stats_backfill", "stats",
            {"action": "backfill", "dry_run": False},
        ),
        Stage("compaction", "shard_compact", "compact", {"dry_run": False}),
        Stage(
            f"statistics trimmed to {budget_bytes} bytes a part", "stats_backfill", "stats",
            {"action": "trim", "budget_bytes": budget_bytes, "dry_run": False},
        ),
        Stage("soft evaluation and report", "soft_evaluation", "validate", {"now": end}),
    ]  # fmt: skip
    return [stage for stage in found if days > old or "both formats" not in stage.name]


@contextmanager
def on_this_machine(progress: Progress) -> Iterator[Mapping[str, str]]:
    """Write the settings of the demo on files, SQLite and Spark inside its driver."""
    places.write_config()
    yield {}


Around = Callable[[Progress], AbstractContextManager[Mapping[str, str]]]


def run(days: int, budget_bytes: int, around: Around = on_this_machine) -> int:
    """Run the demo and print its summary; return the exit code.

    `around` makes ready what the demo runs on, writes its settings file, gives what Airflow's
    processes must know of it as variables, and takes it down at the end.
    """
    began = time.monotonic()
    down_quietly()
    places.reset()
    instance: Instance | None = None
    with (
        Progress() as progress,
        around(progress) as variables,
        ThreadPoolExecutor(1) as beside,
    ):
        progress.stage(f"landing folder, {days} days of 2013, and Airflow")
        laying_out = beside.submit(make_landing, places.WORKSPACE, days)
        try:
            instance = start(
                schedules=False, tell=progress.detail, extra={**READ_ONCE, **variables}
            )
            landing = laying_out.result()
            running = instance.processes
            with PeakMemory(lambda: list(running.live().values())) as memory:
                did = _work(instance, progress, days, budget_bytes, beside)
            after = beside.submit(inspect_shards)
        except BaseException:
            progress.done(failed=True)
            raise
        finally:
            if instance is not None:
                progress.stage("stopping Airflow")
                instance.stop()
                progress.done()
    figures = Figures(landing, did.before, after.result(), *(did.results[one] for one in REPORTED))
    print_summary(figures, progress.times, memory.peak_bytes, time.monotonic() - began)
    return 1 if figures.mismatches else 0


@dataclass(frozen=True, slots=True)
class _Done:
    results: Mapping[str, dict[str, Any]]  # by the stage's key
    before: Mapping[str, Mapping[str, Any]]  # the shards before compaction, by name


def _work(
    instance: Instance,
    progress: Progress,
    days: int,
    budget_bytes: int,
    beside: Executor,
) -> _Done:
    results: dict[str, dict[str, Any]] = {}
    before: Future[dict[str, Mapping[str, Any]]] | None = None
    for stage in stages(days, budget_bytes):
        if stage.key == "backfill":  # it changes none of what is compared
            before = beside.submit(inspect_shards)
        if stage.key == "compact" and before is not None:
            before.result()
        results[stage.key] = run_stage(instance, stage, progress)
    return _Done(results, before.result() if before else {})


def inspect_shards() -> dict[str, Mapping[str, Any]]:
    """Return what `strata shards` says of each shard, by name."""
    return by_name(_strata("shards")["shards"])


def down_quietly() -> None:
    """Stop an Airflow that still runs on the demo's folder, and say so."""
    from demo.processes import Processes

    stopped = Processes(places.AIRFLOW_HOME / "processes.json").stop()
    if stopped:
        print(f"stopped the Airflow that was running ({', '.join(stopped)})")


def main(
    argv: Sequence[str] | None = None, around: Around = on_this_machine, prog: str = "make demo"
) -> int:
    """Parse the command line and run."""
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("--days", type=int, default=YEAR_DAYS, help="take the first DAYS days")
    parser.add_argument("--budget", type=int, default=128, help="bytes of statistics a part")
    asked = parser.parse_args(argv)
    if not 2 <= asked.days <= YEAR_DAYS:
        parser.error(f"--days: 2 to {YEAR_DAYS}")
    # Ended from outside, it still stops what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return run(asked.days, asked.budget, around)
    except (StageError, StartError) as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130


def _strata(*words: str) -> Any:
    """Return the JSON of a `strata` command."""
    command = [
        sys.executable,
        "-m",
        "strata.cli.app",
        *words,
        "--json",
        "--config",
        str(places.CONFIG),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=places.PROJECT)
    if done.returncode:
        raise StageError(f"strata {' '.join(words)} failed:\n{done.stderr.strip()}")
    return json.loads(done.stdout)


def _moment(days: int) -> str:
    return (START + timedelta(days=days)).isoformat().replace("+00:00", "Z")


if __name__ == "__main__":
    sys.exit(main())

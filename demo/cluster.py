"""`make cluster-demo`: the demo on a Spark cluster, S3 and PostgreSQL, all on loopback.

A master and two workers of Spark's own kind, PostgreSQL for the shards' states and for Airflow,
SeaweedFS for parts and manifests. The workers know nothing of this project: their Python, its
packages and Strata itself reach them in the archive of `make pack`, as on anyone's cluster. All
of it ends with the demo; what was ingested ends with it too, the report stays.
"""

import json
import os
import shutil
import socket
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from demo import places
from demo.airflow import StartError
from demo.classes import QUICK_START, ClassArchive
from demo.processes import Processes
from demo.progress import Progress
from demo.run import main
from tests.support.postgres import MissingError, fresh_database
from tests.support.seaweed import IDENTITY, fresh_prefix
from tests.support.seaweed import MissingError as MissingS3Error

ARCHIVE: Final = places.PROJECT / "dist" / "strata-environment.tar.gz"
SPARK: Final = places.HIDDEN / "spark"
RECORDS: Final = SPARK / "processes.json"
WORKERS: Final = 2
WORKER_CORES: Final = 1
WORKER_MEMORY: Final = "2g"
START_SECONDS: Final = 120.0
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The settings of config/deploy/standalone-client.json, for this machine.
CONF: Final[Mapping[str, str]] = {
    "spark.archives": f"{ARCHIVE}#environment",
    "spark.pyspark.python": "./environment/bin/python",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.executor.cores": str(WORKER_CORES),
    "spark.cores.max": str(WORKERS * WORKER_CORES),
    "spark.executor.extraJavaOptions": QUICK_START,
    "spark.task.maxFailures": "4",
    "spark.speculation": "true",
}


@contextmanager
def cluster(progress: Progress) -> Iterator[Mapping[str, str]]:
    """Start the servers and Spark; give Airflow's variables; stop all of it by process id."""
    processes = Processes(RECORDS)
    processes.stop()  # of a demo that was killed
    if not ARCHIVE.exists():
        raise StartError(f"there is no {ARCHIVE}: run `make pack`")
    try:
        progress.stage("PostgreSQL and S3")
        variables = _databases()
        progress.stage(f"Spark: a master and {WORKERS} workers")
        master = _spark(processes)
        yield {**variables, **_connection(master)}
    finally:
        progress.stage("stopping Spark")
        processes.stop()
        shutil.rmtree(SPARK, ignore_errors=True)
        progress.done()


def worker_environment() -> dict[str, str]:
    """Return the environment of master and workers: nothing of this project or its Python."""
    kept = {name: os.environ[name] for name in ("JAVA_HOME", "HOME", "LANG") if name in os.environ}
    cleanup = "-Dspark.worker.cleanup.enabled=true -Dspark.worker.cleanup.interval=30 "
    return {
        **kept,
        **IDENTITY,  # as a machine's role would give it
        "PATH": SYSTEM_PATH,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": QUICK_START,
        "SPARK_WORKER_OPTS": cleanup + "-Dspark.worker.cleanup.appDataTtl=60",
    }


def _databases() -> dict[str, str]:
    """Start PostgreSQL and S3, write the demo's settings; return what Airflow needs of them."""
    try:
        states, airflow, blobs = fresh_database(), fresh_database(), fresh_prefix()
    except (MissingError, MissingS3Error) as error:
        raise StartError(str(error)) from error
    os.environ.update(IDENTITY)  # drivers and the command line find it by AWS's ordinary chain
    places.write_config(blob=blobs, consensus=states)
    address = airflow.replace("postgresql://", "postgresql+psycopg://")
    return {
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": address,
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN_ASYNC": address,
    }


def _spark(processes: Processes) -> str:
    """Start master and workers; return the master's address once all have registered."""
    return standalone(processes, SPARK, WORKERS)


def standalone(processes: Processes, folder: Path, workers: int, *, pinned: bool = False) -> str:
    """Start a master and workers of one core each; return the master's address once all are there.

    `folder` gets their logs and files. `pinned`: each worker, and all that it starts, stays on a
    processor of its own.
    Raises: StartError when one ends, or none answers in time.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    launcher = str(home / "bin" / "spark-class")
    port, web = _free_port(), _free_port()
    environment = {**worker_environment(), "SPARK_HOME": str(home)}
    master = f"spark://127.0.0.1:{port}"

    def begin(name: str, kind: str, *words: str, before: Sequence[str] = ()) -> None:
        command = [launcher, f"org.apache.spark.deploy.{kind}", "--host", "127.0.0.1", *words]
        processes.start(name, [*before, *command], environment, folder / f"{name}.log")

    begin("master", "master.Master", "--port", str(port), "--webui-port", str(web))
    _until(lambda: _alive(web) is not None, processes)
    for number in range(1, workers + 1):
        begin(
            f"worker-{number}",
            "worker.Worker",
            "--webui-port",
            "0",
            "--cores",
            str(WORKER_CORES),
            "--memory",
            WORKER_MEMORY,
            "--work-dir",
            str(folder / f"work-{number}"),
            master,
            before=["taskset", "--cpu-list", str(number - 1)] if pinned else [],
        )
    _until(lambda: _alive(web) == workers, processes)
    return master


def _connection(master: str) -> dict[str, str]:
    sys.path.append(str(places.PROJECT / "plugins"))
    from strata_airflow.setup import connection_variable

    return connection_variable(master, "1g", ClassArchive().options, CONF)


def _until(ready: Callable[[], bool], processes: Processes) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not ready():
        dead = processes.dead()
        if dead or time.monotonic() > deadline:
            record = dead[0] if dead else processes.recorded()[-1]
            end = Path(record.log).read_text("utf-8", errors="replace")[-2000:]
            raise StartError(f"Spark's {record.name} did not start:\n{end}")
        time.sleep(0.3)


def _alive(web: int) -> int | None:
    """Return how many workers the master counts; None while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{web}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError, KeyError):
        return None


def _free_port() -> int:
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        return int(trial.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main(around=cluster, prog="make cluster-demo"))

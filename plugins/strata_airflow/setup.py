"""Make the connection and the pool that the DAGs need, and check that they are there.

    python -m strata_airflow.setup --master local[2] --driver-memory 2g     (plugins/ on the path)
    python -m strata_airflow.setup --check

Airflow makes neither from DAG files, and is silent if they are missing: without the pool a task
waits for ever, without the connection the provider would submit to YARN. Safe to repeat. An
installation that keeps connections in its environment uses `connection_variable` instead.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

CONNECTION: Final = "strata_spark"
POOL: Final = "strata_spark"
VARIABLE: Final = f"AIRFLOW_CONN_{CONNECTION.upper()}"
PURPOSE: Final = "Spark applications of Strata at a time"


class SetupError(Exception):
    """Set-up failed, or one of its products is missing; the message says what to do."""


def connection_json(
    master: str,
    driver_memory: str,
    java_options: str = "",
    conf: Mapping[str, str] | None = None,
) -> str:
    """Return the connection in Airflow's JSON form (no escaping of the master's address).

    The operator reads `driver-memory`, `driver-java-options` and `spark-conf` (settings of Spark
    for this cluster; docs/how-to/deploy.md), the provider the rest.
    """
    extra: dict[str, object] = {
        "deploy-mode": "client",
        "spark-binary": "spark-submit",
        "driver-memory": driver_memory,
    }
    if java_options:
        extra["driver-java-options"] = java_options
    if conf:
        extra["spark-conf"] = dict(conf)
    return json.dumps({"conn_type": "spark", "host": master, "extra": extra})


def connection_variable(
    master: str,
    driver_memory: str,
    java_options: str = "",
    conf: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the environment variable that defines the connection for Airflow's processes."""
    return {VARIABLE: connection_json(master, driver_memory, java_options, conf)}


def make_pool(slots: int, environ: Mapping[str, str] = os.environ) -> None:
    """Create the pool or change its size. Raises: SetupError."""
    _airflow(environ, "pools", "set", POOL, str(slots), PURPOSE)


def make_connection(
    master: str, driver_memory: str, environ: Mapping[str, str] = os.environ
) -> None:
    """Create the connection in Airflow's database, replacing an older one. Raises: SetupError."""
    _airflow(environ, "connections", "delete", CONNECTION, check=False)
    _airflow(
        environ,
        "connections",
        "add",
        CONNECTION,
        "--conn-json",
        connection_json(master, driver_memory),
    )


def missing(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return what is missing, in words; empty if nothing is. Cost: seconds."""
    found = []
    if _airflow(environ, "pools", "get", POOL, check=False).returncode:
        found.append(f"the pool {POOL!r}: without it every task of Strata waits for ever")
    if (
        VARIABLE not in environ
        and _airflow(environ, "connections", "get", CONNECTION, check=False).returncode
    ):
        found.append(f"the connection {CONNECTION!r}: without it nothing can be submitted")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Make or check; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--master", default="local[2]", help="where Spark runs")
    parser.add_argument("--driver-memory", default="2g", help="memory of a job's driver")
    parser.add_argument("--slots", type=int, default=1, help="Spark applications at a time")
    parser.add_argument(
        "--check", action="store_true", help="change nothing, print what is missing"
    )
    asked = parser.parse_args(argv)
    try:
        if not asked.check:
            make_pool(asked.slots)
            if VARIABLE not in os.environ:
                make_connection(asked.master, asked.driver_memory)
        lacking = missing()
    except SetupError as error:
        lacking = [str(error)]
    for line in lacking:
        sys.stderr.write(f"missing: {line}\n")
    if lacking:
        sys.stderr.write("cure: python -m strata_airflow.setup, in Airflow's environment\n")
    return 1 if lacking else 0


def _airflow(
    environ: Mapping[str, str], *words: str, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """Run Airflow's command line. Raises: SetupError with its last words."""
    program = Path(sys.executable).with_name("airflow")
    try:
        done = subprocess.run(
            [str(program), *words],
            env=dict(environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=180,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"airflow {words[0]} {words[1]} did not run: {error}") from error
    if check and done.returncode:
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-5:])
        raise SetupError(f"airflow {words[0]} {words[1]} failed with {done.returncode}:\n{said}")
    return done


if __name__ == "__main__":
    sys.exit(main())

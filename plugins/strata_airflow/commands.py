"""Run the `strata` command line from a task, for work that needs no Spark."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from strata_airflow.places import PROJECT, PYTHONPATH, config_file
from strata_airflow.results import FINAL_CODES


def run_strata(*words: str, config: str = "") -> dict[str, Any]:
    """Return the document that `strata WORDS --json` prints.

    Raises: AirflowFailException if another try cannot help, else AirflowException.
    """
    done = subprocess.run(
        [sys.executable, "-m", "strata.cli.app", *words, "--json",
         "--config", config or config_file()],
        cwd=PROJECT, capture_output=True, text=True, check=False,
        env={**os.environ, **PYTHONPATH},
    )  # fmt: skip
    if done.returncode:
        said = _last_line(done.stderr) or f"strata ended with {done.returncode}"
        raise (AirflowFailException if done.returncode in FINAL_CODES else AirflowException)(said)
    document: dict[str, Any] = json.loads(_last_line(done.stdout))
    return document


def _last_line(text: str) -> str:
    lines: Sequence[str] = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""

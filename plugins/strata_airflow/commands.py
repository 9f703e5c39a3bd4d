"""Run the `strata` command line from a task, for work that needs no Spark."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from strata_airflow.places import PROJECT, PYTHONPATH, config_file
from strata_airflow.results import FINAL_CODES

WORD_MAX: Final = 100_000  # bytes; Linux takes 131,071
SHOWN: Final = 40  # characters of a word in an error
ANSWER_SHOWN: Final = 2_000  # characters of an answer in an error


def run_strata(
    *words: str, config: str = "", environment: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the document that `strata WORDS --json` prints.

    `environment`: variables of a connection's stores; with it, no file but `config` is named.

    Raises: AirflowFailException if another try cannot help, else AirflowException.
    """
    check_words(words)
    file = config or ("" if environment is not None else config_file())
    named = ["--config", file] if file else []
    done = subprocess.run(
        [sys.executable, "-m", "strata.cli.app", *words, "--json", *named],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **PYTHONPATH, **(environment or {})},
    )
    if done.returncode:
        said = _said(done.stdout, done.stderr) or f"strata ended with {done.returncode}"
        raise (AirflowFailException if done.returncode in FINAL_CODES else AirflowException)(said)
    document: dict[str, Any] = json.loads(_last_line(done.stdout))
    return document


def check_words(words: Sequence[str]) -> None:
    """Raise AirflowFailException for a word that no command line can carry.

    Answers of forms and of approvers are words: the system's error would name none, and be retried.
    """
    for word in words:
        try:
            size = len(os.fsencode(word))
        except UnicodeEncodeError:
            size = -1
        if size < 0 or "\0" in word or size > WORD_MAX:
            raise AirflowFailException(
                f"no text for a command: {word[:SHOWN]!r}, {len(word):,} characters"
                f" (cure: at most {WORD_MAX:,} bytes of UTF-8, and no character 0)"
            )


def _said(output: str, error: str) -> str:
    """Return why a command failed: its error, and the answer of one that answers and fails."""
    answer = _last_line(output)
    try:
        failed = [check for check in json.loads(answer)["checks"] if not check["ok"]]
        answer = "; ".join(f"{c['check']}: {c['found']} (cure: {c['cure']})" for c in failed)
    except (ValueError, TypeError, KeyError):  # the answer of another command than doctor
        answer = answer[:ANSWER_SHOWN]
    return "; ".join(filter(None, (_last_line(error), answer)))


def _last_line(text: str) -> str:
    lines: Sequence[str] = [line for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""

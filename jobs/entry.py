"""How every job ends: a result file for Airflow, one line for people, an exit code for both."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from strata.errors import StrataError
from strata.metrics import Metrics
from strata.operations import EVERY_SHARD, note
from strata.settings import load_settings
from strata.store.open import open_stores, wall_clock


@dataclass(frozen=True, slots=True)
class Noted:
    """How a job's end is written down; see `strata.operations`."""

    what: str
    config: str | None
    shards: Sequence[str] = ()  # that were asked for, should there be no result


def run_job(
    result: str | None,
    work: Callable[[], tuple[Mapping[str, Any], int]],
    noted: Noted | None = None,
) -> int:
    """Do the work, write its document to `result`, note it in the history; return the exit code.

    `work` returns the document and 0, or 3 when a mismatch was found. A `StrataError` becomes
    its own exit code, one line on standard error, and a document with the key `error`.
    """
    began_ms = wall_clock()
    failed = ""
    try:
        document, code = work()
    except StrataError as error:
        kind = type(error).__name__
        sys.stderr.write(f"{kind}: {error}\n")
        document = {"error": {"kind": kind, "message": str(error), "exit_code": error.exit_code}}
        code, failed = error.exit_code, f"{kind}: {error}"
    except Exception as error:
        if noted is not None:
            _note(noted, began_ms, {}, 1, type(error).__name__)  # its text may hold values of rows
        raise
    if result:
        path = Path(result)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(orjson.dumps(document, default=str, option=orjson.OPT_INDENT_2))
    if noted is not None:
        _note(noted, began_ms, document, code, failed)
    return code


def _note(noted: Noted, began_ms: int, document: Mapping[str, Any], code: int, error: str) -> None:
    asked = [{"shard": name} for name in noted.shards or (EVERY_SHARD,)]
    told = document if "shards" in document else {"shards": asked}
    with suppress(StrataError):  # the job has ended, and its result is written
        settings = load_settings(noted.config, os.environ)
        metrics = Metrics(settings.metrics.statsd, settings.metrics.otlp)
        note(open_stores(settings.store), metrics, noted.what, began_ms, told, code, error=error)

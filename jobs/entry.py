"""How every job ends: a result file for Airflow, one line for people, an exit code for both."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from strata.config.settings import load_settings
from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest, StrataError
from strata.history.metrics import Metrics
from strata.history.operations import EVERY_SHARD, note
from strata.model.shown import Report
from strata.store.open import open_stores, wall_clock

# What concerns one shard alone, those first that another try may cure. A store that is away is away
# for all shards, so that ends the run.
OF_ONE_SHARD: Final = (Conflict, Fenced, Corrupt, InvalidRequest)


@dataclass(frozen=True, slots=True)
class Noted:
    """How a job's end is written down; see `strata.history.operations`."""

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
    its own exit code, one line on standard error, and a document with the key `error`; so does
    that of a shard (`each_shard`), after the others were served.
    """
    began_ms = wall_clock()
    failed = ""
    try:
        document, code = work()
        if not code and (one := _first_error(document)):
            document, code = {**document, "error": one}, int(one["exit_code"])
    except StrataError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        document = {"error": _told(error)}
        code, failed = error.exit_code, f"{type(error).__name__}: {error}"
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


def logged(report: Report) -> dict[str, Any]:
    """Print a report in the task's log, and return it as JSON."""
    say(*report.lines())
    return report.to_json()


def say(*lines: str) -> None:
    """Print lines in the task's log, at once."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def each_shard(
    names: Iterable[str], work: Callable[[str], Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Work on one shard after the other; return the document of each, with its seconds.

    A shard that cannot be worked on has its error in the place of counts, and keeps no other from
    being served. Raises: errors that are not of one shard alone.
    """
    documents = []
    for name in names:
        began = time.monotonic()
        try:
            document = {**work(name)}
        except OF_ONE_SHARD as error:
            sys.stderr.write(f"{type(error).__name__}: {error} [{name}]\n")
            document = {"shard": name, "error": _told(error)}
        documents.append({"seconds": round(time.monotonic() - began, 3), **document})
    return documents


def _told(error: StrataError) -> dict[str, Any]:
    return {
        "kind": type(error).__name__, "message": str(error), "exit_code": error.exit_code
    }  # fmt: skip


def _first_error(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the error that a run ends with: one that another try may cure, if there is one."""
    shards = [one for one in document.get("shards") or () if isinstance(one, Mapping)]
    found = [(one["shard"], one["error"]) for one in shards if one.get("error")]
    if not found:
        return None
    kinds = [kind.__name__ for kind in OF_ONE_SHARD]
    name, error = min(found, key=lambda one: kinds.index(one[1]["kind"]))
    message = error["message"]
    if len(shards) > 1:
        message = f"{len(found)} of {len(shards)} shards failed; {name}: {message}"
    return {**error, "message": message}


def _note(noted: Noted, began_ms: int, document: Mapping[str, Any], code: int, error: str) -> None:
    asked = [{"shard": name} for name in noted.shards or (EVERY_SHARD,)]
    told = document if "shards" in document else {"shards": asked}
    with suppress(StrataError):  # the job has ended, and its result is written
        settings = load_settings(noted.config, os.environ)
        metrics = Metrics(settings.metrics)
        note(open_stores(settings.store), metrics, noted.what, began_ms, told, code, error=error)

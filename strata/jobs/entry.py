"""The end of every job: a result file for Airflow, one line for people, an exit code for both."""

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from strata.config.settings import load_settings
from strata.errors import Conflict, Corrupt, Fenced, InvalidRequest, StrataError
from strata.jobs.pulse import PULSE
from strata.model.journals import EVERY_SHARD
from strata.model.shown import Report, visible
from strata.store.whole_file import written_whole

# Errors of a single shard, the retryable ones first. A store that is unavailable is so for all
# shards, and ends the run.
OF_ONE_SHARD: Final = (Conflict, Fenced, Corrupt, InvalidRequest)


@dataclass(frozen=True, slots=True)
class Noted:
    """The record of a job in the history; see `strata.history.operations`."""

    what: str
    config: str | None
    shards: Sequence[str] = ()  # the requested shards, used if there is no result


def run_job(
    result: str | None,
    work: Callable[[], tuple[Mapping[str, Any], int]],
    noted: Noted | None = None,
) -> int:
    """Do the work, write its document to `result`, record it in the history; return the exit code.

    `work` returns the document and 0, or 3 when a mismatch was found. A `StrataError` becomes
    its own exit code, one line on standard error, and a document with the key `error`. The error
    of a shard (`each_shard`) does the same after the work on all other shards. While the work
    prints nothing, a line every few seconds says what it is at.
    """
    began_ms = time.time_ns() // 1_000_000
    failed = ""
    try:
        with PULSE.beating(say):
            document, code = work()
        if not code and (one := _first_error(document)):
            document, code = {**document, "error": one}, int(one["exit_code"])
    except StrataError as error:
        _complain(f"{type(error).__name__}: {error}")
        document = {"error": _error_document(error)}
        code, failed = error.exit_code, f"{type(error).__name__}: {error}"
    except Exception as error:
        if noted is not None:
            _note(noted, began_ms, {}, 1, type(error).__name__)  # its text may hold values of rows
        raise
    if result:
        code = _kept(Path(result), document, code)
    if noted is not None:
        _note(noted, began_ms, document, code, failed)
    return code


def _kept(result: Path, document: Mapping[str, Any], code: int) -> int:
    """Write the result file; return the exit code, which says so if there is none."""
    try:
        with written_whole(result, "the result of the job, whose work is done,") as file:
            file.write(orjson.dumps(document, default=str, option=orjson.OPT_INDENT_2))
    except StrataError as error:
        _complain(f"{type(error).__name__}: {error}")
        return code or error.exit_code
    return code


def logged(report: Report) -> dict[str, Any]:
    """Print a report in the task's log, and return it as JSON."""
    say(*report.lines())
    return report.to_json()


def say(*lines: str) -> None:
    """Print lines in the task's log, at once; characters that a reader would not see are spelled.

    A line end inside a line is one: a name or an error adds no line of its own to the log.
    """
    sys.stdout.write("".join(f"{visible(line)}\n" for line in lines))
    sys.stdout.flush()
    PULSE.heard()


def _complain(line: str) -> None:
    sys.stderr.write(f"{visible(line)}\n")


def each_shard(
    names: Iterable[str],
    work: Callable[[str], Mapping[str, Any]],
    at_once: int = 1,
    begin: Callable[[], None] | None = None,
    still: Callable[[], Iterable[str]] | None = None,
) -> list[dict[str, Any]]:
    """Work on the shards, `at_once` of them side by side; return the document of each, in order.

    A document has the seconds that its shard took. If the work on a shard fails, its document has
    the error instead of counts, and the others continue. `begin` is called first in each thread.
    `still`: returns the shards that are there, where nobody asked for one by name; one that is
    dropped meanwhile is then passed over.
    Raises: errors that do not belong to a single shard, once shards that are under way have ended.
    """
    every = list(dict.fromkeys(names))

    def worked(number: int, name: str) -> dict[str, Any]:
        with PULSE.at(f"{name}, {number} of {len(every)}"):
            return _document(name, work, still)

    numbered = enumerate(every, 1)
    PULSE.idle()
    if at_once == 1 or len(every) < 2:
        documents = [worked(number, name) for number, name in numbered]
    else:
        documents = _side_by_side(at_once, begin, [partial(worked, *one) for one in numbered])
    PULSE.about("the end of the job")
    return documents


def _side_by_side(
    at_once: int, begin: Callable[[], None] | None, works: Sequence[Callable[[], dict[str, Any]]]
) -> list[dict[str, Any]]:
    """Return the results of all works; after an error, none of those that wait begins."""
    pool = ThreadPoolExecutor(at_once, "shard", begin)
    try:
        futures = [pool.submit(one) for one in works]
        wait(futures, return_when=FIRST_EXCEPTION)
    except BaseException:  # a person or a signal ends the job: it does not wait for shards
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown(cancel_futures=True)  # what failed has begun before all that is cancelled
    return [future.result() for future in futures]


def _document(
    name: str,
    work: Callable[[str], Mapping[str, Any]],
    still: Callable[[], Iterable[str]] | None,
) -> dict[str, Any]:
    began = time.monotonic()
    try:
        document = {**work(name)}
    except OF_ONE_SHARD as error:
        document = {"shard": name}
        if still is not None and name not in still():
            say(f"{name}: passed over, because it was dropped meanwhile")
        else:
            _complain(f"{type(error).__name__}: {error} [{name}]")
            document["error"] = _error_document(error)
    return {"seconds": round(time.monotonic() - began, 3), **document}


def _error_document(error: StrataError) -> dict[str, Any]:
    return {"kind": type(error).__name__, "message": str(error), "exit_code": error.exit_code}


def _first_error(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the error that ends a run: a retryable one, if there is any."""
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
    from strata.history.metrics import Metrics  # not before the session: see `strata.jobs.session`
    from strata.history.operations import note
    from strata.store.open import open_stores

    asked = [{"shard": name} for name in noted.shards or (EVERY_SHARD,)]
    recorded = document if "shards" in document else {"shards": asked}
    with suppress(StrataError):  # the job has ended, and its result is written
        settings = load_settings(noted.config, os.environ)
        metrics = Metrics(settings.metrics)
        note(
            open_stores(settings.store), metrics, noted.what, began_ms, recorded, code, error=error
        )

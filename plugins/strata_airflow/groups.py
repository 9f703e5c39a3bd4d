"""Several Spark applications for one run: its shards, cut into groups.

By default one application serves all shards of a run, because starting it costs more than the work
on most shards. For many or large shards, two variables in Airflow's environment cut a run into
groups: `STRATA_GROUP_SHARDS` (the most shards in a group) and `STRATA_GROUP_BYTES` (the most stored
bytes in a group; a larger shard is alone). The run then has a task that cuts, the job once for each
group, and a task that adds up the results and makes one asset event. The pool limits the number of
groups that run at a time.
The variables are read when a DAG file is parsed, so they must be the same for all of Airflow's
processes.
"""

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException

from strata_airflow import results
from strata_airflow.assets import tell, tell_nobody
from strata_airflow.commands import run_strata
from strata_airflow.spark import StrataJobOperator, job_arguments, spark_job

SHARDS: Final = "STRATA_GROUP_SHARDS"
BYTES: Final = "STRATA_GROUP_BYTES"
# Options of `strata shards` that list the default shards of a job.
DECLARED: Final = ("--declared",)
STORED: Final[tuple[str, ...]] = ()
STORED_AND_JOURNALS: Final = ("--journals",)
SUM: Final = "_sum"  # the end of the name of the task that adds up
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caps:
    """The limits of a group; None: no limit."""

    shards: int | None = None
    size_bytes: int | None = None

    def __bool__(self) -> bool:
        """Return whether there is any limit."""
        return self.shards is not None or self.size_bytes is not None


@dataclass(frozen=True, slots=True)
class Submitted:
    """The tasks of a job: the first and the last of a chain, or one task twice."""

    first: Any
    last: Any


def caps(environ: Mapping[str, str] = os.environ) -> Caps:
    """Return the caps that the environment names. Raises: ValueError naming the variable.

    >>> caps({"STRATA_GROUP_SHARDS": "10"})
    Caps(shards=10, size_bytes=None)
    """
    return Caps(_whole(environ, SHARDS), _whole(environ, BYTES))


def pack(sizes: Mapping[str, int], limits: Caps) -> list[list[str]]:
    """Return the names in groups within the limits, the largest first; a group is never empty.

    Each name goes into the first group with room for it, so that few groups are needed.

    >>> pack({"a": 3, "b": 9, "c": 1, "d": 20}, Caps(size_bytes=10))
    [['d'], ['b', 'c'], ['a']]
    >>> pack({"a": 0, "b": 0, "c": 0}, Caps(shards=2))
    [['a', 'b'], ['c']]
    """
    groups: list[list[str]] = []
    filled: list[int] = []
    for name in sorted(sizes, key=lambda one: (-sizes[one], one)):
        for n, group in enumerate(groups):
            few = limits.shards is None or len(group) < limits.shards
            small = limits.size_bytes is None or filled[n] + sizes[name] <= limits.size_bytes
            if few and small:
                group.append(name)
                filled[n] += sizes[name]
                break
        else:
            groups.append([name])
            filled.append(sizes[name])
    return groups


def cut(asked: Sequence[str], which: Sequence[str], limits: Caps) -> list[str]:
    """Return the groups of a run, each as words: of the requested shards, or of all.

    An empty shard weighs nothing. If there are no shards, there is one empty group, so that the job
    reports the error; a run without a task would look like a success.
    """
    listed = {one["shard"]: int(one["bytes"]) for one in run_strata("shards", *which)["shards"]}
    sizes = {name: listed.get(name, 0) for name in asked} if asked else listed
    groups = [" ".join(group) for group in pack(sizes, limits)] or [""]
    for number, group in enumerate(groups):
        _LOG.info("group %s: %s", number, group or "all shards that the job finds")
    return groups


def add_up(done: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the results of the groups' tasks: add up counts, and keep each result file.

    Raises: AirflowFailException if a group has returned nothing, because its work is unknown.
    """
    parts = list(done)
    if not all(parts):
        raise AirflowFailException("a group has returned no result")
    shards = {
        f"{one['job']} {n}": {k: v for k, v in one["counts"].items() if k != "shards"}
        for n, one in enumerate(parts)
    }
    _LOG.info("Result of all groups\n%s", results.table({"shards": shards}))
    total = results.counts({"shards": shards})
    total["shards"] = sum(one["counts"]["shards"] for one in parts)
    dry = all(one.get("dry_run") for one in parts)
    return {"counts": total, "results": [one["result"] for one in parts], "dry_run": dry}


def spark_jobs(
    job: str, which: Sequence[str], *, limits: Caps | None = None, **kwargs: Any
) -> Submitted:
    """Return the tasks that run a job of `strata.jobs` for a run; `kwargs` as of `spark_job`.

    `which`: options of `strata shards` that list the job's default shards.
    """
    limits = caps() if limits is None else limits
    if not limits:
        one = spark_job(job, **kwargs)
        return Submitted(one, one)
    arguments = job_arguments(job, **kwargs)
    outlets = list(arguments.pop("outlets", ()))
    partitions = str(arguments.pop("partitions", ""))
    name = str(arguments["task_id"])

    def groups(params: Mapping[str, Any]) -> list[str]:
        return cut(params.get("shards") or (), which, limits)

    def summed(done: Any, keys: str, outlet_events: Any, ti: Any) -> dict[str, Any]:
        total = add_up(done)
        if total["dry_run"]:
            tell_nobody(ti)
        else:
            tell(outlet_events, outlets, total["counts"], keys)
        return total

    cutting = _task(groups, "groups", "cut into groups")()
    mapped = StrataJobOperator.partial(map_index_template="{{ task.group }}", **arguments)
    each = mapped.expand(shards=cutting)
    summing = _task(summed, f"{name}{SUM}", f"{name}: all groups", outlets=outlets)
    return Submitted(cutting, summing(each.output, partitions))


def _task(function: Any, name: str, shown: str, **kwargs: Any) -> Any:
    return task(task_id=name, task_display_name=shown, **kwargs)(function)


def _whole(environ: Mapping[str, str], variable: str) -> int | None:
    said = environ.get(variable, "").strip()
    if not said:
        return None
    if not said.isdecimal() or int(said) < 1:
        raise ValueError(f"{variable} is a whole number, 1 or more, or empty: not {said!r}")
    return int(said)

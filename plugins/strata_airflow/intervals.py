"""The interval of time that a run is about, for templates (`{{ from_time(params, dag_run) }}`).

The form's answer wins. Otherwise a scheduled or backfilled run is about the day that its partition
key names. Otherwise there is no interval, and the job says what is missing. The clock is never
used: a run that is cleared and repeated is about the same interval.
"""

from datetime import UTC, datetime, timedelta
from typing import Any, Final

KEY_FORMAT: Final = "%Y-%m-%dT%H:%M:%S"  # Airflow's own for partition keys
DAY: Final = timedelta(days=1)
BY_HAND: Final = frozenset({"manual", "asset_materialization"})  # types of runs of a person


def from_time(params: dict[str, Any], dag_run: Any) -> str:
    """Return the start of the run's interval, inclusive; empty if it is unknown.

    >>> from_time({"from_time": "2013-01-01T00:00:00Z"}, None)
    '2013-01-01T00:00:00Z'
    """
    return _asked(params, "from_time") or _day(dag_run, timedelta())


def to_time(params: dict[str, Any], dag_run: Any) -> str:
    """Return the end of the run's interval, exclusive; empty if it is unknown."""
    return _asked(params, "to_time") or _day(dag_run, DAY)


def now(params: dict[str, Any], dag_run: Any) -> str:
    """Return the time that filters take as now: the form's, or the end of the run's day."""
    return _asked(params, "now") or _day(dag_run, DAY)


def rehearsed(params: dict[str, Any], dag_run: Any) -> bool:
    """Return whether a run is a dry run: a person triggered it and left "dry run" on.

    A scheduled run is real. Any other is, too, unless its configuration asks for a dry run: a
    backfill does what its form says, and a run that another DAG triggers what that DAG says.

    >>> rehearsed({"dry_run": True}, None)
    True
    """
    kind = _kind(dag_run)
    answers = params if kind in BY_HAND else getattr(dag_run, "conf", None) or {}
    return kind != "scheduled" and bool(answers.get("dry_run"))


def again(params: dict[str, Any], dag_run: Any, events: Any) -> bool:
    """Return whether to do the work of the run's day again instead of skipping it.

    That is so if a person chose it in the form. It is also so for a backfill if `events`, those of
    the asset, name an earlier run for the same day: Airflow makes a second run only if somebody
    chose to reprocess the day.

    >>> again({"again": True}, None, [])
    True
    """
    if params.get("again"):
        return True
    key = getattr(dag_run, "partition_key", None)
    if not key or _kind(dag_run) != "backfill":
        return False
    return any(event.partition_key == key for event in events)


MACROS: Final = {
    "from_time": from_time,
    "to_time": to_time,
    "now": now,
    "rehearsed": rehearsed,
    "again": again,
}


def _kind(dag_run: Any) -> str:
    kind = getattr(dag_run, "run_type", "manual")
    return str(getattr(kind, "value", kind))


def _asked(params: dict[str, Any], name: str) -> str:
    return str(params.get(name) or "")


def _day(dag_run: Any, offset: timedelta) -> str:
    key = getattr(dag_run, "partition_key", None)
    if not key:
        return ""
    day = datetime.strptime(key, KEY_FORMAT).replace(tzinfo=UTC)
    return (day + offset).isoformat().replace("+00:00", "Z")

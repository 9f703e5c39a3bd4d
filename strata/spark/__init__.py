"""The only part of the engine that knows Spark: filters in, snapshots out, tasks on executors."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from strata.spark.datasource import where_option
    from strata.spark.runner import spark_runner
    from strata.spark.snapshot import snapshot

__all__ = ["snapshot", "spark_runner", "where_option"]

_HOMES = {"snapshot": "snapshot", "spark_runner": "runner", "where_option": "datasource"}


def __getattr__(name: str) -> object:
    """Import what is asked for: a worker that reads parts needs no front end."""
    if name not in _HOMES:
        raise AttributeError(name)
    from importlib import import_module

    return getattr(import_module(f"strata.spark.{_HOMES[name]}"), name)

"""How far the tasks of a Spark session are, in words for a log."""

from collections.abc import Callable

from pyspark.sql import SparkSession


def tasks_under_way(spark: SparkSession) -> Callable[[], str]:
    """Return a function that says how many tasks of the stages under way are done.

    It may be called from any thread. Errs: low in all tasks, by stages that have not begun; low in
    tasks that are done, by those of the last tenth of a second before an executor's next event, at
    most until its heartbeat (10 s).
    """
    tracker = spark.sparkContext.statusTracker()

    def look() -> str:
        found = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        stages = [one for one in found if one is not None]
        if not stages:
            return "the driver works, Spark has no task"
        done = sum(one.numCompletedTasks for one in stages)
        every = sum(one.numTasks for one in stages)
        running = sum(one.numActiveTasks for one in stages)
        return f"{done:,} of {every:,} tasks of Spark are done, {running:,} run"

    return look

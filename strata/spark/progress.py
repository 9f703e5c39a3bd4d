"""How far the tasks of a Spark context are, in words for a log."""

from pyspark import SparkContext


def tasks_under_way(context: SparkContext) -> str:
    """Return how many tasks of the stages under way are done.

    It may be called from any thread. Errs: low in all tasks, by stages that have not begun; low in
    tasks that are done, by those of the last tenth of a second before an executor's next event, at
    most until its heartbeat (10 s).
    """
    tracker = context.statusTracker()
    found = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    stages = [one for one in found if one is not None]
    if not stages:
        return "the driver works, Spark has no task"
    done = sum(one.numCompletedTasks for one in stages)
    every = sum(one.numTasks for one in stages)
    running = sum(one.numActiveTasks for one in stages)
    return f"{done:,} of {every:,} tasks of Spark are done, {running:,} run"

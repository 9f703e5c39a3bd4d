"""CPU time of a program and of all that it started, Spark's JVM and its Python workers too."""

import psutil


def cpu_seconds() -> float:
    """Return the CPU time of this process and of all below it, those that ended included.

    What a process that ended used is counted with the one that waited for it.

    Units: seconds, user and system.
    """
    me, total = psutil.Process(), 0.0
    for process in (me, *me.children(recursive=True)):
        try:
            used = process.cpu_times()
        except psutil.NoSuchProcess:  # ended meanwhile: its parent has its time, next time
            continue
        total += used.user + used.system + used.children_user + used.children_system
    return total

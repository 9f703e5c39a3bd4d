"""Lets Spark's Python workers end without a traceback when Java listens no more.

A task is dropped, as behind a limit, or a worker that plans is let go: then it fails to answer, and
PySpark prints that.
"""

import os
import socket
import sys
from typing import Any


def end_quietly(daemon: Any) -> None:
    """Let the workers of a daemon, a module, end so."""
    work = daemon.worker

    def quiet(sock: socket.socket, authenticated: bool) -> int:
        try:
            return int(work(sock, authenticated))
        except ConnectionError:
            os._exit(1)

    daemon.worker = quiet


def end_planning_quietly() -> None:
    """Let this process end so if it is a worker of PySpark's own daemon, which plans reads."""
    main = sys.modules["__main__"]
    if getattr(getattr(main, "__spec__", None), "name", "") == "pyspark.daemon":
        end_quietly(main)

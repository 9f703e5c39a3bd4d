"""Ask a forked process for a text: it may die, write, take all memory, or never end."""

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Final

MEMORY: Final = 6 << 30  # bytes that a process may take
_CLOCK: Final = 20  # seconds of a clock for one of a processor
DIED: Final = "the process died"


def in_a_fork(answer: Callable[[], str], limit: float) -> str | None:
    """Return what `answer` returns in a copy of this process, `DIED`, or None: it does not end.

    Units: `limit` is in seconds of a processor, since the machine may be busy; a process that
    waits for ever is ended after twenty times as many seconds of a clock. What it prints is lost.
    """
    receiving, sending = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(receiving)
            os.setsid()
            _confine(int(limit))
            os.write(sending, json.dumps(answer()).encode())
        finally:
            os._exit(0)  # whatever happened, there is one parent only
    os.close(sending)
    said = b""
    until = time.monotonic() + _CLOCK * limit
    try:
        while (rest := until - time.monotonic()) > 0:
            if select.select([receiving], [], [], rest)[0]:
                piece = os.read(receiving, 1 << 16)
                if not piece:
                    break
                said += piece
    finally:
        os.close(receiving)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if said:
        return str(json.loads(said))
    stopped = os.WIFSIGNALED(status) and os.WTERMSIG(status) in (signal.SIGXCPU, signal.SIGKILL)
    return None if stopped else DIED


def _confine(limit: int) -> None:
    if "STRATA_SHOWN" not in os.environ:
        nothing = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nothing, stream)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5))

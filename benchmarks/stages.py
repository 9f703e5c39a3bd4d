"""Which stage of the engine uses the processor, while it works.

The kernel sends a signal after each few milliseconds of CPU time. Python runs the handler in the
main thread as soon as the call into Arrow or a kernel returns, so what a long call took is charged
to the function that made it. The work must be done by the main thread.

Errs: a stage may be charged with up to `EVERY_S` of the one before it, at each change.
"""

import signal
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Final

EVERY_S: Final = 0.004
OTHER: Final = "the rest"
# Modules below `strata`; the innermost frame that one of them holds names the stage.
STAGES: Final[Mapping[str, str]] = {
    "ingest.land": "listing files",
    "ingest.ledger": "the ledger",
    "ingest.steps": "the ledger",
    "ingest.plan": "cutting tasks",
    "ingest.readers": "reading the source",
    "ingest.values": "reading the source",
    "ingest.updates": "reading the source",
    "stats": "statistics",
    "updates": "sorting and merging",
    "parts.write": "writing parts",
    "parts.batch": "writing the manifest",
    "parts.unions": "writing the manifest",
    "format.part_write": "writing parts",
    "parts.fetch": "reading parts",
    "parts.prefetch": "reading parts",
    "parts.look": "reading parts",
    "read": "reading parts",
    "parts.manifests": "reading manifests",
    "parts.pages": "reading manifests",
    "decide": "deciding",
    "expr": "deciding",
    "plain": "deciding",
    "machine": "the state",
    "state": "the state",
    "compact": "cutting tasks",
}


class Stages:
    """CPU seconds by stage."""

    def __init__(self) -> None:
        """Begin with none."""
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._last = 0.0

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Charge what is used meanwhile; signals of this kind must be unused otherwise."""
        before = signal.signal(signal.SIGPROF, self._charge)
        signal.siginterrupt(signal.SIGPROF, False)
        self._last = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, EVERY_S, EVERY_S)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            self._charge(0, None)
            signal.signal(signal.SIGPROF, before)

    def _charge(self, _number: int, frame: FrameType | None) -> None:
        now = time.process_time()
        self.seconds[stage_at(frame)] += now - self._last
        self._last = now


def stage_at(frame: FrameType | None) -> str:
    """Return the stage that a frame and its callers are in."""
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.startswith("strata.") and (stage := stage_of(name)):
            return stage
        frame = frame.f_back
    return OTHER


def stage_of(module: str) -> str | None:
    """Return the stage of a module, by the longest name that it lies below; None: its caller's.

    >>> stage_of("strata.parts.write"), stage_of("strata.format.encodings")
    ('writing parts', None)
    """
    words = module.split(".")[1:]
    for count in range(len(words), 0, -1):
        if (stage := STAGES.get(".".join(words[:count]))) is not None:
            return stage
    return None

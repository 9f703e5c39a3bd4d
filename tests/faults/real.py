"""Worlds whose servers die and whose S3 throttles, for real: `tests.faults.world` on them.

Whatever happens, happens between two store calls of an operation, or in one; the operation may
fail, and afterwards the laws hold.
"""

import random
import signal
import threading
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol

from botocore.awsrequest import AWSResponse
from botocore.exceptions import ConnectionClosedError

from strata.store.s3 import S3Blob
from tests.faults.world import World
from tests.support.failing_stores import Outcome

OFTEN: Final = {Outcome.INTERRUPTED: 0.1}
THROTTLED: Final = (503, "SlowDown")
BROKEN: Final = (500, "InternalError")
MET: Final = (409, "ConditionalRequestConflict")


class Server(Protocol):
    """What is killed and started again."""

    def running(self) -> bool: ...
    def stop(self, how: signal.Signals = ...) -> None: ...
    def start(self) -> bool: ...


class Restarted(World):
    """A server dies while somebody works, `deaths` times at most, and is started again."""

    def __init__(
        self, root: Path, seed: int, server: Server, how: signal.Signals, deaths: int, **stores: str
    ) -> None:
        super().__init__(root, seed, shares=OFTEN, **stores)
        self.server, self.how, self.deaths = server, how, deaths
        self.lock = threading.Lock()
        self.dying: threading.Timer | None = None

    def interlude(self) -> None:
        """Let the server die now, or a moment later, while it is asked for something."""
        with self.lock:  # parts are read by several threads
            if not self.deaths or self.dying is not None or self.draw.random() > 0.3:
                return
            self.deaths -= 1
            wait = self.draw.choice([0, 0.001, 0.005, 0.02])
            self.dying = threading.Timer(wait, partial(self.server.stop, self.how))
            self.dying.start()
            if not wait:
                self.dying.join()

    def one(self) -> None:
        super().one()
        if self.dying is not None:
            self.dying.join()
            self.dying = None
        if not self.server.running():
            self.done["restart"] += 1
            assert self.server.start()


class Throttled(World):
    """S3 asks to slow down, fails, refuses those who meet, and answers whom nobody hears."""

    def __init__(self, root: Path, seed: int, share: float, **stores: str) -> None:
        super().__init__(root, seed, shares={}, **stores)
        self.share, self.answers = share, random.Random(seed)
        assert isinstance(self.sound.blob, S3Blob)
        events = self.sound.blob.client.boto.meta.events
        events.register_first("before-send.s3", self.answer)

    def answer(self, request: Any, **_: Any) -> AWSResponse | None:
        """Return what the server says; None lets it speak for itself."""
        draw = self.answers.random()
        if draw > self.share:
            return None
        if draw < self.share / 8:
            self.done["lost reply"] += 1
            _send(request)
            raise ConnectionClosedError(endpoint_url=request.url)
        status, code = THROTTLED if draw < self.share * 0.7 else BROKEN
        if draw > self.share * 0.9 and request.method == "PUT":
            status, code = MET
        self.done[code] += 1
        return AWSResponse(request.url, status, {}, _Body(f"<Error><Code>{code}</Code></Error>"))

    def verify(self) -> None:
        self.share = 0.0
        super().verify()


class _Body:
    def __init__(self, text: str) -> None:
        self.text = text

    def stream(self, *_: Any) -> Any:
        yield self.text.encode()


def _send(request: Any) -> None:
    from botocore.httpsession import URLLib3Session

    URLLib3Session().send(request)

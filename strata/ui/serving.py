"""The server of `strata ui`: nobody on this machine keeps others from their page.

A connection is served before its client shows a token. So one that sends no
whole request, or does not read its answer, ends after some seconds; of too many the oldest one
ends; and what stands before a body has a bounded size.
"""

import asyncio
from typing import Any, Final

from fastapi import FastAPI
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol

from strata.ui.what_if import LONGEST

PATIENCE_S: Final = 10.0  # without a whole request, or without reading of the answer
READ_BYTES: Final = 64 * 1024  # at least this much of an answer is read in that time
CONNECTIONS: Final = 256  # of all who look
BACKLOG: Final = 512  # connections that wait to be taken in; all at once have files to spare
HEAD_BYTES: Final = 64 * 1024 + 12 * LONGEST  # of a request; each character of a filter in 12


class Connection(H11Protocol):
    """One connection, which ends when its client keeps it waiting."""

    began: float = 0.0
    _timer: asyncio.TimerHandle | None = None
    _seen: tuple[object, int] = (None, 0)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; end the oldest one that waits for its client if there are too many."""
        super().connection_made(transport)
        self.began = self.loop.time()
        self._timer = self.loop.call_later(PATIENCE_S, self._look)
        others = [one for one in self.connections if isinstance(one, Connection)]
        if len(others) > CONNECTIONS:
            waiting = (one for one in others if one is not self and not one.works())
            oldest = min(waiting, key=lambda one: one.began, default=self)
            oldest.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def works(self) -> bool:
        """Return whether a page is being made; else this connection waits for its client."""
        cycle: Any = self.cycle
        if cycle is None or cycle.response_complete:
            return False
        return not cycle.more_body and not self.transport.get_write_buffer_size()

    def _look(self) -> None:
        """End the connection if its client sent no request, and read little, since last time."""
        left = self.transport.get_write_buffer_size()
        before, had = self._seen
        if not self.works() and before is self.cycle and left > had - READ_BYTES:
            self.transport.abort()
            return
        self._seen = self.cycle, left
        self._timer = self.loop.call_later(PATIENCE_S, self._look)


def server_config(app: FastAPI, host: str, port: int) -> Config:
    """Return how the console is served at an address of this machine."""
    return Config(
        app,
        host=host,
        port=port,
        http=Connection,
        ws="none",
        h11_max_incomplete_event_size=HEAD_BYTES,
        backlog=BACKLOG,
        log_level="error",  # what strangers send is no news
        server_header=False,
    )

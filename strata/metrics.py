"""Figures for monitoring, as StatsD datagrams with tags: sent and forgotten.

    strata.read.parts_skipped:12|c|#shard:flights,mode:on

Names and meanings are in docs/operations.md. A receiver that is not there costs nothing and is no
error; nothing waits for it.
"""

import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Final

PREFIX: Final = "strata."


@dataclass(frozen=True, slots=True)
class Metrics:
    """Where figures go; an empty address sends nothing."""

    statsd: str = ""  # host:port

    def count(self, name: str, value: int, tags: Mapping[str, str]) -> None:
        """Add to a counter; 0 is not sent."""
        if value:
            self._send(name, f"{value}|c", tags)

    def gauge(self, name: str, value: float, tags: Mapping[str, str]) -> None:
        """Set a gauge."""
        self._send(name, f"{value}|g", tags)

    def time(self, name: str, seconds: float, tags: Mapping[str, str]) -> None:
        """Tell how long something took; StatsD counts in milliseconds."""
        self._send(name, f"{seconds * 1000:.0f}|ms", tags)

    def _send(self, name: str, value: str, tags: Mapping[str, str]) -> None:
        if not self.statsd:
            return
        shown = ",".join(f"{key}:{_plain(tags[key])}" for key in sorted(tags))
        data = f"{PREFIX}{name}:{value}|#{shown}".encode()
        host, _, port = self.statsd.rpartition(":")
        with suppress(OSError, ValueError):
            _socket().sendto(data, (host, int(port)))


def _plain(text: str) -> str:
    """Return a tag's value without what separates tags."""
    return "".join("_" if c in ",|#: \n" else c for c in text)


@cache
def _socket() -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setblocking(False)
    return found

"""Figures for monitoring, as StatsD datagrams with tags and as OpenTelemetry metrics.

    strata.read.parts_skipped:12|c|#shard:flights,mode:on

Names and meanings are in docs/reference/metrics.md and are the same for both. A missing StatsD
receiver costs nothing. OpenTelemetry's library collects figures and sends them over HTTP every ten
seconds, and once more when the process ends, which may take `OTLP_SECONDS`. Neither ever causes
an error.
"""

import logging
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from strata.errors import masked
from strata.model.settings import MetricsSettings, without_password

PREFIX: Final = "strata."
OTLP_SECONDS: Final = 2  # timeout of one request to a receiver
OTLP_EVERY_MS: Final = 10_000
_log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Metrics:
    """A sender of figures to the receivers that the settings name."""

    places: MetricsSettings = MetricsSettings()  # noqa: RUF009 - frozen

    @property
    def wanted(self) -> bool:
        """Return whether the settings name a receiver."""
        return bool(self.places.statsd or self.places.otlp)

    def count(self, name: str, value: int, tags: Mapping[str, str]) -> None:
        """Add to a counter; 0 is not sent."""
        if value:
            self._send(name, f"{value}|c", tags)
            self._tell("count", name, value, tags)

    def gauge(self, name: str, value: float, tags: Mapping[str, str]) -> None:
        """Set a gauge."""
        self._send(name, f"{value}|g", tags)
        self._tell("gauge", name, value, tags)

    def time(self, name: str, seconds: float, tags: Mapping[str, str]) -> None:
        """Send a duration; StatsD counts in milliseconds."""
        self._send(name, f"{seconds * 1000:.0f}|ms", tags)
        self._tell("time", name, seconds, tags)

    def flush(self) -> None:
        """Send what OpenTelemetry has collected; for a process that may be killed at any time."""
        with suppress(Exception):  # a failure here must not end the operation
            if sender := _opentelemetry(self.places.otlp):
                sender.provider.force_flush(OTLP_SECONDS * 1000)

    def _tell(self, kind: str, name: str, value: float, tags: Mapping[str, str]) -> None:
        with suppress(Exception):  # likewise
            if sender := _opentelemetry(self.places.otlp):
                sender.tell(kind, PREFIX + name, value, tags)

    def _send(self, name: str, value: str, tags: Mapping[str, str]) -> None:
        if not self.places.statsd:
            return
        shown = ",".join(f"{key}:{_plain(tags[key])}" for key in sorted(tags))
        data = f"{PREFIX}{name}:{value}|#{shown}".encode()
        host, _, port = self.places.statsd.rpartition(":")
        with suppress(OSError, ValueError):
            _socket().sendto(data, (host, int(port)))


def _plain(text: str) -> str:
    """Return a tag's value without the characters that separate tags."""
    return "".join("_" if c in ",|#: \n" else c for c in text)


@cache
def _socket() -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.setblocking(False)
    return found


class _OpenTelemetry:
    """A collector of this process's figures for one receiver."""

    def __init__(self, endpoint: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource

        # It logs the address that it cannot reach.
        logging.getLogger(OTLPMetricExporter.__module__).addFilter(_without_secrets)
        reader = PeriodicExportingMetricReader(
            OTLPMetricExporter(endpoint=endpoint, timeout=OTLP_SECONDS), OTLP_EVERY_MS
        )
        self.provider = MeterProvider([reader], Resource.create({"service.name": "strata"}))
        self._meter = self.provider.get_meter("strata")
        self._instruments: dict[str, Any] = {}

    def tell(self, kind: str, name: str, value: float, tags: Mapping[str, str]) -> None:
        """Record one figure; timers are histograms, in seconds."""
        known = self._instruments.get(name)
        if known is None:
            make = {
                "count": self._meter.create_counter,
                "gauge": self._meter.create_gauge,
                "time": self._meter.create_histogram,
            }[kind]
            known = self._instruments[name] = make(name, unit=_unit(kind, name))
        method = {"count": "add", "gauge": "set", "time": "record"}[kind]
        getattr(known, method)(value, dict(tags))


def _without_secrets(record: logging.LogRecord) -> bool:
    """Take passwords of addresses out of a line of the log; a filter of loggers."""
    record.msg, record.args = masked(record.getMessage()), ()
    return True


def _unit(kind: str, name: str) -> str:
    """Return the unit of a figure as UCUM has it; no unit for what is counted.

    A receiver writes it behind the name, and `1` as "ratio".
    """
    return "s" if kind == "time" else "By" if "bytes" in re.split(r"[._]", name) else ""


@cache
def _opentelemetry(endpoint: str) -> _OpenTelemetry | None:
    if not endpoint:
        return None
    try:
        return _OpenTelemetry(endpoint)
    except Exception as problem:  # not installed, or not an address: logged once
        said = str(problem).replace(endpoint, without_password(endpoint))
        _log.warning("no figures go to %s: %s", without_password(endpoint), said)
        return None

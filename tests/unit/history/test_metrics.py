"""Figures arrive under their documented names, at StatsD and at OpenTelemetry, or nowhere."""

import logging
import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)

from strata.decide.plan import plan_read
from strata.history import metrics, operations, usage
from strata.history.metrics import Metrics, _opentelemetry
from strata.model.settings import MetricsSettings, StoreSettings, UsageSettings
from strata.read.scan import scan
from strata.shard import Shard
from tests.support.audited import WHERE, World, world_in
from tests.support.shards import NAME

NUMBERS = count()
DOCUMENTED = Path(__file__).parents[3] / "docs/reference/metrics.md"
# What the documentation promises of each kind of figure; of reads, operations, shards, statistics.
READS = {
    f"strata.read.{name}"
    for name in (
        "reads",
        "parts_fetched",
        "parts_skipped",
        "parts_audited",
        "parts_without_stats",
        "bytes_fetched",
        "bytes_skipped",
        "bytes_audited",
        "bytes_without_stats",
        "updates",
        "first_row_seconds",
    )
}
OPERATIONS = {f"strata.operation.{name}" for name in ("count", "seconds", "rows", "bytes")}
SHARDS = {
    f"strata.shard.{name}"
    for name in ("parts", "bytes", "updates", "stats_bytes", "parts_without_stats")
}
STATISTICS = {"strata.stats.seconds", "strata.stats.bytes_added"}
COMPACTION = {f"strata.compact.{name}" for name in ("updates_in", "updates_out")}
VALIDATION = {f"strata.validate.{name}" for name in ("mismatches", "errors", "missing")}
ALL = READS | OPERATIONS | SHARDS | STATISTICS | COMPACTION | VALIDATION


class Receiver:
    """An OpenTelemetry receiver that keeps what it is told."""

    def __init__(self) -> None:
        self.metrics: dict[str, list[Any]] = {}
        told = self.metrics

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                data = self.rfile.read(int(self.headers["Content-Length"]))
                for resource in ExportMetricsServiceRequest.FromString(data).resource_metrics:
                    for scope in resource.scope_metrics:
                        for metric in scope.metrics:
                            points = getattr(metric, metric.WhichOneof("data")).data_points
                            told.setdefault(metric.name, []).extend(points)
                self.send_response(200)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/metrics"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def end(url: str) -> None:
    """Send nothing more from this process: else it tries once more when it ends."""
    sender = _opentelemetry(url)
    if sender is not None:
        sender.provider.shutdown(5000)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    end(found.url)
    found.server.shutdown()
    found.server.server_close()


@pytest.fixture
def world() -> World:
    name = f"memory://metrics {next(NUMBERS)}"
    return world_in(StoreSettings(name, name))


def tell_everything(world: World, to: Metrics) -> None:
    """Do one of each thing that figures are told of."""
    log = UsageSettings(log=False)
    state = world.state
    for mode in ("off", "on"):
        plan = plan_read(world.stores, state, filter=WHERE, mode=mode)
        usage.record(world.stores, state, plan, WHERE, log, to)
    some = plan_read(world.stores, state, filter=WHERE, mode="audit")
    keys = frozenset(ref.key for ref in some.fetched)
    object.__setattr__(some, "audited", keys)  # whichever the sample would be
    usage.record(world.stores, state, some, WHERE, log, to)
    assert len(list(usage.emitted(scan(world.stores, state, plan), to, NAME))) > 0
    for what, counts in (
        ("compact", {"updates_in": 9, "updates_out": 7, "bytes_in": 5}),
        ("validate", {"mismatches": 1, "errors": 0, "missing": 0, "rows": 3}),
        ("ingest", {"stats_bytes": 7, "stats_ms": 1500, "updates": 4}),
        ("backfill", {"stats_bytes_before": 10, "stats_bytes_after": 30}),
    ):
        operations.note(world.stores, to, what, 0, {"shard": NAME, **counts}, 0)
    to.flush()


def test_opentelemetry_gets_every_documented_name(world: World, receiver: Receiver) -> None:
    tell_everything(world, Metrics(MetricsSettings(otlp=receiver.url)))

    assert receiver.metrics.keys() >= ALL
    plan = plan_read(world.stores, world.state, filter=WHERE, mode="on")
    told = {
        tuple((one.key, one.value.string_value) for one in point.attributes): point.as_int
        for point in receiver.metrics["strata.read.parts_skipped"]
    }
    assert told[("shard", NAME), ("mode", "on")] == plan.parts_skipped > 0
    added = {
        one.value.string_value: point.as_int
        for point in receiver.metrics["strata.stats.bytes_added"]
        for one in point.attributes
        if one.key == "what"
    }
    assert added == {"ingest": 7, "backfill": 20}
    assert 1.5 in [point.sum for point in receiver.metrics["strata.stats.seconds"]]
    assert receiver.metrics["strata.read.first_row_seconds"][-1].count == 1


def test_statsd_gets_the_same_names(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(5)
        tell_everything(world, Metrics(MetricsSettings(f"127.0.0.1:{bound.getsockname()[1]}")))
        got: set[str] = set()
        while not got >= ALL:  # a name that does not come is a timeout
            got.add(bound.recv(999).decode().partition(":")[0])


def test_every_name_is_documented() -> None:
    text = DOCUMENTED.read_text("utf-8")
    said = {name.rpartition(".")[2] for name in re.findall(r"`(?:strata)?\.?[a-z_.]+`", text)}
    names = {name.rpartition(".")[2] for name in ALL}
    missing = {n for n in names if f"`{n}`" not in text and f".{n}`" not in text}
    assert missing == set(), said


def test_the_plan_counts_what_has_no_statistics_and_what_is_audited(world: World) -> None:
    plan = plan_read(world.stores, world.state, filter=WHERE, mode="on")
    without = [ref for ref in plan.fetched if ref.stats_version is None]
    assert plan.without_stats == (len(without), sum(ref.size_bytes for ref in without))
    assert len(without) > 0
    assert plan.bytes_audited == 0
    object.__setattr__(plan, "audited", frozenset({without[0].key}))
    assert plan.bytes_audited == without[0].size_bytes


def test_each_figure_goes_to_the_one_receiver_that_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[tuple[Any, ...]] = []

    class Sender:
        def tell(self, *said: Any) -> None:
            told.append(said)

    monkeypatch.setattr(metrics, "_opentelemetry", lambda url: Sender() if url == "x" else None)
    for to in (Metrics(), Metrics(MetricsSettings(otlp="x"))):
        assert to.wanted is (to != Metrics())
        to.count("read.reads", 2, {"shard": "s"})
        to.count("read.reads", 0, {"shard": "s"})
        to.gauge("shard.parts", 0, {})
        to.time("operation.seconds", 0.25, {})
    assert told == [
        ("count", "strata.read.reads", 2, {"shard": "s"}),
        ("gauge", "strata.shard.parts", 0, {}),
        ("time", "strata.operation.seconds", 0.25, {}),
    ]


def test_each_name_has_one_instrument_of_its_kind() -> None:
    made: list[tuple[str, str, str]] = []
    told: list[tuple[str, float]] = []

    class Meter:
        def __getattr__(self, kind: str) -> Any:
            def make(name: str, unit: str) -> Any:
                made.append((kind, name, unit))
                return self

            return make if kind.startswith("create") else lambda n, _: told.append((kind, n))

    sender = object.__new__(metrics._OpenTelemetry)
    sender._meter, sender._instruments = Meter(), {}  # type: ignore[assignment]
    for _ in range(2):
        sender.tell("count", "strata.read.reads", 1, {})
        sender.tell("gauge", "strata.shard.stats_bytes", 2, {})
        sender.tell("time", "strata.operation.seconds", 0.5, {})
    assert made == [
        ("create_counter", "strata.read.reads", ""),
        ("create_gauge", "strata.shard.stats_bytes", "By"),
        ("create_histogram", "strata.operation.seconds", "s"),
    ]
    assert told == [("add", 1), ("set", 2), ("record", 0.5)] * 2


def test_a_line_of_the_library_stays_without_the_password() -> None:
    said = "no way to http://u:hunter2@h/v1"
    line = logging.LogRecord("otlp", logging.ERROR, "", 1, "%s", (said,), None)
    assert metrics._without_secrets(line)
    assert line.getMessage() == "no way to http://u:***@h/v1"


def test_no_receiver_is_made_where_none_is_named() -> None:
    """The library would send to an address of its own choice."""
    assert _opentelemetry("") is None


def test_a_receiver_that_is_not_there_is_no_error() -> None:
    for url in ("http://127.0.0.1:9/v1/metrics", "nonsense"):
        Metrics(MetricsSettings(otlp=url)).count("x", 1, {"shard": "s"})
        Metrics(MetricsSettings(otlp=url)).flush()
        end(url)


@pytest.mark.parametrize(
    "url", ["http://u:hunter2@127.0.0.1:9/v1?api_key=hunter2", "collector://u:hunter2@h/v1"]
)
def test_a_receiver_that_is_not_there_shows_no_password(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    to = Metrics(MetricsSettings(otlp=url))
    to.count("x", 1, {"shard": "s"})
    to.flush()
    end(url)
    assert "export" in caplog.text
    assert "hunter2" not in caplog.text


def test_a_scan_of_the_library_tells_what_it_gave_out(world: World) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        bound.settimeout(5)
        to = Metrics(MetricsSettings(f"127.0.0.1:{bound.getsockname()[1]}"))
        rows = sum(b.num_rows for b in Shard(world.stores, NAME, metrics=to).scan())
        told = ""
        while "first_row_seconds" not in told:
            told += bound.recv(1000).decode() + "\n"
    assert f"strata.read.updates:{rows}|c|#shard:{NAME}\n" in told
    assert "strata.read.parts_fetched:" in told

"""Operations leave a row each, and figures; neither can fail what they tell of."""

import socket
from dataclasses import replace
from itertools import count

import orjson
import pytest

from strata.audit import table
from strata.cli.visible import shown_error
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.history import operations, usage
from strata.history.journal import append_rows
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.model.journals import EVERY_SHARD
from strata.model.settings import MetricsSettings, StoreSettings, UsageSettings
from strata.spark.runner import _results, attempt
from strata.store import bill
from strata.store.open import Stores, open_stores
from tests.support.audited import WHERE, world_in
from tests.support.failing_stores import Faults, FaultyBlob, Outcome

NUMBERS = count()


@pytest.fixture
def stores() -> Stores:
    name = f"memory://operations {next(NUMBERS)}"
    return open_stores(StoreSettings(name, name), lambda: 60_000)


@pytest.fixture
def receiver() -> socket.socket:
    found = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    found.bind(("127.0.0.1", 0))
    found.settimeout(5)
    return found


def address(receiver: socket.socket) -> str:
    return "{}:{}".format(*receiver.getsockname())


RESULT = {
    "shards": {"a": {"rows": 7, "bytes": 70, "mismatches": 1}, "b": {"updates": 3, "mode": "on"}}
}


def test_each_shard_of_a_job_gets_a_row_that_says_who_what_how_much_and_how_it_ended(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AIRFLOW_CTX_DAG_RUN_ID", raising=False)
    monkeypatch.setenv("STRATA_USER", "ann")
    bill.settle()  # what tests before this one asked of S3

    for _ in range(2):  # told twice, written once
        assert operations.note(stores, Metrics(), "validate", 58_000, RESULT, 3) == 2

    [a], [b] = (operations.recent(stores, name, 9) for name in ("a", "b"))
    assert (a.what, a.who, a.outcome, a.rows, a.bytes, a.seconds) == (
        "validate",
        "ann",
        "mismatch",
        7,
        70,
        2.0,
    )
    assert (b.outcome, b.rows) == ("done", 3)  # the mismatch was in the other shard


def test_what_s3_was_asked_for_is_told_once_of_one_shard_or_of_all(stores: Stores) -> None:
    bill.settle()
    done, _, spent = attempt(lambda item: bill.charge({"get_object": item, "bytes_in": 9}), 4)
    assert (done, spent, bill.settle()) == (None, {"get_object": 4, "bytes_in": 9}, {})
    for what, document in (("compact", {"shard": "a"}), ("validate", RESULT), ("trim", RESULT)):
        if what != "trim":
            assert list(_results([("x", None, spent), ("y", None, {"put_object": 1})])) == [*"xy"]
        operations.note(stores, Metrics(), what, 0, document, 0)
    told = {"s3_puts": 1, "s3_gets": 4, "s3_bytes_in": 9, "s3_bytes_out": 0}
    rows = {
        (row.shard, row.what): orjson.loads(row.details)
        for row in operations.recent(stores, "a", 9)
    }
    assert rows["a", "compact"] == told
    assert rows[EVERY_SHARD, "validate"] == told
    assert not rows["a", "validate"].keys() & told.keys()
    assert rows.keys() >= {("a", "trim")}
    assert (EVERY_SHARD, "trim") not in rows


def test_the_newest_come_first_and_a_run_of_airflow_is_named(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIRFLOW_CTX_DAG_RUN_ID", "manual 1")
    monkeypatch.setenv("AIRFLOW_CTX_DAG_ID", "shard_compact")
    for began, code in ((1000, 0), (3000, 1), (2000, 4)):
        operations.note(stores, Metrics(), "compact", began, {"shard": "a", "n": began}, code)

    found = operations.recent(stores, "a", 2)

    assert [(one.at_ms, one.outcome) for one in found] == [(3000, "failed"), (2000, "fenced")]
    assert found[0].who == "airflow shard_compact manual 1"


def test_what_cannot_be_written_is_no_error(stores: Stores) -> None:
    faults = Faults([Outcome.REFUSED] * 1000)
    broken = replace(stores, blob=FaultyBlob(stores.blob, faults))
    assert (
        operations.note(broken, Metrics(MetricsSettings("nowhere:x")), "compact", 0, RESULT, 0) == 0
    )
    assert operations.note(stores, Metrics(), "compact", 0, {"error": {}}, 1) == 0


@pytest.mark.parametrize(
    ("by", "result"),
    [("b\udcff", RESULT), ("ann", {"shard": "a", "rows": 2**64}), ("ann", {"shards": {"a": 7}})],
)
def test_a_row_that_cannot_be_made_is_no_error(
    stores: Stores, by: str, result: dict[str, object]
) -> None:
    assert operations.note(stores, Metrics(), "compact", 0, result, 0, by=by) == 0


def test_nothing_to_tell_makes_no_journal(stores: Stores) -> None:
    assert append_rows(stores, operations.spec(), [], "nothing") == 0
    assert Machine(stores).names() == []


def test_journals_do_not_tell_of_themselves(stores: Stores) -> None:
    about = {"shard": table.SHARD, "rows": 1}
    assert operations.note(stores, Metrics(), "compact", 0, about, 0) == 0


def test_figures_of_an_operation_go_to_statsd_under_documented_names(
    stores: Stores, receiver: socket.socket
) -> None:
    operations.note(
        stores,
        Metrics(MetricsSettings(address(receiver))),
        "compact",
        58_500,
        {"shard": "a", "parts_out": 4},
        0,
    )

    got = {receiver.recv(999).decode() for _ in range(3)}

    tags = "#outcome:done,shard:a,what:compact"  # no shard of that name is there: no more figures
    assert got == {
        f"strata.operation.count:1|c|{tags}",
        f"strata.operation.seconds:1500|ms|{tags}",
        "strata.compact.parts_out:4|g|#shard:a",
    }


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ({"stats_bytes_before": 30, "stats_bytes_after": 10}, (0.0, -20)),
        ({"stats_bytes": 7, "stats_ms": 1500}, (1.5, 7)),
        ({"stats_bytes": 0, "stats_ms": 1500}, ()),
    ],
)
def test_what_statistics_cost_is_told_of_what_made_them(
    stores: Stores,
    monkeypatch: pytest.MonkeyPatch,
    counts: dict[str, int],
    told: tuple[float, ...],
) -> None:
    got: list[tuple[str, float]] = []
    for kind in ("gauge", "time"):
        monkeypatch.setattr(Metrics, kind, lambda _, name, value, __: got.append((name, value)))
    operations.note(stores, Metrics(), "ingest", 60_000, {"shard": "a", **counts}, 0)
    names = ("stats.seconds", "stats.bytes_added")
    assert [one for one in got if one[0] in names] == [*zip(names, told, strict=False)]


def test_the_size_of_a_shard_is_told_as_its_state_has_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    for began in (1, 2):
        operations.note(stores, Metrics(), "trim", began, {"shard": "a"}, 0)
    batches = Machine(stores).load(operations.SHARD).batches
    got: dict[str, float] = {}
    monkeypatch.setattr(Metrics, "gauge", lambda _, name, value, __: got.update({name: value}))
    told = Metrics(MetricsSettings("127.0.0.1:9"))
    operations.note(stores, told, "compact", 3, {"shard": operations.SHARD}, 0)

    assert {name: value for name, value in got.items() if name.startswith("shard.")} == {
        "shard.parts": len(batches),
        "shard.bytes": sum(one.size_bytes for one in batches),
        "shard.updates": 2,
        "shard.stats_bytes": sum(one.stats_bytes for one in batches),
        "shard.parts_without_stats": 0,
    }


def test_an_error_may_be_a_text_of_its_own(stores: Stores) -> None:
    operations.note(stores, Metrics(), "trim", 0, {"shard": "a", "error": "it broke"}, 2)
    [row] = operations.recent(stores, "a", 9)
    assert (row.outcome, orjson.loads(row.details)) == ("bad request", {"error": "it broke"})


def test_each_read_with_a_filter_tells_what_it_skipped(receiver: socket.socket) -> None:
    name = f"memory://operations {next(NUMBERS)}"
    world = world_in(StoreSettings(name, name))
    plan = plan_read(world.stores, world.state, filter=WHERE, mode="on")
    metrics = Metrics(MetricsSettings(address(receiver)))

    usage.record(world.stores, world.state, plan, WHERE, UsageSettings(log=False), metrics)

    got = [receiver.recv(999).decode() for _ in range(5)]
    assert f"strata.read.parts_skipped:{plan.parts_skipped}|c|#mode:on,shard:events" in got
    assert plan.parts_skipped > 0


def test_a_tag_cannot_smuggle_another(receiver: socket.socket) -> None:
    Metrics(MetricsSettings(address(receiver))).count("x", 1, {"shard": "a,mode:on|#\nb"})
    assert receiver.recv(999) == b"strata.x:1|c|#shard:a_mode_on___b"


def test_no_password_of_an_address_gets_into_the_history(stores: Stores) -> None:
    """Whoever looks at the console reads the journal; a password was typed by one of them."""
    for target in ("s3://key:hunter2@bucket/x", "postgresql://h/db?user=u&password=hunter2"):
        problem = InvalidRequest(f"no table {target}", path=target, listed=[target], cure=target)
        assert "hunter2" not in f"{problem}{shown_error(problem)}"
        failed = {"shards": [{"shard": target}]}
        operations.note(stores, Metrics(), "adopt", 1, failed, 2, error=repr(target), reason=target)
    found = operations.journal(stores)
    assert (len(found), "hunter2" in f"{found}") == (2, False)

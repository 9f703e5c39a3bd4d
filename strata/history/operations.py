"""The history of operations on shards, one row for each, and figures for monitoring.

When a job or a command ends, well or badly, it records who did what, when, how much, how long it
took and how it ended. The rows form the journal `strata_operations`; `strata history` shows those
of a shard. The same figures go to StatsD if `[metrics] statsd` names a receiver;
docs/reference/metrics.md lists their names. Neither may make its operation fail.
"""

import getpass
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from strata.decide.plan import plan_read
from strata.errors import StrataError, bounded, masked
from strata.history.journal import append_rows, journal_spec
from strata.history.metrics import Metrics
from strata.machine.machine import Machine
from strata.model.journals import EVERY_SHARD, is_journal
from strata.model.spec import ShardSpec
from strata.read.scan import scan
from strata.store import bill, keys
from strata.store.open import Stores

SHARD: Final = "strata_operations"
ERROR_MAX: Final = 500  # characters of an error that a row keeps
MISMATCH: Final = 3  # an exit code, like those in OUTCOMES
OUTCOMES: Final = {0: "done", 2: "bad request", MISMATCH: "mismatch", 4: "fenced"}
_ROWS: Final = ("rows", "updates", "updates_in")
_BYTES: Final = ("bytes", "bytes_in", "audited_bytes", "bytes_selected", "deleted_bytes")


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that was done to one shard."""

    shard: str
    what: str  # ingest, compact, sweep, backfill, trim, validate, create, rollout approve, ...
    at_ms: int  # when it began
    seconds: float
    who: str
    outcome: str  # done | failed | bad request | mismatch | fenced
    rows: int
    bytes: int
    # Its other counts, the given reason, the error if it failed, and what each filter of a
    # validation would skip (`checks`); as JSON
    details: str


def note(  # noqa: PLR0913  these are the fields of one row
    stores: Stores,
    metrics: Metrics,
    what: str,
    began_ms: int,
    document: Mapping[str, Any],
    code: int,
    *,
    by: str | None = None,
    error: str = "",
    reason: str = "",
) -> int:
    """Record what an operation did to each shard of its result; return the number of rows.

    `document` is the result of a job, or of a command about one shard. `by` is the person who acts,
    by default the result of `who`. Never raises: a failure to record does not undo an operation.
    """
    texts = {k: v for k, v in (("error", error[:ERROR_MAX]), ("reason", bounded(reason))) if v}
    try:
        shards = [*_shards(document)]
        if any(isinstance(one.get("error"), Mapping) and one["error"] for one in shards):
            code = code if code == MISMATCH else 0  # the others did not fail
        found = [
            _operation(what, began_ms, stores.clock(), {**one, **texts}, code, by or who())
            for one in map(_flat, shards)
        ]
        found = _with_bill(found, bill.bill_counts(bill.settle()))
        for operation in found:
            _tell(metrics, operation)
            _tell_of_shard(metrics, stores, operation.shard)
        rows = [asdict(operation) for operation in found if not is_journal(operation.shard)]
        token = f"operations-{keys.content_hash(orjson.dumps(rows))}"
        return append_rows(stores, spec(), rows, token)
    except Exception:  # an operation never fails because of its row
        return 0


def recent(stores: Stores, shard: str, limit: int) -> list[Operation]:
    """Return the last operations on a shard, newest first, and of those on all shards.

    Cost: reads the journal, a batch at a time, and keeps `limit` of its rows.
    """
    wanted, order = pa.array([shard, EVERY_SHARD]), [("at_ms", "descending"), ("what", "ascending")]
    found: pa.Table | None = None
    for rows in _batches(stores):
        mine = pa.table(rows).filter(pc.is_in(rows["shard"], wanted))
        both = mine if found is None else pa.concat_tables([found, mine])
        found = both.take(pc.sort_indices(both, order)[:limit])  # stable, as `journal` sorts
    return [] if found is None else _made_of(found.to_pylist())


def journal(stores: Stores) -> list[Operation]:
    """Return the operations on all shards, newest first.

    Cost: reads the journal.
    """
    rows = [row for batch in _batches(stores) for row in batch.to_pylist()]
    rows.sort(key=lambda row: (-row["at_ms"], row["what"]))
    return _made_of(rows)


def _batches(stores: Stores) -> Iterator[pa.RecordBatch]:
    machine = Machine(stores)
    if SHARD in machine.names():
        state = machine.load(SHARD)
        yield from scan(stores, state, plan_read(stores, state))


def _made_of(rows: Iterable[Mapping[str, Any]]) -> list[Operation]:
    names = list(Operation.__dataclass_fields__)
    return [Operation(**{name: row[name] for name in names}) for row in rows]


def spec() -> ShardSpec:
    """Return the declaration of the journal."""
    return journal_spec(SHARD, Operation, ("shard", "at_ms", "what"))


def _shards(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the result of each shard from a list, a mapping, or a document about one shard."""
    shards = document.get("shards")
    if isinstance(shards, Mapping):
        yield from ({"shard": name, **one} for name, one in shards.items())
    elif isinstance(shards, list):
        yield from (one for one in shards if isinstance(one, Mapping) and "shard" in one)
    elif "shard" in document:
        yield document


def _flat(one: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a shard's result with its error, if any, as text and exit code."""
    failed = one.get("error")
    if not isinstance(failed, Mapping) or not failed:
        return one
    text = f"{failed['kind']}: {failed['message']}"[:ERROR_MAX]
    return {**one, "error": text, "exit_code": failed["exit_code"]}


def _operation(
    what: str, began_ms: int, ended_ms: int, one: Mapping[str, Any], code: int, by: str
) -> Operation:
    counts = {k: v for k, v in one.items() if isinstance(v, int) and not isinstance(v, bool)}
    more = {name: masked(str(one[name])) for name in ("reason", "error") if one.get(name)}
    if isinstance(one.get("checks"), Mapping) and one["checks"]:
        more |= {"checks": one["checks"]}
    mine = code if code != MISMATCH or one.get("mismatches") else 0  # other shards were clean
    mine = counts.pop("exit_code", mine)
    seconds = one.get(
        "seconds"
    )  # of this shard alone; the run's seconds include the start of Spark
    if not isinstance(seconds, float):
        seconds = (ended_ms - began_ms) / 1000
    return Operation(
        masked(str(one["shard"])),  # a command that failed may have an address in its place
        what,
        began_ms,
        seconds,
        by,
        OUTCOMES.get(mine, "failed"),
        _first(counts, _ROWS),
        _first(counts, _BYTES),
        orjson.dumps(counts | more, option=orjson.OPT_SORT_KEYS).decode(),
    )


def _with_bill(found: list[Operation], spent: Mapping[str, int]) -> list[Operation]:
    """Return the rows with the S3 requests; for several shards, in a row for all shards."""
    if not found or not spent:
        return found
    one = (
        found[0]
        if len(found) == 1
        else replace(
            found[0], shard=EVERY_SHARD, outcome=OUTCOMES[0], rows=0, bytes=0, details="{}"
        )
    )
    counts = orjson.loads(one.details) | spent
    detailed = replace(one, details=orjson.dumps(counts, option=orjson.OPT_SORT_KEYS).decode())
    return [detailed] if len(found) == 1 else [*found, detailed]


def _first(counts: Mapping[str, int], names: tuple[str, ...]) -> int:
    return next((counts[name] for name in names if name in counts), 0)


def who() -> str:
    """Return who acts: the run of Airflow, `STRATA_USER`, or the user of the machine."""
    run = os.environ.get("AIRFLOW_CTX_DAG_RUN_ID")
    if run:
        return f"airflow {os.environ.get('AIRFLOW_CTX_DAG_ID', '')} {run}"
    try:
        return os.environ.get("STRATA_USER") or getpass.getuser()
    except (KeyError, OSError):  # a user without a name
        return "unknown"


def _tell(metrics: Metrics, one: Operation) -> None:
    tags = {"shard": one.shard, "what": one.what, "outcome": one.outcome}
    metrics.count("operation.count", 1, tags)
    metrics.time("operation.seconds", one.seconds, tags)
    metrics.count("operation.rows", one.rows, tags)
    metrics.count("operation.bytes", one.bytes, tags)
    counts = orjson.loads(one.details)
    if {"stats_bytes_before", "stats_bytes_after"} <= counts.keys():  # collected, or trimmed
        added = counts["stats_bytes_after"] - counts["stats_bytes_before"]
        metrics.time("stats.seconds", one.seconds, tags)
        metrics.gauge("stats.bytes_added", added, tags)
    elif counts.get("stats_bytes"):  # collected while parts were written
        metrics.time("stats.seconds", counts["stats_ms"] / 1000, tags)
        metrics.gauge("stats.bytes_added", counts["stats_bytes"], tags)
    kind = one.what.replace(" ", "_").replace("-", "_")
    for name, value in counts.items():
        if isinstance(value, int):
            metrics.gauge(f"{kind}.{name}", value, {"shard": one.shard})


def _tell_of_shard(metrics: Metrics, stores: Stores, shard: str) -> None:
    """Send the size of a shard, and how much of it has no statistics."""
    if not metrics.wanted or shard == EVERY_SHARD:
        return
    try:
        batches = Machine(stores).load(shard).batches
    except StrataError:  # it was dropped, or never existed
        return
    for name, value in (
        ("parts", sum(b.parts for b in batches)),
        ("bytes", sum(b.size_bytes for b in batches)),
        ("updates", sum(b.updates for b in batches)),
        ("stats_bytes", sum(b.stats_bytes for b in batches)),
        ("parts_without_stats", sum(b.parts - b.stats_parts for b in batches)),
    ):
        metrics.gauge(f"shard.{name}", value, {"shard": shard})

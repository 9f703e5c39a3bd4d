"""The log of filters: what readers asked a shard, and which statistics answered.

Each read with a filter leaves one small JSON blob, `shards/{shard}/usage/{day}/{slot}.json`. At
most `SLOTS` blobs are kept per day: the slot is a hash of the filter and the hour, and the first
read to use it takes it. So the log is bounded without a list or a lock. A filter that is used all
day weighs more than a filter used once, and a repetition within the hour costs nothing. `fold`
folds each past day into one `summary.json`.

Nothing here may fail a read: an entry that cannot be written is counted and dropped. The log has
two uses: `usefulness` weighs statistics for trimming, and `recent` gives soft evaluation the
filters that readers really use.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa

from strata.decide.credit import credit
from strata.decide.ranges import same_type
from strata.decide.read_plan import ReadPlan
from strata.errors import InvalidRequest, StrataError
from strata.expr.exprjson import dump_filter, load_filter
from strata.expr.filter import Filter
from strata.format.encodings import encoding
from strata.history.metrics import Metrics
from strata.history.usage_blobs import SUMMARY, entries_of_day, set_once
from strata.model.schema import Relation
from strata.model.settings import UsageSettings
from strata.plain.rows import filter_columns
from strata.read.count import Counted
from strata.state.state import State
from strata.store import keys
from strata.store.open import Stores
from strata.store.retry import retry

VERSION: Final = 1
SLOTS: Final = 256  # most entries per day
FILTERS_MAX: Final = 256  # in the summary of a day: those with the most reads
ENTRY_BYTES_MAX: Final = 64 * 1024  # a longer filter is not logged
MENTION: Final = 0.05  # usefulness of a column that a filter reads but that skips nothing
_HOUR_MS: Final = 3_600_000
_DAY_US: Final = 86_400_000_000
_KNOWN_MAX: Final = 10_000

_known: Final[set[tuple[str, str]]] = set()  # slots that this process need not try again


@dataclass(frozen=True, slots=True)
class UsedFilter:
    """One filter, and the totals of all reads with it."""

    filter: Filter  # its clock: the day of the read, from start to end
    reads: int  # times it was logged; a repetition within an hour is not
    decided: int  # of these, the reads that consulted statistics (modes audit and on)
    relation_version: int  # of the newest read
    last_day: str
    parts_total: int  # this and the following: sums over the `decided` reads
    parts_kept: int
    bytes_total: int
    bytes_kept: int
    skipped_by: Mapping[str, int] = field(default_factory=dict)  # statistics column -> parts

    @property
    def identity(self) -> str:
        """Return a text that is equal for equal filters; see `filter_identity`."""
        return filter_identity(self.filter)

    def to_json(self) -> dict[str, Any]:
        """Return the filter as the log stores it."""
        return {
            "version": VERSION,
            "filter": json.loads(dump_filter(self.filter)),
            "reads": self.reads,
            "decided": self.decided,
            "relation_version": self.relation_version,
            "last_day": self.last_day,
            "parts_total": self.parts_total,
            "parts_kept": self.parts_kept,
            "bytes_total": self.bytes_total,
            "bytes_kept": self.bytes_kept,
            "skipped_by": dict(sorted(self.skipped_by.items())),
        }


def record(
    stores: Stores,
    state: State,
    plan: ReadPlan,
    filter: Filter | None,
    settings: UsageSettings,
    metrics: Metrics,
) -> str:
    """Log that a reader planned a read with a filter; return the outcome.

    The outcome is `written`, `known` (the slot is taken, usually by the same filter), `off` or
    `failed`. Never raises, tries once. Cost: at most one small write, none for a repetition in
    this process.
    """
    tell(metrics, state.name, plan)
    if not settings.log or filter is None:
        return "off"
    try:
        return _record(stores, state, plan, filter)
    except Exception:  # a read never fails because of its log
        return "failed"


def record_count(
    stores: Stores,
    state: State,
    found: Counted,
    filter: Filter | None,
    settings: UsageSettings,
    metrics: Metrics,
) -> None:
    """Log a count: its filter, and the complement, which soft evaluation has to check as well."""
    record(stores, state, found.plan, filter, settings, metrics)
    if found.other is not None:
        unread = ReadPlan(state.name, found.plan.as_of, found.plan.mode)
        record(stores, state, unread, found.other, settings, Metrics())


def tell(metrics: Metrics, shard: str, plan: ReadPlan) -> None:
    """Send the figures of a planned read to monitoring; never raises, never waits."""
    if not metrics.wanted:
        return
    tags = {"shard": shard, "mode": plan.mode}
    unknown, unknown_bytes = plan.without_stats
    for name, value in (
        ("reads", 1),
        ("parts_fetched", plan.parts_fetched),
        ("parts_skipped", plan.parts_skipped),
        ("parts_audited", len(plan.audited)),
        ("bytes_fetched", plan.bytes_fetched),
        ("bytes_skipped", plan.bytes_skipped),
        ("bytes_audited", plan.bytes_audited),
        ("parts_without_stats", unknown),
        ("bytes_without_stats", unknown_bytes),
    ):
        metrics.count(f"read.{name}", value, tags)


def emitted(
    batches: Iterable[pa.RecordBatch], metrics: Metrics, shard: str
) -> Iterator[pa.RecordBatch]:
    """Pass on the rows of a read, or of one of its tasks; send their number and the time taken."""
    if not metrics.wanted:
        yield from batches
        return
    began, first, rows, tags = time.monotonic(), 0.0, 0, {"shard": shard}
    try:
        for batch in batches:
            if batch.num_rows and not rows:
                first = time.monotonic() - began
            rows += batch.num_rows
            yield batch
    finally:
        if rows:
            metrics.count("read.updates", rows, tags)
            metrics.time("read.first_row_seconds", first, tags)
            metrics.flush()


@dataclass(frozen=True)
class Told:
    """The function of a Spark task that sends figures about its rows; picklable."""

    function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    metrics: Metrics
    shard: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Run the function and pass on its batches."""
        return emitted(self.function(batches), self.metrics, self.shard)


def _record(stores: Stores, state: State, plan: ReadPlan, filter: Filter) -> str:
    now_ms = stores.clock()
    day = _day(now_ms)
    key = keys.usage_key(state.name, day, _slot(filter, now_ms // _HOUR_MS))
    place = (stores.settings.blob, key)
    if place in _known:
        return "known"
    if len(_known) >= _KNOWN_MAX:
        _known.clear()
    _known.add(place)
    data = _encode(_used(state, plan, filter, day))
    if len(data) > ENTRY_BYTES_MAX:
        return "failed"
    try:
        stores.blob.set(key, data)
    except InvalidRequest:  # write-once, and another reader has it
        return "known"
    return "written"


def _used(state: State, plan: ReadPlan, filter: Filter, day: str) -> UsedFilter:
    decided = bool(plan.proofs)
    skipped_by = credit(filter, plan.proofs, state.rollout.quarantine) if decided else {}
    skipped = sum(plan.proofs)
    return UsedFilter(
        _by_day(filter),
        reads=1,
        decided=int(decided),
        relation_version=state.relation.version,
        last_day=day,
        parts_total=plan.parts_total if decided else 0,
        parts_kept=plan.parts_total - skipped if decided else 0,
        bytes_total=plan.bytes_total if decided else 0,
        bytes_kept=plan.bytes_fetched if decided else 0,
        skipped_by=skipped_by,
    )


def unread(filter: Filter) -> UsedFilter:
    """Return a filter that has not been read with yet; it counts as one read."""
    return UsedFilter(filter, 1, 0, 0, "", 0, 0, 0, 0)


def _by_day(filter: Filter) -> Filter:
    """Return the filter with its clock widened to whole days, so that repetitions are alike."""
    low = filter.now_low // _DAY_US * _DAY_US
    high = (filter.now_high // _DAY_US + 1) * _DAY_US - 1
    return replace(filter, now_low=low, now_high=high)


def filter_identity(filter: Filter) -> str:
    """Return a text that is equal for equal filters; their clocks do not count."""
    return dump_filter(replace(filter, sql="", now_low=0, now_high=0))


def reads_columns_of(relation: Relation, filter: Filter) -> bool:
    """Return whether each column that a filter reads has that id, name and type in a relation.

    What was kept may be of before a change, or of a shard that had the name before.
    """
    declared = ((relation.by_id.get(one.id), one) for one in filter_columns(filter.expr))
    return all(
        column is not None
        and column.name == one.name
        and same_type(encoding(column.type).spark(column.type), one.type)
        for column, one in declared
    )


def _slot(filter: Filter, hour: int) -> str:
    digest = blake2b(f"{hour}\0{filter_identity(filter)}".encode(), digest_size=8).digest()
    return f"{int.from_bytes(digest, 'big') % SLOTS:03}"


def _day(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).date().isoformat()


def recent(
    stores: Stores, shard: str, settings: UsageSettings, *, roll: bool = False
) -> list[UsedFilter]:
    """Return the filters that readers used in the last days, most reads first.

    Each occurs once, with the clock of its newest day. Entries that cannot be parsed are left out.
    `roll`: entries that are read one by one are put into one blob, for the next that asks.
    Cost: lists the log and reads its blobs; a folded day has one blob, a rolled one at most
    `usage_blobs.ROLLED_AT`.
    """
    oldest = _oldest(stores, settings)
    days = _listed(stores, shard)
    found = [
        used
        for day, names in days.items()
        if day >= oldest
        for used in _of_day(stores, shard, day, names, roll=roll)
    ]
    return _united(found)


def by_day(stores: Stores, shard: str, days: int) -> dict[str, list[UsedFilter]]:
    """Return the filters that readers used on each of the last UTC days, today last.

    A day without a read has an empty list. Entries that cannot be parsed are left out.
    Cost: as `recent`.
    """
    today, listed = date.fromisoformat(_day(stores.clock())), _listed(stores, shard)
    wanted = [(today - timedelta(days=back)).isoformat() for back in reversed(range(days))]
    return {day: _united(_of_day(stores, shard, day, listed.get(day, ()))) for day in wanted}


def fold(stores: Stores, shard: str, settings: UsageSettings) -> int:
    """Fold each past day into a summary, drop the oldest days; return the number of blobs deleted.

    Safe to repeat and to interrupt: if a day has a summary, only the summary is read.
    """
    today, oldest, deleted = _day(stores.clock()), _oldest(stores, settings), 0
    for day, names in _listed(stores, shard).items():
        if day >= today:
            continue
        if day >= oldest and SUMMARY not in names:
            summary = _united(_of_day(stores, shard, day, names))[:FILTERS_MAX]
            set_once(stores, keys.usage_key(shard, day, SUMMARY), _encode_all(summary))
        for name in names:
            if day < oldest or name != SUMMARY:
                stores.blob.delete(keys.usage_key(shard, day, name))
                deleted += 1
    return deleted


def usefulness(
    filters: Iterable[UsedFilter], shares: Mapping[str, Mapping[str, float]]
) -> dict[str, float]:
    """Return how much each statistics column helps, from 0 to a little above 1.

    The value is the share of parts that the column skips, averaged over the filters weighted by
    their reads, or `MENTION` where a filter reads the column in vain. `shares` maps a filter's
    identity to the shares that its columns skip with today's statistics; the greater of this
    share and the logged share counts.
    """
    total: dict[str, float] = {}
    weights = 0
    for used in filters:
        now = shares.get(used.identity, {})
        logged = {n: p / used.parts_total for n, p in used.skipped_by.items() if used.parts_total}
        weights += used.reads
        for name in {*now, *used.skipped_by}:
            share = max(now.get(name, 0.0), logged.get(name, 0.0))
            total[name] = total.get(name, 0.0) + used.reads * (share + MENTION)
    return {name: value / weights for name, value in sorted(total.items())} if weights else {}


def _oldest(stores: Stores, settings: UsageSettings) -> str:
    today = date.fromisoformat(_day(stores.clock()))
    return (today - timedelta(days=settings.days)).isoformat()


def _listed(stores: Stores, shard: str) -> dict[str, list[str]]:
    """Return the names of the blobs of each day."""
    days: dict[str, list[str]] = {}
    for info in retry(lambda: list(stores.blob.list(keys.usage_prefix(shard)))):
        day, _, name = keys.parse_key(info.key).name.partition("/")
        days.setdefault(day, []).append(name.removesuffix(".json"))
    return days


def _of_day(
    stores: Stores, shard: str, day: str, names: Sequence[str], *, roll: bool = False
) -> Iterator[UsedFilter]:
    for data in entries_of_day(stores, shard, day, names, roll=roll):
        yield from _decode(data)


def _united(found: Iterable[UsedFilter]) -> list[UsedFilter]:
    """Return each filter once, with the sums of its reads; most reads first."""
    by_identity: dict[str, UsedFilter] = {}
    for used in found:
        old = by_identity.get(used.identity)
        by_identity[used.identity] = used if old is None else _both(old, used)
    return sorted(by_identity.values(), key=lambda used: (-used.reads, used.identity))


def _both(a: UsedFilter, b: UsedFilter) -> UsedFilter:
    newer = max(a, b, key=lambda used: (used.last_day, used.filter.now_high, used.filter.sql))
    sums = {
        name: getattr(a, name) + getattr(b, name)
        for name in ("reads", "decided", "parts_total", "parts_kept", "bytes_total", "bytes_kept")
    }
    skipped_by = Counter(a.skipped_by) + Counter(b.skipped_by)
    names = {*a.skipped_by, *b.skipped_by}  # including columns with 0: they were consulted
    return replace(newer, **sums, skipped_by={name: skipped_by[name] for name in names})


def _encode(used: UsedFilter) -> bytes:
    return _encode_all([used])


def _encode_all(filters: Sequence[UsedFilter]) -> bytes:
    document = [used.to_json() for used in filters]
    return json.dumps(document, separators=(",", ":")).encode()


def _decode(data: bytes) -> Iterator[UsedFilter]:
    """Yield the filters in a blob of the log, except those of other versions."""
    documents: Any = ()
    with suppress(ValueError, RecursionError):
        documents = json.loads(data)
    for document in documents if isinstance(documents, list) else ():
        with suppress(ValueError, KeyError, TypeError, RecursionError, StrataError):
            fields = dict(document)
            if fields.pop("version") == VERSION:
                filter = load_filter(json.dumps(fields["filter"]))
                yield UsedFilter(**{**fields, "filter": filter})

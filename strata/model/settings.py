"""Every setting of the system that is not a property of one shard.

Plain frozen data, no behaviour but what keeps passwords from being shown; `strata.config.settings`
fills it from files and the environment.
Units end the names. `config/base.toml` repeats each field once with its default.
"""

import re
from dataclasses import dataclass, field
from typing import Final


def without_password(address: str) -> str:
    """Return an address of a store with its password, or what looks like a secret, masked.

    Errs: may mask more than the password, never less: up to the last @.

    >>> without_password("postgresql://u:a/b@c@db/x?sslkey=k&n=1")
    'postgresql://u:***@db/x?sslkey=***&n=1'
    """
    hidden = re.sub(r"(?is)([?&][^=&]*(?:key|secret|token|pass)[^=&]*=)[^&]*", r"\1***", address)
    return re.sub(r"(?s)(://[^/@:]*):.*@", r"\1:***@", hidden)


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """Where state and blobs live."""

    blob: str = "file://.strata/blob"  # file:///path | s3://bucket/prefix | memory://name
    consensus: str = "sqlite:///.strata/consensus.db"  # any SQLAlchemy address | memory://name
    landing: str = "."  # the root that relative source paths of shard declarations start from

    def __repr__(self) -> str:
        """Return what it says, but for passwords: tracebacks and notebooks show this."""
        blob, consensus, landing = map(without_password, (self.blob, self.consensus, self.landing))
        return f"StoreSettings({blob=}, {consensus=}, {landing=})"


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How jobs build their Spark session."""

    master: str = "local[2]"  # used when spark-submit names none
    driver_memory_mib: int = 2048
    shuffle_partitions: int = 4


@dataclass(frozen=True, slots=True)
class IngestSettings:
    """How the ingest job cuts its work."""

    task_bytes: int = 64 * 1024 * 1024  # source bytes a task reads at most, files kept whole
    verify_days: int = 7  # of a new source: rows of every file are read twice and compared
    verify_percent: int = 1  # later: of so many files in a hundred
    verify_rows: int = 100  # of each of these files, or pieces of one, at most
    follow_links: bool = False  # True: links below a landing root may lead out of it


@dataclass(frozen=True, slots=True)
class CompactSettings:
    """When and how runs are merged."""

    min_inputs: int = 2  # a request with fewer batches does nothing
    memory_bytes: int = 1024 * 1024 * 1024  # bound of one merge task
    chunk_bytes: int = 1024 * 1024 * 1024  # a long merge keeps what it did after reading so many
    history_ms: int | None = None  # since follows upper at this distance; None keeps all history


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """How readers fetch parts."""

    fetchers: int = 4  # parts fetched and decoded at the same time, by each task; 1: one by one
    ahead_bytes: int = 64 * 1024 * 1024  # stored bytes of the parts that are under way
    hold_ms: int = 4 * 3_600_000  # what a read planned stays stored so long, or longer; 0: no


@dataclass(frozen=True, slots=True)
class ValidateSettings:
    """How soft evaluation reports."""

    report_dir: str = ".strata/report"  # Data Docs site and summary files
    report_url: str = ""  # s3://bucket/prefix?endpoint=…: the report goes there as well
    max_failed_rows: int = 20  # failed lines shown in the report; all are in the verdict table
    used_filters: int = 20  # filters of readers that are evaluated beside the registered ones
    format_percent: int = 100  # share of the parts whose format a run checks
    filter_seconds: int = 3600  # a filter's query that takes longer is stopped


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """The log of the filters that readers used: trimming and soft evaluation learn from it."""

    log: bool = True  # False: readers write nothing
    days: int = 30  # so long is a filter remembered
    statsd: str = ""  # host:port that gets the figures of each read with a filter; empty: nobody
    otlp: str = ""  # likewise, an OpenTelemetry receiver: http://host:4318/v1/metrics


@dataclass(frozen=True, slots=True)
class GcSettings:
    """How long garbage collection waits."""

    grace_ms: int = 24 * 3_600_000  # readers and writers without a lease have so long, at least
    aside_days: int = 7  # so long can a deleted blob be restored
    reject_days: int = 30  # rows that could not be read, of runs that never committed
    verdict_days: int = 400  # verdict tables that the state no longer names


@dataclass(frozen=True, slots=True)
class MetricsSettings:
    """Where figures for monitoring go; docs/reference/metrics.md names them."""

    statsd: str = ""  # host:port of a StatsD receiver; empty: nowhere
    otlp: str = ""  # http://host:4318/v1/metrics, an OpenTelemetry receiver; empty: nowhere


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The evidence that a step up needs, where the store says nothing else."""

    audit_parts: int = 3000  # soft -> audit: would-be-skipped parts that were audited, at least
    audit_runs: int = 20  # soft -> audit: runs of soft evaluation, at least
    audit_days: int = 7  # soft -> audit: days with a run, at least
    stratum_parts: int = 30  # both steps: audited parts of each stratum of evidence, at least
    failed_permille: int = 10  # both steps: checks that failed or are missing stay below this
    on_parts: int = 30_000  # audit -> on: audited parts since the evidence began, at least
    on_days: int = 14  # audit -> on: days in `audit` with a run of at least `on_percent`
    on_percent: int = 10  # the share of skipped parts that is audited on such a day
    request_days: int = 7  # a request that nobody answers in so many days is rejected
    sample_parts: int = 50  # audited parts of each filter in a sampled run, at least


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """The global switch, and what tightens the thresholds of the store; see `rollout.policy`.

    None: as the store says. A value holds where it is stricter, and is passed over where it is not.
    """

    kill: bool = False  # True: no reader skips anything, whatever the shards' modes say
    audit_parts: int | None = None  # these and the following: as in `Thresholds`
    audit_runs: int | None = None
    audit_days: int | None = None
    stratum_parts: int | None = None
    failed_permille: int | None = None
    on_parts: int | None = None
    on_days: int | None = None
    on_percent: int | None = None
    request_days: int | None = None
    sample_parts: int | None = None


# What these may be, both ends included; the others: 0 or more.
ROLLOUT_RANGES: Final[dict[str, tuple[int, int | None]]] = {
    "failed_permille": (0, 1000),
    "on_percent": (1, 100),
    "request_days": (1, None),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings."""

    store: StoreSettings = field(default_factory=StoreSettings)
    spark: SparkSettings = field(default_factory=SparkSettings)
    ingest: IngestSettings = field(default_factory=IngestSettings)
    compact: CompactSettings = field(default_factory=CompactSettings)
    read: ReadSettings = field(default_factory=ReadSettings)
    validate: ValidateSettings = field(default_factory=ValidateSettings)
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    usage: UsageSettings = field(default_factory=UsageSettings)
    gc: GcSettings = field(default_factory=GcSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    shards_dir: str = "config/shards"  # shard declarations, one YAML file each
    filters_dir: str = "config/filters"  # registered filters, one YAML file each

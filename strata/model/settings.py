"""Every setting of the system that is not a property of one shard.

Plain frozen data; its only behaviour hides passwords. `strata.config.settings` fills it from files
and the environment. Names end with their unit. `config/base.toml` repeats each field once with its
default.
"""

import re
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Any

from strata.model.declared import Declared, Range

Count = Annotated[int, Range()]
Positive = Annotated[int, Range(1)]
Percent = Annotated[int, Range(0, 100)]
Share = Annotated[int, Range(1, 100)]
Permille = Annotated[int, Range(0, 1000)]


def without_password(address: str) -> str:
    """Return a store's address with its password, and parameters that look secret, masked.

    Errs: may mask more than the password, never less: it masks up to the last @. What looks like
    a password in the path is masked, too: somebody typed a slash too many.

    >>> without_password("postgresql://u:a/b@c@db/x?sslkey=k&n=1")
    'postgresql://u:***@db/x?sslkey=***&n=1'
    >>> without_password("postgresql:///u:p@db/x"), without_password("sqlite:////u%3Ap%40db/x")
    ('postgresql:///u:***@db/x', 'sqlite:////u:***@db/x')
    >>> without_password("host=db user=u password='a b' port=1")
    'host=db user=u password=***'
    """
    hidden = re.sub(
        r"(?is)([?&][^=&]*(?:key|secret|token|pass|pwd|sig|credential)[^=&]*=)[^&]*",
        r"\1***",
        address,
    )
    hidden = re.sub(r"(?is)(\b(?:password|passwd|pwd)\s*=\s*)[^\s*&].*", r"\1***", hidden)
    return re.sub(r"(?is)(://[^@:]*?)(?::|%3A).*(?:@|%40)", r"\1:***@", hidden)


def _masked(settings: Any) -> str:
    """Return the text of `repr` with each address masked."""
    given = ((one.name, getattr(settings, one.name)) for one in fields(settings))
    shown = (f"{n}={(without_password(v) if isinstance(v, str) else v)!r}" for n, v in given)
    return f"{type(settings).__name__}({', '.join(shown)})"


@dataclass(frozen=True, slots=True)
class StoreSettings(Declared):
    """Where state and blobs live."""

    blob: str = "file://.strata/blob"  # file:///path | s3://bucket/prefix | memory://name
    consensus: str = "sqlite:///.strata/consensus.db"  # any SQLAlchemy address | memory://name
    landing: str = "."  # the root that relative source paths of shard declarations start from
    # `rollout.kill`, filled in by `Settings`, so that everyone who opens the stores obeys it.
    kill: bool = field(default=False, metadata={"setting": False})

    def __repr__(self) -> str:
        """Return the fields without passwords: tracebacks and notebooks show this text."""
        return _masked(self)


@dataclass(frozen=True, slots=True)
class SparkSettings(Declared):
    """How jobs build their Spark session."""

    master: str = "local[2]"  # used when spark-submit names none
    driver_memory_mib: Annotated[int, Range(256)] = 2048
    shuffle_partitions: Positive = 4
    shards_at_once: Positive = 1  # of a job over several shards

    def __repr__(self) -> str:
        """Return the fields without passwords."""
        return _masked(self)


@dataclass(frozen=True, slots=True)
class IngestSettings(Declared):
    """How the ingest job cuts its work."""

    task_bytes: Positive = 64 * 1024 * 1024  # at most these source bytes for each task
    verify_days: Count = 7  # of a new source: rows of every file are read twice and compared
    verify_percent: Percent = 1  # later: the share of files whose rows are read twice
    verify_rows: Count = 100  # at most, of each such file or piece of a file
    follow_links: bool = False  # True: links below a landing root may lead out of it


@dataclass(frozen=True, slots=True)
class CompactSettings(Declared):
    """When and how runs are merged."""

    min_inputs: Count = 2  # a merge request with fewer runs does nothing
    memory_bytes: Positive = 1024 * 1024 * 1024  # bound of one merge task
    chunk_bytes: Positive = 1024 * 1024 * 1024  # a long merge saves its progress this often
    debt_runs: Count = 64  # an ingest that leaves more runs unmerged merges some itself; 0: never
    debt_max: Count = 2048  # with more runs unmerged, ingest waits for compaction; 0: no limit
    history_ms: Count | None = None  # since follows upper at this distance; None keeps all history


@dataclass(frozen=True, slots=True)
class ReadSettings(Declared):
    """How readers fetch parts."""

    fetchers: Positive = 4  # parts that a task fetches and decodes at once
    ahead_bytes: Count = 64 * 1024 * 1024  # stored bytes of the parts being fetched
    hold_ms: Count = 4 * 3_600_000  # planned parts stay stored this long; 0: no hold


@dataclass(frozen=True, slots=True)
class ValidateSettings(Declared):
    """How soft evaluation reports."""

    report_dir: str = ".strata/report"  # Data Docs site and summary files
    report_url: str = ""  # s3://bucket/prefix?endpoint=…: a second place for the report
    max_failed_rows: Count = 20  # failed lines shown in the report; all are in the verdict table
    used_filters: Count = 20  # filters of readers that are evaluated beside the registered ones
    format_percent: Percent = 100  # share of the parts whose format a run checks
    # Limits of one run, for each shard; what does not fit is left out, and reported. 0: no limit.
    budget_bytes: Count = 64 * 1024**3  # stored bytes of parts that are read
    budget_seconds: Count = 0
    budget_saved_percent: Count = 0  # bytes, as a share of what reads of a day have saved
    # A filter's query is stopped after this time.
    filter_seconds: Annotated[int, Range(1, 86_400)] = 3600

    def __repr__(self) -> str:
        """Return the fields without passwords."""
        return _masked(self)


@dataclass(frozen=True, slots=True)
class UsageSettings(Declared):
    """The log of readers' filters, which trimming and soft evaluation learn from."""

    log: bool = True  # False: readers write nothing
    days: Count = 30  # filters are remembered this long


@dataclass(frozen=True, slots=True)
class GcSettings(Declared):
    """How long garbage collection waits."""

    grace_ms: Count = 24 * 3_600_000  # readers and writers without a lease have at least this
    aside_days: Count = 7  # days during which a deleted blob can be restored
    reject_days: Count = 30  # rows that could not be read, of runs that never committed
    verdict_days: Count = 400  # verdict tables that the state no longer names


@dataclass(frozen=True, slots=True)
class PublishSettings(Declared):
    """Where shards are published for other engines, and for how long."""

    iceberg: str = ""  # file:///folder or s3://bucket/prefix of the tables; empty: in the store
    catalog: str = ""  # of PyIceberg's configuration, or of SQL; empty: a catalog of files
    namespace: str = "strata"  # of the tables in that catalog
    keep_days: Positive = 7  # what a table names stays stored this long after the last publication
    follow: bool = False  # compaction publishes a shard's own table again

    def __repr__(self) -> str:
        """Return the fields without passwords."""
        return _masked(self)


@dataclass(frozen=True, slots=True)
class MetricsSettings(Declared):
    """Where figures for monitoring go; docs/reference/metrics.md names them."""

    statsd: str = ""  # host:port of a StatsD receiver; empty: nowhere
    otlp: str = ""  # http://host:4318/v1/metrics, an OpenTelemetry receiver; empty: nowhere

    def __repr__(self) -> str:
        """Return the fields without passwords."""
        return _masked(self)


@dataclass(frozen=True, slots=True)
class PriceSettings(Declared):
    """What an object store asks for, to show requests and bytes as money; nothing decides by it.

    The defaults are those of S3 Standard in us-east-1, as docs/explanation/scale.md cites them.
    """

    write_cents: Count = 500  # for a million PUT, COPY, POST and LIST; 0: no price is known
    read_cents: Count = 40  # for a million GET and HEAD
    month_cents: Count = 2300  # for a terabyte (10^12 bytes) in a month
    currency: str = "$"  # a hundred cents
    source: str = "S3 Standard, us-east-1, list of 2026-09-28"  # shown beside each sum

    def __repr__(self) -> str:
        """Return the fields without passwords."""
        return _masked(self)


@dataclass(frozen=True, slots=True)
class Thresholds(Declared):
    """The evidence that a step up needs, unless the store sets other values."""

    audit_parts: Count = 3000  # soft -> audit: would-be-skipped parts that were audited, at least
    audit_runs: Count = 20  # soft -> audit: runs of soft evaluation, at least
    audit_days: Count = 7  # soft -> audit: days with a run, at least
    stratum_parts: Count = 30  # both steps: audited parts of each stratum of evidence, at least
    failed_permille: Permille = 10  # both steps: checks that failed or are missing stay below this
    on_parts: Count = 30_000  # audit -> on: audited parts since the evidence began, at least
    on_days: Count = 14  # audit -> on: days in `audit` with a run of at least `on_percent`
    on_percent: Share = 10  # the share of skipped parts that is audited on such a day
    request_days: Positive = 7  # an unanswered request is rejected after these days
    sample_parts: Count = 50  # audited parts of each filter in a sampled run, at least


@dataclass(frozen=True, slots=True)
class RolloutSettings(Declared):
    """The global switch, and what tightens the thresholds of the store; see `rollout.policy`.

    None means the store's value. A value counts only if it is stricter than the store's.
    """

    kill: bool = False  # True: no reader skips anything, in any mode
    audit_parts: Count | None = None  # these and the following: as in `Thresholds`
    audit_runs: Count | None = None
    audit_days: Count | None = None
    stratum_parts: Count | None = None
    failed_permille: Permille | None = None
    on_parts: Count | None = None
    on_days: Count | None = None
    on_percent: Share | None = None
    request_days: Positive | None = None
    sample_parts: Count | None = None


@dataclass(frozen=True, slots=True)
class Settings(Declared):
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
    publish: PublishSettings = field(default_factory=PublishSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)
    prices: PriceSettings = field(default_factory=PriceSettings)
    shards_dir: str = "config/shards"  # shard declarations, one YAML file each
    filters_dir: str = "config/filters"  # registered filters, one YAML file each

    def __post_init__(self) -> None:
        """Hand `rollout.kill` to the stores, so that no reader can forget it."""
        object.__setattr__(self, "store", replace(self.store, kill=self.rollout.kill))

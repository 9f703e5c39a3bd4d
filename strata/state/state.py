"""What is known of a shard, whole, in one small immutable value.

One document per sequence number. Parts are not in it: each batch points to a manifest, one
immutable blob. The spine is stored as it is, never derived again.

Invariants: since <= upper; both never regress; the spine's batches are contiguous in time from
`MIN_TIME` to `upper`; every hold's since >= the shard's since.
"""

from dataclasses import dataclass, field
from typing import Literal

from strata.model.schema import Relation
from strata.model.spec import ShardSpec
from strata.model.time import MIN_TIME

Mode = Literal["off", "soft", "audit", "on"]
Happened = Literal[
    "declared", "requested", "approved", "rejected", "lapsed", "stepped down", "tripped", "reset",
    "set by hand",  # in histories of before 2026-12: no such step can be taken any more
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run of a batch, in figures; its parts are in the manifest."""

    parts: int
    updates: int
    size_bytes: int
    order: tuple[int, ...]  # column ids by which the run is sorted, then t; () means unsorted


@dataclass(frozen=True, slots=True)
class Batch:
    """All updates of [lower, upper), as one manifest describes them."""

    lower: int  # inclusive
    upper: int  # exclusive
    since: int  # stored times were advanced to it; MIN_TIME if never
    updates: int = 0
    size_bytes: int = 0
    parts: int = 0
    runs: tuple[RunSummary, ...] = ()
    manifest: str | None = None  # blob key; None exactly when there are no parts
    layouts: tuple[tuple[str, int], ...] = ()  # (layout, parts), sorted
    stats_parts: int = 0  # parts that have statistics
    stats_bytes: int = 0  # their encoded size, all parts together
    # Union of the parts' statistics, one row, Arrow IPC, as a batch comes to a commit and as states
    # from before hold it: what is committed has `union` instead. None: unknown.
    stats_union: bytes | None = None
    diffs_sum: int = 0  # modulo 2**64; states from before may have it beyond int64
    digest: int = 0  # sum of d * hash(key, value), modulo 2**64
    retractions: bool = False  # some diff is negative
    versions: tuple[int, ...] = (0,)  # relation versions of the parts, ascending; each once
    stats_digest: bytes | None = None  # of `stats_union`, as it was made; None: none, or of before
    union: str | None = None  # blob key of the union; None: unknown, or not worth a blob


@dataclass(frozen=True, slots=True)
class SpineBatch:
    """One slot of the spine: batches that are, or shall become, one.

    More than one non-empty batch in it means that a merge is due.
    """

    id_lower: int  # half-open range of insertion numbers, contiguous through the spine
    id_upper: int
    level: int  # ceil(log2(updates)), 0 for at most one
    batches: tuple[Batch, ...]  # in time order, contiguous


@dataclass(frozen=True, slots=True)
class Spine:
    """Slots in time order, oldest first; levels strictly fall."""

    slots: tuple[SpineBatch, ...] = ()
    next_id: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """One append that is remembered, so that its retry is recognised."""

    token: str
    seqno: int
    lower: int
    upper: int
    updates: int
    parts: int
    size_bytes: int
    rejected: int
    rejects: str | None = None  # blob key: where the rejected rows of the batch are


@dataclass(frozen=True, slots=True)
class Segment:
    """Some of the source files that were taken in; the blob has a row for each."""

    key: str
    files: int


@dataclass(frozen=True, slots=True)
class Consumed:
    """Which source files are in the shard: it grows in the very commit that brings their rows.

    The blobs say which (`strata.ingest.ledger`); they are few, as small ones are merged.
    """

    since: int  # files of earlier times may have been taken before anybody kept a ledger
    first: int  # lower of the first interval under the ledger: late files begin here
    segments: tuple[Segment, ...] = ()  # oldest first; what a later one says of a file counts
    began_ms: int = 0  # when the first of them came, by the clock; 0: nobody knows


@dataclass(frozen=True, slots=True)
class Trip:
    """A value that ingest was about to store as another one; see `strata.state.source`."""

    at_ms: int
    token: str  # of the batch, which was not committed
    file: str
    line: int | None
    column: str
    source: str  # what the source says, read the slow way
    stored: str  # what would have been stored

    def place(self) -> dict[str, object]:
        """Return where it stands and both values, for messages."""
        where = {"file": self.file, "line": self.line, "column": self.column}
        return {**where, "source": self.source, "stored": self.stored}


@dataclass(frozen=True, slots=True)
class Hold:
    """A reader's claim: since may not pass it, nor may what it reads be collected."""

    name: str
    since: int
    expires_ms: int | None  # None: critical, never expires
    opaque: str = ""  # critical: compare-and-set token; leased: its owner, if it said who it is
    seqno: int = 0  # this state and all later ones stay stored; 0, and critical: no such claim


@dataclass(frozen=True, slots=True)
class Writer:
    """One who writes blobs that no state names yet; see `strata.state.generations`."""

    name: str
    generation: int  # of the shard when it began; its blobs' keys say so
    expires_ms: int
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """That a shard was dropped: it holds nothing, and its name is not free."""

    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stratum:
    """Audits of one kind: column types × functions × kind of statistics × layout."""

    name: str
    parts: int  # audited, each once for each filter


@dataclass(frozen=True, slots=True)
class Evidence:
    """What soft evaluation has looked at since the last mismatch; see `strata.rollout.evidence`."""

    basis: str = ""  # fingerprint of the code that decided; other code counts from nothing
    first_ms: int = 0
    last_ms: int = 0
    runs: int = 0
    days: int = 0  # UTC days with a run
    step_days: int = 0  # of these, since the last step, with a share of audits that counts
    step_day: int = -1  # the last of those, in days since 1970; -1: there was none
    parts: int = 0  # would-be-skipped parts that were fetched and judged, each once for a filter
    rows: int = 0  # and bytes: each time
    size_bytes: int = 0
    failed: int = 0  # checks that could not be made
    missing: int = 0  # checks of which nothing came back
    strata: tuple[Stratum, ...] = ()  # sorted by name
    repeats: int = 0  # parts that were judged again with the same filter: they are not in `parts`
    distinct_parts: int = 0  # with whichever filter
    filters: int = 0  # with which some part was judged
    seen: str | None = None  # blob key: which parts with which filters
    distinct: bool = False  # False: `parts` has repeats in it, as it had before 2026-12


@dataclass(frozen=True, slots=True)
class Request:
    """A step up that somebody asked for and nobody has answered yet."""

    to: Mode
    audit_percent: int
    by: str
    reason: str
    at_ms: int
    expires_ms: int  # unanswered by then, it is rejected
    clear: tuple[str, ...] = ()  # words of the quarantine that are released with the step
    pooled: bool = False  # with the evidence of the other shards of its class
    user: str = ""  # of the database, who asked as `by`; empty: the name is claimed


@dataclass(frozen=True, slots=True)
class RolloutEntry:
    """One line of the history of a shard's rollout, with the evidence there was."""

    at_ms: int
    what: Happened
    before: Mode
    after: Mode
    audit_percent: int
    by: str
    reason: str
    asked_by: str = ""  # who had requested what was approved, rejected or lapsed
    runs: int = 0  # these and the following: the evidence at the time
    days: int = 0
    parts: int = 0
    rows: int = 0
    size_bytes: int = 0
    failed: int = 0
    missing: int = 0
    strata: int = 0
    basis: str = ""
    pooled: int = 0  # audited parts of other shards that counted as well
    user: str = ""  # of the database, who did it as `by`; empty: the name is claimed
    asked_user: str = ""  # likewise of `asked_by`
    request: str = ""  # identity of what was requested, approved, rejected or lapsed
    policy: int = 0  # number of the store's policy; 0: it had none
    gates: tuple[int, ...] = ()  # the thresholds that held: strata.rollout.policy.THRESHOLDS
    repeats: int = 0  # of the evidence, as are the next two
    distinct_parts: int = 0
    filters: int = 0


@dataclass(frozen=True, slots=True)
class Rollout:
    """Whether readers may skip, and why."""

    mode: Mode = "off"
    audit_percent: int = 0
    changed_ms: int = 0
    changed_by: str = ""
    reason: str = ""
    quarantine: tuple[str, ...] = ()  # column ids ("5"), functions or part keys that lied
    basis: str = ""  # the code that this step was approved for; empty: nobody approved any
    request: Request | None = None
    evidence: Evidence = field(default_factory=Evidence)
    entries: tuple[RolloutEntry, ...] = ()  # the last ones, newest last
    policy: int = 0  # number of the policy that evidence was last looked at by
    gates: tuple[int, ...] = ()  # its thresholds, tightened by the settings of then


@dataclass(frozen=True, slots=True)
class Merge:
    """One merge that was applied, as history tells it; see `strata.state.merging`."""

    seqno: int
    at_ms: int
    lower: int
    upper: int
    since: int  # stored times were advanced to it
    reason: str  # why it was asked for
    runs_in: int
    updates_in: int
    updates_out: int
    bytes_in: int
    bytes_out: int
    parts_in: int
    parts_out: int
    parts_kept: int = 0  # of `parts_out`: not rewritten, kept by reference
    tasks: int = 0
    resumed: int = 0  # of `tasks`: done by a run before, which ended early
    seconds: float = 0.0  # of the run that finished it, from planning to the commit


@dataclass(frozen=True, slots=True)
class Progress:
    """A merge under way: its first tasks are done, and what they wrote is kept.

    The parts are in no batch yet, and no reader sees them. See `strata.state.merging`.
    """

    inputs: tuple[str, ...]  # manifests of the request, in time order
    lower: int
    upper: int
    since: int
    work: str  # fingerprint of the tasks: inputs, slices, and all that their output depends on
    tasks: int
    done: int  # so many of the tasks, from the first on
    manifest: str | None  # of the parts written by them; None: they wrote none
    bytes_out: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class State:
    """The whole state of one shard at one sequence number."""

    seqno: int
    walltime_ms: int  # strictly grows with seqno
    spec: ShardSpec
    relations: tuple[Relation, ...]  # versions in order; the last is current
    since: int = MIN_TIME
    upper: int = MIN_TIME
    spine: Spine = field(default_factory=Spine)
    holds: tuple[Hold, ...] = ()
    rollout: Rollout = field(default_factory=Rollout)
    commits: tuple[Commit, ...] = ()  # newest last, bounded; older ones in `ledger`
    ledger: tuple[str, ...] = ()  # blob keys of spilled commits, oldest first
    verdicts: tuple[str, ...] = ()  # blob keys of the last verdict tables, newest last
    next_column: int = 0  # no column id at or above it was ever given; 0: see `next_column_id`
    generation: int = 0  # new blobs carry it in their keys; grows with each sweep of the garbage
    generation_ms: int = 0  # when it began
    fence: int = 0  # blobs of generations below it join no state any more
    writers: tuple[Writer, ...] = ()  # sorted by name; expired ones leave with a sweep
    dropped: Tombstone | None = None
    merges: tuple[Merge, ...] = ()  # the last ones applied, newest last
    merging: tuple[Progress, ...] = ()  # merges under way that have kept part of their result
    catalog: str | None = None  # blob key of the collections; None: the shard has none
    consumed: Consumed | None = None  # source files that are in; None: nobody counts them
    tripped: Trip | None = None  # why nothing is ingested; None: ingest goes on

    @property
    def name(self) -> str:
        """Return the shard's name."""
        return self.spec.name

    @property
    def relation(self) -> Relation:
        """Return the current relation."""
        return self.relations[-1]

    @property
    def next_column_id(self) -> int:
        """Return the id of the next new column: one that no column ever had."""
        return max(self.next_column, *(r.highest_id + 1 for r in self.relations))

    @property
    def batches(self) -> tuple[Batch, ...]:
        """Return all batches in time order."""
        return tuple(batch for slot in self.spine.slots for batch in slot.batches)

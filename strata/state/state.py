"""The whole state of a shard as one small immutable value.

There is one document per sequence number. It contains no parts: each batch points to a manifest, an
immutable blob. The spine is stored explicitly and never derived again.

Invariants: since <= upper; both never regress; the spine's batches are contiguous in time from
`MIN_TIME` to `upper`; every hold's since >= the shard's since.
"""

from dataclasses import dataclass, field
from itertools import chain
from typing import Literal

from strata.model.schema import Relation
from strata.model.spec import ShardSpec
from strata.model.time import MIN_TIME

Mode = Literal["off", "soft", "audit", "on"]
Happened = Literal[
    "declared",
    "requested",
    "approved",
    "rejected",
    "lapsed",
    "stepped down",
    "tripped",
    "reset",
    "restored",
    "set by hand",  # in histories from before 2026-12; no such step is possible any more
]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The figures of one run of a batch; its parts are in the manifest."""

    parts: int
    updates: int
    size_bytes: int
    order: tuple[int, ...]  # column ids by which the run is sorted, then t; () means unsorted


@dataclass(frozen=True, slots=True)
class Batch:
    """All updates of [lower, upper), as one manifest describes them."""

    lower: int  # inclusive
    upper: int  # exclusive
    since: int  # stored times are advanced to it; MIN_TIME if never
    updates: int = 0
    size_bytes: int = 0
    parts: int = 0
    runs: tuple[RunSummary, ...] = ()
    manifest: str | None = None  # blob key; None exactly when there are no parts
    layouts: tuple[tuple[str, int], ...] = ()  # (layout, parts), sorted
    stats_parts: int = 0  # parts that have statistics
    stats_bytes: int = 0  # their encoded size, all parts together
    # Union of the parts' statistics, one row, Arrow IPC. New batches and older states have it;
    # committed states have `union` instead. None: unknown.
    stats_union: bytes | None = None
    diffs_sum: int = 0  # modulo 2**64; older states may have it beyond int64
    digest: int = 0  # sum of d * hash(key, value), modulo 2**64
    retractions: bool = False  # some diff is negative
    versions: tuple[int, ...] = (0,)  # relation versions of the parts, ascending; each once
    # Of the original `stats_union`; None: no union, or an older state
    stats_digest: bytes | None = None
    union: str | None = None  # blob key of the union; None: unknown, or not worth a blob


@dataclass(frozen=True, slots=True)
class SpineBatch:
    """One slot of the spine: one batch, or several to be merged into one.

    More than one non-empty batch means that a merge is due.
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
    """A remembered append, so that its retry is recognised."""

    token: str
    seqno: int
    lower: int
    upper: int
    updates: int
    parts: int
    size_bytes: int
    rejected: int
    rejects: str | None = None  # blob key of the rejected rows of the batch
    at_ms: int = 0  # walltime of its state; 0: committed before this was kept


@dataclass(frozen=True, slots=True)
class Segment:
    """Some of the ingested source files; the blob has a row for each."""

    key: str
    files: int


@dataclass(frozen=True, slots=True)
class Consumed:
    """The source files in the shard; it grows in the same commit that brings their rows.

    The blobs list the files (`strata.ingest.ledger`); there are few, since small ones are merged.
    """

    since: int  # earlier files may have been ingested before there was a ledger
    first: int  # lower of the first interval with a ledger: late files begin here
    segments: tuple[Segment, ...] = ()  # oldest first; a later segment overrides earlier ones
    began_ms: int = 0  # time of the first one, by the clock; 0: unknown


@dataclass(frozen=True, slots=True)
class Trip:
    """A value that ingest was about to store as another one; see `strata.state.source`."""

    at_ms: int
    token: str  # of the batch that was not committed
    file: str
    line: int | None
    column: str
    source: str  # the value of the source, read the slow way
    stored: str  # the value that would have been stored

    def place(self) -> dict[str, object]:
        """Return its place in the source and both values, for messages."""
        where = {"file": self.file, "line": self.line, "column": self.column}
        return {**where, "source": self.source, "stored": self.stored}


@dataclass(frozen=True, slots=True)
class Hold:
    """A reader's claim: since may not pass it, and the blobs it reads may not be collected."""

    name: str
    since: int
    expires_ms: int | None  # None: critical, never expires
    opaque: str = ""  # critical: compare-and-set token; leased: its owner, if it gave one
    seqno: int = 0  # this state and all later ones stay stored; 0, or critical: no such claim


@dataclass(frozen=True, slots=True)
class Writer:
    """A process that writes blobs which no state names yet; see `strata.state.generations`."""

    name: str
    generation: int  # of the shard when it began; the keys of its blobs carry it
    expires_ms: int
    purpose: str = ""


@dataclass(frozen=True, slots=True)
class Tombstone:
    """The mark of a dropped shard: it holds nothing, but its name is not free."""

    at_ms: int
    by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Stratum:
    """Audits of one kind: column types × functions × kind of statistics × layout."""

    name: str
    parts: int  # audited parts, each once for each shape of filters


@dataclass(frozen=True, slots=True)
class Evidence:
    """What soft evaluation has audited since the last mismatch; see `strata.rollout.evidence`."""

    basis: str = ""  # fingerprint of the deciding code; evidence of other code does not count
    first_ms: int = 0
    last_ms: int = 0
    runs: int = 0
    days: int = 0  # UTC days with a run
    step_days: int = 0  # of these, days since the last step with a sufficient share of audits
    step_day: int = -1  # the last of those days, since 1970; -1: none
    parts: int = 0  # would-be-skipped parts fetched and judged, each once for each shape of filters
    rows: int = 0  # bytes of these, each time
    size_bytes: int = 0
    failed: int = 0  # checks that failed
    missing: int = 0  # checks without a result
    strata: tuple[Stratum, ...] = ()  # sorted by name
    repeats: int = 0  # parts judged again by filters of the same shape; not in `parts`
    distinct_parts: int = 0  # parts judged with any filter
    filters: int = 0  # shapes of filters that judged some part
    seen: str | None = None  # blob key: which parts with which shapes
    distinct: bool = False  # False: `parts` includes repeats, as before 2026-12


@dataclass(frozen=True, slots=True)
class Request:
    """A requested step up that nobody has answered yet."""

    to: Mode
    audit_percent: int
    by: str
    reason: str
    at_ms: int
    expires_ms: int  # rejected if unanswered by then
    clear: tuple[str, ...] = ()  # words of the quarantine that are released with the step
    pooled: bool = False  # counting the evidence of other shards of its class
    user: str = ""  # database user who asked as `by`; empty: the name is only claimed


@dataclass(frozen=True, slots=True)
class RolloutEntry:
    """One line of the history of a shard's rollout, with its evidence."""

    at_ms: int
    what: Happened
    before: Mode
    after: Mode
    audit_percent: int
    by: str
    reason: str
    asked_by: str = ""  # who requested the step that was approved, rejected or lapsed
    runs: int = 0  # this and the following: the evidence at the time
    days: int = 0
    parts: int = 0
    rows: int = 0
    size_bytes: int = 0
    failed: int = 0
    missing: int = 0
    strata: int = 0
    basis: str = ""
    pooled: int = 0  # audited parts of other shards that counted as well
    user: str = ""  # database user who did it as `by`; empty: the name is only claimed
    asked_user: str = ""  # likewise for `asked_by`
    request: str = ""  # identity of the request that was made, approved, rejected or lapsed
    policy: int = 0  # number of the store's policy; 0: it had none
    gates: tuple[int, ...] = ()  # the thresholds in force: strata.rollout.policy.THRESHOLDS
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
    # Column ids ("5"), functions or part keys that are not trusted
    quarantine: tuple[str, ...] = ()
    basis: str = ""  # the code that this step was approved for; empty: not approved
    request: Request | None = None
    evidence: Evidence = field(default_factory=Evidence)
    entries: tuple[RolloutEntry, ...] = ()  # the last ones, newest last
    policy: int = 0  # number of the policy that last judged the evidence
    gates: tuple[int, ...] = ()  # its thresholds, tightened by the settings at the time


@dataclass(frozen=True, slots=True)
class Merge:
    """One applied merge in the history; see `strata.state.merging`."""

    seqno: int
    at_ms: int
    lower: int
    upper: int
    since: int  # stored times were advanced to it by the merge
    reason: str  # why it was requested
    runs_in: int
    updates_in: int
    updates_out: int
    bytes_in: int
    bytes_out: int
    parts_in: int
    parts_out: int
    parts_kept: int = 0  # of `parts_out`: kept by reference, not rewritten
    tasks: int = 0
    resumed: int = 0  # of `tasks`: done by an earlier run that ended early
    seconds: float = 0.0  # of the finishing run, from planning to the commit


@dataclass(frozen=True, slots=True)
class Progress:
    """A merge under way: its first tasks are done, and their output is kept.

    The parts are in no batch yet, and no reader sees them. See `strata.state.merging`.
    """

    inputs: tuple[str, ...]  # manifests of the request, in time order
    lower: int
    upper: int
    since: int
    work: str  # fingerprint of the tasks: inputs, slices, and everything their output depends on
    tasks: int
    done: int  # number of finished tasks, from the first on
    manifest: str | None  # manifest of the parts written by them; None: no parts
    bytes_out: int
    at_ms: int


@dataclass(frozen=True, slots=True)
class Erasure:
    """An erasure under way; see `strata.state.erasing`."""

    id: str  # of its certificate
    at_ms: int
    by: str
    reason: str
    request: str  # fingerprint of what is erased; the filter itself names what shall be forgotten
    generation: int = 0  # began when no batch held a row; 0: rows are still being removed
    closed: int = 0  # this and later states lead to no erased row; 0: older writers may be at work


@dataclass(frozen=True, slots=True)
class State:
    """The whole state of one shard at one sequence number."""

    seqno: int
    walltime_ms: int  # strictly grows with seqno
    spec: ShardSpec
    relations: tuple[Relation, ...]  # all versions in order; the last is current
    since: int = MIN_TIME
    upper: int = MIN_TIME
    spine: Spine = field(default_factory=Spine)
    holds: tuple[Hold, ...] = ()
    rollout: Rollout = field(default_factory=Rollout)
    commits: tuple[Commit, ...] = ()  # newest last, bounded; older ones are in `ledger`
    ledger: tuple[str, ...] = ()  # blob keys of spilled commits, oldest first
    verdicts: tuple[str, ...] = ()  # blob keys of the last verdict tables, newest last
    next_column: int = 0  # no id at or above it was ever used; 0: see `next_column_id`
    generation: int = 0  # new blobs carry it in their keys; grows with each garbage sweep
    generation_ms: int = 0  # start of the generation
    fence: int = 0  # blobs of earlier generations join no state any more
    writers: tuple[Writer, ...] = ()  # sorted by name; expired ones leave with a sweep
    dropped: Tombstone | None = None
    merges: tuple[Merge, ...] = ()  # the last applied merges, newest last
    merging: tuple[Progress, ...] = ()  # merges under way with kept partial results
    catalog: str | None = None  # blob key of the catalog; None: no collections
    consumed: Consumed | None = None  # ingested source files; None: not tracked
    tripped: Trip | None = None  # why ingest is stopped; None: it is not
    suppressed: str | None = None  # blob key of the hashes of erased rows; None: nothing was erased
    erasing: Erasure | None = None

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
        return tuple(chain.from_iterable(slot.batches for slot in self.spine.slots))

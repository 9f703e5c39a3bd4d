"""The input and the result of a worker, and the report that the caller gets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from strata.ingest.counts import Counts, total
from strata.ingest.land.files import SourceFile
from strata.ingest.ledger import Sorted, Taken
from strata.ingest.readers.change import Truncation
from strata.ingest.readers.position import Leg, StreamProgress
from strata.ingest.readers.rejects import Reject
from strata.ingest.readers.turns import Turns
from strata.ingest.verify import MOST, Difference, Sampling
from strata.model.schema import Relation
from strata.model.settings import StoreSettings
from strata.model.spec import ShardSpec, SourceSpec
from strata.parts.write import WrittenPart
from strata.state.state import Commit
from strata.stats.worth import NO_WORTH, StatsWorth

RUNS: Final = 1 << 20  # of a task, at most: so a run's number identifies its task
SENT_BYTES: Final = 1 << 20  # changes of a run that go from workers to the driver and back


@dataclass(frozen=True, slots=True)
class IngestTask:
    """Files, or pieces of one, that one worker turns into sorted runs; picklable."""

    store: StoreSettings
    spec: ShardSpec
    relation: Relation
    layout: str
    files: tuple[SourceFile, ...]
    lower: int  # of the batch, inclusive: the time that updates get
    upper: int  # of the batch, exclusive
    token: str  # names the quarantine of the run
    batch: int  # which of the runner's batches the task belongs to
    number: int  # of the task within its batch, from 0
    generation: int = 0  # of the shard when the work began
    former: frozenset[str] = frozenset()  # names of columns that the shard had
    # former names of columns, each with the present one
    renamed: Mapping[str, str] = field(default_factory=dict)
    later: frozenset[str] = frozenset()  # names of columns that it got after its creation
    first: frozenset[int] = frozenset()  # ids of the columns of its creation
    # columns that came or were renamed, each with its id and the version that has the name
    came: Mapping[str, str] = field(default_factory=dict)
    went: Mapping[int, frozenset[str]] = field(default_factory=dict)  # former names of dropped ones
    progress: StreamProgress | None = None  # of the change stream, when the work began
    shown: Mapping[str, int] = field(default_factory=dict)  # its turns, likewise
    suppressed: str | None = None  # blob key of the hashes of erased rows; None: nothing was erased
    verify: Sampling | None = None  # how many rows are read twice; None: none
    worth: StatsWorth = NO_WORTH  # of the statistics that its parts get
    hand_over: int = 0  # bytes of changes that go on in memory instead of a blob, at most

    @property
    def read_bytes(self) -> int:
        """Return how many stored bytes the task reads at most."""
        return sum(file.size_bytes for file in self.files)


@dataclass(frozen=True, slots=True)
class Staged:
    """Changes that were read and wait to be resolved against the shard, in a blob or in memory."""

    key: str | None  # of their blob; None: there is none
    size_bytes: int
    lows: tuple[bytes, ...]  # the first key of each chunk of the blob
    offsets: tuple[int, ...]  # where each chunk begins, and the last one ends
    digests: tuple[str, ...]  # the content hash of each chunk
    truncations: tuple[Truncation, ...]
    legs: tuple[Leg, ...] = ()
    moved: bool = False  # some row got another key, and not all its values were sent
    rows: pa.Table | None = None  # all of them, in memory, sorted by key


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """The outcome for the rows of a file, or of a part of one."""

    counts: Counts
    rejected: Sequence[Reject]
    differences: tuple[Difference, ...]  # what the two readings of a row disagree in


@dataclass(frozen=True, slots=True)
class TaskResult:
    """The stored runs of a task, and its rejected rows."""

    batch: int
    number: int
    counts: Counts = field(default_factory=total)
    parts: tuple[WrittenPart, ...] = ()
    first_reject: Reject | None = None  # for the message when there are too many
    quarantine: tuple[str, ...] = ()  # blobs of the rejected rows
    taken: tuple[Taken, ...] = ()  # the files as they were read
    staged: tuple[Staged, ...] = ()
    differences: tuple[Difference, ...] = ()  # what the two readings of a row disagree in
    turns: Turns = field(default_factory=dict)  # of the columns of a change stream
    sliced: bool = False  # its parts continue the run of the slices before, in the sort order

    def plus(self, judged: JudgedRows) -> "TaskResult":
        """Return the result with the rows of one more file."""
        return replace(
            self,
            counts=self.counts + judged.counts,
            first_reject=self.first_reject or next(iter(judged.rejected), None),
            differences=(*self.differences, *judged.differences)[:MOST],
        )


@dataclass(frozen=True, slots=True)
class Step:
    """One interval to ingest; `files` None takes those of the declared sources by their time."""

    lower: int | None  # None, with upper: now
    upper: int | None
    token: str | None = None  # None: from the interval, else from the files
    files: tuple[SourceFile, ...] | None = None
    empty: bool = True  # whether to commit it even without a file to take in
    format: str | None = None  # of quarantined rows that are read again
    again: bool = False  # whether to take in files that the shard has
    # the columns and the source that the files were made for; None: they are as they came
    made_for: tuple[Relation, SourceSpec] | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a step, as far as the ledger and the shard's upper determine it."""

    asked: Step  # with its token
    step: Step  # the batch: files that the shard lacks, bounds that are free
    found: Sorted = field(default_factory=Sorted)  # all examined files
    late_files: int = 0  # of earlier, committed intervals
    by_time: bool = False  # the files were found by their time
    commit: Commit | None = None  # the earlier commit of the step
    nothing: bool = False  # the shard has all of the step; no batch is needed


NAMES_MAX: Final = 50  # files that a report names


@dataclass(frozen=True, slots=True)
class IngestReport:
    """The outcome of one batch; `to_json` is the stable document of the command line."""

    shard: str
    seqno: int
    lower: int
    upper: int
    updates: int
    parts: int
    size_bytes: int
    already_committed: bool
    token: str = ""
    counts: Counts = field(default_factory=total)
    quarantine: tuple[str, ...] = ()  # blob keys
    changed: tuple[str, ...] = ()  # files that have changed since they were taken in
    copies: tuple[tuple[str, str], ...] = ()  # files not taken: the name their bytes came under

    def to_json(self) -> dict[str, Any]:
        """Return the document of the command line."""
        return {
            "shard": self.shard,
            "seqno": self.seqno,
            "lower": self.lower,
            "upper": self.upper,
            "updates": self.updates,
            "parts": self.parts,
            "bytes": self.size_bytes,
            "rejected": self.counts.rejected,
            "already_committed": self.already_committed,
            "token": self.token,
            "quarantine": list(self.quarantine),
            "changed": list(self.changed),
            "copies": [{"file": file, "same_as": other} for file, other in self.copies],
            **self.counts.to_json(),
        }

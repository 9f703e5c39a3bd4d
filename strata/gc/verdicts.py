"""The judgement of one blob: alive, still reachable, perhaps about to be committed, dead, unknown.

Parts and manifests are judged by reachability and generation alone. The listing, which may be
stale, never makes one of them dead; nor does an age or a clock. Some blobs are named by no state,
by design: the log of filters, records of backfills, verdicts beyond the last ones, rejected rows of
runs that never committed. They are history and are kept for a set time. Blobs that are not
understood are kept.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cached_property, partial
from typing import Final

from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.gc.reach import Reach
from strata.history.usage_blobs import SUMMARY
from strata.machine import ledger
from strata.machine.machine import Machine
from strata.maintain.estimate import RUNS_MAX
from strata.model.settings import GcSettings, UsageSettings
from strata.store.interface import BlobInfo
from strata.store.keys import SEEN, BlobKey, BlobKind, generation_of, ledger_level, parse_key
from strata.store.retry import retry

_DAY_MS: Final = 86_400_000
SEEN_DAYS: Final = 2  # for a validation that wrote one but has not committed yet


class Fate(StrEnum):
    """What becomes of a blob."""

    LIVE = "live"  # the newest state needs it, or it is history still to be kept
    HELD = "held"  # a reader may still need it
    YOUNG = "young"  # a writer may still commit it
    DEAD = "dead"  # no reader and no writer can ever need it
    UNKNOWN = "unknown"  # not understood, so it stays


@dataclass(frozen=True, slots=True)
class JudgedBlob:
    """One blob, with what becomes of it and why."""

    key: str
    size_bytes: int
    kind: str  # what it is; `foreign` for a key that is not ours
    fate: Fate
    reason: str


class Judge:
    """The judge of one shard's blobs during one sweep."""

    def __init__(
        self,
        machine: Machine,
        reach: Reach,
        settings: GcSettings,
        usage: UsageSettings,
        now_ms: int,
        listed: Collection[str],
    ) -> None:
        """Judge against `reach`; `listed` are the keys of the shard's small blobs."""
        self._machine, self._reach = machine, reach
        self._settings, self._usage, self._now_ms = settings, usage, now_ms
        self._listed = listed
        self._rules: dict[BlobKind, Callable[[BlobInfo, BlobKey], tuple[Fate, str]]] = {
            BlobKind.PART: self._generation,
            BlobKind.MANIFEST: self._generation,
            BlobKind.PAGE: self._generation,
            BlobKind.UNION: self._generation,
            BlobKind.BLOOM: self._generation,
            BlobKind.CATALOG: self._generation,
            BlobKind.CONSUMED: self._generation,
            BlobKind.STAGED: self._generation,
            BlobKind.SUPPRESSED: self._generation,
            BlobKind.ERASURE: self._certificate,
            BlobKind.LEDGER: self._ledger,
            BlobKind.VERDICT: self._verdict,
            BlobKind.QUARANTINE: self._rejects,
            BlobKind.USAGE: self._log,
            BlobKind.BACKFILL: self._record,
        }

    def judge(self, info: BlobInfo) -> JudgedBlob:
        """Return the judgement of one listed blob.

        Raises: Corrupt for a blob of a generation that has not begun yet.
        """
        reach, head = self._reach, self._reach.head
        try:
            key = parse_key(info.key)
        except InvalidRequest:
            return JudgedBlob(
                info.key, info.size_bytes, "foreign", Fate.UNKNOWN, "no key that Strata makes"
            )
        if info.key in reach.live:
            fate, reason = Fate.LIVE, f"state {head.seqno}, the newest, names it"
        elif info.key in reach.held:
            fate, reason = Fate.HELD, self._held(reach.held[info.key])
        elif head.dropped is not None:
            fate, reason = Fate.DEAD, f"the shard was dropped: {head.dropped.reason}"
        else:
            rule = self._rules.get(key.kind)
            fate, reason = rule(info, key) if rule else (Fate.UNKNOWN, "no rule is known for it")
        return JudgedBlob(info.key, info.size_bytes, key.kind.value, fate, reason)

    def _held(self, seqno: int) -> str:
        by = self._reach.held_by
        why = f"the hold {by[0]!r} reads from there" if by else "a reader may have planned then"
        return f"state {seqno} names it, and {why}"

    def _generation(self, info: BlobInfo, key: BlobKey) -> tuple[Fate, str]:
        generation, fence = generation_of(info.key), self._reach.fence
        if generation > self._newest_generation(generation):
            raise Corrupt(
                "a blob is of a generation that is still to come; nothing was deleted",
                shard=key.shard,
                key=info.key,
                generation=self._reach.head.generation,
                cure="do the settings name the consensus store that belongs to these blobs?",
            )
        if generation >= fence:
            return Fate.YOUNG, (
                f"no state names it, but a writer of generation {generation} may still commit it"
            )
        return Fate.DEAD, (
            f"no state that counts names it, and its generation {generation} lies behind "
            f"the fence {fence}: it can join no state any more"
        )

    def _newest_generation(self, seen: int) -> int:
        """Return the shard's generation; read it again if a blob seems to be ahead of it."""
        head = self._reach.head
        if seen > head.generation:
            return self._machine.load(head.name, dropped=True).generation
        return head.generation

    def _ledger(self, info: BlobInfo, key: BlobKey) -> tuple[Fate, str]:
        """Judge a ledger blob that no state names: its writer lost a race, or may still win one.

        A writer that may still win spills commits that the newest or a newer state remembers, and
        folds only blobs that such a state still names.
        """
        try:
            lost = self._is_lost(info.key)
        except StrataError:
            return Fate.UNKNOWN, "no state names it, and it cannot be read"
        if lost:
            return Fate.DEAD, "a lost race left it: other blobs have, or will have, its commits"
        return Fate.YOUNG, "no state names it yet, and the next one may"

    def _is_lost(self, key: str) -> bool:
        """Return whether a ledger blob that is not alive can never be named by a state."""
        head, blob = self._reach.head, self._machine.stores.blob
        if ledger_level(key):
            return any(self._is_taken(child) for child in ledger.children_of(blob, key))
        spilled = ledger.commits_of(blob, key)
        newer = any(commit.seqno > head.seqno for commit in spilled)
        return not newer and not {c.token for c in spilled} <= {c.token for c in head.commits}

    def _is_taken(self, child: str) -> bool:
        """Return whether a ledger blob can join no new node: it is in a node already, or lost."""
        if child in self._reach.live:
            return child not in self._reach.head.ledger
        if retry(partial(self._machine.stores.blob.get, child)) is None:
            return True  # a state that can still be committed would name it, and so would this
        return self._is_lost(child)

    def _verdict(self, info: BlobInfo, key: BlobKey) -> tuple[Fate, str]:
        days = self._settings.verdict_days
        if key.name.startswith(SEEN):  # its successor contains all that it has
            days = SEEN_DAYS
        return self._kept(info, days, "evidence of soft evaluation")

    def _rejects(self, info: BlobInfo, key: BlobKey) -> tuple[Fate, str]:
        """Judge rows that could not be read; rows rejected by a commit belong to the shard."""
        fate, reason = self._kept(info, self._settings.reject_days, "rejected rows")
        token = key.name.partition("/")[0].removesuffix(".jsonl")
        if fate is Fate.DEAD and token in self._tokens:  # slow: for old ones only
            return Fate.LIVE, f"the rejected rows of the commit {token}"
        return fate, reason

    def _certificate(self, _info: BlobInfo, _key: BlobKey) -> tuple[Fate, str]:
        return Fate.LIVE, "what proves an erasure"

    def _log(self, info: BlobInfo, key: BlobKey) -> tuple[Fate, str]:
        day, _, name = key.name.partition("/")
        today = datetime.fromtimestamp(self._now_ms / 1000, UTC).date()
        oldest = (today - timedelta(days=self._usage.days)).isoformat()
        if day < oldest:
            return Fate.DEAD, f"filters are remembered for {self._usage.days} days"
        summary = info.key.removesuffix(name) + f"{SUMMARY}.json"
        if summary in self._listed and info.key != summary and day < today.isoformat():
            return Fate.DEAD, "the summary of its day has it"
        return Fate.LIVE, "filters that readers used"

    def _record(self, info: BlobInfo, key: BlobKey) -> tuple[Fate, str]:
        kept = [k for k in sorted(self._listed) if f"/{BlobKind.BACKFILL}/" in k][-RUNS_MAX:]
        if info.key in kept:
            return Fate.LIVE, "how fast one of the last backfills was"
        return Fate.DEAD, f"the speed of the last {RUNS_MAX} backfills is remembered"

    def _kept(self, info: BlobInfo, days: int, what: str) -> tuple[Fate, str]:
        age_ms = self._now_ms - info.modified_ms
        if age_ms <= days * _DAY_MS:
            return Fate.LIVE, f"{what}, kept for {days} days"
        if age_ms <= self._settings.grace_ms:  # written before the state that names it
            return Fate.YOUNG, f"{what}, so new that a state may still come to name it"
        return Fate.DEAD, f"{what}, older than {days} days"

    @cached_property
    def _tokens(self) -> frozenset[str]:
        """Return all tokens that were ever committed. Cost: reads every ledger blob once."""
        head, blob = self._reach.head, self._machine.stores.blob
        known = {commit.token for commit in head.commits}
        for key in ledger.ledger_keys(blob, head.ledger):
            if not ledger_level(key):
                known.update(commit.token for commit in ledger.commits_of(blob, key))
        return frozenset(known)

"""Measure what each candidate would skip, on a copy of the shard, and order what helps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from strata.advise.candidates import Candidate, Help, candidates, steps_for
from strata.advise.follow import carry_out
from strata.advise.scratch import Sample, Scratch
from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.history.usage import UsedFilter
from strata.machine.machine import Machine
from strata.maintain.declare import StoredStep, check_statistics
from strata.model.settings import Settings
from strata.model.shown import json_of
from strata.state.declare import Follow, compared_with
from strata.state.state import State
from strata.store.open import Stores

BYTES_MAX: Final = 256 << 20  # of parts that are copied into memory
FILTERS_MAX: Final = 32  # that are measured: those with the most reads
LEAST_SHARE: Final = 0.01  # of the bytes that the reads fetch today: less is no advice
_BY_NEIGHBOURS: Final = (Help.MERGE, Help.PARTS)  # of parts that a sample leaves out
ON: Final = "on"  # advice is about what statistics prove, in whichever mode the shard is


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a read with one filter fetches."""

    parts: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class ReadEffect:
    """What advice changes for one filter, measured on the copied parts. Units: bytes."""

    filter: str
    reads: int
    parts_before: int
    parts_after: int
    bytes_before: int
    bytes_after: int


@dataclass(frozen=True, slots=True)
class Advice:
    """One change that would have skipped more, by itself. Units: bytes, over all reads."""

    candidate: Candidate
    steps: tuple[StoredStep, ...]  # how stored parts follow
    reads: int  # reads that would have fetched less
    parts_saved: int  # fewer parts fetched, net of reads that fetch more
    bytes_saved: int
    effects: tuple[ReadEffect, ...]

    @property
    def read_bytes(self) -> int:
        """Return the stored bytes that are read once, at most."""
        return sum(step.size_bytes for step in self.steps)

    @property
    def written_bytes(self) -> int:
        """Return the stored bytes of the parts that are rewritten."""
        rewritten = (Follow.MIGRATE, Follow.MERGE)
        return sum(step.size_bytes for step in self.steps if step.follow in rewritten)

    @property
    def worth(self) -> float:
        """Return the bytes saved for each byte that the change reads or writes."""
        return self.bytes_saved / (self.read_bytes + self.written_bytes + 1)

    @property
    def id(self) -> str:
        """Return what names the advice in a later call; the same change has the same name."""
        facts = f"{self.candidate.kind.value}\0{self.candidate.what}\0{self.candidate.yaml}"
        return blake2b(facts.encode(), digest_size=3).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the advice in the document of `strata advise --json`."""
        return {
            "id": self.id,
            "kind": self.candidate.kind.value,
            "what": self.candidate.what,
            "declare": self.candidate.yaml,
            "commands": [step.command for step in self.steps],
            "reads": self.reads,
            "parts_saved": self.parts_saved,
            "bytes_saved": self.bytes_saved,
            "cost_parts": sum(step.parts for step in self.steps),
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "filters": [json_of(effect) for effect in self.effects],
        }


@dataclass(frozen=True, slots=True)
class Advised:
    """All advice on a shard, the most saved for its cost first."""

    shard: str
    sample: Sample
    filters: tuple[ReadEffect, ...]  # today, before and after alike
    tried: int  # candidates
    advice: tuple[Advice, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the document of `strata advise --json`."""
        return {
            "shard": self.shard,
            "exact": self.sample.whole,
            "parts_looked_at": self.sample.parts,
            "parts_total": self.sample.parts_total,
            "bytes_looked_at": self.sample.size_bytes,
            "bytes_total": self.sample.bytes_total,
            "tried": self.tried,
            "filters": [json_of(effect) for effect in self.filters],
            "advice": [one.to_json() for one in self.advice],
        }


def advise(
    stores: Stores,
    state: State,
    settings: Settings,
    used: Sequence[UsedFilter],
    *,
    bytes_max: int = BYTES_MAX,
    log: Callable[[str], None] = lambda _: None,
) -> Advised:
    """Return what would have skipped more of the reads with these filters, and its cost.

    The promise is exact where the whole shard was copied; else it holds for the parts looked at,
    and what depends on neighbouring parts (compaction, the size of parts) is not tried.
    Each piece of advice was measured by itself. `log` gets a line for each candidate.
    Cost: reads up to `bytes_max` of parts once, and rewrites them in memory for some candidates.
    """
    scratch = Scratch(stores, state, bytes_max)
    try:
        known, before = _baseline(scratch, used)
        waste = sorted(range(len(known)), key=lambda n: -known[n].reads * before[n].size_bytes)
        filters = [known[n].filter for n in waste if before[n].parts]
        found = [
            one
            for one in candidates(
                stores, state, settings, filters, scratch.complete, scratch.versions
            )
            if _can_be(state, one) and (scratch.sample.whole or one.kind not in _BY_NEIGHBOURS)
        ]
        enough = LEAST_SHARE * sum(
            one.reads * fetched.size_bytes for one, fetched in zip(known, before, strict=True)
        )
        given = []
        for candidate in found:
            after = _after(scratch, settings, candidate, known)
            log(f"{candidate.kind.value}: {candidate.what}")
            one = _advice(state, candidate, known, before, after)
            if one.bytes_saved > enough and one.parts_saved >= 0:
                given.append(one)
        given = [one for one in given if not _is_more_than_needed(one, given)]
        given.sort(key=lambda one: (-one.worth, one.candidate.what))
        today = tuple(map(_effect, known, before, before))
        return Advised(state.name, scratch.sample, today, len(found), tuple(given))
    finally:
        scratch.close()


def _is_more_than_needed(advice: Advice, given: Sequence[Advice]) -> bool:
    """Return whether other advice asks for less and saves as much.

    Sets of values are smaller than bloom filters of them, and statistics that are only missing need
    no other declaration.
    """
    mine = advice.candidate
    if mine.kind in (Help.KEEP, Help.BUDGET):
        return any(
            one.candidate.kind == Help.COLLECT and one.bytes_saved >= advice.bytes_saved
            for one in given
        )
    if mine.kind == Help.PAIRS:  # the same with a smaller budget
        return any(
            one.candidate.kind == Help.PAIRS
            and one.candidate.spec.stats.pairs == mine.spec.stats.pairs
            and one.candidate.spec.stats.budget_bytes < mine.spec.stats.budget_bytes
            and one.bytes_saved >= advice.bytes_saved
            for one in given
        )
    return mine.kind == Help.BLOOMS and any(
        one.candidate.kind == Help.SETS
        and one.candidate.spec.stats.sets[-1] == mine.spec.stats.blooms[-1]
        and one.bytes_saved >= advice.bytes_saved
        for one in given
    )


def _baseline(
    scratch: Scratch, used: Sequence[UsedFilter]
) -> tuple[list[UsedFilter], list[Fetched]]:
    """Return the filters that can be planned today, and what each fetches."""
    known, before = [], []
    with scratch.copy() as (stores, state):
        for one in sorted(used, key=lambda one: -one.reads)[:FILTERS_MAX]:
            try:
                fetched = _fetched(stores, state, one)
            except InvalidRequest:  # of a column that is gone
                continue
            known.append(one)
            before.append(fetched)
    return known, before


def _fetched(stores: Stores, state: State, used: UsedFilter) -> Fetched:
    plan = plan_read(stores, state, filter=used.filter, mode=ON)
    return Fetched(plan.parts_fetched, plan.bytes_fetched)


def _can_be(state: State, candidate: Candidate) -> bool:
    """Return whether the shard may have this declaration; members may not be where none can be."""
    try:
        check_statistics(candidate.spec, state.relation)
    except InvalidRequest:
        return False
    return not compared_with(state, candidate.spec).refused


def _after(
    scratch: Scratch, settings: Settings, candidate: Candidate, known: Sequence[UsedFilter]
) -> list[Fetched]:
    """Apply a candidate to a copy; return what each filter fetches then."""
    with scratch.copy() as (stores, state):
        carry_out(stores, settings, state, candidate.spec, steps_for(state, candidate))
        changed = Machine(stores).load(state.name)
        return [_fetched(stores, changed, one) for one in known]


def _advice(
    state: State,
    candidate: Candidate,
    known: Sequence[UsedFilter],
    before: Sequence[Fetched],
    after: Sequence[Fetched],
) -> Advice:
    effects = tuple(map(_effect, known, before, after))
    return Advice(
        candidate,
        steps_for(state, candidate),
        sum(e.reads for e in effects if e.bytes_after < e.bytes_before),
        sum(e.reads * (e.parts_before - e.parts_after) for e in effects),
        sum(e.reads * (e.bytes_before - e.bytes_after) for e in effects),
        effects,
    )


def _effect(used: UsedFilter, before: Fetched, after: Fetched) -> ReadEffect:
    return ReadEffect(
        used.filter.sql, used.reads, before.parts, after.parts, before.size_bytes, after.size_bytes
    )

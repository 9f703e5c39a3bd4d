"""What could help the filters of a shard: changes of its declaration, and work on stored parts.

Candidates are plentiful and cheap to name. Whether one helps is measured (`strata.advise.measure`).
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from strata.compact import preview
from strata.config.folder import yaml_line
from strata.decide.decision import needed_columns
from strata.decide.places import compared_places
from strata.decide.terms import paired_places
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.maintain.declare import StoredStep, check_statistics, stored_steps
from strata.maintain.exchange import Selection
from strata.model.schema import Relation
from strata.model.settings import Settings
from strata.model.spec import ShardSpec
from strata.state.declare import Follow, compared_with
from strata.state.state import State
from strata.stats import STATS_VERSION
from strata.stats.nested import places
from strata.stats.pairs import MOST_BYTES, pair_named
from strata.stats.wire import OF_VALUES, ROWS, parse_inside, parse_name
from strata.store.open import Stores

PLACES_MAX: Final = 8  # places that candidates are made for: those of the most reads
LARGER: Final = 4  # times today's budget
SMALLER: Final = 4  # parts of a fraction of today's size
LEAST_PART: Final = 32 * 1024  # bytes; smaller parts cost more to plan than they save


class Help(StrEnum):
    """What a piece of advice changes."""

    ORDER = "sort order"
    KEEP = "keep list"
    BUDGET = "budget"
    SETS = "value sets"
    BLOOMS = "bloom filters"
    PAIRS = "pairs"
    PARTS = "part size"
    COLLECT = "backfill"
    MERGE = "compaction"


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something that could help."""

    kind: Help
    what: str  # in words
    yaml: str  # what the shard's file has to say afterwards; empty: nothing new
    spec: ShardSpec  # the declaration with it
    forced: StoredStep | None = None  # work that no change of the declaration asks for


@dataclass(frozen=True, slots=True)
class UsedPlace:
    """A place that filters look at."""

    name: str  # of its statistics
    words: str  # as a declaration names it, as in `payload.id`
    column: str  # its column, if it is the whole of one that can lead a sort order; else empty
    compared: bool  # with constants, for equality


def candidates(
    stores: Stores,
    state: State,
    settings: Settings,
    filters: Sequence[Filter],
    complete: Collection[str],
    versions: Collection[int | None],
) -> Iterator[Candidate]:
    """Yield what could help these filters, which are in order of importance.

    `complete` are the statistics columns that every part has, `versions` the versions of parts'
    statistics.
    """
    found = used_places(state.relation, filters)[:PLACES_MAX]
    for place in found:
        yield from _of_place(state, place, complete)
    yield from _of_pairs(state, filters, complete)
    lacking = [place for place in found if place.name not in complete]
    yield from _collections(state, lacking, versions)
    yield from _of_all(stores, state, settings)


def used_places(relation: Relation, filters: Sequence[Filter]) -> list[UsedPlace]:
    """Return the places that filters look at, each once, in order of the filters."""
    seen: dict[str, UsedPlace] = {}
    for filter in filters:
        names = {n for n in needed_columns(filter) if not n.startswith(OF_VALUES)} - {ROWS}
        compared = set(compared_places(filter.expr))
        for name in sorted(names, key=lambda n: (n not in compared, -len(n), n)):
            if any(
                other != name and other.startswith((f"{name}$", f"{name}.", f"{name}/"))
                for other in names
            ):
                continue  # a step on the way to another place
            place = _place(relation, name, compared=name in compared)
            if place is not None:
                old = seen.get(name)
                seen[name] = (
                    place if old is None else replace(old, compared=old.compared or place.compared)
                )
    return list(seen.values())


def _place(relation: Relation, name: str, *, compared: bool) -> UsedPlace | None:
    parsed, inside = parse_name(name), parse_inside(name)
    column = None if parsed is None else relation.by_id.get(parsed[0])
    if parsed is None or column is None:
        return None
    steps: Sequence[str] = parsed[1] or ()
    if inside is not None and inside[1]:
        steps = next((p.names for p in places(column.type) if p.steps == inside[1]), ())
        if not steps:
            return None
    words = ".".join((column.name, *steps))
    whole = "" if steps or parsed[1] is not None else column.name
    return UsedPlace(name, words, whole, compared)


def _of_place(state: State, place: UsedPlace, complete: Collection[str]) -> Iterator[Candidate]:
    spec, words = state.spec, place.words
    first = state.relation.by_id[state.relation.sort_ids[0]].name
    if place.column and place.column != first:
        order = (place.column, *(n for n in spec.order if n != place.column))
        yield Candidate(
            Help.ORDER,
            f"sort by {', '.join(order)}",
            _yaml(order=order),
            replace(spec, order=order),
        )
    stats = spec.stats
    if place.compared and words not in (*stats.sets, *stats.blooms):
        sets, blooms = (*stats.sets, words), (*stats.blooms, words)
        yield Candidate(
            Help.SETS,
            f"record the values of {words}",
            _yaml(stats={"sets": sets}),
            replace(spec, stats=replace(stats, sets=sets)),
        )
        yield Candidate(
            Help.BLOOMS,
            f"record the values of {words}, many of them as a bloom filter",
            _yaml(stats={"blooms": blooms}),
            replace(spec, stats=replace(stats, blooms=blooms)),
        )
    if place.name not in complete and words not in stats.keep:
        kept = replace(spec, stats=replace(stats, keep=(*stats.keep, words)))
        needed = _budget_for(kept, state.relation)
        kept = replace(kept, stats=replace(kept.stats, budget_bytes=needed))
        more = {"budget_bytes": needed} if needed != stats.budget_bytes else {}
        yield Candidate(
            Help.KEEP,
            f"keep the statistics of {words} under every budget",
            _yaml(stats={"keep": kept.stats.keep, **more}),
            kept,
        )


def _of_pairs(
    state: State, filters: Sequence[Filter], complete: Collection[str]
) -> Iterator[Candidate]:
    """Yield the pairs that filters compare, within today's budget and with more room.

    A quotient needs the direction that comes first; differences are the same in both.
    """
    names = (name for one in filters for name in paired_places(one.expr))
    stats, seen = state.spec.stats, set[frozenset[str]]()
    for name in dict.fromkeys(names):
        pair = pair_named(state.relation, name)
        sides = () if pair is None else (pair.left.name, pair.right.name)
        found = [_place(state.relation, side, compared=False) for side in sides]
        words = tuple(side.words for side in found if side is not None)
        if len(words) != 2 or words in stats.pairs or name in complete or {*words} in seen:
            continue
        if len(seen) == PLACES_MAX:
            return
        seen.add(frozenset(words))
        pairs = (*stats.pairs, words)
        for more in (0, MOST_BYTES):
            budget = stats.budget_bytes + more
            room = {"budget_bytes": budget} if more else {}
            yield Candidate(
                Help.PAIRS,
                f"record how {words[0]} and {words[1]} differ",
                _yaml(stats={"pairs": pairs, **room}),
                replace(state.spec, stats=replace(stats, pairs=pairs, budget_bytes=budget)),
            )


def _budget_for(spec: ShardSpec, relation: Relation) -> int:
    """Return the budget of a declaration, or the least one that its keep list may have."""
    try:
        check_statistics(spec, relation)
    except InvalidRequest as error:
        needed = error.details.get("needed")
        if isinstance(needed, int):
            return needed
    return spec.stats.budget_bytes


def _collections(
    state: State, lacking: Sequence[UsedPlace], versions: Collection[int | None]
) -> Iterator[Candidate]:
    """Yield the backfills that today's declaration allows."""
    parts, size = _sizes(state)
    backfill = f"strata stats backfill {state.name}"
    if any(version is None or version < STATS_VERSION for version in versions):
        step = StoredStep(Follow.ADD, backfill, parts, size, Selection())
        yield Candidate(
            Help.COLLECT, "collect the statistics that parts lack", "", state.spec, step
        )
        return
    if lacking:  # a backfill of named columns would pass over the budget, until the next trim
        again = StoredStep(
            Follow.COLLECT, f"{backfill} --again", parts, size, Selection(again=True)
        )
        yield Candidate(
            Help.COLLECT,
            "collect the statistics once more, as they are declared",
            "",
            state.spec,
            again,
        )


def _sizes(state: State) -> tuple[int, int]:
    """Return how many parts a shard has, and their stored bytes."""
    return sum(b.parts for b in state.batches), sum(b.size_bytes for b in state.batches)


def _of_all(stores: Stores, state: State, settings: Settings) -> Iterator[Candidate]:
    spec, name = state.spec, state.name
    parts, size = _sizes(state)
    budget = LARGER * spec.stats.budget_bytes
    yield Candidate(
        Help.BUDGET,
        f"statistics of up to {budget:,} bytes a part",
        _yaml(stats={"budget_bytes": budget}),
        replace(spec, stats=replace(spec.stats, budget_bytes=budget)),
    )
    merge = StoredStep(Follow.MERGE, f"strata compact {name} --full", parts, size)
    if preview(stores, name, settings, full=True).requests:
        runs = sum(len(batch.runs) for batch in state.batches)
        yield Candidate(
            Help.MERGE,
            f"merge {runs} runs; let compaction run so often that few wait",
            "",
            spec,
            merge,
        )
    smaller = max(LEAST_PART, min(spec.part_bytes, size // max(parts, 1)) // SMALLER)
    if smaller < spec.part_bytes:
        yield Candidate(
            Help.PARTS,
            f"parts of {smaller:,} bytes",
            _yaml(part_bytes=smaller),
            replace(spec, part_bytes=smaller, row_group_bytes=min(spec.row_group_bytes, smaller)),
            merge,
        )


def steps_for(state: State, candidate: Candidate) -> tuple[StoredStep, ...]:
    """Return the commands by which stored parts follow a candidate."""
    found = stored_steps(state, compared_with(state, candidate.spec))
    return found if candidate.forced is None else (*found, candidate.forced)


def _yaml(**said: Any) -> str:
    return yaml_line(said)[1:-1]

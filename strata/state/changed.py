"""Say in words what a commit changed: one state against the one before it."""

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Final

from strata.model.time import MIN_TIME, format_time
from strata.state.state import Commit, Hold, Merge, State, Writer

FIRST: Final = "created"
UNKNOWN: Final = "not known: the state before is no longer stored"
Words = Callable[[State, State], Iterator[str]]


def changes_between(before: State | None, after: State) -> str:
    """Return what `after` has that `before` has not, in words; None: no state before it is stored.

    Two states that follow each other never give an empty text.
    """
    if before is None:
        return FIRST if after.seqno == 1 else UNKNOWN
    words = [
        word
        for name, said in CHANGES.items()
        if getattr(before, name) != getattr(after, name)
        for word in said(before, after)
    ]
    return "; ".join(words) or "nothing that is shown here"


def _nothing(_: State, __: State) -> Iterator[str]:
    yield from ()


def _named(words: str) -> Words:
    def said(_: State, __: State) -> Iterator[str]:
        yield words

    return said


def _commits(before: State, after: State) -> Iterator[str]:
    for one in _new_commits(before, after):
        yield f"{_several(one.updates, 'update')} before {_time(one.upper)}"
        if one.rejected:
            yield f"{_several(one.rejected, 'row')} rejected"


def _new_commits(before: State, after: State) -> list[Commit]:
    return [one for one in after.commits if one.seqno > before.seqno]


def _new_merges(before: State, after: State) -> list[Merge]:
    return [one for one in after.merges if one.seqno > before.seqno]


def _merges(before: State, after: State) -> Iterator[str]:
    for one in _new_merges(before, after):
        yield f"{_several(one.runs_in, 'run')} merged: parts {one.parts_in:,} to {one.parts_out:,}"


def _spine(before: State, after: State) -> Iterator[str]:
    if not (_new_commits(before, after) or _new_merges(before, after)):
        yield "batches rewritten, or their statistics"


def _upper(before: State, after: State) -> Iterator[str]:
    if not _new_commits(before, after):
        yield f"upper moved to {_time(after.upper)}"


def _since(_: State, after: State) -> Iterator[str]:
    yield f"since moved to {_time(after.since)}"


def _holds(before: State, after: State) -> Iterator[str]:
    old, new = _holds_of(before), _holds_of(after)
    yield from (f"hold {name} taken" for name in new.keys() - old.keys())
    yield from (f"hold {name} released" for name in old.keys() - new.keys())
    for name in new.keys() & old.keys():
        was, now = old[name], new[name]
        if was.since != now.since:
            yield f"hold {name} moved to {_time(now.since)}"
        elif was != now:
            yield f"hold {name} renewed"


def _holds_of(state: State) -> dict[str, Hold]:
    return {one.name: one for one in state.holds}


def _writers(before: State, after: State) -> Iterator[str]:
    old, new = _writers_of(before), _writers_of(after)
    yield from (f"writer {_writer(new[name])} began" for name in new.keys() - old.keys())
    yield from (f"writer {_writer(old[name])} ended" for name in old.keys() - new.keys())
    yield from (
        f"writer {_writer(new[name])} goes on"
        for name in new.keys() & old.keys()
        if new[name] != old[name]
    )


def _writers_of(state: State) -> dict[str, Writer]:
    return {one.name: one for one in state.writers}


def _writer(one: Writer) -> str:
    return f"{one.name} ({one.purpose})" if one.purpose else one.name


def _rollout(before: State, after: State) -> Iterator[str]:
    was, now = before.rollout, after.rollout
    entries = [one for one in now.entries if one not in was.entries]
    for one in entries:
        moved = "" if one.before == one.after else f": {one.before} to {one.after}"
        yield f"rollout {one.what}{moved} by {one.by}"
    if was.mode != now.mode and not entries:
        yield f"mode {was.mode} to {now.mode}"
    if was.quarantine != now.quarantine:
        yield "quarantine of statistics changed"
    if was.evidence != now.evidence:
        yield "evidence noted"
    if (was.policy, was.gates) != (now.policy, now.gates):
        yield "gates of the policy noted"
    if not entries and (was.request, was.basis) != (now.request, now.basis):
        yield "a step's request or basis changed"


def _dropped(_: State, after: State) -> Iterator[str]:
    yield f"dropped by {after.dropped.by}" if after.dropped else "brought back"


def _tripped(_: State, after: State) -> Iterator[str]:
    yield "ingest stopped: a value differed" if after.tripped else "ingest released"


def _erasing(before: State, after: State) -> Iterator[str]:
    if before.erasing is None and after.erasing is not None:
        yield f"erasure {after.erasing.id} began"
    elif before.erasing is not None and after.erasing is None:
        yield f"erasure {before.erasing.id} ended"
    else:
        yield "the erasure went on"


def _relations(_: State, after: State) -> Iterator[str]:
    yield f"columns changed: version {after.relation.version}"


def _spec(before: State, after: State) -> Iterator[str]:
    names = [f.name for f in fields(after.spec)]
    changed = [n for n in names if getattr(before.spec, n) != getattr(after.spec, n)]
    yield f"declaration changed: {', '.join(changed)}"


def _generation(_: State, after: State) -> Iterator[str]:
    yield f"generation {after.generation} began"


def _merging(_: State, after: State) -> Iterator[str]:
    done = ", ".join(f"{one.done} of {one.tasks} tasks" for one in after.merging)
    yield f"merges under way: {done or 'none'}"


def _consumed(before: State, after: State) -> Iterator[str]:
    if not _new_commits(before, after):
        yield "list of source files changed"


def _several(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _time(value: int) -> str:
    return "the beginning" if value == MIN_TIME else format_time(value)


# Each field of a state; a test compares them.
CHANGES: Final[dict[str, Words]] = {
    "seqno": _nothing,
    "walltime_ms": _nothing,
    "commits": _commits,
    "merges": _merges,
    "merging": _merging,
    "spine": _spine,
    "upper": _upper,
    "since": _since,
    "holds": _holds,
    "writers": _writers,
    "rollout": _rollout,
    "relations": _relations,
    "next_column": _nothing,  # it goes with `relations`
    "spec": _spec,
    "dropped": _dropped,
    "tripped": _tripped,
    "erasing": _erasing,
    "suppressed": _named("list of suppressed rows changed"),
    "catalog": _named("collections changed"),
    "consumed": _consumed,
    "verdicts": _named("verdicts of an audit stored"),
    "ledger": _named("old commits moved to a blob"),
    "generation": _generation,
    "generation_ms": _nothing,  # it goes with `generation`
    "fence": _named("blobs of earlier generations fenced off"),
}

"""Plans the steps of a request: which are committed, which files each takes, and at what time.

A step whose files are found by their time takes those of its interval that the shard lacks. The
first uncommitted step also takes late files of committed intervals. A step in the past takes the
rest of its interval at the shard's upper, because the times of updates never go back.
"""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import pairwise
from typing import Final

import numpy as np

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, files_by_time, fingerprints
from strata.ingest.ledger import Ledger, Sorted
from strata.ingest.task import Step, Work
from strata.kernels.arrays import Ints
from strata.machine.machine import Machine
from strata.model.runner import Runner, serial
from strata.model.settings import Settings
from strata.model.spec import ORDERED, check_name
from strata.model.time import MIN_TIME
from strata.state.state import Commit, State

UNKNOWN: Final = np.iinfo(np.int64).min  # the time of a file whose path carries none


def plan_steps(
    machine: Machine, settings: Settings, state: State, ledger: Ledger, steps: Sequence[Step]
) -> list[Work]:
    """Return the work of each step.

    Raises: InvalidRequest for steps out of order, an interval that is written under another token
    and that no ledger watched, a token of another interval, and a shard without a source.
    Cost: lists the source folders if a step brings no files.
    """
    asked = [_named(state.name, step) for step in steps]
    _check_order(state, asked)
    works = [Work(step, step, commit=_committed(machine, state, ledger, step)) for step in asked]
    by_time = [n for n, work in enumerate(works) if work.asked.files is None]
    if any(works[n].commit is None or ledger.watched_from() is not None for n in by_time):
        for n, work in zip(by_time, _by_time(settings, state, ledger, works, by_time), strict=True):
            works[n] = work
    for work in works:
        if work.by_time and not work.asked.empty and work.commit is None and not _came(work):
            raise no_file(
                state.name,
                paths=list(state.spec.source.paths),
                lower=work.asked.lower,
                upper=work.asked.upper,
            )
    for n, work in enumerate(works):
        if work.asked.files is not None and work.commit is None:
            works[n] = _named_files(state, ledger, work)
    placed = _placed(state, works)
    _check_late(state, placed)
    return placed


def no_file(name: str, **where: object) -> InvalidRequest:
    """Return the error for an interval that would be closed without a file."""
    return InvalidRequest(
        "no file came",
        shard=name,
        **where,
        cure="look at the folder and the times in its paths (a name such as x.csv.tmp is passed "
        "over); --empty closes the interval all the same",
    )


def _came(work: Work) -> bool:
    """Return whether a file came for the interval of a step, or a late one with it."""
    found, lower = work.found, bounds(work.asked)[0]
    known = (*found.taken, *found.changed, *(file for file, _ in found.copies))
    return bool(found.new) or any(f.time_ms is not None and f.time_ms >= lower for f in known)


def files_token(name: str, files: Sequence[SourceFile], runner: Runner = serial) -> str:
    """Return the token of a set of files; the same files with the same bytes have the same token.

    Cost: reads the files.
    """
    digests = fingerprints(files, runner)
    facts = (f"{f.name}\0{f.size_bytes}\0{d}" for f, d in zip(files, digests, strict=True))
    return _token("files", name, *facts)


def again_token(name: str, ledger: Ledger, files: Sequence[SourceFile]) -> str:
    """Return the token for taking files in once more; it differs after each time they came.

    Cost: reads the files.
    """
    return _token("again", files_token(name, files), *ledger.tokens(files))


def interval_token(name: str, lower: int, upper: int) -> str:
    """Return the token of an interval of a shard."""
    return _token("interval", name, str(lower), str(upper))


def _late_token(name: str, step: Step, files: Sequence[SourceFile]) -> str:
    facts = (f"{file.name}\0{file.size_bytes}\0{file.changed_ns}" for file in files)
    return _token("late", name, str(step.lower), str(step.upper), *facts)


def _token(kind: str, *facts: str) -> str:
    return f"{kind}-{blake2b(chr(1).join(facts).encode(), digest_size=12).hexdigest()}"


def _named(name: str, step: Step) -> Step:
    """Return the step with its token.

    Raises: InvalidRequest for an invalid interval.
    """
    lower, upper = step.lower, step.upper
    if lower is None or upper is None or not MIN_TIME <= lower < upper:
        raise InvalidRequest(
            "the interval is empty or has no end",
            shard=name,
            lower=lower,
            upper=upper,
            cure="lower < upper, in milliseconds since 1970, of the years 0001 to 9999",
        )
    return replace(step, token=check_name(step.token or interval_token(name, lower, upper)))


def bounds(step: Step) -> tuple[int, int]:
    """Return the interval of a step that has one."""
    assert step.lower is not None
    assert step.upper is not None
    return step.lower, step.upper


def _check_order(state: State, steps: Sequence[Step]) -> None:
    for before, after in pairwise(steps):
        if bounds(before)[1] > bounds(after)[0]:
            raise InvalidRequest(
                "the intervals are not in order",
                shard=state.name,
                upper=before.upper,
                next_lower=after.lower,
            )


def _committed(machine: Machine, state: State, ledger: Ledger, step: Step) -> Commit | None:
    """Return the earlier commit of a step, before anything is read for it.

    Raises: InvalidRequest when the interval is written under another token from unknown files, or
    when the token belongs to another interval.
    """
    assert step.token is not None
    lower, upper = bounds(step)
    commit = machine.committed(state.name, step.token, upper)
    watched = ledger.watched_from() if step.files is None else None
    if commit is None and lower < state.upper and (watched is None or lower < watched):
        raise InvalidRequest(
            "this interval is already written, and not under this token",
            shard=state.name,
            token=step.token,
            lower=lower,
            upper=upper,
            shard_upper=state.upper,
            cure="start at the shard's upper",
        )
    if commit is not None and (commit.upper != upper or commit.lower < lower):
        raise InvalidRequest(
            "this token was used for another interval",
            shard=state.name,
            token=step.token,
            lower=lower,
            upper=upper,
            first_lower=commit.lower,
            first_upper=commit.upper,
            cure="another token, or none",
        )
    return commit


def _by_time(
    settings: Settings, state: State, ledger: Ledger, works: Sequence[Work], which: Sequence[int]
) -> list[Work]:
    """Return the steps `which` with the files of their times that the shard lacks."""
    if not state.spec.source.paths:
        raise InvalidRequest(
            "the shard declares no source",
            shard=state.name,
            setting="source.paths",
            cure="declare it, or name files with --from",
        )
    timed = files_by_time(
        settings.store.landing, state.spec.source.paths, follow_links=settings.ingest.follow_links
    )
    times = np.array([UNKNOWN if f.time_ms is None else f.time_ms for f in timed], np.int64)
    owner = _owners(state, ledger, [works[n].asked for n in which], times)
    found = ledger.sort_out(
        [timed[row] for row in np.flatnonzero(owner >= 0).tolist()],
        copies=state.spec.source.same_content == "once",
    )
    owners = {timed[row].name: int(owner[row]) for row in np.flatnonzero(owner >= 0).tolist()}
    shares = _shared(found, owners, len(which))
    return [_filled(works[n], share) for n, share in zip(which, shares, strict=True)]


def _owners(state: State, ledger: Ledger, steps: Sequence[Step], times: Ints) -> Ints:
    """Return the number of the step that may take each file; -1: none."""
    owner = np.full(len(times), -1, np.int64)
    watched, late = ledger.watched_from(), ledger.late_from()
    for number, step in enumerate(steps):
        lower, upper = bounds(step)
        if upper <= state.upper:  # in the past: files the ledger did not watch may be in
            lower = upper if watched is None else max(lower, watched)
        elif late is not None:
            lower, late = min(lower, late), None
        owner[(owner < 0) & (times >= lower) & (times < upper)] = number
    return owner


def _shared(found: Sorted, owners: dict[str, int], steps: int) -> list[Sorted]:
    """Return the findings about all files, split by step."""
    new: list[list[SourceFile]] = [[] for _ in range(steps)]
    taken: list[list[SourceFile]] = [[] for _ in range(steps)]
    changed: list[list[SourceFile]] = [[] for _ in range(steps)]
    copies: list[list[tuple[SourceFile, str]]] = [[] for _ in range(steps)]
    for groups, files in ((new, found.new), (taken, found.taken), (changed, found.changed)):
        for file in files:
            groups[owners[file.name]].append(file)
    for file, other in found.copies:
        copies[owners[file.name]].append((file, other))
    pieces = zip(new, taken, changed, copies, strict=True)
    return [Sorted(tuple(n), tuple(t), tuple(c), tuple(o)) for n, t, c, o in pieces]


def _filled(work: Work, found: Sorted) -> Work:
    lower = bounds(work.asked)[0]
    late = sum(1 for file in found.new if file.time_ms is not None and file.time_ms < lower)
    step = replace(work.step, files=found.new)
    return replace(work, step=step, found=found, late_files=late, by_time=True)


def _check_late(state: State, works: Sequence[Work]) -> None:
    """Refuse late files if the order of files decides the state of a key."""
    source = state.spec.source
    ordered = source.envelope in ORDERED
    if source.late_files == "take" or (source.late_files == "unless_ordered" and not ordered):
        return
    for work in works:
        if work.late_files:
            low, high = bounds(work.step)
            late = [f for f in work.step.files or () if f.time_ms is None or f.time_ms < low]
            raise InvalidRequest(
                "a file came late, and this shard takes no late files",
                shard=state.name,
                file=late[0].name,
                files=len(late),
                lower=low,
                upper=high,
                cure="is an older change overtaken by what is in? remove the file; else declare "
                "source.late_files: take",
            )


def _named_files(state: State, ledger: Ledger, work: Work) -> Work:
    """Return a step with named files, reduced to the files that the shard lacks."""
    files = work.asked.files or ()
    if work.asked.again:
        return work
    found = ledger.sort_out(files, copies=state.spec.source.same_content == "once")
    nothing = not found.new and not work.asked.empty
    return replace(work, step=replace(work.step, files=found.new), found=found, nothing=nothing)


def _placed(state: State, works: Sequence[Work]) -> list[Work]:
    """Return the steps with bounds at which a batch can be appended, one after the other."""
    at = state.upper
    placed = []
    for work in works:
        lower, upper = bounds(work.asked)
        files = work.step.files or ()
        if upper > at or not work.by_time:
            if work.commit is None and not work.nothing:
                placed.append(replace(work, step=replace(work.step, lower=max(lower, at))))
                at = upper
            else:
                placed.append(work)
        elif files:
            token = _late_token(state.name, work.asked, files)
            moved = replace(work.step, lower=at, upper=at + 1, token=token)
            placed.append(replace(work, step=moved, commit=None, late_files=len(files)))
            at += 1
        else:
            placed.append(replace(work, nothing=work.commit is None))
    return placed

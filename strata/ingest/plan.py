"""Cuts the work: intervals into steps, files into tasks of about equal bytes."""

import re
from calendar import monthrange
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from strata.errors import InvalidRequest
from strata.ingest.land.files import SourceFile, is_packed, unless_changed
from strata.ingest.land.source_file import Dialect
from strata.ingest.readers.file_ranges import split_file
from strata.ingest.task import IngestTask, Step
from strata.model.runner import Runner
from strata.model.settings import Settings
from strata.model.spec import ORDERED
from strata.model.time import format_time
from strata.state.state import State

PERIOD: Final = re.compile(
    r"P(?:(\d{1,18})Y)?(?:(\d{1,18})M)?(?:(\d{1,18})W)?(?:(\d{1,18})D)?(?:T(?:(\d{1,18})H)?(?:(\d{1,18})M)?)?",
    re.ASCII,
)
STEPS_MAX: Final = 100_000
LEAST_BYTES: Final = 4 << 20  # of a task that is there to keep a core busy
TASK_FILES: Final = 2000  # at most per task, a few seconds' work
NO_PIECES: Final[Mapping[str, Sequence[SourceFile]]] = MappingProxyType({})


def steps_of(lower: int, upper: int, every: str | None = None) -> list[Step]:
    """Return the steps of [lower, upper), each as long as the ISO 8601 period `every`.

    With None, there is one step. The last step is shorter when the period does not divide the
    interval. Months and years are counted from `lower` by the calendar, so that P1M from 31 January
    ends at the end of each month.

    Raises: InvalidRequest for an empty interval or a malformed period.
    """
    if lower >= upper:
        raise InvalidRequest(
            "the interval is empty", lower=format_time(lower), upper=format_time(upper)
        )
    if every is None:
        return [Step(lower, upper)]
    months, length = _period(every)
    bounds = [lower]
    while bounds[-1] < upper:
        if len(bounds) > STEPS_MAX:
            raise InvalidRequest("too many steps", every=every, cure="a longer period")
        try:
            bounds.append(min(upper, _shift(lower, months * len(bounds), length * len(bounds))))
        except (OverflowError, ValueError):  # behind the year 9999, where no interval ends
            bounds.append(upper)
    return [Step(a, b) for a, b in pairwise(bounds)]


def ingest_tasks(  # noqa: PLR0913  the choices of one step
    settings: Settings,
    state: State,
    step: Step,
    *,
    layout: str | None = None,
    batch: int = 0,
    pieces: Mapping[str, Sequence[SourceFile]] = NO_PIECES,
    cores: int = 1,
) -> list[IngestTask]:
    """Return the tasks of a step whose interval, token and files are known.

    `pieces`: by path, for files that `split_large` has cut. `cores`: that should be busy. Each task
    of rows that are appended makes a run, so these get no more tasks than they need.
    """
    files = [
        piece.numbered(number)
        for number, file in enumerate(step.files or ())
        for piece in pieces.get(file.path, (file,))
    ]
    whole = whole_task(settings, state, step, layout=layout)
    limit = settings.ingest.task_bytes
    if cores > 1 and state.spec.source.envelope in ORDERED:
        share = -(-sum(file.load_bytes for file in files) // cores)
        limit = min(limit, max(share, LEAST_BYTES))
    return [
        replace(whole, files=group, batch=batch, number=number)
        for number, group in enumerate(grouped_files(files, limit))
    ]


def split_large(
    settings: Settings, state: State, steps: Sequence[Step], runner: Runner
) -> dict[str, Sequence[SourceFile]]:
    """Return the pieces of files that are larger than a task may read, by path.

    Raises: InvalidRequest for a file of the wrong shape.
    Cost: reads those files once, in parallel as far as the runner allows.
    """
    if state.spec.source.in_place:
        return {}  # a file can stay only as a whole; one that cannot is read by one task
    limit, dialect = settings.ingest.task_bytes, Dialect.of(state.spec.source)
    large = {
        file.path: (replace(file, dialect=dialect), step.format or state.spec.source.format)
        for step in steps
        for file in step.files or ()
        if file.size_bytes > limit and not is_packed(file)
    }
    found = runner(partial(_split, piece_bytes=limit), list(large.values()))
    return dict(zip(large, found, strict=True)) if large else {}


def _split(work: tuple[SourceFile, str], piece_bytes: int) -> Sequence[SourceFile]:
    with unless_changed(work[:1]):
        return split_file(*work, piece_bytes)


def whole_task(
    settings: Settings, state: State, step: Step, *, layout: str | None = None
) -> IngestTask:
    """Return one task for all files of a step whose interval, token and files are known."""
    assert step.lower is not None
    assert step.upper is not None
    assert step.token is not None
    spec = state.spec
    if step.format is not None:
        spec = replace(spec, source=replace(spec.source, format=step.format))
    names = frozenset(state.relation.by_name)
    return IngestTask(
        store=settings.store,
        spec=spec,
        relation=state.relation,
        layout=layout or state.spec.write_format,
        files=step.files or (),
        lower=step.lower,
        upper=step.upper,
        token=step.token,
        batch=0,
        number=0,
        generation=state.generation,
        former=frozenset(c.name for r in state.relations for c in r.columns) - names,
        renamed={
            c.name: state.relation.by_id[c.id].name
            for r in state.relations
            for c in r.columns
            if c.id in state.relation.by_id and c.name not in names
        },
        later=frozenset(
            c.name for c in state.relation.columns if c.id not in state.relations[0].by_id
        ),
        first=frozenset(state.relations[0].by_id),
        came=_came(state),
        went=_went(state),
        suppressed=state.suppressed,
    )


def _came(state: State) -> dict[str, str]:
    """Return the columns that came or were renamed: id, and version from which on the name is."""
    found = {}
    for column in state.relation.columns:
        named = [r.by_id[column.id].name if column.id in r.by_id else None for r in state.relations]
        others = [version for version, name in enumerate(named) if name != column.name]
        if others:
            found[column.name] = f"{column.id} {others[-1] + 1}"
    return found


def _went(state: State) -> dict[int, frozenset[str]]:
    """Return the names of dropped columns that no column of today has or had; by id."""
    now = state.relation.by_id
    taken = {c.name for r in state.relations for c in r.columns if c.id in now}
    found: dict[int, frozenset[str]] = {}
    for column in (c for r in state.relations for c in r.columns):
        if column.id not in now and column.name not in taken:
            found[column.id] = found.get(column.id, frozenset()) | {column.name}
    return found


def grouped_files(files: Sequence[SourceFile], task_bytes: int) -> list[tuple[SourceFile, ...]]:
    """Return the files in order, in groups of at most `task_bytes`; a larger file is alone.

    A group has at most TASK_FILES files, however small: each file has to be opened.
    """
    groups: list[list[SourceFile]] = []
    size = 0
    for file in files:
        weight = max(file.load_bytes, task_bytes // TASK_FILES)
        if not groups or size + weight > task_bytes:
            groups.append([])
            size = 0
        groups[-1].append(file)
        size += weight
    return [tuple(group) for group in groups]


def _period(text: str) -> tuple[int, timedelta]:
    """Return an ISO 8601 period as months and the rest."""
    match = PERIOD.fullmatch(text)
    years, months, weeks, days, hours, minutes = (
        (int(group or 0) for group in match.groups()) if match else (0,) * 6
    )
    try:
        length = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes)
    except OverflowError:  # longer than any interval
        length = timedelta.max
    if not (years or months or length):
        raise InvalidRequest(
            "not a period of time", every=text, cure="ISO 8601, as in P1D, P7D, P1M or PT6H"
        )
    return years * 12 + months, length


def _shift(start: int, months: int, length: timedelta) -> int:
    moment = datetime.fromtimestamp(start // 1000, UTC) + timedelta(milliseconds=start % 1000)
    if months:
        year, month = divmod(moment.year * 12 + moment.month - 1 + months, 12)
        day = min(moment.day, monthrange(year, month + 1)[1])
        moment = moment.replace(year=year, month=month + 1, day=day)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    return (moment + length - epoch) // timedelta(milliseconds=1)

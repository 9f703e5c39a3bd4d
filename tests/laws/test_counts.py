"""Law: a count is what reading everything and adding up gives, whatever counts unread.

The twin reads each part, evaluates the filter on each row, and sums up in Python.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata.decide.plan import plan_count, plan_read
from strata.expr.filter import Filter
from strata.format import manifest as manifests
from strata.format.columns import D, T
from strata.machine.machine import Machine
from strata.model.schema import Column, Relation
from strata.model.sums import wrapped
from strata.model.types import parse_type
from strata.parts import pages
from strata.parts.pages import PageSizes
from strata.plain.parse import plain_filter
from strata.plain.rows import accepts
from strata.read.count import count_rows
from strata.read.scan import read_updates
from strata.state.schema import AddColumn
from strata.state.state import State
from strata.store.open import Stores
from tests.support.sizes import tries
from tests.support.stored import append, create, memory_stores
from tests.support.updates import table

HOUR = 3_600_000
RELATION = Relation(
    0,
    (
        Column(1, "n", parse_type("int64")),
        Column(2, "s", parse_type("string"), nullable=True),
        Column(3, "x", parse_type("float64"), nullable=True),
    ),
    (1,),
    (1,),
)
CUTS = {
    "in one blob": pages.SIZES,
    "in pages": PageSizes(page_parts=2, index_rows=100, paged_parts=2),
    "in pages below indexes": PageSizes(page_parts=2, index_rows=2, paged_parts=3),
}
# Batches of 12 hours, over noon of a day and over the end of one
BATCHES = [(start, start + 12) for start in range(6, 66, 12)]


@pytest.fixture(scope="module", params=list(CUTS.values()), ids=list(CUTS))
def stores(request: pytest.FixtureRequest) -> Iterator[Stores]:
    """Batches in several runs, with retractions, nulls, NaN, and a column that came later."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pages, "SIZES", request.param)
        patch.setattr(manifests, "PIECE_PARTS", 3)
        stores = memory_stores()
        create(stores, RELATION, part_bytes=1000, row_group_bytes=400)
        for number, (start, end) in enumerate(BATCHES):
            if number == 3:
                Machine(stores).evolve("shard", AddColumn("y", parse_type("int64"), False, 7))
            relation = Machine(stores).load("shard").relation
            runs = [list(_rows(number, run, start, end)) for run in (0, 1)]
            layout = ("both", "structured", "row")[number % 3]
            some = [table(relation, run) for run in runs]
            append(stores, "shard", start * HOUR, end * HOUR, some, layout)
        yield stores


def _rows(number: int, run: int, start: int, end: int) -> Iterator[tuple[object, ...]]:
    for n in range(run, 200, 2):
        text = None if n % 7 == 0 and number == 1 else f"k{n // 25}"
        float_ = float("nan") if n % 11 == 0 and number == 2 else n / 10
        hour = start if run == 0 and number != 4 else start + n * (end - start) // 200
        value = (n + 1000 * number, text, float_)
        young = (n % 3,) if number >= 3 else ()
        yield (*value, *young, hour * HOUR, 2 if n % 5 == 0 else 1)
        if n % 9 == 0 and number > 1:  # retracts a row of an earlier batch
            yield (n + 1000 * (number - 1), f"k{n // 25}", n / 10, *young, hour * HOUR, -1)


CONDITIONS = st.one_of(
    st.builds(
        "n {} {}".format,
        st.sampled_from(["<", "<=", ">", ">=", "=", "<>", "<=>"]),
        st.integers(-5, 4500),
    ),
    st.builds(
        "s {} 'k{}'".format, st.sampled_from(["<", ">=", "=", "<>", "<=>"]), st.integers(0, 8)
    ),
    st.builds("x {} {}".format, st.sampled_from(["<", ">="]), st.sampled_from(["0.5", "20", "99"])),
    st.builds("y {} {}".format, st.sampled_from(["<", "=", ">="]), st.integers(0, 8)),
    st.sampled_from(["s is null", "s is not null", "x is not null", "n between 900 and 2400"]),
)
WHERE = st.recursive(
    CONDITIONS,
    lambda some: st.one_of(
        st.builds("({}) and ({})".format, some, some),
        st.builds("({}) or ({})".format, some, some),
        st.builds("not ({})".format, some),
    ),
    max_leaves=4,
)
UNITS = st.sampled_from([None, "hour", "day", "month", "year"])


def bucket(time: int, since: int, by: str | None) -> int:
    """Return where the bucket of a time begins, by the calendar."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=max(time, since))
    zeros = {"hour": 0, "day": 1, "month": 2, "year": 3}[by] if by else 0
    fields = [("minute", 0), ("hour", 0), ("day", 1), ("month", 1)]
    moment = moment.replace(second=0, microsecond=0, **dict(fields[: zeros + 1]))  # type: ignore[arg-type]
    return round(moment.timestamp() * 1000)


_ROWS: dict[str, pa.Table] = {}


def every_row(stores: Stores, state: State) -> pa.Table:
    """Return the rows of all parts, read once."""
    name = stores.settings.blob
    if name not in _ROWS:
        refs = plan_read(stores, state, mode="off").fetched
        found = pa.concat_tables(read_updates(stores, state, ref) for ref in refs)
        _ROWS[name] = found.rename_columns([*(c.name for c in state.relation.columns), T, D])
    return _ROWS[name]


def twin(
    stores: Stores, state: State, filter: Filter | None, at: int, by: str | None
) -> dict[int, int]:
    sums: Counter[int] = Counter()
    for batch in every_row(stores, state).to_batches():
        wanted = [True] * batch.num_rows
        if filter is not None:
            wanted = accepts(batch, filter.expr).to_pylist()
        times, diffs = batch.column(T).to_pylist(), batch.column(D).to_pylist()
        for is_wanted, time, diff in zip(wanted, times, diffs, strict=True):
            if is_wanted and time <= at:
                sums[bucket(time, state.since, by) if by else 0] += diff
    return {start: wrapped(total) for start, total in sorted(sums.items()) if wrapped(total)}


@settings(max_examples=tries(5, 300), deadline=None)
@given(
    where=st.none() | WHERE,
    hours=st.integers(0, 70),
    by=UNITS,
    mode=st.sampled_from(["on", "on", "audit", "soft"]),
    suspect=st.none() | st.integers(0, 200),
    since=st.sampled_from([0, 0, 20, 40]),
)
def test_a_count_is_what_reading_gives(  # noqa: PLR0917 -- drawn
    stores: Stores,
    where: str | None,
    hours: int,
    by: str | None,
    mode: str,
    suspect: int | None,
    since: int,
) -> None:
    state = replace(Machine(stores).load("shard"), since=since * HOUR)
    at = min(max(hours, since) * HOUR + 1, state.upper - 1)
    if suspect is not None:
        keys = [ref.key for ref in plan_read(stores, state).fetched]
        quarantine = (keys[suspect % len(keys)],)
        state = replace(state, rollout=replace(state.rollout, quarantine=quarantine))
    state = replace(state, rollout=replace(state.rollout, audit_percent=30))
    filter = None if where is None else plain_filter(state.relation, where, 0)

    found = count_rows(stores, state, filter=filter, as_of=at, by=by, mode=mode)

    expected = twin(stores, state, filter, at, by)
    assert found.count == wrapped(sum(expected.values()))
    assert dict(found.buckets) == ({} if by is None else expected)
    if mode == "soft" and filter is not None:
        assert found.parts_counted == found.plan.parts_skipped == 0
    names = {ref.key for ref in found.plan.fetched}
    if suspect is not None and suspects_time(stores, state, at):
        assert {*state.rollout.quarantine} <= names


def suspects_time(stores: Stores, state: State, at: int) -> bool:
    """Return whether the part in quarantine has updates at or before a time."""
    [key] = state.rollout.quarantine
    return any(ref.key == key and ref.t_low <= at for ref in plan_read(stores, state).fetched)


def test_there_is_something_of_each_kind(stores: Stores) -> None:
    """Else the law would hold of counts that read everything."""
    state = Machine(stores).load("shard")
    parts = plan_read(stores, state).parts_total

    def figures(where: str | None, by: str | None = None, hours: int = 65) -> list[int]:
        filter = None if where is None else plain_filter(state.relation, where, 0)
        plan, tally = plan_count(stores, state, filter=filter, as_of=hours * HOUR, by=by, mode="on")
        return [tally.parts, plan.parts_skipped, plan.parts_fetched]

    assert figures(None) == [parts, 0, 0]
    counted, skipped, read = figures("n < 1100")
    unknown = plan_read(stores, state).without_stats[0]
    assert counted > read - unknown > 0
    assert skipped
    counted, skipped, read = figures("n < 1100 and s >= 'k2' or x > 1000")
    assert counted
    assert read
    counted, skipped, read = figures("n < 100000", "day")
    assert counted > read > 0
    assert figures("n < 100000", "hour")[2] > read  # a part over two hours is read
    assert figures("n < 100000", hours=20)[2]  # and one over the time of the read
    assert figures("s is not null")[2]  # nulls are seen

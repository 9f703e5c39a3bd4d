"""Evidence is a sum of runs: what each run looked at, what failed, and on which days."""

from dataclasses import replace

from strata.rollout.evidence import STRATA_MAX, AuditCounts, Seen, add, upper_bound
from strata.rollout.ladder import DAY_MS
from strata.state.state import Evidence, Stratum

RUN = AuditCounts(7, 70, 700, 2, 3, 100, {"x": 7}, repeats=1)


def added(old: Evidence, new: AuditCounts, now_ms: int) -> Evidence:
    return add(old, new, now_ms, "code", counts_for_step=True)


def test_what_two_runs_looked_at_is_their_sum() -> None:
    first = added(Evidence(), RUN, 3 * DAY_MS)
    both = added(first, RUN, 4 * DAY_MS)

    assert (first.parts, first.rows, first.size_bytes, first.repeats) == (7, 70, 700, 1)
    assert (both.parts, both.rows, both.size_bytes, both.repeats) == (14, 140, 1400, 2)
    assert (both.failed, both.missing, both.strata) == (4, 6, (Stratum("x", 14),))
    assert (both.runs, both.first_ms, both.last_ms) == (2, 3 * DAY_MS, 4 * DAY_MS)


def test_a_day_ends_at_midnight_and_counts_once() -> None:
    first = added(Evidence(), RUN, 3 * DAY_MS)
    late = added(first, RUN, 4 * DAY_MS - 1)
    next_day = added(late, RUN, 4 * DAY_MS)

    assert [(one.runs, one.days, one.step_days) for one in (first, late, next_day)] == [
        (1, 1, 1),
        (2, 1, 1),
        (3, 2, 2),
    ]


def test_a_run_that_only_repeats_is_a_run_of_its_day() -> None:
    """As one is that repeats just as much as it sees anew."""
    only = replace(RUN, parts=0, strata={}, repeats=4)
    half = replace(RUN, parts=4, strata={"x": 4}, repeats=4)

    for run in (only, half):
        seen = added(Evidence(), run, 3 * DAY_MS)
        assert (seen.runs, seen.days, seen.repeats) == (1, 1, 4)


def test_evidence_goes_on_as_long_as_its_list_does() -> None:
    """The list of pairs that were judged; where it is lost, all begins anew."""
    seen = Seen("blob/2", 20, 5, "blob/1")
    old = added(Evidence(), RUN, 3 * DAY_MS)
    assert old.distinct

    more = added(old, replace(RUN, seen=seen), 4 * DAY_MS)
    anew = added(old, replace(RUN, seen=replace(seen, whole=False)), 4 * DAY_MS)

    assert (more.runs, more.parts) == (2, 14)
    assert (more.seen, more.distinct_parts, more.filters) == ("blob/2", 20, 5)
    assert (anew.runs, anew.parts, anew.seen, anew.first_ms) == (1, 7, "blob/2", 4 * DAY_MS)


def test_a_known_stratum_is_counted_by_its_name_however_many_there_are() -> None:
    names = {f"{number:03}": 1 for number in range(STRATA_MAX)}
    full = added(Evidence(), replace(RUN, parts=STRATA_MAX, strata=names), 3 * DAY_MS)

    more = added(full, replace(RUN, parts=5, strata={"000": 5}), 4 * DAY_MS)

    assert len(full.strata) == len(more.strata) == STRATA_MAX == 256
    assert Stratum("000", 6) in more.strata


def test_no_audit_bounds_nothing() -> None:
    assert upper_bound(0) == 1.0

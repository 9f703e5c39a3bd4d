"""What a compaction tells, for people and for programs, figure by figure."""

from dataclasses import replace

import pytest

from strata.compact.history import merge_history
from strata.compact.report import CompactReport, RequestReport
from strata.model.time import MIN_TIME
from strata.state.state import Merge
from tests.unit.compact.test_keep import killed
from tests.unit.compact.test_run import filled, load

DONE = RequestReport(
    1, 2, 3, "why", "applied", updates_in=1_004, updates_out=5, bytes_in=6_006, bytes_out=7,
    parts_in=8, parts_out=9, runs_in=10, parts_kept=11, tasks=12, resumed=13, seconds=14.5,
    stats_bytes=15, stats_seconds=0.0164,
)  # fmt: skip
LATE = replace(DONE, outcome="another merge was faster")
PLANNED = replace(DONE, outcome="planned")
DOCUMENT = {
    "lower": 1, "upper": 2, "since": 3, "runs": 10, "bytes": 6_006, "parts": 8, "updates": 1_004,
    "bytes_out": 7, "parts_out": 9, "parts_kept": 11, "updates_out": 5, "tasks": 12, "resumed": 13,
    "reason": "why", "outcome": "applied",
}  # fmt: skip


def report(*requests: RequestReport, idle: str | None = None) -> CompactReport:
    return CompactReport("s", MIN_TIME, requests, idle, 21, 2, 1.23456)


def test_a_program_is_told_every_figure_and_the_sum_of_what_was_applied() -> None:
    assert report(DONE, LATE, DONE).to_json() == {
        "shard": "s", "since": MIN_TIME,
        "requests": [DOCUMENT, DOCUMENT | {"outcome": LATE.outcome}, DOCUMENT],
        "applied": 2, "not_applied": 1, "updates_in": 2_008, "updates_out": 10, "bytes_in": 12_012,
        "bytes_out": 14, "parts_in": 16, "parts_out": 18, "runs_before": 21, "runs_after": 2,
        "stats_bytes": 30, "stats_ms": 33, "idle_reason": None, "seconds": 1.235,
    }  # fmt: skip


def test_only_what_another_merge_was_faster_with_was_not_applied() -> None:
    assert report(DONE, LATE, PLANNED).not_applied == (LATE.outcome,)
    assert report(PLANNED).not_applied == ()
    assert report(DONE).not_applied == ()


@pytest.mark.parametrize(
    ("request_", "shown"),
    [
        (
            replace(DONE, parts_kept=0, resumed=0),
            "why: applied; updates 1,004 -> 5, bytes 6,006 -> 7, parts 8 -> 9",
        ),
        (
            DONE,
            "why: applied; updates 1,004 -> 5, bytes 6,006 -> 7, parts 8 -> 9 (11 kept), "
            "13 of 12 tasks done before",
        ),
        (
            replace(DONE, by_reference=True, parts_kept=0, resumed=0),
            "why: applied by reference; updates 1,004 -> 5, bytes 6,006 -> 7, parts 8 -> 9",
        ),
        (PLANNED, "why: planned; 1,004 updates, 6,006 bytes"),
    ],
)
def test_a_person_is_told_what_became_of_a_request(request_: RequestReport, shown: str) -> None:
    assert str(request_).partition(") ")[2] == shown


def test_a_person_is_told_what_was_done_or_why_nothing() -> None:
    assert report(idle="all is well").lines() == [
        "s: since the beginning; nothing to do: all is well",
    ]
    assert report(PLANNED, PLANNED).lines()[0] == "s: since the beginning; 2 merges would be done"
    told = report(DONE, LATE).lines()
    assert told[0] == "s: since the beginning; 1 of 2 merges applied in 1.2 s; runs 21 -> 2"
    assert told[1:] == [f"  {DONE}", f"  {LATE}"]


def test_history_adds_up_all_merges_and_shows_the_newest_first() -> None:
    one = Merge(1, 2, 3, 4, 5, "first", 6, 7, 8, 9, 10, 11, 12, seconds=0.0126)
    two = replace(one, seqno=2, reason="second", seconds=0.0041)
    told = merge_history(replace(load(filled(1)), merges=(one, two)), 1)

    assert [merge["reason"] for merge in told["merges"]] == ["second"]
    assert told["runs"] == 1
    assert (told["updates_in"], told["updates_out"]) == (14, 16)
    assert (told["bytes_in"], told["bytes_out"], told["seconds"]) == (18, 20, 0.017)


def test_history_tells_of_what_is_under_way() -> None:
    stores = killed(3)
    state = load(stores)
    (progress,) = state.merging
    (told,) = merge_history(state)["under_way"]

    assert (told["lower"], told["upper"], told["since"]) == (
        progress.lower,
        progress.upper,
        progress.since,
    )
    assert (told["done"], told["tasks"]) == (progress.done, progress.tasks)
    assert told["bytes_in"] == sum(b.size_bytes for b in state.batches if b.manifest)

"""What the rollout page and the first page say of weeks: points, drawings, savings, findings."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from strata.audit.findings import findings
from strata.errors import Corrupt
from strata.history.operation_log import OperationLog
from strata.history.operations import journal
from strata.machine.machine import Machine
from strata.rollout.evidence import upper_bound
from strata.rollout.gates import LADDER
from strata.store.open import Stores
from strata.ui import charts, facts
from strata.ui.evidence import EvidencePoint, events_of, evidence_svg, points_of
from strata.ui.needs import ASKED, SOON, STOPPED, WRONG, needs_of
from strata.ui.savings import savings_of
from tests.support.lived import FLIGHTS, PLANES, SETTINGS, WEATHER, Clock, lived
from tests.support.stored import settings

NIGHTS = 12
AUDIT_PARTS = 3_000  # that the step to audit wants


@pytest.fixture(scope="module")
def place() -> tuple[Stores, Clock]:
    return lived("evidence", NIGHTS, ask=False)


@pytest.fixture(scope="module")
def stores(place: tuple[Stores, Clock]) -> Stores:
    return place[0]


def test_points_hold_each_change_of_the_evidence_once(stores: Stores) -> None:
    machine = Machine(stores)
    states = machine.history(FLIGHTS, 256)
    points = points_of(states, [])
    assert points == sorted(points)
    shown = [(p.parts, p.repeats, p.distinct_parts) for p in points]
    stored = [
        (e.parts, e.repeats, e.distinct_parts)
        for e in (s.rollout.evidence for s in reversed(states))
    ]
    assert [s for s, before in zip(shown, [None, *shown], strict=False) if s != before][-3:] == [
        s for s, before in zip(stored, [None, *stored], strict=False) if s != before
    ][-3:]
    assert points[-1].bound == upper_bound(states[0].rollout.evidence.parts)


def test_a_night_is_known_from_the_journal_when_its_state_is_gone(stores: Stores) -> None:
    newest = Machine(stores).load(FLIGHTS)
    alone = points_of([newest], [])
    told = points_of([newest], [o for o in journal(stores) if o.shard == FLIGHTS])
    assert len(told) > len(alone)
    assert {p.parts for p in told} >= {320 * n for n in range(1, 7)}


def test_a_trip_begins_anew_and_is_drawn(stores: Stores) -> None:
    state = Machine(stores).load(FLIGHTS)
    trip = next(e for e in state.rollout.entries if e.what == "tripped")
    points = points_of([state], [])
    assert EvidencePoint(trip.at_ms, trip.parts, trip.repeats, trip.distinct_parts) in points
    assert EvidencePoint(trip.at_ms + 1, 0, 0, 0) in points
    events = events_of(state, LADDER)
    assert [(e.name, e.style) for e in events] == [("soft", "up"), ("trip", "down"), ("soft", "up")]
    drawn = ElementTree.fromstring(str(evidence_svg(points, events, [("audit", 3_000)])))
    assert len(drawn.findall("./circle")) == len(points)
    assert [e.text for e in drawn.findall("./text") if "event-name" in e.get("class", "")] == [
        "soft",
        "trip",
        "soft",
    ]
    (target,) = [e for e in drawn.findall("./text") if e.get("class") == "target-name"]
    assert target.text == "audit: 0.10 %, 3,000 parts"


def test_a_tighter_bound_is_drawn_lower() -> None:
    points = [
        EvidencePoint(0, 0, 0, 0),
        EvidencePoint(1_000, 300, 10, 20),
        EvidencePoint(2_000, 3_000, 10, 20),
    ]
    drawn = ElementTree.fromstring(str(evidence_svg(points, [], [("on", 30_000)])))
    heights = [float(dot.get("cy", "")) for dot in drawn.findall("./circle")]
    assert heights == sorted(heights)
    assert len(set(heights)) == 3
    (line,) = [e for e in drawn.findall("./line") if e.get("class") == "target"]
    assert float(line.get("y1", "")) > heights[-1]  # it is not reached


def test_small_bounds_are_written_out() -> None:
    drawn = ElementTree.fromstring(str(evidence_svg([EvidencePoint(0, 100_000_000, 1, 0)], [], [])))
    sides = [e.text for e in drawn.findall("./text") if e.get("class") == "side"]
    assert sides[:3] == ["100 %", "10 %", "1 %"]
    assert "0.00001 %" in sides
    assert not any("e-" in str(text) for text in sides)


def test_one_point_is_drawn(stores: Stores) -> None:
    (point,) = points_of([Machine(stores).load(WEATHER)], [])
    assert "after 0 parts judged" in str(evidence_svg([point], [], []))


def test_a_rate_is_never_flattered() -> None:
    for parts in (1, 7, 300, 2_995, 3_000, 30_000, 10**7):
        shown = float(charts.rate(upper_bound(parts)).removesuffix(" %")) / 100
        assert shown >= upper_bound(parts)
        assert shown <= 1.12 * upper_bound(parts)


def test_savings_are_those_of_the_filters_that_readers_used(stores: Stores) -> None:
    state = Machine(stores).load(FLIGHTS)
    found = savings_of(stores, state, SETTINGS.usage)
    assert {one.where for one in found.filters} == {"n > 207700", "n > 207800"}
    for one in found.filters:
        assert one.parts_total == sum(b.parts for b in state.batches)
        assert 0 < one.size_bytes < one.bytes_total
        assert one.reads == NIGHTS
    assert found.share is not None
    assert 0 < found.share < 1
    assert savings_of(stores, Machine(stores).load(WEATHER), SETTINGS.usage).filters == ()


def test_findings_are_what_was_not_clean(stores: Stores) -> None:
    (bad,) = findings(stores, Machine(stores).load(FLIGHTS), 10)
    assert (bad.outcome, bad.run, bad.column) == ("mismatch", "nightly 8", "word")
    assert findings(stores, Machine(stores).load(PLANES), 10) == []


def test_a_damaged_table_of_verdicts_is_named(stores: Stores) -> None:
    state = Machine(stores).load(PLANES)
    stores.blob.set("shards/planes/verdicts/damaged.parquet", b"not a table")
    damaged = replace(state, verdicts=(*state.verdicts, "shards/planes/verdicts/damaged.parquet"))
    with pytest.raises(Corrupt, match="damaged"):
        findings(stores, damaged, 1)
    gone = replace(state, verdicts=("shards/planes/verdicts/gone.parquet",))
    assert findings(stores, gone, 1) == []


def test_the_week_of_readers_is_a_bar_a_day(stores: Stores) -> None:
    line = facts.Listing(stores, SETTINGS, OperationLog()).line(FLIGHTS)
    assert len(line.days) == facts.WEEK
    assert [day.reads for day in line.days] == [2] * facts.WEEK
    assert line.skipped is not None
    assert min(d.skipped or 0 for d in line.days) <= line.skipped
    drawn = ElementTree.fromstring(str(charts.sparkline(line.days)))
    tall = [float(bar.get("height", "")) for bar in drawn.findall("./rect[@class='fill']")]
    assert tall == pytest.approx([26 * (d.skipped or 0) for d in line.days], abs=0.06)
    nobody = charts.sparkline(facts.Listing(stores, SETTINGS, OperationLog()).line(PLANES).days)
    assert str(nobody).count("<circle") == facts.WEEK


def test_the_bound_stands_against_that_of_the_next_step(stores: Stores) -> None:
    listing = facts.Listing(stores, SETTINGS, OperationLog())
    bound = listing.line(PLANES).bound
    parts = Machine(stores).load(PLANES).rollout.evidence.parts
    assert bound is not None
    assert bound.found == upper_bound(parts)
    assert bound.target == upper_bound(AUDIT_PARTS)
    assert bound.percent == min(100, 100 * parts // AUDIT_PARTS)
    assert listing.line(WEATHER).bound is None


def test_reasons_come_with_the_worst_first(place: tuple[Stores, Clock]) -> None:
    stores, clock = place
    listing = facts.Listing(stores, SETTINGS, OperationLog())
    names = [line.name for line in listing.lines()]
    assert names[0] == FLIGHTS
    assert [need.text for need in listing.line(FLIGHTS).needs] == ["in quarantine: column word"]
    state = Machine(stores).load(PLANES)
    last = listing.line(PLANES).validated
    assert last is not None
    many = replace(state, rollout=replace(state.rollout, quarantine=tuple("abcdefgh")))
    assert (
        needs_of(many, last, SETTINGS, clock.now)[0].text
        == "in quarantine: a, b, c, d, e and 3 more"
    )
    assert needs_of(state, last, SETTINGS, clock.now) == ()
    late = needs_of(state, last, SETTINGS, last.at_ms + 3 * 86_400_000)
    assert [(n.rank, n.text) for n in late] == [(SOON, "last validated 3 d ago")]
    failed = needs_of(state, replace(last, outcome="failed"), SETTINGS, clock.now)
    assert [n.rank for n in failed] == [STOPPED]
    lied = needs_of(state, replace(last, outcome="mismatch"), SETTINGS, clock.now)
    assert [n.rank for n in lied] == [WRONG]
    owing = needs_of(state, last, settings(debt_runs=1), clock.now)
    assert re.match(r"\d+ runs wait to be merged, more than the 1 of", owing[0].text)
    refused = needs_of(state, last, settings(debt_max=1), clock.now)
    assert (refused[0].rank, refused[0].text[:17]) == (STOPPED, "ingest is refused")
    skipping = replace(state, rollout=replace(state.rollout, mode="on", basis="old"))
    told = [n.text for n in needs_of(skipping, last, SETTINGS, clock.now)]
    assert told == [
        "readers obey soft, not on: the code that decides has changed",
        "1 part has no statistics, so every read fetches it",
    ]
    assert ASKED < SOON

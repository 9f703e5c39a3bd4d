"""The page of nights, sizes and costs: it shows what was recorded, and says what was not."""

import json
import re
from dataclasses import replace
from datetime import date
from xml.etree import ElementTree

import pytest

from strata.history.metrics import Metrics
from strata.history.operation_log import as_table
from strata.history.operations import Operation, journal, note
from strata.machine.machine import Machine
from strata.model.settings import PriceSettings
from strata.store import bill
from strata.store.open import Stores
from strata.ui import growth, nights
from strata.ui.pages import ConsolePages
from strata.ui.what_if import Analyst
from tests.support.console import DAY
from tests.support.lived import FIRST, FLIGHTS, PLANES, SETTINGS, WEATHER, Clock, lived

NIGHTS = 12
BEGIN = date(2026, 11, 3)


@pytest.fixture(scope="module")
def place() -> tuple[Stores, Clock]:
    return lived("nights", NIGHTS, ask=False)


@pytest.fixture(scope="module")
def stores(place: tuple[Stores, Clock]) -> Stores:
    return place[0]


def validation(day: int, outcome: str = "done", **details: object) -> Operation:
    at = FIRST + day * DAY
    return Operation("s", "validate", at, 60.0, "etl", outcome, 0, 0, json.dumps(details))


def test_each_day_has_the_worst_outcome_of_its_runs() -> None:
    some = [
        validation(1, checked_parts=5),
        validation(1, "mismatch", checked_parts=7),
        validation(2, "failed"),
        validation(2),
        validation(4),
    ]
    found = nights.nights_of(some, FIRST, FIRST + 5 * DAY)
    assert [n.state for n in found] == ["none", "mismatch", "failed", "none", "clean", "none"]
    assert (found[1].runs, found[1].checked) == (2, 12)
    assert found[0].day == BEGIN
    assert found[1].said == "2026-11-04: a mismatch, 2 runs, 12 parts checked"


def test_the_calendar_is_bounded_and_draws_each_day_once() -> None:
    found = nights.nights_of([validation(400)], FIRST, FIRST + 401 * DAY)
    assert 7 * (nights.WEEKS - 1) < len(found) <= 7 * nights.WEEKS
    assert found[0].day.weekday() == 0
    drawn = ElementTree.fromstring(str(nights.calendar_svg(found)))
    cells = drawn.findall("./rect")
    assert len(cells) == len(found)
    assert len({(cell.get("x"), cell.get("y")) for cell in cells}) == len(cells)
    assert [cell.get("class") for cell in cells].count("clean") == 1


def test_what_is_wrong_is_not_said_by_colour_alone() -> None:
    some = [validation(0, "mismatch"), validation(1, "failed"), validation(2)]
    drawn = ElementTree.fromstring(
        str(nights.calendar_svg(nights.nights_of(some, FIRST, FIRST + 2 * DAY)))
    )
    signs = [text.text for text in drawn.findall("./text") if text.get("class") == "sign"]
    assert signs == ["×", "!"]
    assert "1 a mismatch, 1 failed, 1 clean" in drawn.get("aria-label", "")


def test_a_filter_of_validations_has_a_share_for_each_recorded_night() -> None:
    half = {"old": {"bytes_total": 10, "bytes_skipped": 5}}
    all_of = {"old": {"bytes_total": 10, "bytes_skipped": 10}}
    later = validation(2, checks=all_of)
    some = [
        validation(0),
        validation(1, checks=half),
        validation(2, checks=half),
        replace(later, at_ms=later.at_ms + 1),
    ]
    (one,) = nights.checked_filters(some[::-1], FIRST + 3 * DAY)
    assert [share for _, share in one.shares[-4:]] == [None, 0.5, 1.0, None]
    assert len(one.shares) == nights.SHOWN
    assert one.last == 1.0


@pytest.mark.parametrize(
    "check",
    [
        None,
        7,
        {},
        {"bytes_total": 0, "bytes_skipped": 0},
        {"bytes_total": "9", "bytes_skipped": 1},
        {"bytes_total": 5, "bytes_skipped": 6},
        {"bytes_total": 5, "bytes_skipped": -1},
    ],
)
def test_a_share_that_was_not_recorded_is_not_invented(check: object) -> None:
    (one,) = nights.checked_filters([validation(0, checks={"old": check})], FIRST)
    assert one.last is None


def test_filters_of_readers_come_with_the_most_used_first(stores: Stores) -> None:
    from strata.history import usage

    found = nights.filters_by_night(usage.by_day(stores, FLIGHTS, 5), 9)
    assert {one.name for one in found} == {"n > 207700", "n > 207800"}
    assert all(len(one.shares) == 5 and one.last for one in found)
    assert nights.filters_by_night(usage.by_day(stores, WEATHER, 5), 9) == []


def test_sizes_are_those_of_the_states(stores: Stores) -> None:
    machine = Machine(stores)
    states = machine.history(FLIGHTS, 256)
    sizes = growth.shard_sizes(states)
    newest = states[0]
    assert sizes[-1].at_ms == newest.walltime_ms
    assert sum(sizes[-1].size_bytes) == sum(b.size_bytes for b in newest.batches)
    assert sum(sizes[-1].parts) == sum(b.parts for b in newest.batches)
    assert sizes[-1].stats_bytes == sum(b.stats_bytes for b in newest.batches)
    row = growth.KINDS.index("row")
    assert sizes[-1].parts[row] == 1
    assert sizes[-1].size_bytes[row] == newest.batches[0].size_bytes
    drawn = ElementTree.fromstring(str(growth.growth_svg(sizes)))
    layers = [path.get("class") for path in drawn.findall("./path")]
    assert layers.count("layer layout-row") == layers.count("layer layout-both") == 2
    assert layers.count("layer layout-stats") == 1


def test_the_newest_size_is_drawn_and_no_time_is_named_twice() -> None:
    """It had no width, and a shard of two minutes had six ticks with three names."""
    sizes = [growth.ShardSize(1000 * n, (0, n, 0, 0), (0, n, 0, 0), n) for n in range(3)]
    drawn = ElementTree.fromstring(str(growth.growth_svg(sizes)))
    top = growth.TOP
    paths = [path.get("d") or "" for path in drawn.findall("./path")]
    right = growth.WIDTH - growth.RIGHT
    assert f"V{top:.1f}H{right}V" in paths[0]
    assert f"H{right - growth.NEWEST:.1f}V{top:.1f}" in paths[0]
    named = [text.text for text in drawn.findall("./text") if text.get("text-anchor")]
    assert named == ["1970-01-01"[5:]]


def test_a_batch_of_several_layouts_is_not_split(stores: Stores) -> None:
    state = Machine(stores).load(FLIGHTS)
    slot = state.spine.slots[-1]
    batch = replace(slot.batches[-1], layouts=(("both", 1), ("row", 1)))
    slots = (replace(slot, batches=(batch,)),)
    mixed = replace(state, spine=replace(state.spine, slots=slots))
    (one,) = growth.shard_sizes([mixed])
    assert dict(zip(growth.KINDS, one.size_bytes, strict=True)) == {
        "row": 0,
        "both": 0,
        "structured": 0,
        "mixed": batch.size_bytes,
    }
    assert dict(zip(growth.KINDS, one.parts, strict=True))["row"] == 1


def test_costs_add_up_and_requests_are_counted_where_they_were() -> None:
    asked = {"s3_puts": 2, "s3_gets": 3, "s3_bytes_in": 40, "s3_bytes_out": 5}
    some = [
        validation(0, **asked),
        validation(1, "failed", **asked),
        validation(2),
        replace(validation(3), what="ingest", seconds=500.0, rows=7, bytes=70),
    ]
    ingest, validate = growth.costs_of(as_table(some), PriceSettings())
    assert (ingest.what, ingest.runs, ingest.rows, ingest.bill) == ("ingest", 1, 7, None)
    assert ingest.price is None
    assert (validate.runs, validate.bad, validate.seconds) == (3, 1, 180.0)
    assert validate.bill == (4, 6, 80, 10)
    assert validate.price == pytest.approx(4 * 0.005 / 1000 + 6 * 0.0004 / 1000)


@pytest.mark.parametrize("unknown", ["write_cents", "read_cents"])
def test_without_a_price_there_are_requests_and_no_sum(unknown: str) -> None:
    prices = replace(PriceSettings(), **{unknown: 0})
    asked = {"s3_puts": 2, "s3_gets": 3, "s3_bytes_in": 40, "s3_bytes_out": 5}
    (one,) = growth.costs_of(as_table([validation(0, **asked)]), prices)
    assert (one.bill, one.price) == ((2, 3, 40, 5), None)
    assert growth.month_price(10**12, PriceSettings()) == 23.0
    assert growth.month_price(10**12, replace(PriceSettings(), month_cents=0)) is None


def priced(prices: PriceSettings, *, store: str = "s3://b/p") -> str:
    """Return the page of a shard whose operations asked an object store."""
    stores, clock = lived(f"priced {prices} {store}", 2, ask=False)
    for shards in ([FLIGHTS], [FLIGHTS, PLANES]):
        bill.charge({"put_object": 2_000, "get_object": 50_000})
        document = {"shards": [{"shard": name, "rows": 1} for name in shards]}
        note(stores, Metrics(SETTINGS.metrics), "compact", clock.now, document, 0)
    # The page shows the settings' address and reads the stores that it is given.
    settings = replace(SETTINGS, prices=prices, store=replace(SETTINGS.store, blob=store))
    return ConsolePages(stores, settings, Analyst(stores, settings)).audits("", FLIGHTS)


def test_requests_and_bytes_are_shown_as_money_at_the_prices_of_the_settings() -> None:
    page = priced(replace(PriceSettings(), currency="CHF", source="our contract of May"))
    # 2,000 writes at 5 a million, 50,000 reads at 0.40 a million: once here, once for two shards.
    assert page.count("<strong>0.030 CHF</strong>") == 2
    assert "Runs over several shards" in page
    assert page.count("Prices are settings: our contract of May.") == 2
    assert re.search(r"costs <strong>0\.0+\d+ CHF a month</strong> \(our contract of May\)", page)


def test_no_money_is_shown_for_a_store_or_settings_without_prices() -> None:
    page = priced(PriceSettings(), store="file:///srv/blob")
    assert "a month</strong>" not in page
    page = priced(PriceSettings(0, 0, 0))
    assert "$" not in page.partition("<h2>Size</h2>")[2]
    assert "50,000" in page
    assert "No price of requests is set." in page


def test_the_page_says_what_is_there_and_what_is_missing(place: tuple[Stores, Clock]) -> None:
    stores, _ = place
    pages = ConsolePages(stores, SETTINGS, Analyst(stores, SETTINGS))
    page = pages.audits("", FLIGHTS)
    checked = sum(o.what == "validate" and o.shard == FLIGHTS for o in journal(stores))
    assert f"<strong>{checked} of {NIGHTS} nights</strong>" in page
    assert "2026-11-11: a mismatch, 1 run" in page
    assert "strata validate flights --filter &#34;n &gt; 24&#34;" in page
    assert f"Prices are settings: {PriceSettings().source}." in page
    empty = pages.audits("", WEATHER)
    assert "No validation of the last 30 nights recorded it." in empty
    assert "No reader has used a filter lately." in empty
    assert "No validation was recorded." in empty

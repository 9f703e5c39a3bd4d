"""Texts of ten megabytes, and documents nested a hundred thousand deep: refused by name, or cut."""

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import orjson
import pytest

from strata.audit.receipts import issue, read_receipt, replay
from strata.audit.run import ValidationReport
from strata.cli.visible import shown_error
from strata.config.filters import load_filters
from strata.decide.plan import plan_read
from strata.errors import Corrupt, InvalidRequest, StrataError
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column, Literal
from strata.history.metrics import Metrics
from strata.history.operations import note, recent
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.rollout.kill import throw
from strata.rollout.ladder import ask
from strata.rollout.people import check_said
from strata.rollout.policy import Policy
from strata.state.rollout import trip
from strata.ui.pages import Asked, ConsolePages
from strata.ui.what_if import Analyst
from tests.attacks.test_report import PLAIN, SUMMARY
from tests.support.shards import NAME, Events, copied

LONG = "x" * 10_000_000
COLUMN = Column(1, "id", "long")
WHERE = Filter(Call("greater_than", (COLUMN, Literal(10, "long")), "boolean"), "id > 10", 0, 0)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    return copied(tmp_path_factory.mktemp("sizes"))


def small(error: StrataError) -> None:
    for said in (str(error), shown_error(error)):
        assert len(said) < 5_000


def test_a_registered_filter_of_a_million_literals_is_refused_at_once(tmp_path: Path) -> None:
    file = tmp_path / "long.yaml"
    values = ", ".join(map(str, range(10_000_000, 11_000_000)))
    file.write_text(f"shard: s\nname: long\nwhere: id in ({values})\n")
    began = time.process_time()

    with pytest.raises(InvalidRequest, match="the declaration is too large") as refused:
        load_filters(str(tmp_path))

    assert str(file) in str(refused.value)
    assert refused.value.cure
    assert time.process_time() - began < 1
    small(refused.value)


@pytest.mark.parametrize("levels", [200, 330, 400, 500, 1000, 1020, 5000, 100_000])
def test_a_receipt_that_is_nested_deeply_is_refused(
    events: Events, tmp_path: Path, levels: int
) -> None:
    file = tmp_path / "r.json"
    receipt = issue(events.stores, events.state, plan_read(events.stores, events.state), WHERE)
    opening, closing = b'["call","not",[', b'],"boolean",[]]'
    inner = opening * levels + b'["column",1,"id","long",true]' + closing * levels
    whole = orjson.dumps(receipt | {"filter": {"expr": "HERE", "sql": "x", "now": [0, 0]}})
    file.write_bytes(whole.replace(b'"HERE"', inner))

    try:
        found = replay(events.stores, events.state, read_receipt(file))
    except InvalidRequest as refused:
        small(refused)
    else:
        assert found.altered


@pytest.mark.parametrize("name", ["receipt", "shard", "relation_version", "batches", "filter"])
def test_a_receipt_with_a_text_of_ten_megabytes_is_refused_in_a_line(
    events: Events, tmp_path: Path, name: str
) -> None:
    file = tmp_path / "r.json"
    receipt = issue(events.stores, events.state, plan_read(events.stores, events.state), WHERE)
    file.write_bytes(orjson.dumps(receipt | {name: LONG}))

    with pytest.raises(InvalidRequest) as refused:
        replay(events.stores, events.state, read_receipt(file))

    small(refused.value)


@pytest.mark.parametrize("kind", [InvalidRequest, Corrupt])
def test_no_error_repeats_a_long_value_whole(kind: type[StrataError]) -> None:
    error = kind("wrong", value=LONG, values=[LONG], cure="look")
    small(error)
    assert "more characters)" in str(error)


@pytest.mark.parametrize("said", [("name", LONG, "due"), ("reason", "ann", LONG)])
def test_who_gives_an_endless_name_or_reason_is_refused(
    events: Events, said: tuple[str, str, str]
) -> None:
    word, who, reason = said
    calls: list[Callable[[], object]] = [
        partial(check_said, "a change", who, reason),
        partial(
            ask, events.state, 1, to="soft", percent=0, who=who, reason=reason, policy=Policy()
        ),
        partial(throw, events.stores, thrown=True, who=who, reason=reason),
    ]
    for call in calls:
        with pytest.raises(InvalidRequest, match=f"keeps a {word} of") as refused:
            call()
        small(refused.value)


def test_the_history_keeps_the_beginning_of_a_reason_and_says_so(events: Events) -> None:
    note(events.stores, Metrics(), "drop", 0, {"shard": NAME}, 0, by="ann", reason=LONG)

    [row] = recent(events.stores, NAME, 1)

    assert "9,998,000 more characters" in row.details
    assert len(row.details) < 5_000


def test_pages_of_the_console_cut_what_is_long(tmp_path: Path) -> None:
    events = copied(tmp_path)
    Machine(events.stores).apply(NAME, partial(trip, reason=LONG, quarantine=[LONG]))

    settings = Settings(store=events.settings.store)
    pages = ConsolePages(events.stores, settings, Analyst(events.stores, settings))
    for page in (
        pages.shards("/"),
        pages.shard("/", NAME, Asked()),
        pages.rollout("/", NAME),
        pages.audits("/", NAME),
        pages.file(NAME, ()),
        pages.problem("/", "x", LONG),
    ):
        assert len(page) < 2_000_000
    assert "more characters)" in pages.rollout("/", NAME)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that GX loads
def test_pages_of_the_report_cut_what_is_long(tmp_path: Path) -> None:
    from strata.jobs.validate.report import build_report

    bad = replace(PLAIN, sql=LONG, error=LONG, replay=LONG, bound=LONG)
    one = ValidationReport("s", "run", (replace(SUMMARY, sql=LONG),), (bad, bad), "on", "off", None)
    report = build_report(tmp_path, "run", [one], {}, max_failed_rows=99)
    pages = [*report.index.parent.rglob("*.html")]
    assert max(page.stat().st_size for page in pages) < 2_000_000
    assert any("more characters)" in page.read_text("utf-8") for page in pages)

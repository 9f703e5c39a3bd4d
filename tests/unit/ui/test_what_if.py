"""A filter that needs Spark is waited for, by nobody else: plain ones are answered meanwhile."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import pytest

from strata.decide.plan import plan_read
from strata.errors import InvalidRequest
from strata.expr.filter import Filter
from strata.expr.nodes import Call, Column
from strata.history.metrics import Metrics
from strata.history.usage import record
from strata.machine.machine import Machine
from strata.model.schema import Relation
from strata.model.settings import Settings, UsageSettings
from strata.model.spec import ColumnSpec
from strata.model.types import parse_type
from strata.state.state import State
from strata.ui.one_by_one import WAITING, StillAsking
from strata.ui.pages import Asked, ConsolePages
from strata.ui.savings import savings_of
from strata.ui.what_if import Analyst
from tests.support.console import NAME, above, filled, pages_of
from tests.support.stored import append
from tests.support.updates import table

SLOW, PLAIN = "n + 1 > 25", "n > 21"
ASKS_AGAIN = '<meta http-equiv="refresh"'
PATIENCE = 20.0  # seconds that nothing here should take


@dataclass
class Spark:
    """A session that starts when it is let, and then understands everything but `wrong`."""

    started: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)

    def __call__(self, relation: Relation, where: str) -> Filter:
        self.asked.append(where)
        assert self.started.wait(PATIENCE)
        if where.startswith("wrong"):
            raise InvalidRequest("no such column")
        return above(24, where)


@pytest.fixture
def spark() -> Iterator[Spark]:
    one = Spark()
    yield one
    one.started.set()


@pytest.fixture
def pages(spark: Spark) -> Iterator[ConsolePages]:
    stores, settings = filled(), Settings()
    analyst = Analyst(stores, settings, spark)
    yield ConsolePages(stores, settings, analyst)
    spark.started.set()
    analyst.close()


def state_of(pages: ConsolePages) -> State:
    return Machine(pages.stores).load(NAME)


def test_only_what_needs_spark_waits_for_it(pages: ConsolePages, spark: Spark) -> None:
    page = pages.shard("", NAME, Asked(SLOW))
    assert ASKS_AGAIN in page
    assert "This filter needs Spark" in page
    assert "parts skipped" not in page
    drawn: list[str] = []

    def draw(where: str) -> None:
        drawn.append(pages.shard("", NAME, Asked(where)))

    known = "n > 24"  # a validation used it
    threads = [threading.Thread(target=draw, args=(where,)) for where in (PLAIN, known)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not spark.started.is_set()
    assert len(drawn) == 2
    assert all("parts skipped" in page and ASKS_AGAIN not in page for page in drawn)


def test_the_page_that_asks_again_gets_the_answer(pages: ConsolePages, spark: Spark) -> None:
    for _ in range(2):
        assert ASKS_AGAIN in pages.shard("", NAME, Asked(SLOW))
    spark.started.set()
    pages.analyst.filter(state_of(pages), SLOW)
    page = pages.shard("", NAME, Asked(SLOW))
    assert "parts skipped" in page
    assert ASKS_AGAIN not in page
    assert spark.asked == [SLOW], "it is analysed once"


def test_what_fails_is_said_and_asked_anew(pages: ConsolePages, spark: Spark) -> None:
    assert ASKS_AGAIN in pages.shard("", NAME, Asked("wrong()"))
    spark.started.set()
    for _ in range(2):
        with pytest.raises(InvalidRequest, match="no such column"):
            pages.analyst.filter(state_of(pages), "wrong()")
    assert len(spark.asked) == 2
    page = pages.shard("", NAME, Asked("wrong()"))
    assert 'role="alert"' in page
    assert ASKS_AGAIN not in page


def test_no_more_than_some_filters_wait(pages: ConsolePages, spark: Spark) -> None:
    state = state_of(pages)
    for number in range(WAITING):
        with pytest.raises(StillAsking):
            pages.analyst.filter(state, f"n + {number} > 1", 0)
    with pytest.raises(InvalidRequest, match="too many"):
        pages.analyst.filter(state, SLOW, 0)
    spark.started.set()
    pages.analyst.filter(state, f"n + {WAITING - 1} > 1")
    assert pages.analyst.filter(state, SLOW).sql == SLOW
    assert set(spark.asked) == {SLOW, *(f"n + {number} > 1" for number in range(WAITING))}


def test_a_report_waits(pages: ConsolePages, spark: Spark) -> None:
    timer = threading.Timer(1.0, spark.started.set)
    timer.start()
    assert "parts skipped" in pages.file(NAME, (SLOW,))
    timer.join()


def test_without_spark_it_is_said_at_once(pages: ConsolePages) -> None:
    alone = replace(pages, analyst=Analyst(pages.stores, pages.settings))
    assert "ask `strata ui`" in alone.shard("", NAME, Asked(SLOW))


def test_a_filter_is_asked_at_the_clock_of_now() -> None:
    clock = Call("unix_millis", (Call("current_timestamp", (), "timestamp"),), "long")
    later = Call("greater_than", (Column(1, "n", "long"), clock), "boolean")
    stores, now = filled(), [0]
    stores = replace(stores, clock=lambda: now[0])
    analyst = Analyst(stores, Settings(), lambda _, where: Filter(later, where, 0, 0))
    state = Machine(stores).load(NAME)
    for now[0], kept in ((5, 6), (35, 4), (1000, 1)):  # ten a part; nothing is known of the first
        assert analyst.answer(state, "n > unix_millis(now())").document["parts_kept"] == kept


def test_a_shard_begun_anew_is_not_asked_the_filters_of_the_former_one() -> None:
    pages = pages_of(filled())
    state, found = state_of(pages), pages.analyst.filter(state_of(pages), PLAIN)
    plan = plan_read(pages.stores, state, filter=found)
    assert record(pages.stores, state, plan, found, UsageSettings(), Metrics()) == "written"
    [saving] = savings_of(pages.stores, state, UsageSettings()).filters
    assert saving.where == PLAIN
    machine = Machine(pages.stores)
    machine.drop(NAME, by="ann", reason="its columns had another order", force=True)
    columns = (ColumnSpec("m", parse_type("int64")), ColumnSpec("n", parse_type("int64")))
    machine.create(replace(state.spec, columns=columns, key=("m",)), revive=True)
    relation = state_of(pages).relation
    rows = [(n, 20 + n, 0, 1) for n in range(5)]  # n is from 20 to 24 now, and m below it
    append(pages.stores, NAME, 0, 1, [table(relation, rows)])
    again = state_of(pages)
    for analyst in (pages.analyst, Analyst(pages.stores, Settings())):
        assert analyst.answer(again, PLAIN).document["parts_kept"] == 1
        assert analyst.known(again) == {}
    assert savings_of(pages.stores, again, UsageSettings()).filters == ()

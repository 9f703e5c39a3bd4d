"""Filters that people type into the console: analysed by Spark, admitted only as expressions."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from strata.cli.context import Context
from strata.cli.ui import WarmSpark
from strata.errors import InvalidRequest
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.ui.pages import Asked, ConsolePages
from strata.ui.what_if import Analyst
from tests.support.shards import NAME, Events, copied

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    return copied(tmp_path_factory.mktemp("events"))


@pytest.fixture
def pages(
    spark: SparkSession, events: Events, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ConsolePages]:
    monkeypatch.setattr("strata.ui.pages.PATIENCE", None)
    warm = WarmSpark(Context(None))
    # The session of these tests is this thread's; elsewhere one would be started, and stopped.
    warm(Machine(events.stores).load(NAME).relation, "id > 0")
    analyst = Analyst(events.stores, Settings(), warm)
    yield ConsolePages(events.stores, Settings(), analyst)
    analyst.close()


def test_a_typed_filter_is_answered_from_statistics(pages: ConsolePages, events: Events) -> None:
    state = Machine(events.stores).load(NAME)
    answer = pages.analyst.answer(state, "id >= 250")
    kept = answer.document["parts_kept"]
    assert 0 < kept < answer.document["parts_total"]
    assert len(answer.marks) == answer.document["parts_total"]
    assert sum(mark.style != "skip" for mark in answer.marks.values()) == kept
    assert "parts skipped" in pages.shard("", NAME, Asked("id >= 250"))


@pytest.mark.parametrize(
    "where",
    [
        "id in (select id from other)",
        "java_method('java.lang.System', 'exit', 1) is null",
        "id > 1) or (select 1",
        "id > 1 and",
        "rand() < 0.5 and exists (select 1)",
        "nothing > 1",
        "id",
    ],
)
def test_what_is_no_condition_is_refused_on_the_page(pages: ConsolePages, where: str) -> None:
    page = pages.shard("", NAME, Asked(where))
    assert 'role="alert"' in page
    assert "parts skipped" not in page


def test_a_filter_that_is_refused_is_asked_of_spark_again(
    pages: ConsolePages, events: Events
) -> None:
    """What failed is not remembered: a column may come later."""
    state = Machine(events.stores).load(NAME)
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            pages.analyst.filter(state, "nothing > 1")

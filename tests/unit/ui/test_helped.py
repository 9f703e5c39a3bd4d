"""A page measures what would skip more when it is asked, one measurement at a time."""

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from strata.advise import advise
from strata.errors import Corrupt
from strata.expr.filter import Filter
from strata.history.usage import unread
from strata.machine.machine import Machine
from strata.model.settings import Settings
from strata.state.state import State
from strata.ui.helped import KEPT, Measured
from strata.ui.pages import Asked, ConsolePages
from strata.ui.shown import counted, size
from strata.ui.what_if import Analyst
from tests.support.console import NAME, above, filled

WHERE, PATIENCE = "n > 21 and word = 'word 33'", 20.0
ASKS_AGAIN = '<meta http-equiv="refresh"'


@dataclass
class Slow:
    """Measures in truth, when it is let."""

    pages: ConsolePages
    started: threading.Event = field(default_factory=threading.Event)
    measured: list[str] = field(default_factory=list)
    found: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def __call__(self, state: State, filter: Filter) -> Mapping[str, Any]:
        assert self.started.wait(PATIENCE)
        self.measured.append(filter.sql)
        if "99" in filter.sql:
            raise Corrupt("a part is damaged", blob="x")
        found = advise(self.pages.stores, state, self.pages.settings, [unread(filter)]).to_json()
        self.found[filter.sql] = found
        return found


@pytest.fixture
def slow() -> Iterator[Slow]:
    stores, settings = filled(), Settings()
    one = Slow(ConsolePages(stores, settings, Analyst(stores, settings)))
    one.pages = replace(one.pages, measured=Measured(one))
    yield one
    one.started.set()
    one.pages.close()


def wait(slow: Slow, where: str) -> str:
    """Return the page when it has an answer."""
    slow.started.set()
    state = Machine(slow.pages.stores).load(NAME)
    assert slow.pages.measured is not None
    slow.pages.measured.of(state, slow.pages.analyst.filter(state, where), PATIENCE)
    return slow.pages.shard("", NAME, Asked(where, help=True))


def test_nothing_is_measured_that_nobody_asks_for(slow: Slow) -> None:
    slow.started.set()
    page = slow.pages.shard("", NAME, Asked(WHERE))
    assert "Measure what would skip more" in page
    assert "help=1&amp;where=n%20%3E%2021" in page
    assert not slow.measured


def test_a_page_asks_again_until_it_is_measured(slow: Slow) -> None:
    page = slow.pages.shard("", NAME, Asked(WHERE, help=True))
    assert ASKS_AGAIN in page
    assert "parts skipped" in page, "what the filter skips is there at once"

    page = wait(slow, WHERE)

    assert ASKS_AGAIN not in page
    assert slow.measured == [WHERE], "once"
    found = slow.found[WHERE]
    assert found["advice"], "there is something to show"
    shown = page.partition('id="help"')[2]
    for one in found["advice"]:
        assert f'<td class="n">{counted(one["parts_saved"])}</td>' in shown
        assert size(one["bytes_saved"]) in shown
        assert size(one["read_bytes"]) in shown
        assert all(command in shown for command in one["commands"])


def test_a_measurement_that_fails_is_said(slow: Slow) -> None:
    slow.started.set()
    with pytest.raises(Corrupt):
        wait(slow, "n > 21 and n < 99")
    state = Machine(slow.pages.stores).load(NAME)
    page = ""
    for _ in range(100):
        page = slow.pages.shard("", NAME, Asked("n > 21 and n < 99", help=True))
        if ASKS_AGAIN not in page:
            break
    assert "a part is damaged" in page
    assert "parts skipped" in page
    assert state.seqno == Machine(slow.pages.stores).load(NAME).seqno


def test_where_nobody_measures_the_command_is_shown(slow: Slow) -> None:
    alone = replace(slow.pages, measured=None)
    page = alone.shard("", NAME, Asked("word = 'word 33' and n > 21", help=True))
    assert f"strata explain {NAME} --where" in page
    assert "--advise" in page
    assert "Measure what would skip more" in page
    assert 'class="button" href="/shards' not in page.partition('id="help"')[2]


def test_a_former_state_and_a_filter_that_keeps_nothing_offer_nothing(slow: Slow) -> None:
    [*_, former, newest] = (
        s.seqno for s in slow.pages._past(Machine(slow.pages.stores).load(NAME))
    )
    for seqno, offers in ((former, False), (newest, True)):
        page = slow.pages.shard("", NAME, Asked("n > 1", seqno=seqno))
        assert "parts skipped" in page
        assert ('id="help"' in page) is offers
    assert 'id="help"' not in slow.pages.shard("", NAME, Asked(""))


def test_only_measurements_of_late_are_kept() -> None:
    state = Machine(filled(1)).load(NAME)
    measured = Measured(lambda _, filter: {"of": filter.sql})
    for number in range(KEPT + 1):
        assert measured.of(state, above(number), PATIENCE) == {"of": f"n > {number}"}
    assert len(measured._known) == KEPT
    measured.close()


def test_a_state_is_measured_anew_after_a_commit() -> None:
    state, seen = Machine(filled(1)).load(NAME), []
    measured = Measured(lambda state, _: seen.append(state.seqno) or {"seqno": state.seqno})
    for seqno in (1, 1, 2):
        assert measured.of(replace(state, seqno=seqno), above(1), PATIENCE) == {"seqno": seqno}
    assert seen == [1, 2]
    measured.close()

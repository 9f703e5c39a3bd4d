"""The console in a real Chromium: a walk through its pages, and hostile texts: `make test-browser`.

Each page is looked at light and dark, wide and narrow. `PICTURES` names a folder for screenshots.
"""

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.responses import HTMLResponse

from strata.machine.machine import Machine
from strata.model.spec import AboutSpec
from strata.rollout import ladder
from strata.state.state import State
from strata.state.step import step
from strata.store.open import Stores
from strata.ui.answers import Answers, Desk
from strata.ui.web import console, of_token
from tests.attacks.chromium import Browser, Tab, chromium
from tests.attacks.hostile import CALLING, HOSTILE, MARK, TRICKY
from tests.attacks.test_report_in_browser import CONTRAST, CONTRASTS
from tests.support.console import NAME, filled, pages_of

pytestmark = [pytest.mark.browser, pytest.mark.filterwarnings("ignore")]
EVERY = (*HOSTILE, *CALLING, *TRICKY)
TOKEN = "a-token"
SHARD = f"/shards/{NAME}"
PAGES = {
    "shards": "/",
    "spine": SHARD,
    "what-if": f"{SHARD}?where={quote('n > 24')}",
    "rollout": f"{SHARD}/rollout",
    "audits": f"{SHARD}/audits",
}
# What a script of the data would call.
RAN = "document.documentElement.dataset.ran"
REPORTS = f"window.{MARK} = n => {{ {RAN} = n }}; window.alert = {MARK}"


@dataclass
class Place:
    """A console that is served."""

    stores: Stores
    base: str


@pytest.fixture(scope="module", params=["plain", "hostile"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    stores = filled(texts=EVERY if request.param == "hostile" else ())
    with served(of_token(console(lambda: pages_of(stores)), TOKEN)) as base:
        yield Place(stores, base)


@contextmanager
def served(app: Any) -> Iterator[str]:
    """Serve an application on loopback; yield its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def entered(
    browser: Browser, place: Place, *, width: int, dark: bool, allowed: bool = False
) -> Tab:
    tab = browser.page(width=width, dark=dark, allowed=allowed)
    tab.tell("Page.addScriptToEvaluateOnNewDocument", source=REPORTS)
    tab.open(f"{place.base}/?token={TOKEN}")
    return tab


def keep(tab: Tab, name: str) -> None:
    if folder := os.environ.get("PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        tab.picture(Path(folder) / f"console-{name}.png")


def shows_well(browser: Browser, place: Place, *, width: int, dark: bool) -> None:
    """Check that each page fits, can be read, complains of nothing and asks for nothing outside."""
    tab = entered(browser, place, width=width, dark=dark)
    for name, address in PAGES.items():
        tab.open(place.base + address)
        wide = tab.look("[innerWidth, document.scrollingElement.scrollWidth]")
        assert wide[1] <= wide[0], name
        # In drawings the colour of a text is its fill, which is that of texts beside them.
        seen = [(what, ratio) for what, ratio in tab.look(CONTRASTS) if "SVG" not in what]
        assert len(seen) > 20
        weak = [(what, ratio) for what, ratio in seen if ratio < CONTRAST]
        assert weak == [], name
        keep(tab, f"{name}-{width}-{'dark' if dark else 'light'}")
    assert tab.complaints() == []
    assert [a for a in tab.asked() if not a.startswith(place.base)] == []
    assert browser.outside == []
    assert not tab.look(RAN)
    tab.close()


@pytest.mark.parametrize(("width", "dark"), [*product((1280, 390), (False, True)), (1920, False)])
def test_pages_show_well_and_ask_for_nothing_outside(
    browser: Browser, place: Place, width: int, dark: bool
) -> None:
    shows_well(browser, place, width=width, dark=dark)


def test_words_without_an_end_are_folded_on_a_telephone(browser: Browser) -> None:
    word = "a.very.long.name." * 9
    stores = filled(texts=(word,))

    def about(state: State, now_ms: int) -> tuple[State, None]:
        described = AboutSpec(word, word, (word, word))
        return step(state, now_ms, spec=replace(state.spec, about=described)), None

    Machine(stores).apply(NAME, about)
    with served(of_token(console(lambda: pages_of(stores)), TOKEN)) as base:
        shows_well(browser, Place(stores, base), width=390, dark=False)


def test_hostile_texts_are_text_also_where_no_policy_holds(browser: Browser, place: Place) -> None:
    tab = entered(browser, place, width=1280, dark=False, allowed=True)
    for address in (*PAGES.values(), *(f"{SHARD}?where={quote(text, safe='')}" for text in EVERY)):
        tab.open(place.base + address)
        assert not tab.look(RAN), address
    assert [a for a in tab.asked() if not a.startswith(place.base)] == []
    assert browser.outside == []
    tab.close()


def test_a_file_shows_the_same_without_a_server(
    browser: Browser, place: Place, tmp_path: Path
) -> None:
    file = tmp_path / "report.html"
    file.write_text(pages_of(place.stores).file(NAME, ("n > 24",)), encoding="utf-8")
    tab = browser.page(width=1280, dark=True)
    tab.tell("Page.addScriptToEvaluateOnNewDocument", source=REPORTS)
    tab.open(file.as_uri())
    assert tab.look("document.querySelectorAll('svg.spine').length") > 2
    shown = "[...document.querySelectorAll('.frame')].map(f => !f.hidden).indexOf(true)"
    last = tab.look(shown)
    tab.tell(
        "Runtime.evaluate",
        expression=(
            "frames = document.getElementById('frames'); frames.value = 0;"
            "frames.dispatchEvent(new Event('input'))"
        ),
    )
    assert (last > 0, tab.look(shown)) == (True, 0)
    keep(tab, "file")
    assert not tab.look(RAN)
    assert [a for a in tab.asked() if not a.startswith("file:")] == []
    assert tab.complaints() == []
    tab.close()


def test_a_filter_is_asked_and_a_batch_opened_as_a_person_does(
    browser: Browser, place: Place
) -> None:
    tab = entered(browser, place, width=1280, dark=False)
    tab.open(place.base + SHARD)
    tab.tell("Runtime.evaluate", expression="document.getElementById('where').value = 'n > 34'")
    tab.click(".ask-filter button")
    assert tab.look("document.querySelector('.big strong').textContent") == "2"
    assert tab.look("location.search") == "?where=n+%3E+34"
    tab.click("svg.spine a")
    assert "batch=0" in tab.look("location.search")
    assert tab.look("document.querySelectorAll('svg.spine .block').length") == 1
    assert tab.complaints() == []
    tab.close()


def test_a_request_is_answered_as_a_person_does(browser: Browser) -> None:
    stores = filled()
    app = console(lambda: pages_of(stores), (), Desk(lambda: "bob", b"a secret"))
    with served(app) as base:
        tab = browser.page(width=1280)
        tab.open(f"{base}{SHARD}/rollout")
        keep(tab, "answer")
        tab.tell(
            "Runtime.evaluate",
            expression=("document.getElementById('reason').value = 'I looked at the spine'"),
        )
        tab.click("button[value=approve]")
        assert tab.look("location.pathname") == f"{SHARD}/rollout"
        assert tab.look("document.querySelector('.ladder .here b').textContent") == "soft"
        assert "I looked at the spine" in tab.look("document.querySelector('.events').textContent")
        assert tab.complaints() == []
        tab.close()
    last = Machine(stores).load(NAME).rollout.entries[-1]
    assert (last.what, last.by, last.reason) == ("approved", "bob", "I looked at the spine")


def test_a_page_of_another_origin_answers_nothing_in_a_persons_browser(browser: Browser) -> None:
    """The attacker even knows a form that was made for this person."""
    stores = filled()
    asked = Machine(stores).load(NAME).rollout.request
    assert asked is not None
    pages, request = pages_of(stores), ladder.request_id(NAME, asked)
    proof = Answers(stores, pages.settings, b"a secret").proof("bob", NAME, request)
    app = console(lambda: pages, (), Desk(lambda: "bob", b"a secret"))
    with served(app) as base:
        fields = {"answer": "approve", "request": request, "reason": "x", "proof": proof}
        inputs = "".join(f'<input name="{k}" value="{v}">' for k, v in fields.items())
        evil = FastAPI()
        page = (
            f'<form method="post" action="{base}{SHARD}/rollout">{inputs}<button>x</button></form>'
        )
        evil.get("/", response_class=HTMLResponse)(lambda: page)
        with served(evil) as other:
            tab = browser.page(width=1280)
            tab.open(other)
            tab.click("button")
            assert tab.look("location.href") == f"{base}{SHARD}/rollout"
            assert "does not come from a page of the console" in tab.look("document.body.innerText")
            tab.close()
    assert Machine(stores).load(NAME).rollout.mode == "off"

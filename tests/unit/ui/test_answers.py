"""Answers on the rollout page: who may give them, and what nobody gets through."""

import warnings
from dataclasses import dataclass, replace
from itertools import count
from urllib.parse import urlencode

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette would like another HTTP client in its test client
    from fastapi.testclient import TestClient

from strata.history.operations import recent
from strata.machine.machine import Machine
from strata.rollout import ladder
from strata.rollout.people import REASON_MAX
from strata.state.state import Rollout
from strata.store.open import Stores
from strata.ui.answers import LASTS_MS, LONGEST, Answers, Desk
from strata.ui.web import console
from tests.support.console import NAME, filled, pages_of

pytestmark = pytest.mark.filterwarnings("ignore")
HOST = "http://console.example:8080"
HERE = {"origin": HOST, "sec-fetch-site": "same-origin"}
PLACE = f"/shards/{NAME}/rollout"
SECRET = b"a secret of this home"
NUMBERS = count()


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


@dataclass
class Home:
    """A console that knows who is there; `ann` has asked for a step."""

    stores: Stores
    seen: TestClient
    who: str | None = "bob"

    @property
    def rollout(self) -> Rollout:
        return Machine(self.stores).load(NAME).rollout

    @property
    def request(self) -> str:
        assert self.rollout.request is not None
        return ladder.request_id(NAME, self.rollout.request)

    def form(self, answer: str = "approve", **changes: str) -> dict[str, str]:
        """Return what the page's form sends for who is there."""
        request = changes.pop("request", self.request)
        proof = Answers(self.stores, pages_of(self.stores).settings, SECRET).proof(
            self.who or "", NAME, request
        )
        made = {"answer": answer, "request": request, "reason": "I looked", "proof": proof}
        return made | changes

    def send(self, form: dict[str, str], **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = self.seen.post(PLACE, data=form, headers=HERE | named)
        self.text = sent.text
        return sent.status_code


@pytest.fixture
def home() -> Home:
    clock = Clock()
    stores = replace(filled(), clock=clock)

    def person() -> str | None:
        return made.who

    app = console(lambda: pages_of(stores), (), Desk(person, SECRET))
    made = Home(stores, TestClient(app, base_url=HOST, follow_redirects=False))
    return made


def test_an_approval_takes_the_step_and_names_who_gave_it(home: Home) -> None:
    request = home.request
    assert home.send(home.form()) == 303
    last = home.rollout.entries[-1]
    assert (last.what, last.after, last.by, last.asked_by) == ("approved", "soft", "bob", "ann")
    assert (last.reason, last.request) == ("I looked", request)
    (row,) = [one for one in recent(home.stores, NAME, 10) if one.what == "rollout approve"]
    assert (row.who, row.outcome) == ("bob", "done")


def test_a_rejection_ends_the_request(home: Home) -> None:
    assert home.send(home.form("reject")) == 303
    assert (home.rollout.mode, home.rollout.request) == ("off", None)
    assert home.rollout.entries[-1].what == "rejected"


def test_the_form_on_the_page_is_one_that_is_taken(home: Home) -> None:
    import re

    page = home.seen.get(PLACE).text
    hidden = dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', page))
    assert "You answer as bob" in page
    assert home.send({**hidden, "answer": "approve", "reason": "as shown"}) == 303
    assert home.rollout.mode == "soft"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": ""},
        {"origin": f"{HOST}.evil.example"},
        {"origin": "http://evil.example/console.example:8080"},
        {"origin": "http://console.example:8080@evil.example"},
        {"origin": "http://[::1"},
        {"origin": f"{HOST}/"},
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"sec_fetch_site": "none"},
        {"content_type": "text/plain"},
        {"content_type": "multipart/form-data; boundary=x"},
    ],
)
def test_another_origin_answers_nothing(home: Home, headers: dict[str, str]) -> None:
    assert home.send(home.form(), **headers) == 403
    assert home.rollout.mode == "off"
    assert home.rollout.request is not None


def test_without_an_origin_nothing_is_answered(home: Home) -> None:
    body = urlencode(home.form())
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert home.seen.post(PLACE, content=body, headers=form).status_code == 403
    assert home.rollout.mode == "off"


def test_an_answer_that_is_sent_again_changes_nothing(home: Home) -> None:
    form = home.form()
    assert home.send(form) == 303
    seqno = Machine(home.stores).load(NAME).seqno
    assert home.send(form) == 409
    assert "no step is asked for" in home.text
    assert Machine(home.stores).load(NAME).seqno == seqno


def test_a_former_request_is_not_answered(home: Home) -> None:
    old = home.form()
    assert home.send(home.form("reject")) == 303
    state = Machine(home.stores)
    home.stores.clock.now += 5_000  # type: ignore[attr-defined]
    from functools import partial

    from strata.rollout.policy import Policy

    state.apply(
        NAME, partial(ladder.ask, to="soft", percent=0, who="ann", reason="again", policy=Policy())
    )
    assert home.send(old) == 409
    assert "another request is open" in home.text
    assert home.rollout.mode == "off"
    assert "I looked" in home.text  # what was typed is not lost


def test_who_asks_cannot_approve_even_with_a_form_of_their_own(home: Home) -> None:
    for name in ("ann", "ANN", "an\u200bn"):
        home.who = name
        assert "You cannot approve it" in home.seen.get(PLACE).text
        assert 'value="approve"' not in home.seen.get(PLACE).text
        assert home.send(home.form()) == 409
        assert "who asks for a step cannot approve it" in home.text
    assert home.rollout.mode == "off"
    (row, *_) = [one for one in recent(home.stores, NAME, 10) if one.what == "rollout approve"]
    assert row.outcome == "bad request"


def test_who_may_not_answer_sees_no_form_and_is_refused(home: Home) -> None:
    form = home.form()
    home.who = None
    page = home.seen.get(PLACE).text
    assert "<form" not in page
    assert "You may look, but not answer" in page
    assert home.send(form) == 403
    assert home.rollout.mode == "off"


@pytest.mark.parametrize(
    "change",
    [
        {"proof": ""},
        {"proof": "9999999999999.00"},
        {"proof": "x.y"},
        {"proof": "-1.00"},
        {"proof": "\u0661.00"},
        {"request": "0123456789abcdef"},
    ],
)
def test_a_form_that_was_not_made_here_is_refused(home: Home, change: dict[str, str]) -> None:
    assert home.send({**home.form(), **change}) == 409
    assert home.rollout.mode == "off"


def test_a_form_of_another_person_is_refused(home: Home) -> None:
    form = home.form()
    home.who = "carl"
    assert home.send(form) == 409
    assert "made for somebody else" in home.text
    assert home.rollout.mode == "off"


def test_a_form_lasts_some_hours(home: Home) -> None:
    form = home.form()
    home.stores.clock.now += LASTS_MS + 1  # type: ignore[attr-defined]
    assert home.send(form) == 409
    assert home.rollout.mode == "off"


@pytest.mark.parametrize(
    "change",
    [
        {"answer": "on"},
        {"reason": "x" * (REASON_MAX + 1)},
        {"more": "fields"},
        {"reason": "x" * LONGEST},
    ],
)
def test_a_form_with_other_contents_is_refused(home: Home, change: dict[str, str]) -> None:
    assert home.send({**home.form(), **change}) == 403
    assert home.rollout.mode == "off"


@pytest.mark.parametrize("character", ["x", "\u5b57", "\U0001f600", "\r\n"])
def test_the_longest_reason_that_the_page_lets_in_is_taken(home: Home, character: str) -> None:
    """Its limit is the ladder's, in characters; a browser counts the end of a line as one."""
    assert f'maxlength="{REASON_MAX}"' in home.seen.get(PLACE).text
    reason = "x" + character * (REASON_MAX - 2) + "x"
    assert home.send(home.form(reason=reason)) == 303
    assert home.rollout.entries[-1].reason == reason.replace("\r\n", "\n")


def test_an_answer_needs_a_reason(home: Home) -> None:
    for reason in ("", "  \u200b "):
        assert home.send(home.form(reason=reason)) == 409
        assert "needs a name and a reason" in home.text
    assert home.rollout.mode == "off"


def test_a_field_that_is_given_twice_is_refused(home: Home) -> None:
    body = urlencode([*home.form().items(), ("answer", "reject")])
    form = {"content-type": "application/x-www-form-urlencoded"}
    assert home.seen.post(PLACE, content=body, headers=HERE | form).status_code == 403
    assert home.rollout.request is not None


def test_where_nobody_is_known_the_page_shows_commands(home: Home) -> None:
    seen = TestClient(console(lambda: pages_of(home.stores)), base_url=HOST)
    page = seen.get(PLACE).text
    assert f"strata rollout approve {NAME} --request {home.request}" in page
    assert "<form" not in page
    assert seen.post(PLACE, data=home.form(), headers=HERE).status_code == 405
    assert home.rollout.mode == "off"


def test_a_reason_is_shown_as_text_when_it_comes_back(home: Home) -> None:
    home.who = "ann"
    home.send(home.form(reason="</textarea><script>PWN(1)</script>"))
    assert "&lt;/textarea&gt;&lt;script&gt;" in home.text
    assert "<script>PWN" not in home.text

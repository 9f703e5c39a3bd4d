"""The fourth walk: from Airflow's pages to the console, and an answer given there."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

from strata.machine.machine import Machine
from strata.state.state import Rollout
from tests.walks.browser import HEIGHT, WIDTH, Walker
from tests.walks.steps import EVALUATE, GATE, REASON, Walk, asked, evaluated

SHARD: Final = "flights"
PLACE: Final = f"/strata/shards/{SHARD}"
WHERE: Final = "dep_delay > 600 and origin = 'JFK'"
NARROW: Final = 390
FIRST: Final = "First comes what is wrong"
PAGES: Final = {
    "shards": ("/strata/", FIRST),
    "spine": (f"{PLACE}?where={quote(WHERE)}", "What rules parts out"),
    "rollout": (f"{PLACE}/rollout", "Steps and trips"),
    "audits": (f"{PLACE}/audits", "Nights"),
}
SHOWN: Final = {("spine", "dark"), ("rollout", "narrow")}  # of what is looked at, on the page


def consoled(walk: Walk) -> None:
    """Walk 4: tabs and a button lead to the console; Bob answers a request of Ann's there."""
    entered(walk)
    evaluated(walk)  # a day in audit, which the next step wants
    gate = asked(walk)
    looked(walk)
    agreed(walk)
    late(walk, gate)


def entered(walk: Walk) -> None:
    """A DAG, a run and a task lead to the shards, and the menu does."""
    ann = walk.ann
    run = walk.newest(EVALUATE)[0]
    task = f"/dags/{EVALUATE}/runs/{quote(run)}/tasks/validate"
    for name, page in (
        ("dag", f"/dags/{EVALUATE}"),
        ("run", f"/dags/{EVALUATE}/runs/{quote(run)}"),
        ("task", f"/dags/{EVALUATE}/tasks/validate"),
        ("instance", task),
    ):
        ann.go(page, see="Audit Log")
        ann.page.get_by_role("link", name="Shards", exact=True).first.click()
        frame = ann.page.frame_locator("iframe[title=Shards]")
        frame.get_by_text(FIRST).first.wait_for()
        if name == "instance":
            ann.shot(f"4-{name}")
    frame.get_by_role("link", name=SHARD, exact=True).first.click()
    frame.get_by_role("link", name="Rollout").first.click()
    frame.get_by_text("Steps and trips").first.wait_for()
    ann.go(f"{task}/details", see="Extra Links")
    button = ann.page.get_by_role("link", name="Shard", exact=True).first
    assert str(button.get_attribute("href")).endswith(PLACE)
    ann.go("/dags", see="Shards: ingest")
    ann.click("Browse")
    with ann.page.context.expect_page() as opened:
        ann.page.get_by_role("menuitem", name="Shards").first.click()
    _is_console(opened.value)


def _is_console(page: object) -> None:
    page.get_by_text(FIRST).first.wait_for()  # type: ignore[attr-defined]
    assert page.url.endswith("/strata/")  # type: ignore[attr-defined]
    page.close()  # type: ignore[attr-defined]


def looked(walk: Walk) -> None:
    """Each page, in light and dark, and as wide as a telephone."""
    ann = walk.ann
    for name, (page, text) in PAGES.items():
        ann.go(page, see=text)
        ann.shot(f"4-{name}", full=True)
        for kind, look in (("dark", _dark(ann)), ("narrow", _narrow(ann))):
            with look:
                ann.go(page, see=text)
                wide = ann.page.evaluate("document.scrollingElement.scrollWidth - innerWidth")
                assert wide <= 0, (name, kind)
                if (name, kind) in SHOWN:
                    ann.shot(f"4-{name}-{kind}", full=True)


@contextmanager
def _dark(walker: Walker) -> Iterator[None]:
    walker.page.emulate_media(color_scheme="dark")
    yield
    walker.page.emulate_media(color_scheme="light")


@contextmanager
def _narrow(walker: Walker) -> Iterator[None]:
    walker.page.set_viewport_size({"width": NARROW, "height": HEIGHT})
    yield
    walker.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def agreed(walk: Walk) -> None:
    """Ann has asked and cannot approve; Bob gives a reason and does; the history has both."""
    ann, bob = walk.ann, walk.bob
    ann.go(f"{PLACE}/rollout", see="You cannot approve it")
    assert not ann.page.locator("button[value=approve]").count()
    ann.shot("4-asker")
    bob.go(f"{PLACE}/rollout", see="You answer as bob")
    approve = bob.page.locator("button[value=approve]")
    approve.click()  # the browser wants a reason first
    assert _rollout(walk).request is not None
    bob.page.fill("textarea[name=reason]", REASON)
    bob.shot("4-answer")
    approve.click()
    bob.page.locator(".ladder .here b", has_text="on").wait_for()
    bob.shot("4-answered")
    rollout = _rollout(walk)
    last = rollout.entries[-1]
    assert (rollout.mode, last.by, last.asked_by, last.reason) == ("on", "bob", "ann", REASON)


def late(walk: Walk, gate: str) -> None:
    """The question that Airflow still shows is about a closed request: it changes nothing."""
    bob, before = walk.bob, _rollout(walk)
    bob.go(f"/dags/{GATE}/runs/{quote(gate)}/tasks/question/required_actions", see="Gates")
    bob.page.locator("[id$=approver_reason], input[name$=approver_reason]").first.fill("late")
    bob.page.get_by_role("button", name="Reject").first.click()
    walk.ended(GATE, gate, "failed")
    assert _rollout(walk) == before


def _rollout(walk: Walk) -> Rollout:
    return Machine(walk.place.stores).load(SHARD).rollout

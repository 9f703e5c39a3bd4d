"""The console's pages: who may look, what they show, and that data never becomes markup."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from html.parser import HTMLParser

import numpy as np
import pyarrow as pa
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # starlette would like another HTTP client in its test client
    from fastapi import Depends, HTTPException
    from fastapi.testclient import TestClient

from strata.compact import compact_shard
from strata.history.metrics import Metrics
from strata.history.operation_log import OperationLog
from strata.history.operations import note
from strata.machine.machine import Machine
from strata.model.runner import serial
from strata.model.settings import Settings
from strata.state.rollout import record_verdicts
from strata.state.step import step
from strata.store.open import Stores
from strata.sums.run import maintain_sums
from strata.sums.wish import SumsWish
from strata.ui import blocks, facts
from strata.ui import pages as ui_pages
from strata.ui.blocks import CELLS, picture_of
from strata.ui.evidence import EvidencePoint, LadderEvent, evidence_svg
from strata.ui.needs import ASKED
from strata.ui.pages import Asked, ConsolePages, policy
from strata.ui.shown import whole_names
from strata.ui.svg import element, spine_svg
from strata.ui.web import COOKIE, console, of_token
from strata.ui.what_if import Analyst
from tests.attacks.hostile import CALLING, HOSTILE, TRICKY
from tests.support.console import DAY, NAME, RELATION, filled, pages_of
from tests.support.stored import create, killed, memory_stores, settings

pytestmark = pytest.mark.filterwarnings("ignore")
EVERY = (*HOSTILE, *CALLING, *TRICKY)
VOID = {"meta", "input", "br", "link", "wbr"}


class Shape(HTMLParser):
    """Checks that elements close in order, and collects what a page names."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(page)
        self.wrong += self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"/{tag}")

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attrs for name, attrs in self.tags if name == tag]


@pytest.fixture(scope="module")
def stores() -> Stores:
    return filled()


@pytest.fixture(scope="module")
def hostile() -> Stores:
    return filled(texts=EVERY)


def client(pages: ConsolePages) -> TestClient:
    return TestClient(console(lambda: pages), base_url="http://127.0.0.1")


ADDRESSES = [
    "/",
    f"/shards/{NAME}",
    f"/shards/{NAME}?where=n+%3E+24",
    f"/shards/{NAME}?batch=1",
    f"/shards/{NAME}/rollout",
    f"/shards/{NAME}/audits",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_each_page_is_whole_and_its_links_lead_to_pages(stores: Stores, address: str) -> None:
    seen = client(pages_of(stores))
    answer = seen.get(address)
    assert answer.status_code == 200
    shape = Shape(answer.text)
    assert shape.wrong == []
    ids = [attrs["id"] for _, attrs in shape.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for link in {a["href"] for a in shape.of("a")}:
        assert link
        at = link if link.startswith("/") else f"{address.partition('?')[0]}{link}"
        assert seen.get(at).status_code == 200, link
    for label in shape.of("label"):
        assert label["for"] in ids


@pytest.mark.parametrize("address", [*ADDRESSES, "/shards/nowhere"])
def test_each_page_says_the_zone_of_its_times(stores: Stores, address: str) -> None:
    """Airflow's own pages, around it, have those of the person who looks."""
    assert "Times are in UTC" in client(pages_of(stores)).get(address).text


@pytest.mark.parametrize(("many", "said"), [(1, "the last validation<"), (3, "3 validations<")])
def test_what_is_to_be_weighed_counts_validations(many: int, said: str) -> None:
    stores = filled()
    for n in range(many):
        Machine(stores).apply(NAME, partial(record_verdicts, key=f"verdicts/{n}"))
    page = client(pages_of(stores)).get(f"/shards/{NAME}/rollout").text
    assert f"<b>No finding</b> in {'the last ' * (many > 1)}{said}" in page


def test_a_validation_that_failed_before_its_verdict_is_weighed() -> None:
    stores = filled()
    note(stores, Metrics(), "validate", stores.clock(), {"shard": NAME}, 1, by="ann")
    page = client(pages_of(stores)).get(f"/shards/{NAME}/rollout").text
    assert "<b>Failed</b> is how the last validation ended" in page
    assert "No validation</b>" not in page


def test_the_page_says_how_to_ask_for_the_next_step() -> None:
    stores = filled()
    command = f"<code>strata rollout request {NAME} --to soft --reason WHY</code>"
    assert (
        command not in client(pages_of(stores)).get(f"/shards/{NAME}/rollout").text
    )  # it is asked
    stores = memory_stores()
    create(stores, RELATION)
    page = client(pages_of(stores)).get(f"/shards/{NAME}/rollout").text
    assert f"Ask for the step: {command}; somebody else approves it." in page


def test_a_shard_of_sums_says_of_which_shard_they_are() -> None:
    stores = filled()
    wish = SumsWish(NAME, "kept", ("word",), ("n",), "word <> '<b>'")
    maintain_sums(stores, wish)
    page = client(pages_of(stores)).get("/shards/kept").text
    assert f'Sums of <a href="/shards/{NAME}">{NAME}</a> by word' in page
    assert "where <code>word &lt;&gt; &#39;&lt;b&gt;&#39;</code>" in page
    assert Shape(page).wrong == []
    assert "Sums of" not in client(pages_of(stores)).get(f"/shards/{NAME}").text


def test_a_page_runs_only_its_own_script_and_loads_nothing(stores: Stores) -> None:
    answer = client(pages_of(stores)).get(f"/shards/{NAME}?where=n+%3E+24")
    rules = answer.headers["content-security-policy"]
    assert rules == policy()
    assert "unsafe" not in rules
    assert rules.startswith("default-src 'none'; ")
    shape = Shape(answer.text)
    loads = [a for tag, a in shape.tags if tag in ("img", "link", "iframe", "object", "embed")]
    assert loads == []
    assert all("src" not in a for a in shape.of("script"))
    assert not any(name.startswith("on") or name == "style" for _, a in shape.tags for name in a)


def test_the_policy_names_the_very_style_and_script(stores: Stores) -> None:
    from base64 import b64encode
    from hashlib import sha256

    page = pages_of(stores).shards("")
    for tag in ("style", "script"):
        (inner,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = b64encode(sha256(inner.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy()
        assert f"{tag}-src 'sha256-{digest}'" in policy(file=True)


# ---------------------------------------------------------------------------- what data says


def markup(page: str) -> set[tuple[str, str]]:
    """Return what a page is made of: each element with the names of its attributes."""
    shape = Shape(page)
    assert shape.wrong == []
    for tag, attrs in shape.tags:
        for name in ("href", "action", "formaction"):
            value = attrs.get(name) or ""
            assert value.startswith(("/shards/", "/", "?", "#")) or name not in attrs, (tag, value)
            assert not value.startswith("//")
    return {(tag, name) for tag, attrs in shape.tags for name in (*attrs, "")}


@pytest.fixture(scope="module")
def ours(stores: Stores) -> set[tuple[str, str]]:
    """Return the elements of pages that show nothing hostile."""
    seen = client(pages_of(stores))
    asked = client(pages_of(stores, knows=False)).get(f"/shards/{NAME}?where=x")
    return set().union(*(markup(seen.get(a).text) for a in ADDRESSES), markup(asked.text))


@pytest.mark.parametrize(
    "address", ["/", f"/shards/{NAME}", f"/shards/{NAME}/rollout", f"/shards/{NAME}/audits"]
)
def test_nothing_that_data_says_becomes_markup(
    hostile: Stores, ours: set[tuple[str, str]], address: str
) -> None:
    page = client(pages_of(hostile)).get(address).text
    assert markup(page) <= ours
    if "rollout" in address:
        assert "&lt;img src=x onerror=" in page  # it is there, as text


@pytest.mark.parametrize("text", EVERY)
def test_a_filter_is_shown_and_never_run(
    hostile: Stores, ours: set[tuple[str, str]], text: str
) -> None:
    seen = client(pages_of(hostile, knows=False))
    known = seen.get(f"/shards/{NAME}", params={"where": text})  # a receipt has this very text
    other = seen.get(f"/shards/{NAME}", params={"where": f"{text} "})
    for page in (known.text, other.text):
        assert markup(page) <= ours
    assert "parts skipped" in known.text
    assert "columns that are compared with constants" in other.text


def test_a_file_holds_hostile_texts_as_text_too(hostile: Stores) -> None:
    page = pages_of(hostile).file(NAME, ())
    assert markup(page) <= markup(pages_of(filled()).file(NAME, ()))
    assert "http-equiv" in page
    assert all("href" not in a or (a["href"] or "").startswith("#") for a in Shape(page).of("a"))


def test_elements_of_drawings_escape_texts_and_attributes() -> None:
    made = element("text", "<script>&", aria_label='"><svg onload=x>')
    assert str(made) == (
        '<text aria-label="&#34;&gt;&lt;svg onload=x&gt;">&lt;script&gt;&amp;</text>'
    )


# ---------------------------------------------------------------------------- what if


def test_the_big_number_is_that_of_the_statistics(stores: Stores) -> None:
    page = client(pages_of(stores)).get(f"/shards/{NAME}?where=n+%3E+24").text
    state = Machine(stores).load(NAME)
    assert state.batches[0].parts == 1
    assert re.search(r"<strong>1</strong> of 6 parts skipped", page)
    shape = Shape(page)
    styles = [(a.get("class") or "").split()[0] for a in shape.of("rect") if a.get("class")]
    assert (styles.count("skip"), styles.count("cause-9"), styles.count("cause-1")) == (1, 4, 1)
    assert "n &gt; 24 is never true (n in [10, 19])" in page


def test_a_question_that_cannot_be_asked_is_answered_on_the_page(stores: Stores) -> None:
    seen = client(pages_of(stores, knows=False))
    page = seen.get(f"/shards/{NAME}", params={"where": "n + 1 > 99"})
    assert page.status_code == 200
    assert 'role="alert"' in page.text
    assert "ask `strata ui`" in page.text
    plain = seen.get(f"/shards/{NAME}", params={"where": "n > 21"})
    assert "parts skipped" in plain.text
    assert seen.get(f"/shards/{NAME}", params={"where": "x" * 4001}).status_code == 422


def test_a_filter_is_analysed_once(stores: Stores) -> None:
    asked = []  # a number that is not plain
    pages = pages_of(stores)

    def analyse(relation, where):  # type: ignore[no-untyped-def]
        asked.append(where)
        return pages_of(stores).analyst._analyse(relation, where)  # type: ignore[misc]

    pages.analyst._analyse = analyse
    for _ in range(3):
        pages.shard("", NAME, blocks_asked("n + 0 > 21"))
    assert asked == ["n + 0 > 21"]


def blocks_asked(where: str):  # type: ignore[no-untyped-def]
    from strata.ui.pages import Asked

    return Asked(where)


# ---------------------------------------------------------------------------- the picture


def test_a_picture_holds_every_part_once(stores: Stores) -> None:
    state = Machine(stores).load(NAME)
    picture = picture_of(stores, state)
    cells = [c for b in picture.blocks for s in b.strips for c in s.cells]
    assert sum(c.size_bytes for c in cells) == sum(b.size_bytes for b in state.batches)
    assert len({key for c in cells for key in c.keys}) == picture.whole == 6
    assert [b.bare for b in picture.blocks][:2] == [1, 0]  # the first is in the row format
    assert [c.row_format for c in cells] == [True, *[False] * 5]
    drawn = str(spine_svg(picture))
    assert drawn.count('class="hatched"') == 1
    assert drawn.count("bare") == 1


def test_of_very_many_parts_a_page_opens_no_manifest(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One request read all manifests: a server's memory was gone at 10,000,000 parts."""
    whole = pages_of(stores)
    shared = replace(whole, analyst=Analyst(stores, Settings()))
    asked = Asked(where="n > 24")
    before = shared.shard("", NAME, asked)
    assert "of 6 parts skipped" in before.replace("</strong>", "")
    assert "too many parts" not in before

    monkeypatch.setattr(blocks, "DRAWN_PARTS", 5)
    monkeypatch.setattr(ui_pages, "ASKED_PARTS", 5)
    with monkeypatch.context() as patch:
        patch.setattr(blocks, "manifest_of", None)  # it is not called
        page = shared.shard("", NAME, asked)

    assert "strata explain shard --where" in page
    assert "These are too many parts to be drawn" in page
    assert page.count('class="block"') == 6
    assert '<rect class="part' not in page
    assert runs_of(page) == runs_of(before)
    assert "too many parts" not in shared.shard("", NAME, Asked(batch=1))
    assert "of 6 parts skipped" in whole.shard("", NAME, asked).replace("</strong>", "")
    monkeypatch.setattr(blocks, "DRAWN_PARTS", 0)
    assert "This batch has too many parts" in shared.shard("", NAME, Asked(batch=1))


def runs_of(page: str) -> list[str]:
    """Return the table of batches, without what it says around it."""
    return re.findall(r'<td class="n">[^<]*</td>', page.partition("Batches as a table")[2])


def test_blocks_are_as_wide_as_their_time(stores: Stores) -> None:
    state = Machine(stores).load(NAME)
    drawn = str(spine_svg(picture_of(stores, state)))
    boxes = re.findall(r'class="block"></?|<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn)
    widths = [float(w) for _, w in boxes if w]
    assert len(widths) == 6
    assert max(widths) - min(widths) < 1.0  # six days of equal length
    assert f"upper {1970}-01-07" in drawn


def test_a_state_of_a_hundred_thousand_parts_stays_a_small_page(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = 100_000
    numbers = np.arange(many)
    table = pa.table(
        {
            "key": [f"shards/{NAME}/parts/{n:040x}.parquet" for n in range(many)],
            "run": pa.array(numbers // 25_000, pa.int32()),
            "size_bytes": pa.array(numbers % 97 + 1),
            "rows": pa.array(numbers % 7 + 1),
            "layout": pa.array(["both"] * many),
            "stats_version": pa.array(np.ones(many, np.int32)),
            "t_low": pa.array(np.zeros(many, np.int64)),
            "t_high": pa.array(np.full(many, DAY)),
        }
    )
    state = Machine(stores).load(NAME)
    monkeypatch.setattr(blocks, "manifest_of", lambda *_: table)
    picture = picture_of(stores, state, chosen=1, cells=CELLS)
    (block,) = picture.blocks
    cells = [c for s in block.strips for c in s.cells]
    assert len(block.strips) == 4
    assert len(cells) <= CELLS
    assert sum(len(c.keys) for c in cells) == many
    assert len(str(spine_svg(picture))) < 500_000


def test_the_slider_leads_to_former_states() -> None:
    stores = filled()
    compact_shard(stores, NAME, settings(), serial, full=True)
    pages = pages_of(stores)
    seen = client(pages)
    newest = Machine(stores).load(NAME).seqno
    now = seen.get(f"/shards/{NAME}").text
    (states,) = re.findall(r'data-states="([\d ]+)"', now)
    assert int(states.split()[-1]) == newest
    before = seen.get(f"/shards/{NAME}?seqno={states.split()[-2]}").text
    assert now.count("<title>Batch from") < before.count("<title>Batch from")
    assert seen.get(f"/shards/{NAME}?seqno=999").status_code == 404
    assert seen.get(f"/shards/{NAME}?batch=99").status_code == 404
    assert "hidden" in pages.file(NAME, ())


def test_a_filter_of_a_former_state_that_was_swept_is_no_damage() -> None:
    stores = filled()
    former = Machine(stores).load(NAME)
    compact_shard(stores, NAME, settings(), serial, full=True)
    newest = Machine(stores).load(NAME)
    for batch in former.batches:
        assert batch.manifest is not None
        stores.blob.delete(batch.manifest)
    seen, asked = client(pages_of(stores)), f"/shards/{NAME}?where=n+%3E+21"
    answer = seen.get(f"{asked}&seqno={former.seqno}")
    assert answer.status_code == 200
    assert "a manifest of this former state was swept" in answer.text
    assert "parts skipped" in seen.get(asked).text
    [batch] = newest.batches
    assert batch.manifest is not None
    stores.blob.delete(batch.manifest)
    assert seen.get(asked).status_code == 503  # this one is damage


# ---------------------------------------------------------------------------- who may look


def test_guards_hold_for_every_page(stores: Stores) -> None:
    def nobody() -> None:
        raise HTTPException(401)

    app = console(lambda: pages_of(stores), [Depends(nobody)])
    guarded = TestClient(app)
    for address in ADDRESSES:
        assert guarded.get(address).status_code == 401
    for route in app.routes:
        assert nobody in [d.call for d in route.dependant.dependencies]  # type: ignore[attr-defined]


@pytest.fixture
def local(stores: Stores) -> Iterator[TestClient]:
    app = of_token(console(lambda: pages_of(stores)), "secret")
    with TestClient(app, base_url="http://127.0.0.1:8000", follow_redirects=False) as seen:
        yield seen


def test_on_a_laptop_only_the_token_opens(local: TestClient) -> None:
    for address in ADDRESSES:
        assert local.get(address).status_code == 401
    assert local.get("/?token=wrong").status_code == 401
    assert local.get("/", cookies={COOKIE: "wrong"}).status_code == 401
    opened = local.get("/?token=secret")
    assert opened.status_code == 303
    assert "token" not in opened.headers["location"]
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert local.get("/").status_code == 200


def test_another_name_of_this_machine_is_refused(local: TestClient) -> None:
    local.get("/?token=secret")
    for host in ("evil.example:8000", "evil.example", "127.0.0.1.evil.example:80", "a@127.0.0.1:1"):
        assert local.get("/", headers={"host": host}).status_code == 421
    for host in ("127.0.0.1", "localhost", "[::1]", "[::1]:8000"):  # a browser leaves out port 80
        assert local.get("/", headers={"host": host}).status_code == 200


def test_errors_are_pages_and_nothing_is_posted(stores: Stores) -> None:
    seen = client(pages_of(stores))
    missing = seen.get("/shards/shrad")
    assert missing.status_code == 404
    assert "did you mean &#39;shard&#39;" in missing.text
    assert seen.post(f"/shards/{NAME}").status_code == 405


# ---------------------------------------------------------------------------- facts


def test_what_needs_a_person_comes_first(stores: Stores) -> None:
    (line,) = facts.Listing(stores, settings(), OperationLog()).lines()
    assert [(need.rank, need.text) for need in line.needs] == [
        (ASKED, "ann asks for soft; without an answer it lapses 1970-01-08 00:16")
    ]
    assert line.bare == 1


def test_bars_are_full_only_when_a_gate_passes() -> None:
    def gate(found: str, wanted: str, passed: bool, name: str = "x") -> dict[str, object]:
        return {"name": name, "found": found, "wanted": wanted, "passed": passed}

    shown = facts.bullets(
        [
            gate("1500", "at least 3000", False),
            gate("2999", "at least 3000", False),
            gate("3000", "at least 3000", True),
            gate("none", "a code", False),
            gate("9 of 9", "fewer than 10 of 1000", True),
            gate(
                "8 strata, 2 of them too thin (a: 1)",
                "at least 30 audited parts in each",
                False,
                "strata",
            ),
        ]
    )
    assert [b.percent for b in shown] == [50, 99, 100, 0, 0, 75]
    assert [b.share is None for b in shown] == [False, False, False, True, True, False]
    assert shown[-1].found == "8 strata, 2 of them too thin"


@pytest.mark.parametrize(
    ("found", "passed", "said"),
    [
        ("06fa.1.1024", True, ("the code of now", "06fa.1.1024")),
        ("17ab.1.1024", False, ("17ab.1.1024", "now 06fa.1.1024")),
        ("no audit yet", False, ("no audit yet", "now 06fa.1.1024")),
    ],
)
def test_an_id_of_code_stands_once(found: str, passed: bool, said: tuple[str, str]) -> None:
    gate = {"name": "code", "found": found, "wanted": "06fa.1.1024", "passed": passed}
    (shown,) = facts.bullets([gate])
    assert (shown.found, shown.wanted) == said


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([("audit", 1), ("on", 1)], ["audit, on: 95 %, 1 part"]),
        ([("audit", 2), ("on", 1)], ["on: 95 %, 1 part", "audit: 78 %, 2 parts"]),
        (
            [("audit", 3000), ("on", 30000)],
            ["audit: 0.10 %, 3,000 parts", "on: 0.010 %, 30,000 parts"],
        ),
    ],
)
def test_what_steps_want_is_written_side_by_side_and_never_upon_each_other(
    targets: list[tuple[str, int]], said: list[str]
) -> None:
    points = [EvidencePoint(at, 9, 9, 9) for at in (0, DAY)]
    drawn = evidence_svg(points, [LadderEvent(DAY, "on", "up")], targets)
    labels = re.findall(r'class="target-name" x="[\d.]+" y="([\d.]+)">([^<]+)<', drawn)
    heights = [float(y) for y, _ in labels]
    assert all(b - a >= 14 for a, b in zip([42, *heights], heights, strict=False))
    assert [text for _, text in labels] == said


def test_the_error_of_an_operation_stands_below_its_outcome() -> None:
    stores = filled()
    error = "Unavailable: no answer from <the store>"
    note(stores, Metrics(), "ingest", 0, {"shard": NAME}, 1, by="ann", error=error)
    page = client(pages_of(stores)).get(f"/shards/{NAME}").text
    said = "Unavailable: no answer from &lt;the store&gt;"
    assert f'failed</span><span class="help trouble">{said}</span>' in page


def test_the_run_of_airflow_stands_below_who_did_it() -> None:
    stores = filled()
    run = "manual__2026-11-25T14:16:14.781261+00:00__hDG7XZ92"
    who = f"airflow soft_evaluation {run}"
    note(stores, Metrics(Settings().metrics), "validate", 0, {"shard": NAME}, 0, by=who)
    page = client(pages_of(stores)).get(f"/shards/{NAME}").text
    assert f'<td class="who">airflow soft_evaluation<span class="help">{run}</span></td>' in page


def in_mode(mode: str) -> Stores:
    stores = filled()

    def entered(state, now_ms):  # type: ignore[no-untyped-def]
        rollout = replace(state.rollout, mode=mode, basis="other code")
        return step(state, now_ms, rollout=rollout), None

    Machine(stores).apply(NAME, entered)
    return stores


def test_the_page_says_why_readers_obey_another_mode() -> None:
    changed, stopped = "the code that decides is not the code", "the kill switch is thrown"
    page = pages_of(in_mode("on")).rollout("", NAME)
    assert "Mode on, but readers obey soft" in page
    assert changed in page
    assert stopped not in page
    page = pages_of(killed(in_mode("soft"))).rollout("", NAME)
    assert "Mode soft, but readers obey off" in page
    assert stopped in page
    assert changed not in page
    assert "but readers obey" not in pages_of(in_mode("soft")).rollout("", NAME)


def test_names_of_functions_go_to_a_new_line_whole() -> None:
    """Evidence has names such as greater_than_or_equal, and a telephone has 390 pixels."""
    page = pages_of(filled()).rollout("", NAME)
    row = '<th scope="row"><span class="whole">long × greater_than</span></th>'
    assert row in page
    joined = str(whole_names(f"and+{'x' * 60}+like"))
    whole = '<span class="whole">and+</span><wbr>{}+<wbr><span class="whole">like</span>'
    assert joined == whole.format("x" * 60), "what is too long for a line may break"
    assert "<b" not in str(whole_names("<b>+" + "<b" * 60))


def test_strata_lie_by_filter_and_by_layout() -> None:
    strata = [
        {"name": "long × greater_than × both × exact", "parts": 400},
        {"name": "long × greater_than × row × union", "parts": 12},
        {"name": "string × like × both × exact", "parts": 100},
    ]
    heat = facts.heat_map(strata, 30)
    assert heat.columns == ("both × exact", "row × union")
    assert heat.rows == (("long × greater_than", (400, 12)), ("string × like", (100, None)))
    assert [heat.strength(n) for n in (None, 29, 30, 90, 300)] == [
        "none",
        "thin",
        "some",
        "more",
        "much",
    ]


@pytest.mark.parametrize(
    ("address", "status", "words"),
    [
        ("/shard/x", 404, "no page at this address"),
        (f"/shards/{NAME}/nosuch", 404, "no page at this address"),
        (f"/shards/{NAME}?batch=<b>", 422, "batch: Input should be a valid integer"),
        (f"/shards/{NAME}?where={'x' * 4001}", 422, "where: String should have at most"),
    ],
)
def test_an_address_that_is_wrong_has_a_page_that_says_so(
    stores: Stores, address: str, status: int, words: str
) -> None:
    """It was a line of JSON, in letters that a telephone makes small."""
    answer = client(pages_of(stores)).get(address)
    assert answer.status_code == status
    assert answer.headers["content-type"].startswith("text/html")
    assert words in answer.text
    assert "<b>" not in answer.text

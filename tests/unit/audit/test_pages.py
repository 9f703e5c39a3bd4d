"""Pages of the report: what is not known is refused, and a former page keeps its words only."""

import re
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

import pytest

import strata.ui
from strata.errors import Corrupt
from strata.jobs.validate import blocks, markup
from strata.jobs.validate.markup import BEGINS, ENDS
from strata.jobs.validate.offline import cleaned, make_offline
from strata.jobs.validate.pages import Page
from strata.jobs.validate.publish import Folders
from tests.attacks.hostile import CALLING, HOSTILE, TRICKY, live


def document(*blocks: Any, renderer: str = "ValidationResultsPageRenderer") -> dict[str, Any]:
    return {
        "renderer_type": renderer,
        "page_title": "Validations / s",
        "expectation_suite_name": "s",
        "sections": [{"content_blocks": list(blocks)}],
    }


def words(template: str, **params: Any) -> dict[str, Any]:
    said = {"template": template, "params": params}
    return {"content_block_type": "string_template", "string_template": said}


@pytest.mark.parametrize("text", [*HOSTILE, *CALLING, *TRICKY])
def test_a_text_is_a_text_wherever_it_stands(text: str) -> None:
    page = Page().render(
        document(
            words("$a b ${c}", a=text, c=text),
            words(text),
            text,
            [text],
            {"content_block_type": "table", "header_row": [text], "table": [[text]]},
            {"content_block_type": "collapse", "collapse_toggle_link": text, "collapse": [text]},
        )
    )
    assert page.startswith(BEGINS)
    assert not live(page)
    assert "<script" not in page
    assert "<img" not in page


def test_what_the_tables_escaped_is_not_escaped_twice() -> None:
    assert "&lt;b&gt; &amp;lt; \\u202e" in Page().render(document("&lt;b&gt; &amp;lt; \u202e"))


def test_a_parameter_that_is_missing_leaves_out_its_line_and_an_unknown_one_stays() -> None:
    page = Page().render(document(words("$a\nof $b\n$c $5", a="one", b=None)))
    assert "one<br>$c $5<" in page


@pytest.mark.parametrize(
    ("block", "reason"),
    [
        ({"content_block_type": "graph"}, "a block of an unknown kind: graph"),
        ({"content_block_type": "markdown"}, "a block of an unknown kind: markdown"),
        ({}, "a block of an unknown kind: None"),
        (
            {
                "content_block_type": "table",
                "header_row": ["Status", "Expectation", "Observed Value"],
                "table": [[words("$icon", markdown_status_icon="?"), "a", "b"]],
            },
            "a state of an unknown kind",
        ),
    ],
)
def test_what_is_not_known_is_an_error(block: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Page().render(document(block))


def test_a_page_of_an_unknown_kind_is_an_error() -> None:
    with pytest.raises(ValueError, match="a page of an unknown kind"):
        Page().render(document(renderer="ProfilingResultsPageRenderer"))


@pytest.mark.parametrize(
    "address",
    [
        "javascript:alert(1)",
        "//evil.example/validations/x.html",
        "http://evil.example/x.html",
        "validations/x.html?a",
        "validations/x.html#a",
        "/validations/x.html",
        "",
        "validations/x.js",
        "\\\\evil.example\\validations/x.html",
        "data:text/html,validations/x",
    ],
)
def test_a_link_leads_to_pages_of_the_report_only(address: str) -> None:
    link = words("$a", a="here")
    link["string_template"]["styling"] = {
        "params": {"a": {"tag": "a", "attributes": {"href": address}}}
    }
    with pytest.raises(ValueError, match="an address that is no page of the report"):
        Page().render(document(link))


FORMER = """<!DOCTYPE html><html><head><title>x</title><script src="static/vendor/jquery.min.js">
</script><style>p {{}}</style></head><body onload="PWN()"><nav>menu</nav>
<p class="x" onclick="PWN()">It <a href="../validations/s/r/t/b.html">failed</a>, see
<a href="javascript:PWN()">here</a> &lt;b&gt; &amp;lt;</p>
<table><tr><td>{}</td></tr></table><script>draw()</script></body></html>"""


@pytest.mark.parametrize("text", HOSTILE)
def test_a_former_page_keeps_its_words_its_tables_and_its_links(text: str) -> None:
    page = cleaned(FORMER.format(text), "../")
    assert not live(page)
    assert "<script" not in page
    assert "static/vendor" not in page
    assert "onclick" not in page
    assert "javascript:PWN" not in page
    assert '<a href="../validations/s/r/t/b.html"> failed </a>' in page
    assert "&lt;b&gt; &amp;lt;" in page
    assert '<header><a href="../index.html">' in page
    assert '<div class="box"><table>' in page
    assert "menu" not in page
    assert "draw()" not in page
    assert cleaned(page, "../").count("<p>") == 1


@pytest.mark.parametrize("lacks", ["index.html", "validations/s/r/t/b.html"])
def test_a_page_that_was_not_written_is_an_error(lacks: str, tmp_path: Path) -> None:
    """Great Expectations goes on after an error of a page."""
    folders = Folders(tmp_path / "site", tmp_path / "results")
    result = folders.results / "s" / "r" / "t" / "b.json"
    result.parent.mkdir(parents=True)
    result.write_text("{}")
    for name in ("index.html", "validations/s/r/t/b.html", "static/fonts/a.woff2"):
        (folders.site / name).parent.mkdir(parents=True, exist_ok=True)
        (folders.site / name).write_text(BEGINS + ENDS)
    assert make_offline(folders) == 0
    assert not (folders.site / "static").exists()
    (folders.site / lacks).write_text("")
    with pytest.raises(Corrupt, match="did not write a whole page") as error:
        make_offline(folders)
    assert lacks in str(error.value)
    (folders.site / lacks).unlink()
    with pytest.raises(Corrupt, match="did not write a whole page"):
        make_offline(folders)


def test_a_finding_says_what_is_known_one_below_the_other() -> None:
    """What each line has, and what is the same in all, is left out."""
    names = ["Unexpected Value", "Count", "line", "part", "error", "replay"]
    rows = [["2.0", 1, "column", "p", None, "strata"], ["lie 1", 1, "verdict", "null", "", "x"]]
    parent = Element("div")
    blocks._table(parent, {"header_row": names, "table": rows})
    assert ["".join(one.itertext()) for one in parent.iter("dl")] == [
        "found2partpreplaystrata",
        "foundlie 1replayx",
    ]
    assert [one.get("class") for one in parent.iter("dd")][2] == "replay"


def test_columns_that_say_something_stay() -> None:
    names = ["Unexpected Value", "Count", "line"]
    rows = [["a", 1, "merge of state 3"], ["b", 2, "verdict"]]
    parent = Element("div")
    blocks._table(parent, {"header_row": names, "table": rows})
    assert "".join(parent.itertext()) == "foundalines1linemerge of state 3foundblines2lineverdict"


def colours(style: str) -> list[dict[str, str]]:
    """Return the colours of a style by name: light ones, dark ones."""
    return [dict(re.findall(r"--([\w-]+): ?(#\w+);", block)) for block in style.split("@media")[:2]]


def test_the_report_wears_the_colours_of_the_console() -> None:
    console = Path(strata.ui.__file__).parent / "templates" / "console.css"
    for ours, theirs in zip(colours(markup.STYLE), colours(console.read_text()), strict=True):
        both = ours.keys() & theirs.keys()
        assert {"paper", "card", "ink", "accent", "good", "bad"} <= both
        assert {name: ours[name] for name in both} == {name: theirs[name] for name in both}


def test_a_failed_check_says_how_many_lines_fail_and_no_share_of_others() -> None:
    """It said *1 unexpected values found. 10% of 35 total rows*, and *10% unexpected* below."""
    for count, words in (("1", "1 line fails:"), ("12", "12 lines fail:")):
        params = {"unexpected_count": count, "unexpected_percent": "10%", "element_count": "35"}
        said = {"template": f"\n\n{blocks._FAILING}", "params": params, "tag": "strong"}
        parent = Element("p")
        blocks._words(parent, {"string_template": said})
        assert "".join(parent.itertext()) == words
    icon = {"string_template": {"params": {"markdown_status_icon": "\N{CROSS MARK}"}}}
    for observed, shown in (("≈16.67% unexpected", False), ("3", True)):
        parent = Element("div")
        blocks._check(parent, [icon, "a claim", observed])
        assert (observed in "".join(parent.itertext())) is shown

"""The pages of Data Docs, written without scripts, libraries or external addresses.

Great Expectations supplies the contents of a page: sections of blocks.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement

from strata.jobs.validate.blocks import add_block
from strata.jobs.validate.mark import marked
from strata.jobs.validate.markup import (
    TITLE,
    blank,
    lead_to_console,
    lead_to_page,
    readable,
    say,
    say_state,
    written,
)

_INDEX: Final = "SiteIndexPageRenderer"
_SUITE: Final = "ExpectationSuitePageRenderer"
_RESULT: Final = "ValidationResultsPageRenderer"
_UP: Final = {_INDEX: "", _SUITE: "../", _RESULT: "../../../../"}  # to the site's folder
# Blocks whose contents stand above them in fewer words.
_SAID: Final = frozenset({"Overview", "Statistics", "$title_prefix | $site_name"})


class Page:
    """A writer of the report's pages; Great Expectations calls it a view."""

    def __init__(self, console: str = "", **_: object) -> None:
        """`console`: its address, for links to shards. Others are folders of the library's."""
        self._console = console

    def render(self, document: Any, **_: object) -> str:
        """Return the page. Raises: ValueError for an unknown kind of page or block."""
        said = document if isinstance(document, Mapping) else document.to_json_dict()
        renderer = said["renderer_type"]
        if renderer not in _UP:
            raise ValueError(f"a page of an unknown kind: {renderer}")
        suite = said.get("expectation_suite_name")
        html, main = blank(str(said.get("page_title") or TITLE), up=_UP[renderer])
        title = SubElement(main, "div", {"class": "title"})
        say(SubElement(title, "h1"), suite or TITLE)
        if suite:
            where = SubElement(main, "p", {"class": "where"})
            say(where, f"{_where(said['page_title'])} ")
            lead_to_console(where, self._console, suite)
        sections = [_section(one["content_blocks"]) for one in said["sections"]]
        if renderer == _RESULT:
            _lead_to_suite(main[-1], said["sections"])
            _add_result(main, title, sections)
        elif renderer == _SUITE:
            _add_expectations(main, sections)
        else:
            _only_failed(title)
            main.extend(sections)
            self._lead_shards_to_console(main)
        return written(html) if suite else marked(written(html))

    def _lead_shards_to_console(self, main: Element) -> None:
        for line in main.iter("div"):
            if "shard" in str(line.get("class")).split():
                lead_to_console(line, self._console, "".join(line[0].itertext()))


def _where(title: str) -> str:
    """Return where a page belongs: of a result the night, of a suite what it is."""
    pieces = title.split(" / ")
    if len(pieces) != 4:
        return "what is expected of the shard, as its last validation found it"
    made = pieces[3].replace("T", " ").replace("Z", " UTC")
    return f"{readable(pieces[2])} · made {made}"


def _section(blocks: Sequence[Any]) -> Element:
    section = Element("section")
    add_block(section, [one for one in blocks if _heading(one) not in _SAID])
    return section


def _heading(block: Any) -> str:
    """Return the heading of a block; empty: it has none."""
    header = block.get("header") if isinstance(block, Mapping) else None
    return str(header["string_template"]["template"]) if isinstance(header, Mapping) else ""


def _lead_to_suite(parent: Element, sections: Sequence[Any]) -> None:
    """Add a link to what was expected, if the library names its page."""
    for block in sections[0]["content_blocks"]:
        below = block.get("subheader") if isinstance(block, Mapping) else None
        styles = below["string_template"]["styling"]["params"] if below else {}
        if "expectation_suite_name" in styles:
            address = styles["expectation_suite_name"]["attributes"]["href"]
            lead_to_page(parent, address, "what is expected")


def _add_result(main: Element, title: Element, sections: Sequence[Element]) -> None:
    """Add how many checks failed, the failed ones, those that hold, and what else is known.

    Great Expectations groups checks by the column that each looks at, whose names say little.
    """
    checks: dict[str, list[Element]] = {"failed": [], "passed": []}
    for one in (one for section in sections for one in section.findall("article")):
        checks[str(one.get("class"))].append(one)
    failed, total = len(checks["failed"]), sum(map(len, checks.values()))
    if total:
        say_state(title, "failed" if failed else "passed")
        lead = SubElement(main, "p", {"class": "lead"})
        say(SubElement(lead, "strong"), failed or total)
        say(lead, f" of {total} checks failed" if failed else " checks, none failed")
    _only_failed(title)
    for state, name in (("failed", "What failed"), ("passed", "What holds")):
        if checks[state]:
            section = SubElement(main, "section", {"class": f"{state} checks"})
            say(SubElement(section, "h2"), name)
            section.extend(checks[state])
    main.extend(section for section in sections if section.find("article") is None)


def _add_expectations(main: Element, sections: Sequence[Element]) -> None:
    """Add the expectations of a suite as one list."""
    items = SubElement(main, "ul", {"class": "card expected"})
    items.extend(item for section in sections for item in section.iter("li"))


def _only_failed(title: Element) -> None:
    label = SubElement(title, "label", {"class": "only"})
    SubElement(label, "input", {"type": "checkbox", "id": "only"})
    say(label, "only what failed")

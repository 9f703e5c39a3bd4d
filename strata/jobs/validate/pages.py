"""The pages of Data Docs, written without scripts, libraries or external addresses.

Great Expectations supplies the contents of a page (sections of blocks). Its own renderer needs
eleven libraries of scripts and styles, and concatenates text to markup. Here a page is a tree, and
the contents of a block become text in it, so nothing can be left unescaped. A page is
self-contained, its style included, and forbids itself to load anything else.

A kind of block that is not known here is an error: a new version of the library cannot bring
anything into a page unnoticed.
"""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, tostring

from strata.errors import bounded
from strata.jobs.validate.escaped import TEXT_MAX
from strata.jobs.validate.mark import marked
from strata.model.shown import visible

STYLE: Final = (Path(__file__).parent / "pages.css").read_text("utf-8")
# A page may be opened from a disk or from S3, where no server sends this policy.
POLICY: Final = (
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-"
    f"{b64encode(sha256(STYLE.encode()).digest()).decode()}'"
)
BEGINS: Final = '<!DOCTYPE html>\n<html lang="en"><head><meta name="generator" content="strata">'
ENDS: Final = "</body></html>\n"
TITLE: Final = "Validation report"

_UP: Final = {  # from a page to the site's folder
    "SiteIndexPageRenderer": "",
    "ExpectationSuitePageRenderer": "../",
    "ValidationResultsPageRenderer": "../../../../",
}
ADDRESS: Final = re.compile(r"(\.\./)*(validations|expectations)/[^:?#&<>\"'\\]+\.html")
_PARAM: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_JUDGED: Final = ["Status", "Expectation", "Observed Value"]  # the table of a suite's results
_STATES: Final = {  # Great Expectations' words and signs for the result of a check
    "Failed": "failed",
    "Success": "passed",
    "Succeeded": "passed",
    "\N{CROSS MARK}": "failed",
    "\N{WHITE HEAVY CHECK MARK}": "passed",
    "\N{HEAVY EXCLAMATION MARK SYMBOL}": "failed",
}
_ICONS: Final = frozenset({"icon", "html_success_icon", "markdown_status_icon"})  # a word is there
_TAGS: Final = frozenset({"strong", "code", "hr"})  # allowed in a text of Great Expectations
# Great Expectations divides by the lines that were judged, and counts all: the share misleads.
_FAILING: Final = (
    "$unexpected_count unexpected values found. $unexpected_percent of $element_count total rows."
)
_SHARE: Final = re.compile(r"[≈\d.]+% unexpected")
_NOTHING: Final = ("", None, "null")  # in a cell: the column belongs to another kind of line
NIGHTS: Final = 30  # of a shard in its trend
_RUN: Final = re.compile(
    r"(scheduled|manual|backfill|asset_triggered|asset_materialization)__(\d{4}-\d\d-\d\d)T(\d\d:\d\d)"
)
_KINDS: Final = {  # of Airflow's runs
    "scheduled": "scheduled",
    "manual": "by hand",
    "backfill": "backfill",
    "asset_triggered": "after an event",
    "asset_materialization": "by an asset",
}
_LONG: Final = 24  # letters; longer ones get room in a table


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
        say(SubElement(main, "h1"), suite or TITLE)
        if suite:
            say(SubElement(main, "p", {"class": "where"}), _where(said["page_title"]))
            if self._console:
                _to_console(SubElement(main, "p"), self._console, suite)
        if renderer != "ExpectationSuitePageRenderer":
            _only_failed(main)
        for blocks in _sections(said["sections"], of_index=not suite):
            _section(SubElement(main, "section"), blocks)
        if renderer == "ValidationResultsPageRenderer":
            _failures_first(main)
        for shard in main.iter("h3"):
            if shard.get("class") == "shard":
                _to_console(shard, self._console, "".join(shard.itertext()))
        return written(html) if suite else marked(written(html))


def blank(title: str, *, up: str) -> tuple[Element, Element]:
    """Return a page with a head and nothing on it, and the element to fill."""
    html = Element("html", lang="en")
    head = SubElement(html, "head")
    SubElement(head, "meta", name="generator", content="strata")
    SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": POLICY})
    SubElement(head, "meta", charset="utf-8")
    SubElement(head, "meta", name="viewport", content="width=device-width, initial-scale=1")
    SubElement(head, "meta", name="referrer", content="no-referrer")
    SubElement(head, "link", rel="icon", href="data:,")
    say(SubElement(head, "title"), title)
    SubElement(head, "style").text = STYLE
    body = SubElement(html, "body")
    say(SubElement(SubElement(body, "header"), "a", href=f"{up}index.html"), TITLE)
    return html, SubElement(body, "main")


def written(html: Element) -> str:
    """Return a tree as text; everything in it is escaped."""
    return f"<!DOCTYPE html>\n{tostring(html, encoding='unicode', method='html')}\n"


def readable(run: str) -> str:
    """Return the name of a run as people say it; one that Airflow did not make stays.

    >>> readable("scheduled__2026-11-22T00:00:00+00:00"), readable("validate by ann")
    ('2026-11-22, scheduled', 'validate by ann')
    >>> readable("manual__2026-11-22T07:41:07.123+00:00_x1")
    '2026-11-22 07:41, by hand'
    """
    found = _RUN.match(run)
    if found is None:
        return run
    kind, day, clock = found.groups()
    return f"{day}{'' if clock == '00:00' else f' {clock}'}, {_KINDS[kind]}"


def _where(title: str) -> str:
    """Return where a page belongs: of a result the night, of a suite what it is."""
    pieces = title.split(" / ")
    return f"{readable(pieces[2])} · made {pieces[3]}" if len(pieces) == 4 else title


def _to_console(parent: Element, console: str, shard: str) -> None:
    """Add a link to the page of a shard, if the console has an address."""
    if console:
        address = f"{console.rstrip('/')}/shards/{quote(unescape(shard), safe='')}/rollout"
        say(SubElement(parent, "a", {"class": "console", "href": address}), "in the console")


def _failures_first(main: Element) -> None:
    """Gather the results of all expectations below two headings: what failed, then what holds.

    Great Expectations groups them by the column that each looks at, whose names say little.
    """
    checks: dict[str, list[Element]] = {"failed": [], "passed": []}
    for section in main.findall("section"):
        some = section.findall("article")
        for one in some:
            checks[str(one.get("class"))].append(one)
        if some:
            main.remove(section)
    for state, name in (("failed", "What failed"), ("passed", "What holds")):
        if checks[state]:
            section = SubElement(main, "section", {"class": state} if state == "passed" else {})
            say(SubElement(section, "h2"), name)
            section.extend(checks[state])


def _sections(sections: Sequence[Any], *, of_index: bool) -> Iterator[list[Any]]:
    """Yield the blocks of each section; of an index without the library's title, below ours."""
    for section in sections:
        some = section["content_blocks"]
        if of_index:
            some = [one for one in some if one["content_block_type"] != "header"]
        if some:
            yield some


def _only_failed(main: Element) -> None:
    label = SubElement(main, "label", {"class": "only"})
    SubElement(label, "input", {"type": "checkbox", "id": "only"})
    say(label, "only what failed")


def say(parent: Element, value: object) -> None:
    """Append a text; text that the tables have already escaped is not escaped twice."""
    text = visible(bounded(unescape(str(value)), 2 * TEXT_MAX), lines=True)
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def _section(parent: Element, blocks: Sequence[Any]) -> None:
    for block in blocks:
        _block(parent, block)
    checks = parent.findall("article")
    if checks and all(one.get("class") == "passed" for one in checks):
        parent.set("class", "passed")  # hidden with them


def _block(parent: Element, block: Any) -> None:
    """Add one block of Great Expectations' kinds. Raises: ValueError for any other."""
    if isinstance(block, list):
        for one in block:
            _block(parent, one)
    elif not isinstance(block, Mapping):
        say(parent, block)
    elif (kind := str(block.get("content_block_type"))) in _BLOCKS:
        _BLOCKS[kind](parent, block)
    else:
        raise ValueError(f"a block of an unknown kind: {kind}")


def _header(parent: Element, block: Mapping[str, Any]) -> None:
    _words(SubElement(parent, "h2"), block["header"])
    if block.get("subheader"):
        _words(SubElement(parent, "p"), block["subheader"])


def _text(parent: Element, block: Mapping[str, Any]) -> None:
    _titled(parent, block)
    for one in block["text"]:
        _words(SubElement(parent, "p"), one)


def _bullets(parent: Element, block: Mapping[str, Any]) -> None:
    items = SubElement(parent, "ul")
    for one in block["bullet_list"]:
        if one["string_template"].get("tag") != "hr":
            _words(SubElement(items, "li"), one)


def _collapse(parent: Element, block: Mapping[str, Any]) -> None:
    more = SubElement(parent, "details")
    _words(SubElement(more, "summary"), block["collapse_toggle_link"])
    _block(more, block["collapse"])


def _tabs(parent: Element, block: Mapping[str, Any]) -> None:
    for one in block["tabs"]:
        say(SubElement(parent, "h2"), one["tab_name"])
        _block(parent, one["tab_content"])


def _titled(parent: Element, block: Mapping[str, Any]) -> None:
    if block.get("header"):
        _words(SubElement(parent, "h3"), block["header"])


def _words(parent: Element, block: Any) -> None:
    """Add a text with its parameters; a line that lacks a parameter is left out."""
    if not isinstance(block, Mapping):
        say(parent, block)
        return
    said = block["string_template"]
    params, styles = said.get("params") or {}, (said.get("styling") or {}).get("params") or {}
    tag = said.get("tag")
    target = SubElement(parent, tag) if tag in _TAGS else parent
    if str(said["template"]).strip() == _FAILING:
        count = str(params["unexpected_count"])
        say(target, f"{count} {'line fails' if count == '1' else 'lines fail'}:")
        return
    for number, line in enumerate(str(said["template"]).strip().split("\n")):
        used = [one or other for one, other in _PARAM.findall(line)]
        if any(params.get(name, "") is None for name in used):
            continue
        if number:
            SubElement(target, "br")
        _line(target, line, params, styles)


def _line(target: Element, line: str, params: Mapping[str, Any], styles: Mapping[str, Any]) -> None:
    end = 0
    for found in _PARAM.finditer(line):
        name = found.group(1) or found.group(2)
        if name not in params:
            continue
        say(target, line[end : found.start()])
        end = found.end()
        value, style = params[name], styles.get(name) or {}
        if name in _ICONS:
            continue
        if state := _STATES.get(value) if name == "success" else None:
            _state(target, state)
        elif style.get("tag") == "a":
            _link(target, style["attributes"]["href"], value)
        else:
            say(target, value)
    say(target, line[end:])


def _link(parent: Element, address: str, words: object) -> None:
    """Add a link to another page of the site. Raises: ValueError for an address elsewhere."""
    if not ADDRESS.fullmatch(address):
        raise ValueError(f"an address that is no page of the report: {address}")
    say(SubElement(parent, "a", href=address), words)


def _state(parent: Element, state: str) -> None:
    say(SubElement(parent, "b", {"class": state}), state)


def _check(parent: Element, row: Sequence[Any]) -> None:
    """Add the result of one expectation: its state, its description, and the lines that fail."""
    icon, expected, observed = row
    sign = icon["string_template"]["params"].get("markdown_status_icon")
    if sign not in _STATES:
        raise ValueError(f"a state of an unknown kind: {sign}")
    state = _STATES[sign]
    check = SubElement(parent, "article", {"class": state})
    first = SubElement(check, "p")
    _state(first, state)
    say(first, " ")
    every = expected if isinstance(expected, list) else [expected]
    for number, one in enumerate(every):
        kind = one.get("content_block_type") if isinstance(one, Mapping) else None
        words = kind in (None, "string_template")
        _block(first if not number else SubElement(check, "p") if words else check, one)
    if state == "failed" and not _SHARE.fullmatch(str(observed)):
        _block(SubElement(check, "p", {"class": "observed"}), observed)


def _table(parent: Element, block: Mapping[str, Any]) -> None:
    """Add a table in a scrolling box; for a suite's results, add the result of each instead."""
    if block.get("header_row") == _JUDGED:
        for row in block["table"]:
            _check(parent, row)
        return
    _titled(parent, block)
    box = SubElement(
        parent, "div", {"class": "box", "tabindex": "0", "role": "group", "aria-label": "table"}
    )
    table = SubElement(box, "table")
    names, rows = [str(name) for name in block.get("header_row") or ()], block["table"]
    if names:
        full = [n for n in range(len(names)) if any(row[n] not in _NOTHING for row in rows)]
        names, rows = [names[n] for n in full], [[row[n] for n in full] for row in rows]
        head = SubElement(SubElement(table, "thead"), "tr")
        for name in names:
            say(SubElement(head, "th", scope="col"), name)
    body = SubElement(table, "tbody")
    for row in rows:
        line = SubElement(body, "tr")
        for number, cell in enumerate(row):
            heads = not names and not number
            one = SubElement(line, "th", scope="row") if heads else SubElement(line, "td")
            _block(one, "" if cell in _NOTHING else cell)
            if number < len(names) and names[number] == "replay":
                one.set("class", "replay")
            elif len("".join(one.itertext())) > _LONG:
                one.set("class", "long")


def _index(parent: Element, block: Mapping[str, Any]) -> None:
    """Add the results, grouped by run, the newest run first; or the suites."""
    runs: dict[str, list[Mapping[str, Any]]] = {}
    for row in block["table_data"]:
        if "run_name" in row:
            runs.setdefault(str(row["run_name"]), []).append(row)
    if runs:
        _trends(parent, block["table_data"])
    for name, some in runs.items():
        _run(parent, name, some)
    suites = {row["expectation_suite_name"]: row for row in block["table_data"] if not runs}
    items = SubElement(parent, "ul", {"class": "suites"}) if suites else parent
    for name, row in sorted(suites.items()):
        _link(SubElement(items, "li"), row["_table_row_link_path"], name)


def _suite(row: Mapping[str, Any]) -> str:
    return str(row["expectation_suite_name"]["string_template"]["params"]["link_text"])


def _trends(parent: Element, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add each shard's last nights, the oldest at the left; `rows` has the newest first.

    Shards whose last night failed come first.
    """
    shards: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        shards.setdefault(_suite(row), []).append(row)
    last = {name: _STATES[some[0]["_validation_success_text"]] for name, some in shards.items()}
    for name in sorted(shards, key=lambda name: (last[name] == "passed", name)):
        say(SubElement(parent, "h3", {"class": "shard"}), name)
        nights = SubElement(parent, "ul", {"class": "trend", "aria-label": f"Nights of {name}"})
        for row in reversed(shards[name][:NIGHTS]):
            state = _STATES[row["_validation_success_text"]]
            night = SubElement(nights, "li", {"class": state})
            _link(night, row["_table_row_link_path"], "×" if state == "failed" else "✓")
            night[0].set("title", f"{readable(str(row['run_name']))}: {state}")


def _run(parent: Element, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add the results of one run in the order of their making; `rows` has the newest first."""
    states = [_STATES[row["_validation_success_text"]] for row in rows]
    whole = "failed" if "failed" in states else "passed"
    run = SubElement(parent, "article", {"class": whole})
    say(SubElement(run, "h3"), readable(name))
    items = SubElement(run, "ul", {"class": "suites"})
    failed_first = sorted(reversed([*zip(rows, states, strict=True)]), key=lambda one: one[1])
    for row, state in failed_first:
        item = SubElement(items, "li", {"class": state})
        _state(item, state)
        say(item, " ")
        _link(item, row["_table_row_link_path"], _suite(row))
        say(item, " ")
        say(SubElement(item, "small"), row["run_time"])


_BLOCKS: Final[Mapping[str, Callable[[Element, Mapping[str, Any]], None]]] = {
    "header": _header,
    "string_template": _words,
    "text": _text,
    "bullet_list": _bullets,
    "collapse": _collapse,
    "tabs": _tabs,
    "table": _table,
    "bootstrap_table": _index,
}

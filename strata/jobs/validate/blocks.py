"""Great Expectations' blocks as parts of our pages.

The library's own renderer needs eleven libraries of scripts and styles, and concatenates text to
markup. Here the contents of a block become text in a tree, so nothing can be left unescaped.

A kind of block that is not known here is an error: a new version of the library cannot bring
anything into a page unnoticed.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from xml.etree.ElementTree import Element, SubElement

from strata.jobs.validate.markup import lead_to_page, say, say_state
from strata.jobs.validate.nights import list_suites, show_nights

_PARAM: Final = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
_JUDGED: Final = ["Status", "Expectation", "Observed Value"]  # the table of a suite's results
_SIGNS: Final = {  # Great Expectations' for the result of a check
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
_FOUND: Final = "found"
_OWN_NAMES: Final = {"Unexpected Value": _FOUND, "Count": "lines"}  # of columns
_WHOLE: Final = re.compile(r"(-?\d+)\.0")  # a count, as Pandas has it
_NOTHING: Final = ("", None, "null")  # in a cell: the column belongs to another kind of line
_PLAIN: Final[Mapping[str, frozenset[str]]] = {  # in each cell of a column that says nothing more
    "lines": frozenset({"1"}),
    "line": frozenset({"check", "column", "mode", "sums", "verdict"}),
}
_LONG: Final = 24  # letters; longer ones get room in a table


def add_block(parent: Element, block: Any) -> None:
    """Add one block of Great Expectations' kinds. Raises: ValueError for any other."""
    if isinstance(block, list):
        for one in block:
            add_block(parent, one)
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
    say(SubElement(more, "summary"), "What Great Expectations says of the run")
    add_block(more, block["collapse"])


def _tabs(parent: Element, block: Mapping[str, Any]) -> None:
    for one in block["tabs"]:
        add_block(parent, one["tab_content"])


def _index(parent: Element, block: Mapping[str, Any]) -> None:
    """Add what an index lists: results by night, or suites."""
    rows = block["table_data"]
    add = show_nights if any("run_name" in row for row in rows) else list_suites
    add(parent, rows)


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
        if style.get("tag") == "a":
            lead_to_page(target, style["attributes"]["href"], value)
        else:
            say(target, value)
    say(target, line[end:])


def _check(parent: Element, row: Sequence[Any]) -> None:
    """Add the result of one expectation: its state, its description, and the lines that fail."""
    icon, expected, observed = row
    sign = icon["string_template"]["params"].get("markdown_status_icon")
    if sign not in _SIGNS:
        raise ValueError(f"a state of an unknown kind: {sign}")
    state = _SIGNS[sign]
    check = SubElement(parent, "article", {"class": state})
    first = SubElement(check, "p")
    say_state(first, state)
    say(first, " ")
    every = expected if isinstance(expected, list) else [expected]
    for number, one in enumerate(every):
        kind = one.get("content_block_type") if isinstance(one, Mapping) else None
        words = kind in (None, "string_template")
        add_block(first if not number else SubElement(check, "p") if words else check, one)
    if state == "failed" and not _SHARE.fullmatch(str(observed)):
        add_block(SubElement(check, "p", {"class": "observed"}), observed)


def _table(parent: Element, block: Mapping[str, Any]) -> None:
    """Add the results of a suite, the findings of a check, or any other table."""
    if block.get("header_row") == _JUDGED:
        for row in block["table"]:
            _check(parent, row)
        return
    _titled(parent, block)
    names, rows = _said(block.get("header_row") or (), block["table"])
    if _FOUND in names:
        for row in rows:
            _finding(parent, names, row)
    else:
        _grid(parent, names, rows)


def _said(names: Sequence[Any], rows: Sequence[Any]) -> tuple[list[str], Sequence[Any]]:
    """Return the names and the cells of the columns that say something."""
    own = [_OWN_NAMES.get(str(name), str(name)) for name in names]
    if not own:
        return own, rows
    full = [
        at
        for at, name in enumerate(own)
        if any(row[at] not in _NOTHING for row in rows)
        and not {str(row[at]) for row in rows} <= _PLAIN.get(name, frozenset())
    ]
    return [own[at] for at in full], [[row[at] for at in full] for row in rows]


def _finding(parent: Element, names: Sequence[str], row: Sequence[Any]) -> None:
    """Add one line that fails: what is known of it, one below the other."""
    known = SubElement(parent, "dl")
    for name, cell in zip(names, row, strict=True):
        if cell not in _NOTHING:
            say(SubElement(known, "dt"), name)
            whole = _WHOLE.fullmatch(str(cell)) if name == _FOUND else None
            add_block(SubElement(known, "dd", {"class": name}), whole.group(1) if whole else cell)


def _grid(parent: Element, names: Sequence[str], rows: Sequence[Any]) -> None:
    """Add a table in a scrolling box; without names, the first cell of a row is its head."""
    box = SubElement(
        parent, "div", {"class": "box", "tabindex": "0", "role": "group", "aria-label": "table"}
    )
    table = SubElement(box, "table")
    if names:
        head = SubElement(SubElement(table, "thead"), "tr")
        for name in names:
            say(SubElement(head, "th", scope="col"), name)
    body = SubElement(table, "tbody")
    for row in rows:
        line = SubElement(body, "tr")
        for one, cell in zip(_cells(line, len(row), heads=not names), row, strict=True):
            add_block(one, "" if cell in _NOTHING else cell)
            if len("".join(one.itertext())) > _LONG:
                one.set("class", "long")


def _cells(line: Element, count: int, *, heads: bool) -> Iterator[Element]:
    for number in range(count):
        if heads and not number:
            yield SubElement(line, "th", scope="row")
        else:
            yield SubElement(line, "td")


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

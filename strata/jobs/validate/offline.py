"""Reduce a report's site to self-contained pages.

Great Expectations copies its own fonts and pictures beside the pages, and continues if a page
cannot be written. A site may also have pages of former versions of Strata, which loaded scripts.
After each build the copies are deleted, and a missing page is an error. Former pages keep their
words, tables and links, because alerts point to them.
"""

import shutil
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element, SubElement

from strata.errors import Corrupt
from strata.jobs.validate.markup import ADDRESS, BEGINS, ENDS, TITLE, blank, say, written
from strata.jobs.validate.publish import INDEX, LIBRARIES, Folders
from strata.jobs.validate.whole import write_whole

_KEPT: Final = frozenset({"a", "code", "h1", "h2", "h3", "h4", "h5", "h6", "li", "p", "strong"})
_KEPT_OF_TABLES: Final = frozenset({"table", "tbody", "td", "th", "thead", "tr", "ul"})
_DROPPED: Final = frozenset({"footer", "head", "nav", "script", "style", "svg", "template"})


def make_offline(folders: Folders) -> int:
    """Delete other files than pages, and forbidden content of pages; return the number of changes.

    Raises: Corrupt when a result or the index has no page, or half of one.
    """
    shutil.rmtree(folders.site / LIBRARIES, ignore_errors=True)
    changed = 0
    for file in sorted(folders.site.rglob("*.html")):
        with file.open("r", encoding="utf-8", errors="replace") as opened:
            begins = opened.read(len(BEGINS))
        if begins and begins != BEGINS:
            up = "../" * (len(file.relative_to(folders.site).parts) - 1)
            write_whole(file, cleaned(file.read_text("utf-8", "replace"), up).encode())
            changed += 1
    results = [(file, _page(folders, file)) for file in folders.results.rglob("*.json")]
    for made_of, page in (*results, (folders.results, folders.site / INDEX)):
        if not page.is_file() or not _ends(page):
            raise Corrupt(
                "Great Expectations did not write a whole page of the report",
                page=str(page),
                made_of=str(made_of),
                cure="see that its disk has room and validate again; delete a result that another"
                " version made",
            )
    return changed


def _page(folders: Folders, result: Path) -> Path:
    name = result.relative_to(folders.results).with_suffix(".html")
    return folders.site / "validations" / name


def _ends(page: Path) -> bool:
    """Return whether a page was written to its end."""
    with page.open("rb") as opened:
        opened.seek(max(page.stat().st_size - len(ENDS), 0))
        return opened.read() == ENDS.encode()


def cleaned(page: str, up: str) -> str:
    """Return a page of a former version with only its words, tables and links.

    `up` is the relative path from the page to the site's folder.
    """
    html, main = blank(TITLE, up=up)
    reader = _Former(main)
    reader.feed(page)
    reader.close()
    return written(html)


class _Former(HTMLParser):
    """Read a page into a tree, with its text but only the allowed tags and attributes."""

    def __init__(self, main: Element) -> None:
        super().__init__(convert_charrefs=True)
        self._open = [("", main)]
        self._within: list[str] = []  # open elements that are dropped with their contents

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _DROPPED:
            self._within.append(tag)
        elif not self._within and tag in _KEPT | _KEPT_OF_TABLES:
            address = dict(attrs).get("href") or ""
            known = {"href": address} if tag == "a" and ADDRESS.fullmatch(address) else {}
            parent = self._open[-1][1]
            if tag == "table":
                parent = SubElement(parent, "div", {"class": "box"})
            self._open.append((tag, SubElement(parent, tag, known)))

    def handle_endtag(self, tag: str) -> None:
        if self._within:
            if tag == self._within[-1]:
                self._within.pop()
            return
        for at in range(len(self._open) - 1, 0, -1):
            if self._open[at][0] == tag:
                del self._open[at:]
                break

    def handle_data(self, data: str) -> None:
        if not self._within and data.strip():
            say(self._open[-1][1], escape(f" {data.strip()} "))  # it is read as text, once

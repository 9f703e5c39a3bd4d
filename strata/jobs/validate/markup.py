"""The report's pages as trees: what is put into one is text, and no page loads anything.

A page is self-contained, its style included, and its own policy forbids it to load anything else.
"""

import re
from base64 import b64encode
from hashlib import sha256
from html import unescape
from pathlib import Path
from typing import Final
from urllib.parse import quote
from xml.etree.ElementTree import Element, SubElement, fromstring, tostring

from strata.errors import bounded
from strata.jobs.validate.escaped import TEXT_MAX
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
ADDRESS: Final = re.compile(r"(\.\./)*(validations|expectations)/[^:?#&<>\"'\\]+\.html")
_SIGN: Final = (
    '<svg viewBox="0 0 24 24" aria-hidden="true"><rect x="2" y="4" width="20" height="4" rx="1"/>'
    '<rect x="2" y="10" width="14" height="4" rx="1"/>'
    '<rect x="2" y="16" width="8" height="4" rx="1"/></svg>'
)
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
    home = SubElement(SubElement(body, "header"), "a", href=f"{up}index.html")
    home.append(fromstring(_SIGN))
    say(home, TITLE)
    return html, SubElement(body, "main")


def written(html: Element) -> str:
    """Return a tree as text; everything in it is escaped."""
    return f"<!DOCTYPE html>\n{tostring(html, encoding='unicode', method='html')}\n"


def say(parent: Element, value: object) -> None:
    """Append a text; text that the tables have already escaped is not escaped twice."""
    text = visible(bounded(unescape(str(value)), 2 * TEXT_MAX), lines=True)
    if len(parent):
        parent[-1].tail = (parent[-1].tail or "") + text
    else:
        parent.text = (parent.text or "") + text


def say_state(parent: Element, state: str) -> None:
    """Append whether a check, or all of them, `passed` or `failed`."""
    say(SubElement(parent, "b", {"class": state}), state)


def lead_to_page(parent: Element, address: str, words: object) -> None:
    """Add a link to another page of the site. Raises: ValueError for an address elsewhere."""
    if not ADDRESS.fullmatch(address):
        raise ValueError(f"an address that is no page of the report: {address}")
    say(SubElement(parent, "a", href=address), words)


def lead_to_console(parent: Element, console: str, shard: str) -> None:
    """Add a link to the page of a shard, if the console has an address."""
    if console:
        address = f"{console.rstrip('/')}/shards/{quote(unescape(shard), safe='')}/rollout"
        say(SubElement(parent, "a", {"class": "console", "href": address}), "in the console")


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

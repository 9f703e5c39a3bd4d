"""Make a Data Docs site open with the network off, and phone nobody.

Great Expectations writes pages that load their scripts and styles from public networks, a logo
picture whose address carries the site's id, and a newsletter form. After each build every page is
rewritten: known addresses become the vendored copies under `static/vendor`, the rest is removed.
A page that still loads anything from outside is an error, so that a new version of the library
cannot bring the network back unnoticed.
"""

import re
import shutil
from pathlib import Path
from typing import Final

from strata.errors import Corrupt

VENDOR: Final = Path(__file__).parent / "vendor"

# What the end of a known address becomes; None removes the tag (nothing of ours needs it).
_KNOWN: Final[tuple[tuple[str, str | None], ...]] = (
    ("bootstrap-table-filter-control.css", "bootstrap-table-filter-control.min.css"),
    ("bootstrap-table-filter-control.min.css", "bootstrap-table-filter-control.min.css"),
    ("bootstrap-table-filter-control.min.js", "bootstrap-table-filter-control.min.js"),
    ("bootstrap-table.min.css", "bootstrap-table.min.css"),
    ("bootstrap-table.min.js", "bootstrap-table.min.js"),
    ("bootstrap-datepicker.min.css", "bootstrap-datepicker.min.css"),
    ("bootstrap-datepicker.min.js", "bootstrap-datepicker.min.js"),
    ("css/bootstrap.min.css", "bootstrap.min.css"),
    ("js/bootstrap.min.js", "bootstrap.min.js"),
    ("jquery-3.7.1.min.js", "jquery.min.js"),
    ("popper.min.js", "popper.min.js"),
    ("font-awesome/6.6.0/css/all.min.css", "fontawesome.min.css"),
    ("bootstrap-prefers-dark.css", None),
    ("npm/vega@5", None),
    ("npm/vega-lite@5", None),
    ("npm/vega-embed@6", None),
)
_LINK: Final = re.compile(r"<link\b[^>]*?href=\"(https?://[^\"]+)\"[^>]*?>", re.S)
_SCRIPT: Final = re.compile(r"<script\b[^>]*?src=\"(https?://[^\"]+)\"[^>]*?>\s*</script>", re.S)
_IMAGE: Final = re.compile(r"<img\b[^>]*?src=\"(https?://[^\"]+)\"[^>]*?>", re.S)
_NEWSLETTER: Final = re.compile(r"<a\b[^>]*?greatexpectations\.io/newsletter.*?</a>", re.S)
# In the index a suite's name leads to the suite, and only the row around it to the result.
_SUITE: Final = re.compile(
    r"(class=\"ge-index-page-table-expectation-suite-link\" href=\")[^\"]+"
    r"(\"[^{}]*'_table_row_link_path': '([^']+)')"
)
_LOADS: Final = re.compile(r"<(?:script|link|img|iframe)\b[^>]*?(?:src|href)=\"https?://[^\"]+\"")


def make_offline(site: Path) -> int:
    """Rewrite every page of a Data Docs site in place; return how many pages changed.

    Raises: Corrupt when a page would still load something from outside.
    """
    target = site / "static" / "vendor"
    shutil.copytree(VENDOR, target, dirs_exist_ok=True)
    changed = 0
    for page in sorted(site.rglob("*.html")):
        depth = len(page.relative_to(site).parts) - 1
        before = page.read_text(encoding="utf-8")
        after = rewrite(before, "../" * depth + "static/")
        if left := _LOADS.search(after):
            raise Corrupt(
                "a report page would load from outside",
                page=str(page), tag=left.group(0), cure="add it to jobs/validate/offline.py",
            )  # fmt: skip
        if after != before:
            page.write_text(after, encoding="utf-8")
            changed += 1
    return changed


def rewrite(page: str, static: str) -> str:
    """Return the page with known addresses local; `static` leads from it to `static/`."""
    style = '<link rel="stylesheet" href="{}">'
    page = _NEWSLETTER.sub("", page)
    page = _SUITE.sub(r"\1\3\2", page)
    page = _LINK.sub(lambda m: _local(m, static, style), page)
    page = _SCRIPT.sub(lambda m: _local(m, static, '<script src="{}"></script>'), page)
    page = _IMAGE.sub(lambda m: _logo(m, static), page)
    ours = style.format(f"{static}vendor/strata.css")
    return page if ours in page else page.replace("</head>", f"{ours}</head>", 1)


def _local(match: re.Match[str], static: str, tag: str) -> str:
    """Return the tag with a vendored address, nothing for what we drop, else what it was."""
    for ending, name in _KNOWN:
        if match.group(1).endswith(ending):
            return "" if name is None else tag.format(f"{static}vendor/{name}")
    return match.group(0)


def _logo(match: re.Match[str], static: str) -> str:
    if "great-expectations-web-assets" not in match.group(1):
        return match.group(0)
    return f'<img src="{static}images/logo-long.png" alt="Great Expectations" height="40">'

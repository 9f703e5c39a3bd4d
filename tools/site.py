"""The site of the documents: pages gathered in one folder, built by MkDocs, then looked at.

    python -m tools.site --mkdocs .venv-docs/bin/mkdocs        what `make docs` runs

Pages keep their places relative to one another, so that a link works on the site as it does in
the repository. The build ends with an error for a broken link or anchor, a page that no menu
names, or a page that loads something from another machine.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
STAGE: Final = PROJECT / "build" / "docs"
SITE: Final = PROJECT / "build" / "site"
ROOT_PAGES: Final = (
    "README.md",
    "ARCHITECTURE.md",
    "GLOSSARY.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
)
LINK: Final = re.compile(r"\]\((?![a-z+]+:|#)([^)#\s]+)(#[^)\s]*)?\)")
# What a browser fetches by itself; a link that somebody may follow is no such thing.
_ASSET: Final = re.compile(
    r"<(?:script|img|iframe|source|video|audio|embed)\b[^>]*?\bsrc\s*=\s*[\"']?((?:https?:)?//[^\"'\s>]+)"
    r"|<link\b(?![^>]*\brel=[\"']?(?:canonical|prev|next|alternate))[^>]*?\bhref\s*=\s*"
    r"[\"']?((?:https?:)?//[^\"'\s>]+)",
    re.IGNORECASE,
)
_IMPORTED: Final = re.compile(r"(?:@import|url\()\s*[\"']?((?:https?:)?//[^\"')\s]+)")


def pages() -> list[Path]:
    """Return the documents of the site, relative to the project."""
    found = [Path(name) for name in (*ROOT_PAGES, "benchmarks/README.md", "benchmarks/peers.md")]
    found += [file.relative_to(PROJECT) for file in (PROJECT / "docs").rglob("*.md")]
    return sorted(found)


def stage() -> None:
    """Copy pages and pictures to `STAGE`.

    A link to a folder leads to its README.md; one to a file that is no page loses its address.
    """
    shutil.rmtree(STAGE, ignore_errors=True)
    for page in pages():
        to = STAGE / page
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(_on_the_site(page), encoding="utf-8")
    pictures = (".svg", ".png", ".css", ".js")
    for folder in ("docs", "benchmarks"):
        for file in (PROJECT / folder).rglob("*"):
            if file.suffix in pictures:
                to = STAGE / file.relative_to(PROJECT)
                to.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, to)


def _on_the_site(page: Path) -> str:
    def mended(match: re.Match[str]) -> str:
        target = PROJECT / page.parent / match[1]
        if target.is_dir() and (target / "README.md").exists():
            return f"]({match[1].rstrip('/')}/README.md{match[2] or ''})"
        shown = target.suffix in (".md", ".svg", ".png", ".css")
        return match[0] if shown or not target.exists() else "](#)"

    return LINK.sub(mended, (PROJECT / page).read_text("utf-8"))


def outside(text: str) -> list[str]:
    """Return the addresses on other machines that a page or style sheet loads by itself.

    >>> outside('<script src="https://cdn.example/x.js">'), outside('<a href="https://example">')
    (['https://cdn.example/x.js'], [])
    """
    found = [a or b for a, b in _ASSET.findall(text)]
    return found + _IMPORTED.findall(text)


def loaded() -> Iterator[str]:
    """Yield each file of the built site that loads something from outside, and what."""
    for file in sorted(SITE.rglob("*")):
        if file.suffix in (".html", ".css"):
            for address in outside(file.read_text("utf-8")):
                yield f"{file.relative_to(SITE)}: {address}"


def main() -> None:
    """Build the site at `SITE`; end with an error where it is not complete in itself."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mkdocs", default="mkdocs", help="the program")
    asked = parser.parse_args()
    stage()
    command = [asked.mkdocs, "build", "--strict", "--clean", "--quiet"]
    quiet = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    subprocess.run(command, cwd=PROJECT, env=quiet, check=True)
    if found := list(loaded()):
        raise SystemExit("the site loads from other machines:\n" + "\n".join(found))
    sys.stdout.write(f"{SITE / 'index.html'}\n")


if __name__ == "__main__":
    main()

"""The tables and the chart of benchmarks/README.md: today's figures beside targets and peers.

    python -m benchmarks.today        write all, after a change of today.toml or peers.toml

A figure is the last one that was measured, with its spread where it was measured more than once.
`use` is the share of the target that it takes: a cost divided by what it may cost, or what a rate
should reach divided by the rate; above 1 the target is missed.
"""

import re
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Final

from benchmarks.peers_tables import ratios, tables

PROJECT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = PROJECT / "benchmarks" / "README.md"
PEERS_PAGE: Final = PROJECT / "benchmarks" / "peers.md"
CHART: Final = PROJECT / "docs" / "images" / "benchmarks.svg"
PEERS: Final = PROJECT / "benchmarks" / "peers.toml"
FIGURES_MARK: Final = "<!-- figures: `python -m benchmarks.today` -->"
PEERS_MARK: Final = "<!-- peers: `python -m benchmarks.today` -->"
END: Final = "<!-- end -->"


@dataclass(frozen=True)
class Figure:
    """One figure beside its target."""

    what: str
    today: str
    target: str
    use: float  # of the target; above 1: missed
    command: str
    bench: str = ""  # the command of `make bench` that measures it, of a smaller size perhaps
    found: str = ""  # a pattern whose group is the number in what that prints
    rate: bool = False  # more is better
    clock: bool = False  # by the clock, which a machine that is busy otherwise spoils
    spread: float = 0.25  # by this share of the target a good run may miss it


def figures() -> list[Figure]:
    """Return the figures of benchmarks/today.toml, in their order."""
    read = tomllib.loads((PROJECT / "benchmarks" / "today.toml").read_text("utf-8"))
    return [Figure(**figure) for figure in read["figure"]]


def table() -> str:
    """Return the table of the page."""
    rows = ["| What | Today | Target | Met | `python -m benchmarks.…` |", "|---|---|---|---|---|"]
    for figure in figures():
        met = "yes" if figure.use <= 1 else "**no**"
        rows.append(
            f"| {figure.what} | {figure.today} | {figure.target} | {met} | `{figure.command}` |"
        )
    return "\n".join(rows)


def filled(page: str) -> str:
    """Return a page with the tables between its marks made anew."""
    page = between(page, FIGURES_MARK, table())
    return between(page, PEERS_MARK, ratios(PEERS.read_text("utf-8")))


def filled_peers(page: str) -> str:
    """Return the page about peers with its tables made anew."""
    return between(page, PEERS_MARK, tables(PEERS.read_text("utf-8")))


def between(page: str, begin: str, text: str) -> str:
    """Return a page with a text from the mark `begin` to the next end mark."""
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{text}\n{END}{rest.partition(END)[2]}"


def chart() -> str:
    """Return a bar for each figure: the share of its target that it takes, with a line at 1."""
    left, wide, step, top = 420, 360, 20, 46
    height = top + step * len(figures()) + 20
    scale = wide / 2  # a bar ends at twice the target
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + wide + 30} {height}" '
        'font-family="Helvetica, Arial, sans-serif" font-size="11" role="img">',
        "<title>Today's figures as shares of their targets</title>",
        f'<rect width="{left + wide + 30}" height="{height}" rx="6" fill="#ffffff"/>',
        f'<text x="{left}" y="18" fill="#33414f">share of the target that is used; right of the '
        "line it is missed</text>",
    ]
    for number, figure in enumerate(figures()):
        y = top + step * number
        fill = "#3a7d44" if figure.use <= 1 else "#c8553d"
        long = min(figure.use, 2) * scale
        label = re.sub(r"`", "", figure.what)
        label = label if len(label) < 68 else f"{label[:66]}…"
        parts += [
            f'<text x="{left - 8}" y="{y + 11}" text-anchor="end" fill="#1b2733">'
            f"{escape(label)}</text>",
            f'<rect x="{left}" y="{y}" width="{long:.0f}" height="14" rx="2" fill="{fill}"/>',
            f'<text x="{left + long + 5:.0f}" y="{y + 11}" fill="#33414f">{figure.use:.2f}</text>',
        ]
    line = left + scale
    parts.append(
        f'<path d="M{line:.0f} {top - 8}V{height - 14}" stroke="#1b2733" stroke-dasharray="4 3"/>'
    )
    parts.append(f'<text x="{line:.0f}" y="{top - 12}" text-anchor="middle">target</text></svg>')
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text("utf-8")), "utf-8")
    PEERS_PAGE.write_text(filled_peers(PEERS_PAGE.read_text("utf-8")), "utf-8")
    CHART.write_text(chart(), "utf-8")

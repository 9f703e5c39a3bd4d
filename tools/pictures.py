"""Pictures of the explanations, drawn by hand in code: boxes, lines and words.

    python -m tools.pictures        write docs/images/{dual-part,interpretation,ladder}.svg

Each stands on a light ground of its own, so that it reads in a light and in a dark page. A test
compares the files with what is drawn now.
"""

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import Final

IMAGES: Final = Path(__file__).resolve().parents[1] / "docs" / "images"
INK: Final = "#1b2733"
SOFT: Final = "#33414f"
# The statistics of two parts of the tutorial's shard, and what cutting to the day makes of them.
PART_A: Final = (
    "[17 April 16:40:22, 19 April 12:57:39]",
    "[17 April, 19 April]",
    "[5.01, 539.73]",
)
PART_B: Final = (
    "[8 April 10:05:54, 10 April 06:33:43]",
    "[8 April, 10 April]",
    "[5.06, 539.22]",
)
ROW: Final = "#f7e3d8"  # of the row codec
COLUMNS: Final = "#dbe8f6"  # of the columns
BOTH: Final = "#e6efe3"
LINE: Final = "#8899aa"


def text(x: float, y: float, words: str, size: int = 12, style: str = "") -> str:
    """Return words with their baseline at (x, y); `style` is further attributes."""
    fill = "" if "fill=" in style else f' fill="{INK}"'
    return f'<text x="{x}" y="{y}" font-size="{size}"{fill} {style}>{escape(words)}</text>'


def box(place: tuple[float, float, float, float], fill: str, words: Sequence[str]) -> str:
    """Return a box at (x, y, width, height) with lines in it, the first one bold.

    A line by itself stands in the middle.
    """
    x, y, wide, high = place
    first = y + (20 if len(words) > 1 else high / 2 + 5)
    parts = [
        f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="4" fill="{fill}" '
        f'stroke="{LINE}"/>'
    ]
    for number, line in enumerate(words):
        bold = 'font-weight="bold"' if number == 0 else f'fill="{SOFT}"'
        parts.append(text(x + 10, first + 16 * number, line, 14 if number == 0 else 12, bold))
    return "\n".join(parts)


def arrow(begin: tuple[float, float], end: tuple[float, float], style: str = "") -> str:
    """Return a line with a head at its end."""
    (x1, y1), (x2, y2) = begin, end
    return (
        f'<path d="M{x1} {y1}L{x2} {y2}" stroke="{SOFT}" fill="none" stroke-width="1.5" '
        f'marker-end="url(#head)" {style}/>'
    )


def document(title: str, wide: int, high: int, parts: Sequence[str]) -> str:
    """Return a whole picture of `wide` by `high` pixels."""
    head = (
        '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        f'<path d="M0 0L8 4L0 8Z" fill="{SOFT}"/></marker></defs>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" '
        'font-family="Helvetica, Arial, sans-serif" role="img">\n'
        f"<title>{escape(title)}</title>\n"
        f'<rect width="{wide}" height="{high}" rx="6" fill="#ffffff"/>\n{head}\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


def dual_part() -> str:
    """Return one part of each layout, with what its columns hold and who reads them."""
    parts = []
    names = (("k, v", ROW), ("t, d", BOTH), ("k_s, v_s", COLUMNS))
    for number, (layout, there) in enumerate(
        (("row", (0, 1)), ("both", (0, 1, 2)), ("structured", (1, 2)))
    ):
        top = 44 + number * 74
        parts.append(text(16, top + 28, layout, 14, 'font-weight="bold"'))
        for place in there:
            name, fill = names[place]
            parts.append(box((130 + place * 210, top, 190, 52), fill, (name,)))
        for place in {0, 1, 2} - set(there):
            parts.append(
                f'<rect x="{130 + place * 210}" y="{top}" width="190" height="52" rx="4" '
                f'fill="none" stroke="{LINE}" stroke-dasharray="4 4"/>'
            )
    for place, words in enumerate(
        ("row codec: one run of bytes a row", "time and diff", "columns: typed, one for each field")
    ):
        parts.append(text(140 + place * 210, 30, words, 12, f'fill="{SOFT}"'))
    for number in range(3):
        top = 44 + number * 74
        said = (
            ("the exact bytes alone", "59.7 bytes a row"),
            ("the halves check one another", "112.8 bytes a row"),
            ("what engines read, alone", "34.7 bytes a row"),
        )[number]
        parts += [text(764, top + 22, said[0], 12), text(764, top + 38, said[1], 12)]
    return document("The three layouts of a part", 930, 272, parts)


def interpretation() -> str:
    """Return the tree of a filter with what it may yield on two parts of the tutorial."""
    parts = [
        text(16, 24, "date_trunc('day', placed_at) = timestamp'2026-04-18' and total > 400", 14),
        text(250, 52, "part 8a06a4fa…", 12, 'font-weight="bold"'),
        text(590, 52, "part 51762d68…", 12, 'font-weight="bold"'),
    ]
    rows = (
        ("placed_at", PART_A[0], PART_B[0], COLUMNS),
        ("date_trunc('day', ·)", PART_A[1], PART_B[1], COLUMNS),
        ("· = 2026-04-18", "{false, true}", "{false}", BOTH),
        ("total", PART_A[2], PART_B[2], COLUMNS),
        ("· > 400", "{false, true}", "{false, true}", BOTH),
        ("· and ·", "{false, true}: KEEP", "{false}: SKIP", ROW),
    )
    for number, (node, kept, skipped, fill) in enumerate(rows):
        top = 66 + number * 50
        parts.append(text(16, top + 24, node, 12))
        parts.append(box((240, top, 320, 36), fill, (kept,)))
        parts.append(box((580, top, 320, 36), fill, (skipped,)))
        if number + 1 < len(rows) and number != 2:
            for x in (400, 740):
                parts.append(arrow((x, top + 36), (x, top + 49)))
    for x in (548, 888):  # what the first conjunct yields goes past the second
        parts.append(
            f'<path d="M{x} 202V314" stroke="{SOFT}" stroke-width="1.5" stroke-dasharray="3 3" '
            'marker-end="url(#head)"/>'
        )
    return document("One filter interpreted over two parts", 920, 372, parts)


def ladder() -> str:
    """Return the four modes, the steps up with what they need, and the way down."""
    steps = (
        ("off", "every part is fetched", "nothing is known"),
        ("soft", "every part is fetched", "what would be skipped is checked"),
        ("audit", "proven parts are skipped", "10 % of them are checked"),
        ("on", "proven parts are skipped", "1 % of them is checked for ever"),
    )
    needs = ("two people", "two people, 3,000 parts, 7 days", "two people, 30,000 parts, 14 days")
    parts = []
    for number, (mode, readers, checks) in enumerate(steps):
        x, y = 20 + number * 235, 210 - number * 52
        parts.append(
            box((x, y, 205, 66), (ROW, BOTH, BOTH, COLUMNS)[number], (mode, readers, checks))
        )
        if number:
            parts.append(arrow((x - 40, y + 66), (x + 4, y + 44)))
            parts.append(text(x - 230, y + 34, needs[number - 1], 12, f'fill="{SOFT}"'))
    parts.append(
        '<path d="M880 120V320H60V284" stroke="#c8553d" fill="none" stroke-width="1.5" '
        'marker-end="url(#head)"/>'
    )
    parts.append(
        text(330, 313, "one mismatch: straight to off, evidence begins anew", 12, 'fill="#c8553d"')
    )
    return document("The ladder from off to on", 960, 336, parts)


PICTURES: Final[dict[str, Callable[[], str]]] = {
    "dual-part.svg": dual_part,
    "interpretation.svg": interpretation,
    "ladder.svg": ladder,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (IMAGES / name).write_text(draw(), encoding="utf-8")

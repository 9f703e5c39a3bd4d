"""The picture of the rooms in ARCHITECTURE.md, drawn from the import contract.

    python -m tools.rooms        write docs/images/rooms.svg

The levels are those of the first contract in pyproject.toml, the line in a box is the first
sentence of the room's docstring. A test compares the file with what is drawn now.
"""

import ast
import textwrap
import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
PICTURE: Final = PROJECT / "docs" / "images" / "rooms.svg"
WIDTH: Final = 980
GAP: Final = 10
LINE: Final = 15
LETTER: Final = 6.0  # width of one at 11 px
FILLS: Final = ("#eef3fa", "#f7f3e8")  # alternate, so that a level is seen as one

HEAD: Final = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
font-family="Helvetica, Arial, sans-serif" role="img">
<title>The rooms of strata: each imports only from levels below it</title>
<rect width="{width}" height="{height}" fill="#ffffff"/>
"""


def levels() -> list[list[str]]:
    """Return the rooms of each level, the highest first."""
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))
    layers = contracts["tool"]["importlinter"]["contracts"][0]["layers"]
    return [[room.strip(" ()") for room in level.split("|")] for level in layers]


def purpose(room: str) -> str:
    """Return the first sentence of a room's docstring."""
    folder = PROJECT / "strata" / room
    file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    said = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return said.partition("\n\n")[0].replace("\n", " ").replace("`", "").removesuffix(".")


def picture() -> str:
    """Return the picture as SVG: a row for each level, a box for each room."""
    drawn: list[str] = []
    top = float(GAP)
    for number, rooms in enumerate(levels()):
        wide = (WIDTH - GAP * (len(rooms) + 1)) / len(rooms)
        texts = [textwrap.wrap(purpose(room), int((wide - 20) / LETTER)) for room in rooms]
        high = 28 + LINE * max(map(len, texts))
        for place, (room, lines) in enumerate(zip(rooms, texts, strict=True)):
            left = GAP + place * (wide + GAP)
            drawn += _box(left, top, wide, high, room, lines, FILLS[number % 2])
        top += high + GAP
    return HEAD.format(width=WIDTH, height=int(top)) + "\n".join(drawn) + "\n</svg>\n"


def _box(  # noqa: PLR0917  a rectangle and what stands in it
    left: float, top: float, wide: float, high: float, room: str, lines: list[str], fill: str
) -> Iterator[str]:
    yield (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{wide:.0f}" height="{high:.0f}" rx="4" '
        f'fill="{fill}" stroke="#8899aa"/>'
    )
    yield (
        f'<text x="{left + 10:.0f}" y="{top + 18:.0f}" font-size="14" font-weight="bold" '
        f'fill="#1b2733">{escape(room)}</text>'
    )
    for number, line in enumerate(lines):
        yield (
            f'<text x="{left + 10:.0f}" y="{top + 20 + LINE * (number + 1):.0f}" font-size="11" '
            f'fill="#33414f">{escape(line)}</text>'
        )


if __name__ == "__main__":
    PICTURE.write_text(picture(), encoding="utf-8")

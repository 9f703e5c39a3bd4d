"""The spine as a drawing: time from left to right, levels from bottom to top.

A block is as wide as its batch's time, a cell of it as large as its parts' bytes. Each text and
each attribute is escaped where an element is made.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup, escape

from strata.model.shown import visible
from strata.model.time import MIN_TIME, format_time
from strata.ui.blocks import Box, Cell, Picture, Slot
from strata.ui.shown import counted, several, size, when

WIDTH: Final = 1000
LEFT, RIGHT, TOP, BOTTOM = 52, 12, 26, 34  # pixels around the drawing
ROW: Final = 62  # pixels of a level
LEAST: Final = 3.0  # pixels of the narrowest block
GAP: Final = 1.0
_TICKS: Final = 6
_DAYS: Final = 3 * 86_400_000  # from here on ticks are days


@dataclass(frozen=True, slots=True)
class Mark:
    """How a part is drawn when a filter is asked: its class of style, and why."""

    style: str  # "skip", or "cause-" and a number
    why: str


Marks = Mapping[str, Mark]
_UNASKED: Final = Mark("skip", "")


def element(name: str, inner: str = "", **attributes: object) -> Markup:
    """Return an element of SVG; texts are escaped unless they are Markup.

    In names of attributes an underscore stands for a hyphen; `style_of` is the class.
    """
    shown = "".join(
        f' {"class" if key == "style_of" else key.replace("_", "-")}="{escape(_number(value))}"'
        for key, value in attributes.items()
    )
    text = inner if isinstance(inner, Markup) else visible(inner, lines=True)
    return Markup(f"<{name}{shown}>{escape(text)}</{name}>")


def _number(value: object) -> object:
    if isinstance(value, float):
        return round(value, 1)
    return visible(value, lines=True) if isinstance(value, str) else value


def side_by_side(elements: Iterator[Markup]) -> Markup:
    """Return elements one after the other."""
    return Markup("").join(elements)


def spine_svg(picture: Picture, marks: Marks | None = None, *, linked: str = "") -> Markup:
    """Return the drawing; `linked` begins the address of one block alone, empty for no links."""
    levels = sorted({slot.level for slot in picture.slots}, reverse=True)
    rows = {level: TOP + at * ROW for at, level in enumerate(levels)}
    height = TOP + BOTTOM + ROW * max(len(levels), 1)
    return element(
        "svg",
        side_by_side(_inside(picture, rows, height, marks, linked)),
        style_of="spine",
        viewBox=f"0 0 {WIDTH} {height}",
        role="group",
        aria_label=summary(picture),
    )


def summary(picture: Picture) -> str:
    """Return the drawing in one sentence, for those who do not see it."""
    due = sum(slot.due for slot in picture.slots)
    return (
        f"The spine of {picture.shard}: {len(picture.blocks)} batches in {len(picture.slots)}"
        f" slots, {several(picture.whole, 'part')}, {due} merges due"
    )


def _inside(
    picture: Picture, rows: Mapping[int, int], height: int, marks: Marks | None, linked: str
) -> Iterator[Markup]:
    if not picture.slots:
        yield element("text", "no batch yet", style_of="axis", x=LEFT, y=height / 2)
        return
    scale = _Scale(picture)
    line = element("line", style_of="hatch-line", x1=0, y1=0, x2=0, y2=5)
    yield element(
        "defs",
        element(
            "pattern",
            line,
            id="hatch",
            width=5,
            height=5,
            patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        ),
    )
    yield from _axis(scale, height)
    for level, y in rows.items():
        yield element("line", style_of="rule", x1=LEFT, x2=WIDTH - RIGHT, y1=y + ROW, y2=y + ROW)
        power = element("tspan", str(level), style_of="power", dy=-5)
        yield element("text", "2" + power, style_of="level", x=LEFT - 8, y=y + ROW / 2 + 4)
    for slot in picture.slots:
        yield from _slot(slot, scale, rows[slot.level], marks, linked)
    yield from _frontiers(picture, scale, height)


class _Scale:
    """Times as pixels."""

    def __init__(self, picture: Picture) -> None:
        ends = [block.upper for block in picture.blocks]
        last = picture.upper if picture.chosen is None else MIN_TIME
        self.low = picture.first
        self.high = max([last, *ends, self.low + 1])

    def x(self, time: int) -> float:
        share = (min(max(time, self.low), self.high) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)


def _axis(scale: _Scale, height: int) -> Iterator[Markup]:
    span = scale.high - scale.low
    for tick in range(_TICKS + 1):
        time = scale.low + span * tick // _TICKS
        x = scale.x(time)
        text = format_time(time - time % 1000)
        text = text[:10] if span > _DAYS else text[5:16].replace("T", " ")
        anchor = {0: "start", _TICKS: "end"}.get(tick, "middle")
        yield element("line", style_of="tick", x1=x, x2=x, y1=TOP, y2=height - BOTTOM + 5)
        yield element(
            "text", text, style_of="axis", x=x, y=height - BOTTOM + 20, text_anchor=anchor
        )


def _frontiers(picture: Picture, scale: _Scale, height: int) -> Iterator[Markup]:
    if picture.chosen is not None:
        return
    for name, time in (("since", picture.since), ("upper", picture.upper)):
        if time == MIN_TIME or time < scale.low:
            continue
        x = scale.x(time)
        yield element("line", style_of=f"frontier {name}", x1=x, x2=x, y1=14, y2=height - BOTTOM)
        yield element(
            "text",
            f"{name} {when(time)}",
            style_of="frontier-name",
            x=x,
            y=11,
            text_anchor="end" if x > WIDTH / 2 else "start",
        )


def _slot(
    slot: Slot, scale: _Scale, y: float, marks: Marks | None, linked: str
) -> Iterator[Markup]:
    if slot.due:
        x, end = scale.x(slot.blocks[0].lower), scale.x(slot.blocks[-1].upper)
        title = element("title", f"A merge of {len(slot.blocks)} batches is due")
        yield element(
            "rect",
            title,
            style_of="due",
            x=x - 2,
            y=y + 3,
            width=max(end - x, LEAST) + 3,
            height=ROW - 5,
            rx=4,
        )
    for block in slot.blocks:
        inner = side_by_side(_block(block, scale, y + 7, marks))
        yield (
            element("a", inner, href=f"{linked}{block.number}", aria_label=_block_name(block))
            if linked
            else element("g", inner)
        )


def _block(block: Box, scale: _Scale, y: float, marks: Marks | None) -> Iterator[Markup]:
    x = scale.x(block.lower)
    width, height = max(scale.x(block.upper) - x - GAP, LEAST), ROW - 13.0
    yield element(
        "rect",
        element("title", _block_name(block)),
        x=x,
        y=y,
        width=width,
        height=height,
        style_of="block" if block.known else "block gone",
    )
    total = sum(strip.size_bytes for strip in block.strips) or 1
    for strip in block.strips:
        tall, left = height * strip.size_bytes / total, x
        for cell in strip.cells:
            wide = width * cell.size_bytes / (strip.size_bytes or 1)
            yield from _cell(cell, (left, y, wide, tall), marks)
            left += wide
        y += tall


def _cell(
    cell: Cell, box: tuple[float, float, float, float], marks: Marks | None
) -> Iterator[Markup]:
    found = [] if marks is None else [marks[key] for key in cell.keys if key in marks]
    kept = [mark for mark in found if mark.style != "skip"]
    style = "part" if marks is None else (kept or found or [_UNASKED])[0].style
    some = f" some-{4 * len(kept) // len(found)}" if 0 < len(kept) < len(found) else ""
    x, y, width, height = box
    inset = 0.4 if width > 3 and height > 3 else 0.0
    place: dict[str, Any] = {
        "x": x + inset,
        "y": y + inset,
        "width": max(width - 2 * inset, 0.3),
        "height": max(height - 2 * inset, 0.3),
    }
    bare = " bare" if cell.bare else ""
    title = element("title", _cell_name(cell, kept or found))
    yield element("rect", title, style_of=f"{style}{some}{bare}", **place)
    if cell.row_format:
        yield element("rect", style_of="hatched", **place)


def _block_name(block: Box) -> str:
    gone = "" if block.known else "; its manifest was swept"
    return (
        f"Batch from {when(block.lower)} to {when(block.upper)}: {several(block.parts, 'part')},"
        f" {several(block.updates, 'update')}, {size(block.size_bytes)}{gone}"
    )


def _cell_name(cell: Cell, marks: list[Mark]) -> str:
    one = len(cell.keys) == 1
    name = cell.keys[0].rpartition("/")[2][:8] if one else f"{counted(len(cell.keys))} parts"
    lines = [
        f"{name}: {several(cell.rows, 'row')}, {size(cell.size_bytes)}",
        f"times {when(cell.t_low)} to {when(cell.t_high)}",
    ]
    if cell.bare:
        lines.append("no statistics" if one else f"{counted(cell.bare)} without statistics")
    if cell.row_format:
        lines.append("row format")
    return "\n".join([*lines, *dict.fromkeys(mark.why for mark in marks[:3])])

"""A small line chart as SVG: panels under one another, a logarithmic axis below each."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, log10
from typing import Final

COLOURS: Final = ("#1b6ca8", "#c8553d", "#3a7d44", "#7a5195", "#b08900")
THEORY: Final = "#4c4c4c"  # of dashed lines, the same in every panel
WIDTH, HEIGHT = 760, 300  # of a panel, in pixels
LEFT, RIGHT, TOP, BOTTOM = 52, 190, 34, 40


@dataclass(frozen=True)
class Line:
    """One line; `x` must be positive."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    """Lines over one pair of axes."""

    title: str
    below: str  # what the horizontal axis counts
    lines: Sequence[Line]
    steep: bool = False  # the other axis is logarithmic too, from 1


def draw(panels: Sequence[Panel]) -> str:
    """Return an SVG document of all panels."""
    height = HEIGHT * len(panels)
    body = "".join(_panel(panel, number * HEIGHT) for number, panel in enumerate(panels))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">'
        f'<rect width="{WIDTH}" height="{height}" fill="white"/>{body}</svg>\n'
    )


def _panel(panel: Panel, offset: int) -> str:
    points = [point for line in panel.lines for point in line.points]
    decades = max(1, ceil(log10(max(x for x, _ in points))))
    highest = max(1.0, *(y for _, y in points)) * 1.05
    powers = max(1, ceil(log10(highest / 1.05)))

    def across(x: float) -> float:
        return LEFT + log10(x) / decades * (WIDTH - LEFT - RIGHT)

    def down(y: float) -> float:
        part = log10(max(y, 1.0)) / powers if panel.steep else y / highest
        return offset + HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)

    right, bottom = WIDTH - RIGHT, down(1 if panel.steep else 0)
    parts = [f'<text x="{LEFT}" y="{offset + 20}" font-weight="bold">{escape(panel.title)}</text>']
    for value in _marks(highest, powers, steep=panel.steep):
        y = down(value)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{right}" stroke="#e3e3e3"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value}</text>')
    for decade in range(decades + 1):
        x = across(10**decade)
        parts.append(
            f'<text x="{x:.1f}" y="{bottom + 16:.1f}" text-anchor="middle">10<tspan '
            f'dy="-5" font-size="9">{decade}</tspan></text>'
        )
    parts.append(f'<text x="{right}" y="{bottom + 32:.1f}" text-anchor="end">{panel.below}</text>')
    for number, line in enumerate(panel.lines):
        colour = THEORY if line.dashed else COLOURS[number % len(COLOURS)]
        dash = ' stroke-dasharray="6 4"' if line.dashed else ""
        path = " ".join(f"{across(x):.1f},{down(y):.1f}" for x, y in line.points)
        y = offset + TOP + 14 + 18 * number
        parts += [
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"{dash}/>',
            f'<path d="M{right + 12} {y - 4}h22" stroke="{colour}" stroke-width="2"{dash}/>',
            f'<text x="{right + 40}" y="{y}">{escape(line.name)}</text>',
        ]
    return "".join(parts)


def _marks(highest: float, powers: int, *, steep: bool) -> Iterator[int]:
    """Yield the values that get a line across."""
    if steep:
        yield from (10**power for power in range(powers + 1))
    else:
        yield from range(0, int(highest) + 1, max(1, round(highest / 6)))

"""How the evidence for skipping grew: the bound on wrong skips over time, as points and drawn.

A night is known from three places: the journal of operations, which keeps the figures of each
validation, the stored states, and the history of steps. What none of them has is left out.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log10
from typing import Final

import orjson
from markupsafe import Markup

from strata.history.operations import Operation
from strata.rollout.evidence import upper_bound
from strata.state.state import Evidence, State
from strata.ui.charts import rate
from strata.ui.shown import counted, several, when
from strata.ui.svg import element, side_by_side

WIDTH, LEFT, RIGHT, TOP = 1000, 76, 14, 42
BOUND, JUDGED, GAP, BOTTOM = 190, 90, 50, 30  # heights of the panels, and around them
_FIGURES: Final = ("evidence_parts", "evidence_repeats", "evidence_distinct_parts")
_TICKS: Final = 5
_DAYS: Final = 5 * 86_400_000  # from here on ticks are days
_LINE: Final = 14  # pixels between two lines of text
_LABEL: Final = 84  # pixels that the name of a step takes


@dataclass(frozen=True, slots=True, order=True)
class EvidencePoint:
    """The evidence at one time."""

    at_ms: int
    parts: int  # judged, each once for a filter
    repeats: int  # judged again with the same filter
    distinct_parts: int  # judged with any filter

    @property
    def bound(self) -> float:
        """Return the bound that the parts support."""
        return upper_bound(self.parts)


@dataclass(frozen=True, slots=True)
class LadderEvent:
    """A step or a trip, as the drawing names it."""

    at_ms: int
    name: str
    style: str  # up | down


def points_of(states: Iterable[State], found: Iterable[Operation]) -> list[EvidencePoint]:
    """Return the evidence over time, oldest first, each change once.

    `states`: of one shard, in any order, the newest among them; `found`: its operations.
    """
    points: set[EvidencePoint] = set()
    for state in states:
        points.add(_of_evidence(state.walltime_ms, state.rollout.evidence))
        for entry in state.rollout.entries:
            points.add(EvidencePoint(entry.at_ms, entry.parts, entry.repeats, entry.distinct_parts))
            if entry.what == "tripped":
                points.add(EvidencePoint(entry.at_ms + 1, 0, 0, 0))
    points |= {point for one in found if (point := _of_operation(one)) is not None}
    ordered = sorted(points)
    changed = [b for a, b in pairwise(ordered) if _figures(a) != _figures(b) or b is ordered[-1]]
    return ordered[:1] + changed


def _of_evidence(at_ms: int, seen: Evidence) -> EvidencePoint:
    return EvidencePoint(at_ms, seen.parts, seen.repeats, seen.distinct_parts)


def _of_operation(one: Operation) -> EvidencePoint | None:
    counts = orjson.loads(one.details)
    if one.what != "validate" or not counts.keys() >= {*_FIGURES}:
        return None
    ended = one.at_ms + round(1000 * one.seconds)
    return EvidencePoint(ended, *(int(counts[name]) for name in _FIGURES))


def _figures(point: EvidencePoint) -> tuple[int, int, int]:
    return point.parts, point.repeats, point.distinct_parts


def events_of(state: State, ladder: Sequence[str]) -> list[LadderEvent]:
    """Return the steps and trips of a shard, oldest first."""
    return [
        LadderEvent(
            entry.at_ms,
            "trip" if entry.what == "tripped" else entry.after,
            "up" if ladder.index(entry.after) > ladder.index(entry.before) else "down",
        )
        for entry in state.rollout.entries
        if entry.before != entry.after
    ]


def evidence_svg(
    points: Sequence[EvidencePoint],
    events: Sequence[LadderEvent],
    targets: Sequence[tuple[str, int]],
) -> Markup:
    """Return the drawing: the bound on a scale of powers of ten, below it what was judged.

    `targets`: the names of steps, and how many parts each wants. Needs at least one point.
    """
    drawing = _Drawing(points, targets)
    parts = [
        *drawing.scale_of_bound(),
        *drawing.scale_of_counts(),
        *drawing.times(),
        *drawing.events(events),
        *drawing.targets(),
        *drawing.lines(),
    ]
    last = points[-1]
    said = (
        f"Bound on wrong skips: {rate(last.bound)} after {several(last.parts, 'part')} judged,"
        f" {counted(last.distinct_parts)} of them distinct; not counted:"
        f" {several(last.repeats, 'repeat')}"
    )
    return element(
        "svg",
        side_by_side(iter(parts)),
        style_of="chart evidence",
        role="img",
        aria_label=said,
        viewBox=f"0 0 {WIDTH} {drawing.height}",
    )


class _Drawing:
    """Scales of one drawing, and its elements."""

    def __init__(self, points: Sequence[EvidencePoint], targets: Sequence[tuple[str, int]]) -> None:
        self.points, self.wanted = points, targets
        self.low = points[0].at_ms
        self.high = max(points[-1].at_ms, self.low + 1)
        least = min([p.bound for p in points] + [upper_bound(parts) for _, parts in targets])
        self.powers = max(1, -int(log10(least) - 0.999))
        self.most = max([p.parts + p.repeats for p in points] + [p.distinct_parts for p in points])
        self.base = TOP + BOUND + GAP + JUDGED  # of the lower panel
        self.height = self.base + BOTTOM

    def x(self, at_ms: int) -> float:
        share = (min(max(at_ms, self.low), self.high) - self.low) / (self.high - self.low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, bound: float) -> float:
        return TOP + BOUND * min(-log10(max(bound, 1e-12)) / self.powers, 1.0)

    def count_y(self, parts: int) -> float:
        return self.base - JUDGED * parts / max(self.most, 1)

    def scale_of_bound(self) -> Iterator[Markup]:
        yield element("text", "Bound on wrong skips, 95 %", style_of="head", x=LEFT, y=14)
        for power in range(self.powers + 1):
            y = self.y(10.0**-power)
            yield element("line", style_of="rule", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
            label = f"{100 / 10**power:.{max(power - 2, 0)}f} %"
            yield element("text", label, style_of="side", x=LEFT - 8, y=y + 4)

    def scale_of_counts(self) -> Iterator[Markup]:
        top = self.base - JUDGED
        yield element("text", "Parts judged", style_of="head", x=LEFT, y=top - 10)
        for parts in (0, self.most) if self.most else (0,):
            y = self.count_y(parts)
            yield element("line", style_of="rule", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
            yield element("text", counted(parts), style_of="side", x=LEFT - 8, y=y + 4)

    def times(self) -> Iterator[Markup]:
        shown = ""
        for tick in range(_TICKS + 1):
            at = self.low + (self.high - self.low) * tick // _TICKS
            text = when(at)[:10] if self.high - self.low > _DAYS else when(at)[5:]
            if text == shown:  # a short time: a label stands once
                continue
            shown, x = text, self.x(at)
            anchor = {0: "start", _TICKS: "end"}.get(tick, "middle")
            yield element("line", style_of="rule", x1=x, x2=x, y1=self.base, y2=self.base + 5)
            yield element("text", text, x=x, y=self.base + 20, text_anchor=anchor)

    def events(self, events: Sequence[LadderEvent]) -> Iterator[Markup]:
        free = 0.0
        for event in events:
            if event.at_ms < self.low:
                continue
            x = self.x(event.at_ms)
            title = element("title", f"{event.name}, {when(event.at_ms)}")
            yield element(
                "line",
                title,
                style_of=f"event {event.style}",
                x1=x,
                x2=x,
                y1=TOP - 14,
                y2=self.base,
            )
            if x >= free:
                anchor = "end" if x > WIDTH - RIGHT - _LABEL else "start"
                yield element(
                    "text",
                    event.name,
                    style_of=f"event-name {event.style}",
                    text_anchor=anchor,
                    x=x + (-5 if anchor == "end" else 5),
                    y=TOP - 4,
                )
                free = x + _LABEL

    def targets(self) -> Iterator[Markup]:
        names: dict[int, list[str]] = {}
        for name, parts in self.wanted:
            names.setdefault(parts, []).append(name)
        below = float(TOP + _LINE)  # the names of steps stand above
        for parts in sorted(names):
            y = self.y(upper_bound(parts))
            yield element("line", style_of="target", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y)
            text = (
                f"{', '.join(names[parts])}: {rate(upper_bound(parts))}, {several(parts, 'part')}"
            )
            label = y - 5 if y - 5 >= below else max(y + _LINE, below)
            yield element("text", text, style_of="target-name", x=WIDTH - RIGHT, y=label)
            below = label + _LINE

    def lines(self) -> Iterator[Markup]:
        repeated = [(p.at_ms, self.count_y(p.parts + p.repeats)) for p in self.points]
        judged = [(p.at_ms, self.count_y(p.parts)) for p in self.points]
        distinct = [(p.at_ms, self.count_y(p.distinct_parts)) for p in self.points]
        yield self._area(repeated, "repeats", "judged again with the same filter: not counted")
        yield self._area(judged, "judged", "judged, each once for a filter")
        yield self._line(distinct, "distinct", "distinct parts")
        bound = [(p.at_ms, self.y(p.bound)) for p in self.points]
        yield self._line(bound, "bound", "bound on wrong skips")
        for point in self.points:
            title = element("title", _said(point))
            yield element(
                "circle",
                title,
                style_of="dot",
                cx=self.x(point.at_ms),
                cy=self.y(point.bound),
                r=3.5,
            )

    def _steps(self, at: Sequence[tuple[int, float]]) -> str:
        """Return a line that keeps its height until the next point."""
        first, *others = [(self.x(ms), y) for ms, y in at]
        moves = "".join(f"H{x:.1f}V{y:.1f}" for x, y in others)
        return f"M{first[0]:.1f} {first[1]:.1f}{moves}"

    def _line(self, at: Sequence[tuple[int, float]], style: str, name: str) -> Markup:
        return element("path", element("title", name), style_of=f"line {style}", d=self._steps(at))

    def _area(self, at: Sequence[tuple[int, float]], style: str, name: str) -> Markup:
        closed = f"{self._steps(at)}V{self.base}H{self.x(at[0][0]):.1f}Z"
        return element("path", element("title", name), style_of=f"area {style}", d=closed)


def _said(point: EvidencePoint) -> str:
    return (
        f"{when(point.at_ms)}: at most {rate(point.bound)}, {counted(point.parts)} judged,"
        f" {several(point.distinct_parts, 'distinct part')}, {several(point.repeats, 'repeat')}"
    )

"""Lines through measured costs: their slope, their fixed part, and which stage bends them.

A slope is that of log(cost) over log(size): 1 is in proportion, 0 does not grow. Costs span
decades, so the fit of fixed and unit cost counts relative errors; neither is below zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import log
from typing import Final

BEND: Final = 0.15  # a step whose slope differs from 1 by more is not in proportion
FLAT: Final = 0.15  # a line of at most this slope does not grow


@dataclass(frozen=True)
class Fit:
    """A straight line. Units: those of the costs, and those for one of what the sizes count."""

    fixed: float
    unit: float

    def at(self, size: float) -> float:
        """Return the cost of a size."""
        return self.fixed + self.unit * size


def slope_of(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """Return the slope of log(cost) over log(size) by least squares; there are two sizes or more.

    >>> round(slope_of([1, 10, 100], [3, 30, 300]), 6)
    1.0
    """
    across, up = [log(size) for size in sizes], [log(cost) for cost in costs]
    middle, height = sum(across) / len(across), sum(up) / len(up)
    above = sum((x - middle) * (y - height) for x, y in zip(across, up, strict=True))
    return above / sum((x - middle) ** 2 for x in across)


def steps_of(sizes: Sequence[float], costs: Sequence[float]) -> list[float]:
    """Return the slope between each size and the next.

    >>> [round(step, 2) for step in steps_of([1, 10, 100], [5, 5, 500])]
    [0.0, 2.0]
    """
    points = list(zip(sizes, costs, strict=True))
    return [slope_of([a[0], b[0]], [a[1], b[1]]) for a, b in pairwise(points)]


def line_of(sizes: Sequence[float], costs: Sequence[float]) -> Fit:
    """Return the line whose relative errors have the least squares, none of its parts below zero.

    >>> fit = line_of([10, 100, 1000], [7, 25, 205])
    >>> round(fit.fixed, 6), round(fit.unit, 6)
    (5.0, 0.2)
    """
    whole, each = [1 / cost for cost in costs], [s / c for s, c in zip(sizes, costs, strict=True)]
    ww, we, ee = (_product(a, b) for a, b in ((whole, whole), (whole, each), (each, each)))
    w, e = sum(whole), sum(each)
    under = ww * ee - we * we
    if under > 1e-12 * ww * ee:
        fit = Fit((w * ee - e * we) / under, (e * ww - w * we) / under)
        if fit.fixed >= 0 and fit.unit >= 0:
            return fit
    alone = Fit(w / ww, 0.0), Fit(0.0, e / ee)
    return min(alone, key=lambda fit: _error(fit, sizes, costs))


def _product(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def _error(fit: Fit, sizes: Sequence[float], costs: Sequence[float]) -> float:
    return sum((fit.at(s) / c - 1) ** 2 for s, c in zip(sizes, costs, strict=True))


@dataclass(frozen=True)
class Bend:
    """A step that is not in proportion, and the stage that accounts for most of that."""

    low: float
    high: float  # the sizes of the step
    slope: float
    stage: str
    before: float
    after: float  # what the stage takes at both sizes
    whole: float  # what all takes, at the size where the stage weighs most

    def __str__(self) -> str:
        """Return the bend in words."""
        weighs = self.after if self.slope > 1 else self.before
        share = f"{weighs / self.whole:.0%}".replace("%", " %")
        times = f"{self.after / self.before:.1f} times" if self.before > 0 else "from nothing"
        if self.slope > 1:
            growth = f"grows {times} from {self.low:,.0f}"
            return f"{self.stage} {growth} and is {share} at {self.high:,.0f}"
        return f"{self.stage}, {share} at {self.low:,.0f}, grows {times} to {self.high:,.0f}"


def bends_of(
    sizes: Sequence[float], costs: Sequence[float], stages: Mapping[str, Sequence[float]]
) -> list[Bend]:
    """Return the steps that are not in proportion, each with the stage that bends it most.

    `stages`: what each stage of the work takes at each size. Below proportion it is the stage that
    falls short most, above it the one that goes beyond most.
    """
    found: list[Bend] = []
    for at, slope in enumerate(steps_of(sizes, costs)):
        if abs(slope - 1) > BEND and stages:
            name = _puller(
                sizes[at : at + 2], {n: s[at : at + 2] for n, s in stages.items()}, slope
            )
            before, after = stages[name][at : at + 2]
            whole = costs[at + 1] if slope > 1 else costs[at]
            found.append(Bend(sizes[at], sizes[at + 1], slope, name, before, after, whole))
    return found


def _puller(sizes: Sequence[float], stages: Mapping[str, Sequence[float]], slope: float) -> str:
    """Return the stage that pulls a step furthest away from proportion."""
    sign, ratio = (1 if slope > 1 else -1), sizes[1] / sizes[0]
    return max(stages, key=lambda name: sign * (stages[name][1] - ratio * stages[name][0]))


def joined(bends: Sequence[Bend]) -> list[Bend]:
    """Return the bends, neighbours on the same side and of the same stage as one."""
    made: list[Bend] = []
    for bend in bends:
        last = made[-1] if made else None
        if (
            last is not None
            and (last.high, last.stage) == (bend.low, bend.stage)
            and (last.slope > 1) == (bend.slope > 1)
        ):
            whole = bend.whole if bend.slope > 1 else last.whole
            slope = (last.slope + bend.slope) / 2
            made[-1] = replace(last, high=bend.high, slope=slope, after=bend.after, whole=whole)
        else:
            made.append(bend)
    return made


def word_of(
    sizes: Sequence[float], costs: Sequence[float], stages: Mapping[str, Sequence[float]]
) -> str:
    """Return what bends a line, in words."""
    if slope_of(sizes, costs) <= FLAT and max(costs) < 2 * costs[0]:
        return "does not grow"
    if all(abs(step - 1) <= BEND for step in steps_of(sizes, costs)):
        return "in proportion"
    return "; ".join(map(str, joined(bends_of(sizes, costs, stages)))) or "no stages were seen"

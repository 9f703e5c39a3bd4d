"""The spine under ten million appends: how many runs live, how often each update is written.

    python -m benchmarks.spine                  the mixed load up to 10^7, the others up to 10^6
    python -m benchmarks.spine --appends 100000 --chart /tmp/spine.svg

The real `insert`, `requests` and `apply` are driven, without blobs: a merge of n updates gives one
run of n. Written beside the theory: live runs <= ceil(log2 N) + 1, and no update is written more
than ceil(log2 N) + 2 times, where N is the number of updates so far. A load is

    ones      one update each time
    mixed     nothing, or from 1 to 10,000 updates log-uniformly
    huge      ones, and now and then a batch of a million
    shrinking mixed, and each merge cancels a third of what it reads
    late      mixed, and the compactor comes only every 1,000 appends

Prints a table and, with `--chart`, draws it (see `benchmarks.chart`). Deterministic but for times.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from math import ceil, log2
from pathlib import Path
from typing import Final

from benchmarks.chart import Line, Panel, draw
from strata.model.time import MIN_TIME
from strata.state import spine as spines
from strata.state.spine import MergeRequest, MergeResult
from strata.state.state import Batch, RunSummary, Spine

POINTS: Final = 24  # measured per decade of appends
HUGE: Final = 1_000_000
ORDER: Final = (1,)


@dataclass(frozen=True)
class Load:
    """What is appended, and how it is merged."""

    name: str
    sizes: Callable[[random.Random], Iterator[int]]
    every: int = 1  # appends between two runs of the compactor
    survives: float = 1.0  # share of the updates of a merge that is left
    appends: int = 1_000_000


@dataclass(frozen=True)
class Point:
    """The spine after some appends."""

    appends: int
    updates: int  # appended so far
    written: int  # by appends and merges, so far
    runs: int  # live now, before the merges that are due
    runs_highest: int  # since the point before
    slots: int
    times_written: int  # the most that any live update was written

    @property
    def amplification(self) -> float:
        """Return how often an update was written on average, the append included."""
        return self.written / max(self.updates, 1)

    @property
    def bound(self) -> int:
        """Return ceil(log2 N): what runs (+1) and writes of one update (+2) must stay under."""
        return ceil(log2(max(self.updates, 2)))


def ones(source: random.Random) -> Iterator[int]:
    """Yield 1 for ever."""
    while True:
        yield 1


def mixed(source: random.Random) -> Iterator[int]:
    """Yield sizes of very different orders; a fifth of them is nothing."""
    while True:
        yield 0 if source.random() < 0.2 else int(10 ** source.uniform(0, 4))


def huge(source: random.Random) -> Iterator[int]:
    """Yield ones, and a huge size about every ten thousand times."""
    while True:
        yield HUGE if source.random() < 1e-4 else 1


LOADS: Final = (
    Load("ones", ones),
    Load("mixed", mixed, appends=10_000_000),
    Load("huge", huge),
    Load("shrinking", mixed, survives=2 / 3),
    Load("late", mixed, every=1_000),
)


class Simulation:
    """A spine, and the account of what was written into it."""

    def __init__(self, load: Load) -> None:
        """Start empty."""
        self.load = load
        self.spine = Spine()
        self.appends = self.updates = self.written = 0
        self._writes: dict[str, int] = {}  # manifest -> most often that an update in it was written

    def append(self, updates: int) -> None:
        """Append a batch; then, when it is time, do every merge that is due."""
        self.appends += 1
        self.updates += updates
        self.written += updates
        new = _batch(self.appends - 1, self.appends, updates, f"a{self.appends}")
        if new.manifest:
            self._writes[new.manifest] = 1
        self.spine = spines.insert(self.spine, new)

    def compact(self) -> None:
        """Do every merge that is due."""
        while due := spines.requests(self.spine, MIN_TIME):
            for request in due:
                self._merge(request)

    def point(self, runs_highest: int) -> Point:
        """Return the figures of now."""
        return Point(
            self.appends,
            self.updates,
            self.written,
            self.runs(),
            runs_highest,
            len(self.spine.slots),
            max(self._writes.values(), default=0),
        )

    def runs(self) -> int:
        """Return how many runs are live."""
        return sum(b.manifest is not None for slot in self.spine.slots for b in slot.batches)

    def _merge(self, request: MergeRequest) -> None:
        read = sum(b.updates for b in request.batches)
        left = max(1, int(read * self.load.survives))
        self.written += left
        new = _batch(request.lower, request.upper, left, f"m{self.written}-{self.appends}")
        assert new.manifest is not None
        self._writes[new.manifest] = 1 + max(self._writes.pop(key) for key in request.manifests)
        result = MergeResult(request.id_lower, request.id_upper, request.manifests, new)
        applied = spines.apply(self.spine, result, MIN_TIME)
        assert isinstance(applied, Spine), applied
        self.spine = applied


def simulate(load: Load, appends: int, seed: int = 5) -> Iterator[Point]:
    """Yield the figures of a load, at points that are evenly spaced on a logarithmic axis."""
    simulation, highest = Simulation(load), 0
    marks = {round(10 ** (i / POINTS)) for i in range(round(log2(appends) / log2(10) * POINTS))}
    for updates in islice(load.sizes(random.Random(seed)), appends):
        simulation.append(updates)
        highest = max(highest, simulation.runs()) if load.every > 1 else highest
        if simulation.appends % load.every == 0:
            simulation.compact()
            highest = max(highest, simulation.runs())
        if simulation.appends in marks or simulation.appends == appends:
            yield simulation.point(highest)
            highest = 0
    assert not spines.problems(simulation.spine, 0, appends)


def _batch(lower: int, upper: int, updates: int, manifest: str) -> Batch:
    if not updates:
        return Batch(lower, upper, MIN_TIME)
    runs = (RunSummary(1, updates, updates, ORDER),)
    return Batch(lower, upper, MIN_TIME, updates, updates, 1, runs, manifest)


def chart(found: dict[str, list[Point]]) -> str:
    """Return the drawing: live runs above, write amplification below, theory dashed."""
    bound = max(found.values(), key=lambda points: points[-1].appends)
    theory = [(p.appends, p.bound) for p in bound]
    runs = [
        Line(name, [(p.appends, p.runs_highest) for p in points])
        for name, points in found.items()
        if name != "late"
    ]
    writes = [
        Line(name, [(p.appends, p.amplification) for p in points]) for name, points in found.items()
    ]
    return draw(
        [
            Panel(
                "live runs, the highest since the point before",
                "appends",
                [*runs, Line("theory: ⌈log2 N⌉ + 1", [(x, y + 1) for x, y in theory], True)],
            ),
            Panel(
                "times an update was written, on average",
                "appends",
                [*writes, Line("theory: ⌈log2 N⌉ + 2", [(x, y + 2) for x, y in theory], True)],
            ),
        ]
    )


def main() -> None:
    """Simulate, print, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--appends", type=int, help="of every load; default: each its own")
    parser.add_argument("--load", action="append", choices=[load.name for load in LOADS])
    parser.add_argument("--points", type=Path, help="keep the figures here, and start from them")
    parser.add_argument("--chart", type=Path, help="write the drawing here, as SVG")
    args = parser.parse_args()
    kept = json.loads(args.points.read_text()) if args.points and args.points.exists() else {}
    found = {name: [Point(**point) for point in points] for name, points in kept.items()}
    for load in LOADS:
        if args.load and load.name not in args.load:
            continue
        began = time.process_time()
        found[load.name] = list(simulate(load, args.appends or load.appends))
        spent = time.process_time() - began
        last = found[load.name][-1]
        print(
            f"{load.name:10} appends {last.appends:>11,}  updates {last.updates:>15,}  "
            f"runs at most {max(p.runs_highest for p in found[load.name]):>5,}  "
            f"written {last.amplification:5.2f} on average, {last.times_written} at most  "
            f"log2 N {last.bound}  {1e6 * spent / last.appends:.0f} µs an append",
            flush=True,
        )
        if args.points:
            args.points.write_text(
                json.dumps({n: [asdict(p) for p in points] for n, points in found.items()})
            )
    if args.chart:
        ordered = {load.name: found[load.name] for load in LOADS if load.name in found}
        args.chart.write_text(chart(ordered))


if __name__ == "__main__":
    sys.exit(main())

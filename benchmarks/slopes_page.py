"""The tables and the chart of `benchmarks.slopes`, from what one run found."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any, Final

from benchmarks.chart import Line, Panel, draw
from benchmarks.slopes_fit import Fit, line_of, slope_of, steps_of, word_of

Document = Mapping[str, Any]  # as `python -m benchmarks.slopes --json` writes it
TITLES: Final = {
    "rows": "rows, in 8 files",
    "columns": "columns",
    "files": "source files of the same rows",
    "parts": "parts of the same rows",
}
# That a task reads at most: of source files, or of parts (`ingest.task_bytes`, `compact.tasks`,
# `spark.rows`).
TASK_BYTES: Final = {"ingest": 64 << 20, "compaction": 96 << 20, "full read": 256 << 20}
MODEL_ROWS: Final = (10**7, 10**8, 10**9, 10**10)
MODEL_CORES: Final = (1, 8, 64, 512)
POWERS: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Series:
    """One line: what an operation takes at each size. Units: seconds."""

    over: str  # what the sizes count
    operation: str
    sizes: Sequence[float]
    cpu: Sequence[float]
    wall: Sequence[float]
    stages: Mapping[str, Sequence[float]]

    @property
    def word(self) -> str:
        """Return what bends the line of CPU time."""
        return word_of(self.sizes, self.cpu, self._used)

    @property
    def word_by_clock(self) -> str:
        """Return what bends the line of the clock."""
        return word_of(self.sizes, self.wall, self.stages)

    @property
    def _used(self) -> dict[str, Sequence[float]]:
        return {name: spent for name, spent in self.stages.items() if name != "waiting"}


def series_of(document: Document) -> list[Series]:
    """Return the lines of a run."""
    return [Series(**one) for one in document["series"]]


# ---------------------------------------------------------------------------- words for numbers


def seconds(value: float) -> str:
    """Return a time in words.

    >>> seconds(0.00123), seconds(0.0456), seconds(7.891), seconds(123.4), seconds(5000)
    ('1.2 ms', '46 ms', '7.9 s', '123 s', '83 min')
    """
    if value < 0.01:
        return f"{1000 * value:.1f} ms"
    if value < 1:
        return f"{1000 * value:.0f} ms"
    if value < 1000:
        return f"{value:.1f} s" if value < 100 else f"{value:.0f} s"
    return f"{value / 60:.0f} min" if value < 36_000 else f"{value / 3600:.0f} h"


def unit(value: float) -> str:
    """Return the time of one unit.

    >>> unit(3.2e-6), unit(0.0012), unit(0)
    ('3.2 µs', '1.2 ms', '0')
    """
    if value <= 0:
        return "0"
    if value < 1e-6:
        return f"{1e9 * value:.0f} ns"
    return f"{1e6 * value:.2g} µs" if value < 1e-4 else seconds(value)


def power(size: float) -> str:
    """Return a size, short.

    >>> power(1000), power(10_000), power(20_000)
    ('1,000', '10⁴', '20,000')
    """
    exponent = round(log10(size)) if size > 0 else 0
    exact = size == 10**exponent and exponent > 3
    return f"10{str(exponent).translate(POWERS)}" if exact else f"{size:,.0f}"


def _steps(values: Sequence[float]) -> str:
    return ", ".join(f"{round(value, 2) + 0.0:.2f}" for value in values)


# ---------------------------------------------------------------------------- plain text


def lines_of(document: Document) -> Iterator[str]:
    """Yield what the program prints of the series."""
    over = ""
    for one in series_of(document):
        if one.over != over:
            over = one.over
            yield f"\n{TITLES[over]}"
        yield from _plain(one)


def _plain(one: Series) -> Iterator[str]:
    heads = "".join(f"{power(size):>12}" for size in one.sizes)
    yield f"  {one.operation:14}{heads}{'slope':>8}{'steps':>20}{'fixed':>10}{'of one':>10}"
    for name, costs in (("CPU", one.cpu), ("clock", one.wall)):
        fit = line_of(one.sizes, costs)
        figures = "".join(f"{seconds(cost):>12}" for cost in costs)
        yield (
            f"    {name:12}{figures}{slope_of(one.sizes, costs):>8.2f}"
            f"{_steps(steps_of(one.sizes, costs)):>20}{seconds(fit.fixed):>10}"
            f"{unit(fit.unit):>10}"
        )
    for name, word in (("CPU", one.word), ("clock", one.word_by_clock)):
        yield f"    {name} bends: {word}"
    for name, spent in sorted(one.stages.items(), key=lambda item: -item[1][-1]):
        if max(spent) >= 0.02 * max(one.wall):
            yield f"      {name:22}" + "".join(f"{seconds(s):>12}" for s in spent)


# ---------------------------------------------------------------------------- cores


@dataclass(frozen=True)
class Gain:
    """What a second core gives. Units: seconds, of the larger data."""

    operation: str
    kind: str
    one: float
    two: float  # by the clock
    idle: tuple[float, float]  # core seconds by the clock that nothing of it used, on one and two
    used: tuple[float, float]  # CPU seconds

    @property
    def times(self) -> float:
        """Return how many times as fast two cores are."""
        return self.one / self.two

    @property
    def slope(self) -> float:
        """Return the slope of throughput over cores: 1 is twice as fast."""
        return slope_of([1, 2], [1 / self.one, 1 / self.two])

    @property
    def word(self) -> str:
        """Return what takes most of the time that two cores lose."""
        lost = self.two - self.one / 2
        if lost <= 0.05 * self.one:
            return "nothing"
        without = self.idle[1] / 2 - self.idle[0] / 2
        slower = (self.used[1] - self.used[0]) / 2
        if without >= slower:
            share = 100 * self.idle[1] / 2 / self.two
            return f"cores that wait, {share:.0f} % of the time"
        return f"more CPU time, {self.used[1] / self.used[0]:.2f} times"


KINDS: Final = {"threads of one Java machine": "local[{}]", "executors": "{} executor{}"}


def gains(document: Document) -> list[Gain]:
    """Return what the second core gives each operation, in each way to run Spark."""
    jobs, found = document["cores"]["jobs"], []
    for kind, pattern in KINDS.items():
        one, two = (jobs[pattern.format(n, "s" * (n > 1))]["all"] for n in (1, 2))
        for operation in one:
            a, b = one[operation], two[operation]
            idle = (a["wall"] - a["cpu"], 2 * b["wall"] - b["cpu"])
            found.append(
                Gain(
                    operation,
                    kind,
                    a["wall"],
                    b["wall"],
                    (max(0.0, idle[0]), max(0.0, idle[1])),
                    (a["cpu"], b["cpu"]),
                )
            )
    return found


def cores_table(document: Document) -> str:
    """Return what a second core gives, as Markdown."""
    rows = document["cores"]["rows"]["all"]
    made = [
        "| | on | one core | two cores | times | slope | what two cores lose to |",
        "|---|---|---|---|---|---|---|",
    ]
    for gain in gains(document):
        made.append(
            f"| {gain.operation} | {gain.kind} | {rows / gain.one:,.0f} rows a second "
            f"| {rows / gain.two:,.0f} | {gain.times:.2f} | {gain.slope:.2f} | {gain.word} |"
        )
    return "\n".join(made)


# ---------------------------------------------------------------------------- several machines


@dataclass(frozen=True)
class Machines:
    """Measured on two executors. Units: seconds."""

    operation: str
    start: float  # of a session
    fixed: float  # of the driver, however many rows
    row: float  # of the executors' processors, for a row
    task: float  # of the driver's processor, for a task
    rows_a_task: float

    def wall(self, rows: float, cores: float) -> float:
        """Return what a job of these rows takes on these cores, by this model."""
        tasks = max(1.0, rows / self.rows_a_task)
        return self.start + self.fixed + self.task * tasks + self.row * rows / min(cores, tasks)

    @property
    def most_cores(self) -> float:
        """Return the cores that work as long as the driver does for their tasks."""
        return self.row * self.rows_a_task / self.task if self.task > 0 else float("inf")


def machines(document: Document) -> list[Machines]:
    """Return the model of each operation, its figures measured."""
    cores = document["cores"]
    jobs, rows = cores["jobs"]["2 executors"], cores["rows"]
    start = cores["starts"]["2 executors"]
    made = []
    for operation in jobs["all"]:
        few, every, cut = (jobs[data][operation] for data in ("few", "all", "cut"))
        used = [job["cpu"] - job["driver"] for job in (few, every)]
        in_tasks = line_of([rows["few"], rows["all"]], used)
        more = cut["tasks"] - few["tasks"]
        task = max(0.0, cut["driver"] - few["driver"]) / more if more > 0 else 0.0
        fixed = max(0.0, few["wall"] - used[0] / 2)
        stored = every["stored_bytes"] / rows["all"]
        size = TASK_BYTES[operation] / (cores["bytes_a_row"] if operation == "ingest" else stored)
        made.append(Machines(operation, start, fixed, in_tasks.unit, task, size))
    return made


def machines_table(document: Document) -> str:
    """Return what more machines would give, as Markdown: modelled, from measured costs."""
    made = [
        "| | session | driver, fixed | driver, a task | tasks, a million rows "
        "| cores that one driver keeps busy | "
        + " | ".join(f"{power(n)} rows" for n in MODEL_ROWS)
        + " |",
        "|---|" + "---|" * (5 + len(MODEL_ROWS)),
    ]
    for one in machines(document):
        most = f"{one.most_cores:,.0f}" if one.task else "not measured"
        modelled = [
            " · ".join(seconds(one.wall(rows, cores)) for cores in MODEL_CORES)
            for rows in MODEL_ROWS
        ]
        made.append(
            f"| {one.operation} | {seconds(one.start)} | {seconds(one.fixed)} "
            f"| {seconds(one.task) if one.task else 'not measured'} "
            f"| {seconds(1e6 * one.row)} | {most} | " + " | ".join(modelled) + " |"
        )
    return "\n".join(made)


# ---------------------------------------------------------------------------- the page


def table(document: Document, over: str) -> str:
    """Return the lines over one thing as Markdown: CPU time."""
    chosen = [one for one in series_of(document) if one.over == over]
    sizes = chosen[0].sizes
    made = [
        f"| CPU, by {over} | "
        + " | ".join(power(size) for size in sizes)
        + " | slope | between neighbours | fixed | each | what bends it |",
        "|---|" + "---|" * (len(sizes) + 5),
    ]
    for one in chosen:
        fit: Fit = line_of(one.sizes, one.cpu)
        steps = _steps(steps_of(one.sizes, one.cpu))
        made.append(
            f"| {one.operation} | "
            + " | ".join(seconds(cost) for cost in one.cpu)
            + f" | {_steps([slope_of(one.sizes, one.cpu)])} | {steps} "
            f"| {seconds(fit.fixed)} | {unit(fit.unit)} | {one.word} |"
        )
    return "\n".join(made)


def chart(document: Document) -> str:
    """Return a panel for each series: costs and sizes as multiples of the first, as SVG."""
    panels = []
    for over, title in TITLES.items():
        chosen = [one for one in series_of(document) if one.over == over]
        if not chosen:
            continue
        first, last = chosen[0].sizes[0], chosen[0].sizes[-1]
        lines = [
            Line(
                one.operation,
                [
                    (size / one.sizes[0], cost / one.cpu[0])
                    for size, cost in zip(one.sizes, one.cpu, strict=True)
                ],
            )
            for one in chosen
        ]
        lines.append(Line("in proportion", [(1, 1), (last / first, last / first)], dashed=True))
        below = f"times {power(first)} {over}"
        panels.append(Panel(f"CPU time, times the first: {title}", below, lines, steep=True))
    return draw(panels)

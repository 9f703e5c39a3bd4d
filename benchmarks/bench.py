"""Run a chosen set of benchmarks, and say which target that was met is missed now.

    make bench                                  [MINUTES=25]
    python -m benchmarks.bench [--minutes 25] [--only WORDS] [--list]

The set are the figures of benchmarks/today.toml that name a way to measure them: `bench` is the
command, often of a smaller size than the figure's own, `found` a pattern whose group is the number
in its output (of several, the worst one counts), `rate` says that more is better, and `spread` by
which share of the target a good run may miss it, on a machine that other programs use, too.

What this run found is judged beside what today.toml says:

    met            the target is reached
    within spread  it was met, and is missed by no more than its spread
    MISSED         it was met, and is missed by more
    missed before  it was missed already, and still is
    busy           MISSED, but by the clock, and other programs kept all cores before it began
    no figure      the benchmark failed, or printed something else, or no time was left for it

The exit code is 1 where a figure is MISSED or there is none. A small run of `peers` is printed too,
and not judged.
"""

import argparse
import os
import re
import resource
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from benchmarks.today import PROJECT, Figure, figures

MET: Final = "met"
WITHIN: Final = "within spread"
MISSED: Final = "MISSED"
BUSY: Final = "busy"
BEFORE: Final = "missed before"
NO_FIGURE: Final = "no figure"
PEERS: Final = "peers --rows 100000 --rounds 1 --shapes events"
PEERS_SECONDS: Final = 240  # kept for the peers
NUMBER: Final = re.compile(r"[\d,]*\d(?:\.\d+)?")


@dataclass(frozen=True)
class Judged:
    """A figure, what this run found, and the verdict; `number` is None where it found none."""

    figure: Figure
    number: float | None
    use: float | None
    verdict: str

    @property
    def fails(self) -> bool:
        """Return whether the run must not pass."""
        return self.verdict in (MISSED, NO_FIGURE)


def share_of_target(figure: Figure, number: float) -> float:
    """Return the share of the target that a number takes; above 1 the target is missed."""
    target = number_in(figure.target)
    if not figure.rate:
        return number / target
    return target / number if number > 0 else float("inf")


def number_in(text: str) -> float:
    """Return the first number of a text. Raises: ValueError if there is none."""
    found = NUMBER.search(text)
    if found is None:
        raise ValueError(f"no number in {text!r}")
    return float(found.group().replace(",", ""))


def found_in(output: str, figure: Figure) -> float | None:
    """Return the number of a figure in the output of its benchmark, None if there is none."""
    numbers = [number_in(text) for text in re.findall(figure.found, output, re.MULTILINE)]
    if not numbers:
        return None
    return min(numbers) if figure.rate else max(numbers)


def judge(figure: Figure, number: float | None, *, busy: bool = False) -> Judged:
    """Return the verdict on what this run found, on a machine that was busy before or not."""
    if number is None:
        return Judged(figure, None, None, NO_FIGURE)
    use = share_of_target(figure, number)
    if use <= 1:
        return Judged(figure, number, use, MET)
    if figure.use > 1:
        return Judged(figure, number, use, BEFORE)
    if use <= 1 + figure.spread:
        return Judged(figure, number, use, WITHIN)
    return Judged(figure, number, use, BUSY if busy and figure.clock else MISSED)


def table(judged: Iterable[Judged]) -> str:
    """Return the table of a run: the columns of benchmarks/README.md, and this run's."""
    rows = ["| What | Target | Today | This run | Share of the target | Spread | Verdict |"]
    rows.append("|---|---|---|---|---|---|---|")
    for one in judged:
        figure = one.figure
        number = "" if one.number is None else f"{one.number:g}"
        use = "" if one.use is None else f"{one.use:.2f}"
        rows.append(
            f"| {figure.what} | {figure.target} | {figure.today} | {number} | {use} | "
            f"{figure.spread:.0%} | {one.verdict} |"
        )
    return "\n".join(rows)


def output_of(command: str, seconds: float) -> str:
    """Return what a benchmark prints; what it printed until then if it fails or takes too long."""
    name, *arguments = shlex.split(command)
    line = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    try:
        done = subprocess.run(
            line, cwd=PROJECT, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as late:
        say(f"  no end after {seconds:.0f} s")
        return late.stdout.decode() if late.stdout else ""
    if done.returncode:
        say(f"  it ends with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def children_seconds() -> float:
    """Return the CPU time of the benchmarks that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def say(text: str) -> None:
    """Print beside the table."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def run(chosen: Sequence[Figure], until: float) -> list[Judged]:
    """Run each command once, and judge all figures that it gives."""
    judged = []
    for command, some in groupby(sorted(chosen, key=lambda f: f.bench), key=lambda f: f.bench):
        load = os.getloadavg()[0]  # of the minute before, in which this run used about one core
        began, left, cpu = time.monotonic(), until - time.monotonic(), children_seconds()
        output = output_of(command, left) if left > 1 else ""
        took, cpu = time.monotonic() - began, children_seconds() - cpu
        say(f"{command}: {took:.0f} s, {cpu:.0f} of processors, load {os.getloadavg()[0]:.1f}")
        busy = load > 1 + (os.cpu_count() or 1)
        judged += [judge(figure, found_in(output, figure), busy=busy) for figure in some]
    order = {id(figure): number for number, figure in enumerate(chosen)}
    return sorted(judged, key=lambda one: order[id(one.figure)])


def main() -> None:
    """Run, print, and exit with 1 where a target that was met is missed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=25)
    parser.add_argument("--only", help="figures and commands with these words in them")
    parser.add_argument("--list", action="store_true", help="print the commands, run nothing")
    asked = parser.parse_args()
    words = asked.only or ""
    chosen = [f for f in figures() if f.bench and (words in f.what or words in f.bench)]
    if asked.list:
        print("\n".join(dict.fromkeys(f.bench for f in chosen)))
        return
    began = time.monotonic()
    judged = run(chosen, began + 60 * asked.minutes - (0 if words else PEERS_SECONDS))
    print(table(judged), flush=True)
    if not words:
        print(f"\nBeside other formats, `{PEERS}`:\n")
        print(output_of(PEERS, max(1.0, began + 60 * asked.minutes - time.monotonic())))
    failed = [one for one in judged if one.fails]
    say(f"{len(judged)} figures in {(time.monotonic() - began) / 60:.1f} minutes")
    for one in failed:
        say(f"{one.verdict}: {one.figure.what} (`{one.figure.bench}`)")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

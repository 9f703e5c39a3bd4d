"""Draw new cases with every explorer until the time is over: `make explore MINUTES=20`.

    python -m tools.explore --minutes 20 [--seed S]

`make test` draws the same cases each time; here each round draws others. A failing case of a law is
kept in `tests/found` (see `tests/support/kept.py`), a failing command with its output: both fail
`make test` until they are mended. Exit code 1: something was found.

An explorer is a function that takes a seed and seconds, draws cases, and returns what it found. Add
a new one to `EXPLORERS`.
"""

import argparse
import contextlib
import importlib.util
import json
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from tests.support.kept import FOLDER, kept_of

ROOT: Final = Path(__file__).parents[1]
LOGS: Final = ROOT / ".strata" / "explore"  # what programs said that found nothing is lost
LAWS: Final = ("tests/laws", "tests/unit")  # every file here that has properties
GRACE: Final = 30  # seconds that an interrupted program may take to end
PATIENCE: Final = 5  # seconds: for less, nothing is begun
WALL_VALUES: Final = 40  # for each cell: so that a run takes minutes
NET_FILTERS, WALK_STEPS = 100, 20  # a minute or two each


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that fails."""

    what: str  # the test, or the command
    said: str  # the first line of why
    repeat: str  # a command that shows it again
    kept: tuple[Path, ...] = ()  # files that make `make test` fail


Explorer: TypeAlias = Callable[[int, float], Sequence[Finding]]


def laws(seed: int, seconds: float) -> list[Finding]:
    """Run the files of properties one after the other, as far as the seconds reach."""
    end = time.monotonic() + seconds
    files = [
        path.relative_to(ROOT).as_posix()
        for folder in LAWS
        for path in sorted((ROOT / folder).rglob("test_*.py"))
        if "from hypothesis import" in path.read_text()
    ]
    # Each run begins elsewhere, so that a short one does not try the same few files each time.
    random.Random(seed).shuffle(files)
    found: list[Finding] = []
    for file in files:
        if end - time.monotonic() < PATIENCE:
            break
        found += properties([file], seed, end - time.monotonic())
    return found


def properties(
    tests: Sequence[str], seed: int, seconds: float, folder: Path = FOLDER
) -> list[Finding]:
    """Run some tests with cases of a seed, and return those that fail."""
    log = LOGS / f"laws-{seed}-{Path(tests[0]).stem}.txt"
    failures = log.with_suffix(".failed")
    failures.unlink(missing_ok=True)
    drawn = {"HYPOTHESIS_PROFILE": "explore", "STRATA_SEED": str(seed)}
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not long"]
    environment = {**drawn, "STRATA_FAILURES": str(failures)}
    if folder != FOLDER:
        environment["STRATA_FOUND"] = str(folder)
    code = run([*words, *tests], log, seconds, environment)
    failed = (
        [json.loads(line) for line in failures.read_text().splitlines()]
        if (failures.exists())
        else []
    )
    failures.unlink(missing_ok=True)
    set_to = " ".join(f"{name}={value}" for name, value in drawn.items())
    found = []
    for one in failed:
        name, kept = one["test"], tuple(kept_of(one["test"], folder))
        command = f".venv/bin/python -m pytest {shlex.quote(name)}"
        repeat = command if kept else f"{set_to} {command}"
        found.append(Finding(name, one["message"], repeat, kept))
    if code not in {0, 1, 5, None} and not failed:  # 5: none of these tests is run here
        command = f"{set_to} .venv/bin/python -m pytest {shlex.join(tests)}"
        found.append(Finding(tests[0], f"pytest ended with {code}: see {log}", command))
    if not found:
        log.unlink(missing_ok=True)
    return found


def wall(seed: int, seconds: float) -> list[Finding]:
    """Drive hostile values of sources through the engine: `tests.wall`, if it is there."""
    if importlib.util.find_spec("tests.wall") is None:
        return []
    return command("wall", ["-m", "tests.wall", "--values", str(WALL_VALUES)], seed, seconds)


def filters(seed: int, seconds: float) -> list[Finding]:
    """Try filters as Spark runs them, in each session: `tests.spark.as_run`."""
    words = ["-m", "tests.spark.as_run", "--worlds", "1", "--filters", str(NET_FILTERS)]
    return command("filters", words, seed, seconds)


def operations(seed: int, seconds: float) -> list[Finding]:
    """Walk between operations on a shard, with filters after each: `tests.spark.operations`."""
    words = ["-m", "tests.spark.operations", "--walks", "1", "--steps", str(WALK_STEPS)]
    return command("operations", words, seed, seconds)


def command(name: str, words: Sequence[str], seed: int, seconds: float) -> list[Finding]:
    """Run a program of the tests that takes a seed and ends with 1 if it finds something.

    A program that time was over for has found what it says in lines that begin with WRONG.
    """
    words = [*words, "--seed", str(seed)]
    log = LOGS / f"{name}-{seed}.txt"
    code = run([sys.executable, *words], log, seconds, {})
    said = log.read_text()
    wrong = [line for line in said.splitlines() if line.startswith("WRONG")]
    shown = f".venv/bin/python {shlex.join(words)}"
    if code in {0, None} and not wrong:
        log.unlink(missing_ok=True)
        return []
    if code not in {0, 1, None}:
        return [Finding(words[1], f"it ended with {code}: see {log}", shown)]
    kept = sorted(FOLDER.glob(f"{name}-*.txt"))
    if not kept:  # one is enough: most seeds would find the same again
        FOLDER.mkdir(parents=True, exist_ok=True)
        kept = [FOLDER / f"{name}-{seed}.txt"]
        kept[0].write_text(f"$ {shlex.join(words)}\n{said}")
    return [Finding(words[1], wrong[0] if wrong else last_line(said), shown, tuple(kept))]


EXPLORERS: Final[tuple[tuple[str, Explorer], ...]] = (
    ("laws", laws),
    ("wall", wall),
    ("filters", filters),
    ("operations", operations),
)


def tell(line: str) -> None:
    """Print a line at once, so that a person who waits can follow."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def last_line(text: str) -> str:
    """Return the last line that a command has said: what it counts, or its error."""
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def run(words: Sequence[str], log: Path, seconds: float, environment: dict[str, str]) -> int | None:
    """Run a program with its output in a file, and return its exit code; None: time was over."""
    log.parent.mkdir(parents=True, exist_ok=True)
    surroundings = {**os.environ, **environment}
    with log.open("w") as out:
        program = subprocess.Popen(
            words,
            cwd=ROOT,
            stdout=out,
            stderr=subprocess.STDOUT,
            env=surroundings,
            start_new_session=True,
        )
        try:
            return program.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            stop(program)


def stop(program: subprocess.Popen[bytes]) -> None:
    """End a program and all that it began, if it still runs: first politely."""
    for sent in (signal.SIGINT, signal.SIGKILL):
        if program.poll() is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program.pid, sent)
        with contextlib.suppress(subprocess.TimeoutExpired):
            program.wait(GRACE)


def explore(
    explorers: Sequence[tuple[str, Explorer]], seed: int, seconds: float
) -> Iterable[tuple[str, int, Finding]]:
    """Yield what explorers find, and the seed of that round; each thing once.

    In each round every explorer has an equal part of the time that is left.
    """
    end, known, number = time.monotonic() + seconds, set[str](), 0
    while end - time.monotonic() > PATIENCE:
        for place, (name, explorer) in enumerate(explorers):
            left = end - time.monotonic()
            drawn = seed + number
            for found in explorer(drawn, max(left / (len(explorers) - place), 0)):
                if found.what not in known:
                    known.add(found.what)
                    yield name, drawn, found
        number += 1
        tell(f"round {number} is done, {max(end - time.monotonic(), 0):.0f} s are left")


def main() -> int:
    """Explore, print what was found, and return the exit code."""
    parser = argparse.ArgumentParser(description="Draw new cases for the laws.")
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--seed", type=int)
    asked = parser.parse_args()
    seed = random.SystemRandom().randrange(10**9) if asked.seed is None else asked.seed
    tell(f"seed {seed}: {asked.minutes:g} minutes")
    count = 0
    for name, drawn, found in explore(EXPLORERS, seed, asked.minutes * 60):
        count += 1
        tell(f"FOUND seed={drawn} {name}: {found.what}: {found.said}")
        tell(f"  repeat: {found.repeat}")
        for path in found.kept:
            tell(f"  kept:   {path.relative_to(ROOT)}")
    tell(f"seed {seed}: {count} found" if count else f"seed {seed}: nothing found")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())

"""Two versions side by side on one store: `python -m tests.formats.two_versions CHECKOUT`.

    git worktree add ../before COMMIT
    python -m tests.formats.two_versions ../before --minutes 60

CHECKOUT is a working tree of the other version. A store is begun by the other one. Then both work
on it at once, round by round: one writes (`tests.crash.stress`), both merge, collect statistics,
trim and sweep, and all are killed. The writer of the next round is the other version's, which first
repeats what was under way. After each round the version that did not write reads all that was
acknowledged. A store lives for some rounds, then a new one is begun.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

HERE: Final = Path(__file__).resolve().parents[2]
ROUNDS: Final = 25  # of a store
SECONDS: Final = 4.0  # of a round

# Runs in the working tree of either version, so that all that it imports is of that one.
DRIVER: Final = """
import json, os, signal, sys, time
from functools import partial
from pathlib import Path
import strata
from tests.crash import stress
from tests.crash.expected import Log

stress.remember_little()
place = Path(sys.argv[1])
place.mkdir()
stress.warm(place)

def work(root, seed, writes):
    maintain = partial(stress.Maintainer(root, seed).run)
    return [stress.Writer(root, seed).run, maintain] if writes else [maintain, maintain]

def turn(root, seed, writes, seconds):
    works = work(root, seed, writes)
    children = [stress.forked(root, one) for one in works]
    time.sleep(seconds)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]

def check(root):
    writer = stress.Writer(root, 0)
    at, pending = writer.expected.upper - 1, writer.pending
    state = writer.machine.load(stress.NAME)
    if (pending and pending["op"] in ("add", "drop")) or not state.since <= at < state.upper:
        return None
    names = writer.expected.names()
    found = stress.contents(writer.stores, state, names, at)
    return found == writer.expected.contents(at) and len(found)

def do(root, op, **rest):
    if op == "create":
        root.mkdir()
        stress.create(root)
        return True
    if op == "finish":
        stress.finish(root)
        return True
    return check(root) if op == "check" else turn(root, **rest)

print(json.dumps(str(Path(strata.__file__).resolve())), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    print(json.dumps(do(Path(asked.pop("root")), **asked)), flush=True)
"""


class Failed(Exception):
    """The versions do not go together."""


class Version:
    """A process of one version, which does what it is asked."""

    def __init__(self, checkout: Path, place: Path) -> None:
        """Start it; its own files lie in a folder that is not there yet."""
        paths = os.pathsep.join([str(checkout / "plugins"), str(checkout)])
        # What of the environment must not lead to the other version
        env = {**os.environ, "PYTHONPATH": paths}
        env.pop("STRATA_CONFIG", None)
        self._process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(place)],
            cwd=checkout,
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.code = Path(self._answer())
        if not self.code.is_relative_to(checkout.resolve()):
            raise Failed(f"{checkout} runs the code of {self.code}")

    def ask(self, root: Path, op: str, **rest: Any) -> None:
        """Begin something; `answer` waits for its end."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"root": str(root), "op": op, **rest}) + "\n")
        self._process.stdin.flush()

    def answer(self, root: Path) -> Any:
        """Return what came of it. Raises: Failed with what was written of errors."""
        found = self._answer()
        errors = root / "errors.txt"
        if errors.exists():
            raise Failed(f"{self.code}: {errors.read_text('utf-8')}")
        return found

    def done(self, root: Path, op: str) -> Any:
        """Do something and wait for its end."""
        self.ask(root, op)
        return self.answer(root)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Failed("the process of a version ended")
        return json.loads(line)

    def __enter__(self) -> "Version":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()  # which closes the pipes, too


def life(root: Path, versions: tuple[Version, Version], rounds: int, seed: int) -> int:
    """Let both work on a new store; return how many rows the last check compared."""
    compared = 0
    versions[0].done(root, "create")
    for number in range(rounds):
        for which, version in enumerate(versions):
            writes = which == number % 2
            version.ask(root, "turn", seed=seed + number, writes=writes, seconds=SECONDS)
        codes = [version.answer(root) for version in versions]
        if any(code != -9 for some in codes for code in some):
            raise Failed(f"somebody ended by himself: {codes}")
        found = versions[1 - number % 2].done(root, "check")
        if found is False:
            raise Failed(f"round {number} of {root}: a read gives other rows than were written")
        compared = found or compared
    versions[rounds % 2].done(root, "finish")
    for version in versions:
        if version.done(root, "check") is False:
            raise Failed(f"{root}: {version.code} reads other rows at the end")
    return compared


def say(what: str) -> None:
    """Print a line now."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def main() -> None:
    """Run for some minutes and say what was done."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    lives = 0
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="versions-")))
        checkouts = (options.checkout.resolve(), HERE)
        versions = [
            stack.enter_context(Version(checkout, place / name))
            for checkout, name in zip(checkouts, ("other", "this"), strict=True)
        ]
        end = time.monotonic() + 60 * options.minutes
        while time.monotonic() < end:
            root = place / f"life-{lives}"
            seed = options.seed + lives * 1000
            rows = life(root, (versions[0], versions[1]), options.rounds, seed)
            lives += 1
            lines = (root / "expected.jsonl").read_bytes().count(b"\n")
            say(f"{lives}: {lines // 2} operations, {rows} rows compared last")
    say(f"{lives} stores of {options.rounds} rounds: nothing lost, doubled or changed")


if __name__ == "__main__":
    main()

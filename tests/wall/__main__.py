"""Run the wall with a seed: `python -m tests.wall --seed 7 --values 10000 --types time,jsonb`.

Prints what became of the values of each cell. Values that are neither stored equal nor rejected
with their place are told, and end it with 1; the least of them belong into `tests/wall/found/`.
"""

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import SystemRandom

from tests.wall.cells import SOURCES, TYPES, Failure, run
from tests.wall.kept import unexcused


def main() -> int:
    """Run the wall as the command line says; 1 if something failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.wall", description=__doc__)
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(10**6))
    parser.add_argument("--values", type=int, default=1000)
    parser.add_argument("--types", default="", help="separated by semicolons; default: all")
    parser.add_argument("--sources", default="", help="separated by commas; default: all but Spark")
    parser.add_argument("--all", action="store_true", help="tell what open faults explain, too")
    parser.add_argument("--shown", type=int, default=6, help="failures of a cell that are told")
    arguments = parser.parse_args()
    types = [name for name in arguments.types.split(";") if name] or TYPES
    names = [name for name in arguments.sources.split(",") if name] or list(SOURCES)
    print(f"seed {arguments.seed}, {arguments.values} values a cell")
    failures: list[Failure] = []
    for name in types:
        for source in names:
            began = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                verdict = run(name, SOURCES[source], arguments.seed, arguments.values, Path(folder))
            took = time.process_time() - began
            if verdict.values:
                print(
                    f"{name} from {source}: {verdict.values} values, {verdict.stored} stored, "
                    f"{verdict.rejected} rejected, {verdict.must} must, {verdict.undecided} "
                    f"undecided, {len(verdict.failures)} failures ({took:.2f} s)"
                )
            some = verdict.failures if arguments.all else unexcused(verdict.failures)
            failures += tell(some, arguments.shown)
    print(f"{len(failures)} failures told; seed {arguments.seed}")
    return 1 if failures else 0


def tell(failures: list[Failure], shown: int) -> list[Failure]:
    """Print the shortest failures of each sort and return them."""
    seen: Counter[str] = Counter()
    told = []
    for one in sorted(failures, key=lambda f: len(f.value)):
        sort = one.got.split(":")[0].split(" ")[0]
        seen[sort] += 1
        if seen[sort] <= shown:
            told.append(one)
            print(f"  {one.value!r}\n    expected {one.expected}\n    got      {one.got}")
    return told


if __name__ == "__main__":
    sys.exit(main())

"""The shards of a job: those that a person names, or all that it finds.

A shard that a person names has to be there. One that a list gave may be dropped before its turn,
and is then passed over. A DAG run of all shards that is cut into groups lists them once, ahead of
its jobs: `--found` says so.
"""

import argparse
from collections.abc import Callable, Iterable

Names = Callable[[], Iterable[str]]


def add_shards(parser: argparse.ArgumentParser) -> None:
    """Let a job have `--shard` and `--found`."""
    parser.add_argument("--shard", action="append", default=[], help="repeat for several")
    parser.add_argument(
        "--found", action="store_true", help="a list gave the shards: pass over dropped ones"
    )


def still(args: argparse.Namespace, there: Names) -> Names | None:
    """Return `there`, the names of shards that exist, unless a person named them: `each_shard`."""
    return there if args.found or not args.shard else None

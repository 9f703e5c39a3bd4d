"""Statistics of wide JSON events, and what is left out: `python benchmarks/wide_events.py`.

Events of 76 paths of mixed kinds, as webhooks have them, and of 2,000. CPU time to collect the
statistics of a part, as a ratio to parsing the same texts with orjson, in turns A B A B; the median
ratio is printed. Then the bytes of the statistics, and for how many paths there are any: after
collection, which keeps a bounded number of paths, and after trimming to the budget of a shard.
"""

import random
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import orjson
import pyarrow as pa

from strata.model.schema import Column, Relation
from strata.model.spec import StatsSpec
from strata.model.types import parse_type
from strata.stats import collect, encoded_sizes, trim
from strata.stats.wire import parse_name

EVENTS = Relation(0, (Column(1, "payload", parse_type("jsonb")),), (1,), ())
BYTES = 16 << 20  # of texts, for each width
TURNS = 5
DEPTH = 12  # keys of one map


def main(widths: list[int]) -> None:
    """Print one line for each width."""
    for paths in widths:
        texts = events(paths, random.Random(paths))
        table = pa.table([texts], names=["1"])
        raw = texts.cast(pa.binary()).to_pylist()
        collect(table, EVENTS)  # loads the compiled kernels
        ratios = []
        for _ in range(TURNS):
            parsed = cpu(lambda: [orjson.loads(row) for row in raw])  # noqa: B023
            collected = cpu(lambda: collect(table, EVENTS))  # noqa: B023
            ratios.append(collected / parsed)
        stats, spec = collect(table, EVENTS), StatsSpec()
        trimmed, _ = trim(stats, EVENTS, spec.budget_bytes, spec.keep)
        sys.stdout.write(
            f"{paths:>5} paths, {len(raw):,} events: {median(ratios):.2f} x orjson "
            f"({min(ratios):.2f} to {max(ratios):.2f}); collected {known(stats):,} paths, "
            f"{size(stats):,} bytes; in {spec.budget_bytes:,} bytes {known(trimmed):,} paths, "
            f"{size(trimmed):,} bytes\n"
        )


def events(paths: int, draw: random.Random) -> pa.Array:
    """Return events in which each leaf is at its own path, of one kind of six, some missing."""
    one = orjson.dumps(event(paths, draw))
    return pa.array(
        orjson.dumps(event(paths, draw)).decode() for _ in range(max(50, BYTES // len(one)))
    )


def event(paths: int, draw: random.Random) -> dict[str, Any]:
    """Return one event: maps of up to DEPTH leaves, below one another where there are many."""
    found: dict[str, Any] = {}
    for number in range(paths):
        group, inner = divmod(number, DEPTH)
        place = found.setdefault(f"g{group % 40}", {})
        if group >= 40:
            place = place.setdefault(f"h{group // 40}", {})
        if draw.random() < 0.9:
            place[f"k{inner}"] = leaf(number, draw)
    return found


def leaf(number: int, draw: random.Random) -> Any:
    """Return a value of the kind that the path has."""
    return (
        draw.randrange(10**6),
        draw.random() * 100,
        f"https://example.org/{draw.randrange(10**9)}",
        f"2024-01-{draw.randrange(1, 29):02}T00:00:00Z",
        draw.random() < 0.5,
        draw.choice(["open", "closed", None, 7]),
    )[number % 6]


def known(stats: pa.RecordBatch | None) -> int:
    """Return how many paths below the root have statistics."""
    names = [] if stats is None else stats.schema.names
    return sum(bool(parsed[1]) for parsed in map(parse_name, names) if parsed is not None)


def size(stats: pa.RecordBatch | None) -> int:
    """Return the size of statistics as they are stored. Units: bytes."""
    return 0 if stats is None else int(encoded_sizes(pa.Table.from_batches([stats])).sum())


def cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds of this process that the work takes."""
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main([int(word) for word in sys.argv[1:]] or [76, 2000])

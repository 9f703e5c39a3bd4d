"""How fast JSON texts become statistics: `python -m benchmarks.json_scan [ROWS] [ROUNDS]`.

Contenders take turns, A B A B…; medians of CPU seconds (all use one core), so that the machine's
other work disturbs little, and all of them alike. The fold parses with orjson and summarises each
path with as few Python steps as possible; it refuses nothing and rounds nothing, which is less
work. Python's collector is off for all.
"""

import gc
import random
import statistics
import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from itertools import chain
from operator import itemgetter
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from benchmarks.stats import documents
from strata.stats.json import collect_json

CHUNK = 16_384  # parsed values of more rows no longer fit the caches


def main(rows: int, rounds: int) -> None:
    """Print rows and bytes a second of each contender, and the ratio to the fold."""
    for name, texts in shapes(rows):
        raw = texts.cast(pa.binary()).to_pylist()
        size = sum(map(len, raw))
        contenders: dict[str, Callable[[], object]] = {
            "orjson + fold": lambda raw=raw: folded(raw),
            "orjson alone": lambda raw=raw: parsed(raw),
            "scanner": lambda texts=texts: collect_json(texts, 1),
            "bytes summed": lambda texts=texts: np.frombuffer(texts.buffers()[2], np.uint8).sum(),
        }
        collect_json(texts.slice(0, 10), 1)  # compiled, or loaded from the cache
        times: dict[str, list[float]] = {contender: [] for contender in contenders}
        for _ in range(rounds):
            for contender, work in contenders.items():
                times[contender].append(_seconds(work))
        medians = {contender: statistics.median(found) for contender, found in times.items()}
        print(f"{name}: {rows:,} rows of {size // rows} bytes, {rounds} rounds")
        for contender, seconds in medians.items():
            print(
                f"  {contender:14} {rows / seconds / 1e6:8.2f} M rows/s {size / seconds / 1e9:8.3f}"
                f" GB/s {medians['orjson + fold'] / seconds:8.1f} x fold"
            )


def shapes(rows: int) -> list[tuple[str, pa.Array]]:
    """Return texts that are regular, of mixed kinds and missing keys, and hard to read."""
    rng = random.Random(2)
    mixed = [
        orjson.dumps(
            {
                key: rng.choice(
                    [rng.randint(-99, 99), rng.random(), f"v{rng.randint(0, 999)}", None]
                )
                for key in ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta")
                if rng.random() < 0.7
            }
        ).decode()
        for _ in range(rows)
    ]
    hard = [
        f'{{"t\\u0065xt": "\\u00e4\\n{rng.randint(0, 999)}", "größe": {rng.random() * 1e-9!r},'
        f' "big": {rng.getrandbits(62)}, "list": [1.5, {{"x": "é"}}, []]}}'
        for _ in range(rows)
    ]
    return [
        ("regular", documents(rows, rng)),
        ("mixed", pa.array(mixed)),
        ("hard", pa.array(hard)),
    ]


def folded(raw: list[bytes]) -> list[dict[tuple[str, ...], dict[str, Any]]]:
    """Return counts and extremes by path, chunk by chunk."""
    return [fold([orjson.loads(text) for text in chunk]) for chunk in chunks(raw)]


def parsed(raw: list[bytes]) -> int:
    """Parse every text, chunk by chunk."""
    return sum(len([orjson.loads(text) for text in chunk]) for chunk in chunks(raw))


def chunks(raw: list[bytes]) -> list[list[bytes]]:
    """Return the texts in pieces."""
    return [raw[start : start + CHUNK] for start in range(0, len(raw), CHUNK)]


def fold(values: list[Any]) -> dict[tuple[str, ...], dict[str, Any]]:
    """Return counts and extremes of parsed values by path."""
    result: dict[tuple[str, ...], dict[str, Any]] = {}
    queue: deque[tuple[tuple[str, ...], list[Any]]] = deque([((), values)])
    while queue:
        path, here = queue.popleft()
        kinds = Counter(map(type, here))
        fields: dict[str, Any] = {kind.__name__: count for kind, count in kinds.items()}
        for kind in (int, float, str):
            some = _only(here, kinds, kind)
            fields[f"{kind.__name__} bounds"] = (min(some), max(some)) if some else None
        fields["trues"] = sum(_only(here, kinds, bool))
        result[path] = fields
        maps = _only(here, kinds, dict)
        for key, count in Counter(chain.from_iterable(maps)).items():
            if count == len(maps):
                queue.append(((*path, key), list(map(itemgetter(key), maps))))
            else:
                queue.append(((*path, key), [one[key] for one in maps if key in one]))
    return result


def _only(values: list[Any], kinds: Counter[type], kind: type) -> list[Any]:
    if kinds[kind] in (0, len(values)):
        return values if kinds[kind] else []
    return [value for value in values if type(value) is kind]


def _seconds(work: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    start = time.process_time()
    work()
    seconds = time.process_time() - start
    gc.enable()
    return seconds


if __name__ == "__main__":
    main(*(int(argument) for argument in (*sys.argv[1:], *("200000", "7")[len(sys.argv) - 1 :])))

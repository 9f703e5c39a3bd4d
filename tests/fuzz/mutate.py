"""`python -m tests.fuzz.mutate TARGET [--seconds N] [--seed S]`: damage small files at random.

A plain fuzzer, always the same for a seed: bytes are flipped, cut out, doubled, exchanged between
files, or replaced by words that readers stumble over; JSON gets other values, too. It needs no
compiler and no coverage. What is being read is written to `.strata/fuzz/TARGET-crash-SEED` first,
so that even a crash of the process leaves its input.
"""

import argparse
import random
import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from tests.fuzz.sources import SOURCES, Source

MEMORY: Final = 6 << 30
WORDS: Final = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\n", b'"', b'""', b"\\",
    b"\\ud800", b"[" * 300, b"]" * 300, b'{"a":' * 300, b"1e999999999", b"1e-999999999",
    b"9" * 5000, b"-", b",", b"null", b"NaN", b"true", b"{}", b"[]", b":", b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x00\x00\x00\x80", b"9999-12-31T23:59:59.999999",
    b"10000-01-01", b"999999999 days", b"PAR1", b"ORC", b"Obj\x01", b'"op":[]', b'"after":[1]',
    b'"schema":5', b'"fields":{"a":1}', b'"key":[]', b'"source":7', b'"ts_ms":"x"', b'"lsn":{}',
)  # fmt: skip


VALUES: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 5.0, 0.1, -0.0, 1e300, 1e-7, 2**31, 2**53 + 1, 2**63, 20_000, -800_000,
    10**15, "", "x", "é", "\0", " 1", "7", "1.50", "1.505", "1e2", "-0", "NaN", "Infinity",
    "false", "last", "2026-02-30", "2026-01-02", "2026-01-02T03:04:05.1234567Z", "24:00:00",
    "2026-01-02 03:04:05+01", "0000-01-01", "9999-12-31T23:59:59.999999Z", "mysql",
    "__debezium_unavailable_value", '["9","8"]', '[null,"8"]', [], {}, [None], {"id": 1}, ["7"],
)  # fmt: skip


def mutated(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return a file of these with some damage, or, of JSON lines, with other values."""
    seed = chance.choice(seeds)
    if seed[:1] == b"{" and chance.random() < 0.5:
        return revalued(chance, seed)
    data = bytearray(seed)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(data) + 1)
        to = at + chance.choice((0, 1, 2, 8, 64))
        match chance.randrange(7):
            case 0:
                data[at:to] = chance.randbytes(to - at)
            case 1:
                del data[at:to]
            case 2:
                data[at:at] = data[at:to]
            case 3 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 4:
                other = chance.choice(seeds)
                begin = chance.randrange(len(other) + 1)
                data[at:to] = other[begin : begin + chance.choice((1, 16, 200))]
            case 5 if chance.random() < 0.1:
                del data[at:]
            case _:
                data[at : chance.choice((at, to))] = chance.choice(WORDS)
    return bytes(data)


def revalued(chance: random.Random, data: bytes) -> bytes:
    """Return JSON lines of which some have another value, lack a key or have one more."""
    lines = data.split(b"\n")
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        number = chance.randrange(len(lines))
        try:
            value = orjson.loads(lines[number])
        except orjson.JSONDecodeError:
            continue
        places = list(_places(value))
        if not places:
            continue
        holder, key = chance.choice(places)
        match chance.randrange(8):
            case 0:
                del holder[key]
            case 1 if isinstance(holder, dict):
                holder[chance.choice(("id", "v", "x", "new"))] = chance.choice(VALUES)
            case _:
                holder[key] = chance.choice(VALUES)
        lines[number] = orjson.dumps(value)
    return b"\n".join(lines)


def _places(value: object) -> Iterator[tuple[Any, Any]]:
    """Yield every object or array inside a value with each key that it has."""
    if isinstance(value, dict | list):
        for key in [*value] if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from _places(value[key])


def run(source: Source, seed: int, *, cases: int | None = None, seconds: float = 0) -> int:
    """Read damaged files until the time or the number is up; return how many."""
    chance, seeds = random.Random(seed), source.seeds()
    kept = Path(".strata/fuzz") / f"{source.name}-crash-{seed}"
    kept.parent.mkdir(parents=True, exist_ok=True)
    end, done = time.monotonic() + seconds, 0
    while done < cases if cases is not None else time.monotonic() < end:
        data = mutated(chance, seeds)
        kept.write_bytes(data)
        source.check(data)
        done += 1
    kept.unlink(missing_ok=True)
    return done


def main() -> None:
    """Fuzz one target."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("target", choices=sorted(SOURCES))
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    done = run(SOURCES[asked.target], asked.seed, seconds=asked.seconds)
    print(f"{asked.target}: {done} files")  # noqa: T201


if __name__ == "__main__":
    main()

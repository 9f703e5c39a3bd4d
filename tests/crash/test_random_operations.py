"""Random operations, killed at random moments, checked against an expected-state file.

In the manner of RocksDB's db_crashtest: after each kill the shard must hold exactly what was
acknowledged, and the one operation that was under way either whole or not at all; every blob
that the state names must be there. At the end nothing that is dead may be left.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from strata import gc
from strata.gc.reach import reach
from strata.machine.machine import Machine
from strata.model.time import MIN_TIME
from strata.state import spine as spines
from strata.store import keys
from strata.store.open import Stores, open_stores
from tests.crash.expected import Expected, Log
from tests.crash.stress import NAME, contents, create, on_disk

ROOT = Path(__file__).parents[2]


@contextmanager
def stressed(root: Path) -> Iterator[subprocess.Popen[str]]:
    """Run the program that forks and kills, until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.stress", str(root)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=60)


def kill(process: subprocess.Popen[str], draw: random.Random, root: Path) -> None:
    """Let one round happen; everybody must have been killed at work."""
    assert process.stdin is not None
    assert process.stdout is not None
    # Early ones, too: then the kill falls into the repetition of what the last one cut short.
    request = {
        "seed": draw.getrandbits(30),
        "maintainers": draw.choice([0, 1, 1, 2]),
        "lines": draw.choice([0, 1, 3, 5, 8]),
        "seconds": draw.uniform(0, 0.15),
        # Every other time not by the clock: all steps are as likely, the short ones too.
        "step": draw.choice([None, draw.randrange(1, 50)]),
        "after": draw.random() < 0.5,
    }
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    codes = json.loads(process.stdout.readline())
    errors = root / "errors.txt"
    assert set(codes) == {-9}, errors.read_text() if errors.exists() else codes


def verify(root: Path) -> tuple[Expected, bool]:
    """Compare the shard with the file; return what it must hold, and whether a kill cut in."""
    settings = on_disk(root)
    stores = open_stores(settings.store)
    state = Machine(stores).load(NAME)
    expected, pending = Log(root / "expected.jsonl").load()
    if pending is not None:
        happened = {
            "add": lambda: pending["column"] in state.relation.by_name,
            "drop": lambda: pending["column"] not in state.relation.by_name,
        }.get(pending["op"], lambda: Machine(stores).committed(NAME, f"t{pending['n']}"))()
        if happened:
            expected.apply(pending)
    assert max(state.upper, 0) == expected.upper
    assert {c.name for c in state.relation.columns} == {*expected.names()}
    assert spines.problems(state.spine, MIN_TIME, state.upper) == []
    first = max(state.since, 0)
    for as_of in {first, (first + state.upper) // 2, state.upper - 1}:
        if first <= as_of < state.upper:
            found = contents(stores, state, expected.names(), as_of)
            assert found == expected.contents(as_of), f"as of {as_of}"
    assert gc.find_leaks(stores, settings, [NAME]).missing == ()
    return expected, pending is not None


def crash(root: Path, kills: int, seed: int) -> None:
    draw, cut, operations = random.Random(seed), 0, 0
    create(root)
    with stressed(root) as process:
        for number in range(kills):
            kill(process, draw, root)
            expected, pending = verify(root)
            assert expected.operations >= operations
            cut, operations = cut + pending, expected.operations
            (root / "kills.txt").write_text(f"{number + 1} of {kills}")  # for who waits for it
    assert cut >= kills // 4, "the kills came when nothing was under way"
    assert operations > kills, "the kills came too early to test anything"
    settle(root, kills)


def settle(root: Path, kills: int) -> None:
    """Repeat what was cut short last, sweep, and find nothing missing and nothing left."""
    stores = open_stores(on_disk(root).store)
    # By the same program: what it spilled when it was killed, only its like spills once more.
    subprocess.run(
        [sys.executable, "-m", "tests.crash.stress", str(root), "--finish"], check=True, cwd=ROOT
    )
    _, pending = verify(root)

    assert not pending
    state = Machine(stores).load(NAME)
    assert state.fence > 0, "the garbage was never swept"
    assert kills < 100 or any(map(keys.ledger_level, state.ledger)), "the ledger was never folded"
    assert all(Machine(stores).committed(NAME, f"t{n}") for n in appended(root))
    stored = {i.key for i in stores.blob.list("") if keys.parse_key(i.key).kind in GARBAGE}
    report = gc.find_leaks(stores, on_disk(root, grace_ms=0))
    assert report.clean, report.to_json()
    assert stored == state_blobs(stores)


def appended(root: Path) -> list[int]:
    """Return the numbers of all operations that were acknowledged under a token."""
    lines = map(json.loads, (root / "expected.jsonl").read_text().splitlines())
    return [line["n"] for line in lines if line.get("op") in ("append", "ingest")]


GARBAGE = ("parts", "manifests", "ledger")


def state_blobs(stores: Stores) -> set[str]:
    """Return the parts, manifests and ledgers that states name which still count."""
    machine = Machine(stores)
    head = machine.load(NAME)
    found = reach(machine, head, head.fence, stores.clock())
    return {k for k in (*found.live, *found.held) if keys.parse_key(k).kind in GARBAGE}


@pytest.mark.slow
def test_ten_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    crash(tmp_path, kills=10, seed=20131)


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_two_hundred_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    crash(tmp_path, kills=200, seed=random.randrange(2**30))

"""Whatever stores do, nothing is lost, doubled or changed: seeded runs of the whole engine."""

from collections import Counter
from pathlib import Path

import pytest

from tests.faults.world import whole_run
from tests.support.failing_stores import Outcome


def test_twenty_seeded_runs_keep_the_laws(tmp_path: Path) -> None:
    done: Counter[str] = Counter()
    drawn: Counter[Outcome] = Counter()
    for seed in range(20):
        world = whole_run(tmp_path / str(seed), seed, operations=12)
        done += world.done
        drawn += world.faults.drawn
    assert {"append", "ingest", "compact", "collect", "backfill", "trim", "read"} <= {*done}
    assert set(drawn) >= set(Outcome) - {Outcome.DELAYED}, "some fault was never tried"


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("block", range(10))
def test_five_hundred_seeded_runs_keep_the_laws(tmp_path: Path, block: int) -> None:
    for seed in range(1000 + 50 * block, 1050 + 50 * block):
        whole_run(tmp_path / str(seed), seed, operations=30)

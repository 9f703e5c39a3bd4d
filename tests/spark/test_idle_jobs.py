"""A job that is told to change nothing changes no row and no byte, and in earnest it does.

The words of each job that make it idle are found in its source, so that a new one has to be named.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import strata.jobs
from strata.jobs.compact.main import main as compact
from strata.jobs.ingest.main import main as ingest
from strata.jobs.stats.main import main as stats
from tests.attacks.test_idle_commands import SPEC, World

pytestmark = pytest.mark.spark
Job = Callable[[Sequence[str]], int]
JOBS = Path(strata.jobs.__file__).parent
TIMES = ["--from-time", "1970-01-02", "--to-time", "1970-01-03"]
AGAIN = ["backfill", "--shard", "s", "--again"]
TRIM = ["trim", "--shard", "s", "--budget", "1"]
FULL = ["--shard", "s", "--full"]
# The job, its words in earnest, and the one that makes it idle.
FORMS: dict[str, tuple[Job, list[str], str]] = {
    "ingest": (ingest, TIMES, "--dry-run"),
    "ingest a shard that is not there": (ingest, [*TIMES, "--shard", "t"], "--dry-run"),
    "stats backfill": (stats, AGAIN, "--dry-run"),
    "stats trim": (stats, TRIM, "--dry-run"),
    "compact": (compact, FULL, "--plan"),
    "compact sweep": (compact, ["--sweep"], "--plan"),
}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Return a store with new files, and with a shard that is declared and does not exist."""
    world = World(tmp_path_factory.mktemp("idle")).build()
    for file in (world.root / "in").iterdir():
        file.unlink()  # their names hold no time
    (world.root / "shards/m.yaml").unlink()  # declares no source: ingest is not for it
    spec = SPEC.replace("name: s\n", "name: t\n").replace("[in]", "[new]")
    (world.root / "shards/t.yaml").write_text(spec)
    (world.root / "new").mkdir()
    for folder in ("in", "new"):
        (world.root / folder / "1970-01-02.jsonl").write_text('{"id": 9}\n{"id": "?"}\n')
    return world


def test_no_word_that_makes_a_job_idle_is_forgotten() -> None:
    found = {
        (file.parent.name, word)
        for file in JOBS.glob("*/main.py")
        for word in re.findall(r'add_argument\("(--dry-run|--plan)"', file.read_text("utf-8"))
    }
    assert found == {(name.split()[0], word) for name, (_, _, word) in FORMS.items()}


@pytest.mark.parametrize("name", FORMS)
def test_an_idle_job_changes_nothing(spark: SparkSession, built: World, name: str) -> None:
    job, words, idle = FORMS[name]
    before = built.everything()
    assert any(key.startswith("strata_consensus") for key in before)

    assert job([*words, idle, "--config", str(built.config)]) == 0

    assert built.everything() == before


@pytest.mark.parametrize("name", FORMS)
def test_in_earnest_the_same_job_changes_something(
    spark: SparkSession, built: World, tmp_path: Path, name: str
) -> None:
    """Beside the row of history."""
    job, words, _ = FORMS[name]
    world = built.copy(tmp_path)
    before = world.everything()

    assert job([*words, "--config", str(world.config)]) == 0

    after = world.everything()
    assert {key for key in after if after[key] != before.get(key) and "operations" not in key}

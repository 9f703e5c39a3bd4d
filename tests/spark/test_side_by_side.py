"""Jobs do to shards that are worked on side by side what they do to one after the other."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from strata.cli.app import main as cli
from strata.jobs.compact.main import main as compact
from strata.jobs.entry import each_shard
from strata.jobs.ingest.main import main as ingest
from strata.jobs.stats.main import main as stats
from strata.jobs.validate.main import main as validate
from strata.model.settings import SparkSettings, StoreSettings
from strata.session.job_spark import JobSpark
from strata.spark import evaluate

pytestmark = pytest.mark.spark
Job = Callable[[Sequence[str]], int]
NAMES = [f"s{n}" for n in range(5)]
DAYS = 4
SPEC = """
name: {0}
columns:
  - {{name: id, type: int64}}
  - {{name: at, type: timestamptz}}
  - {{name: note, type: string}}
key: [id]
source: {{paths: ["{0}"]}}
rollout: {{mode: soft}}
"""
# The zone decides which rows these are, and ANSI mode whether the cast is an error.
FILTER = """
shard: {0}
name: noon
where: hour(at) = 12 and cast(note as int) >= 2 and id >= 75
"""
STEPS: list[tuple[Job, list[str]]] = [
    (ingest, ["--from-time", "1970-01-01", "--to-time", f"1970-01-0{DAYS + 1}", "--every", "P1D"]),
    (stats, ["backfill", "--again"]),
    (compact, []),
    (stats, ["trim", "--budget", "64"]),
    (validate, ["--now", "1971-01-01T00:00:00Z", "--run", "a run"]),
]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that GX loads
def test_the_same_comes_of_it(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, together = (_World(tmp_path / str(n), n) for n in (1, 3))
    for job, words in STEPS:
        found = [world.run(job, words) for world in (alone, together)]
        for one, other in zip(*found, strict=True):
            assert one == other
        assert [one["shard"] for one in found[0]] == NAMES
    last = found[0]
    # One for its format, and one more where the filter would skip it: s3 has the id 75.
    assert [one["audited_parts"] for one in last] == [2, 2, 2, 1, 1]
    assert {one["mismatches"] for one in last} == {0}
    for name in NAMES:
        rows = [world.rows(name, capsys) for world in (alone, together)]
        assert rows[0] == rows[1] != []


def test_threads_have_the_settings_of_the_session(spark: SparkSession) -> None:
    """Those of Java's own session would be others."""
    shared = JobSpark("test", SparkSettings())
    name = "spark.sql.constraintPropagation.enabled"

    def looked(shard: str) -> Mapping[str, Any]:
        conf: Any = shared.session._jvm.org.apache.spark.sql.internal.SQLConf.get()  # type: ignore[union-attr]
        return {"shard": shard, "found": conf.getConfString(name)}

    found = each_shard(NAMES, looked, at_once=2)
    assert [one["found"] for one in found] == ["false"] * len(NAMES)


def test_a_filter_takes_none_of_the_time_of_one_beside_it(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter that takes for ever would let those of other shards end without a verdict."""
    spans, seconds = [], 0.4

    def slow(judge: object, refs: object, end: float) -> list[object]:
        began = time.monotonic()
        time.sleep(1.5 * seconds)
        spans.append((began, time.monotonic(), end - began))
        return []

    monkeypatch.setattr(evaluate, "_evaluate", slow)
    asked: Any = evaluate.spark_evaluator(spark, StoreSettings("memory:", "memory:"), [], seconds)
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: asked(None, []), range(3)))
    (_, first, _), (second, _, _), _ = spans
    assert first <= second
    assert min(left for _, _, left in spans) > 1.9 * seconds


class _World:
    """A store, and shards with some days of files."""

    def __init__(self, root: Path, at_once: int) -> None:
        self.root, self.config = root, root / "strata.toml"
        for folder in ("shards", "filters", "report"):
            (root / folder).mkdir(parents=True)
        self.config.write_text(
            f'shards_dir = "{root}/shards"\nfilters_dir = "{root}/filters"\n'
            f'[spark]\nshards_at_once = {at_once}\n[validate]\nreport_dir = "{root}/report"\n'
            f'[store]\nblob = "file://{root}/blob"\nconsensus = "sqlite:///{root}/c.db"\n'
            f'landing = "{root}"\n'
        )
        for number, name in enumerate(NAMES):
            (root / f"shards/{name}.yaml").write_text(SPEC.format(name))
            (root / f"filters/{name}.yaml").write_text(FILTER.format(name))
            (root / name).mkdir()
            for day in range(1, DAYS + 1):
                rows = (
                    {"id": n, "at": f"1970-01-0{day}T{n % 24:02}:30:00Z", "note": str(n % 5)}
                    for n in range(50 + 10 * number)
                )
                file = root / name / f"1970-01-0{day}.jsonl"
                file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))

    def run(self, job: Job, words: Sequence[str]) -> list[dict[str, Any]]:
        """Return what a job says of each shard, without times and places."""
        file = self.root / "result.json"
        assert job([*words, "--config", str(self.config), "--result", str(file)]) == 0
        said = file.read_text().replace(str(self.root), "")
        shards = json.loads(re.sub(r'"(\w*(?:seconds|_ms)\w*)": *[0-9.e-]+', r'"\1": 0', said))[
            "shards"
        ]
        for one in shards:
            one.pop("verdicts", None)  # a name made of times
        return [one for one in shards if one["shard"] in NAMES]  # Strata's own differ in times

    def rows(self, name: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
        """Return the rows of a shard."""
        capsys.readouterr()
        with pytest.raises(SystemExit, match="0"):
            cli(["read", name, "--format", "json", "--config", str(self.config)])
        return sorted(capsys.readouterr().out.splitlines())

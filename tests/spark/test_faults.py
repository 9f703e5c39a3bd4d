"""Law 9 on Spark: every fault of the catalogue is found by the job's own path, and named.

The format check runs in Spark's workers and the filter in its engine, as in production; with the
judge in Python the same faults are injected in tests/unit/audit/test_faults.py.
"""

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from demo.faults import CATALOGUE, Injected, Site
from strata.audit.run import Scope, ValidationReport
from strata.config.filters import RegisteredFilter
from strata.expr.registry import REGISTRY
from strata.spark.evaluate import validate
from strata.store.open import open_stores
from tests.support.faulty import APART, NAME, settings_in, sound_in, with_many

pytestmark = pytest.mark.spark

ALONE = [name for name in CATALOGUE if name not in APART]  # they break more than one part
SLICE = random.Random(3).sample(APART, 3)  # for CI; the long tests take all


def run(spark: SparkSession, site: Site, *, format: bool = True) -> ValidationReport:
    filters = [RegisteredFilter(NAME, f"above {n}", f"id > {n}") for n in (120, 60)]
    return validate(spark, site.stores, NAME, filters, Scope("run", check_format=format))


def lost(report: ValidationReport, broken: dict[str, Injected]) -> list[str]:
    """Return the faults that no verdict names."""
    said: dict[str, str] = {}
    for v in report.mismatches:
        said[v.part] = f"{said.get(v.part, '')} {v.column} {v.bound} {v.error}"
    return [n for n, i in broken.items() if i.names not in said.get(i.place, "")]


def test_a_few_faults_are_found_and_named(spark: SparkSession, tmp_path: Path) -> None:
    site, broken = with_many(tmp_path, SLICE)

    report = run(spark, site)

    assert len(broken) == 3
    assert lost(report, broken) == []
    assert report.mode_after == site.state.rollout.mode == "off"


@pytest.mark.long
@pytest.mark.parametrize("third", [0, 1, 2])
def test_many_faults_at_once_are_each_found_and_named(
    spark: SparkSession, tmp_path: Path, third: int
) -> None:
    site, broken = with_many(tmp_path, APART[third::3])

    report = run(spark, site)

    assert lost(report, broken) == []
    assert report.mode_after == "off"


def test_a_report_of_a_damaged_manifest_reaches_its_readers(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No receipt can be kept of what filters skip there, which is no reason to fail."""
    site = sound_in(tmp_path)
    name = "a manifest with too few parts"
    injected = CATALOGUE[name](site, random.Random(name))
    assert injected is not None

    report = run(spark, site, format=False)

    assert lost(report, {name: injected}) == []
    assert report.mode_after == "off"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    sound_in(folder)
    return folder


@pytest.mark.long
@pytest.mark.parametrize("name", ALONE)
def test_a_fault_of_more_than_one_part_is_found_and_named(
    spark: SparkSession, sound: Path, tmp_path: Path, name: str
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(sound, folder)
    site = Site(open_stores(settings_in(folder)), NAME)
    injected = CATALOGUE[name](site, random.Random(name))
    assert injected is not None

    report = run(spark, site)

    assert lost(report, {name: injected}) == []
    assert report.mode_after == "off"


@pytest.mark.long
def test_a_wrong_rule_is_caught_by_the_rows_that_spark_accepts(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rule of `equal_to` in the place of that of `greater_than`; then none, and all is well."""
    site = sound_in(tmp_path)
    assert run(spark, site).mismatches == ()
    wrong = replace(REGISTRY["greater_than"], transfer=REGISTRY["equal_to"].transfer)
    registry = {**REGISTRY, "greater_than": wrong}
    with monkeypatch.context() as patch:
        patch.setattr("strata.expr.interpret.REGISTRY", registry)
        report = run(spark, site, format=False)

    assert report.mismatches
    assert all("greater_than" in v.bound for v in report.mismatches)
    assert site.state.rollout.quarantine == ("greater_than",)

"""What lied is told although the store fails behind it: another try would not find it again."""

import argparse
import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from strata.audit.contain import contain
from strata.audit.format import forget
from strata.audit.run import ValidationReport
from strata.audit.verdict import Verdict
from strata.cli.filters import _behind
from strata.config.settings import load_settings
from strata.errors import StrataError, Unavailable
from strata.jobs.validate import work
from strata.jobs.validate.report import WrittenReport
from strata.machine.machine import Machine
from strata.store.open import open_stores
from strata.store.retry import Patience, retry
from strata_airflow.results import judge, remarks
from tests.support.batches import spec
from tests.support.failing_stores import Faults, FaultyBlob, FaultyConsensus, Outcome
from tests.support.stored import memory_stores
from tests.unit.audit.test_report import CLEAN, LIE

AWAY: Final = Unavailable("the database of states is away", certain=True)
FOUND: Final = {"events": LIE, "others": CLEAN}


@pytest.fixture
def validated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a job over two shards, without Spark and pages: `fails` names what finds no store."""
    file = tmp_path / "strata.toml"
    file.write_text(
        f'[store]\nblob = "file://{tmp_path}/b"\nconsensus = "sqlite:///{tmp_path}/c.db"\n'
    )
    settings = load_settings(str(file), os.environ)
    for name in FOUND:
        Machine(open_stores(settings.store)).create(spec(name))

    def away(*_: object, **__: object) -> None:
        raise AWAY

    def validate(_: object, __: object, name: str, *___: object, **____: object) -> Any:
        return ValidationReport(name, "r", (), (FOUND[name],), "soft", "off", None)

    def job(fails: str) -> tuple[Any, int]:
        pages = WrittenReport(tmp_path / "index.html", success=True, failed=())
        monkeypatch.setattr(work, "validate", validate)
        monkeypatch.setattr("strata.jobs.validate.report.build_report", lambda *_, **__: pages)
        if fails:
            monkeypatch.setattr(fails, away)
        args = argparse.Namespace(
            run="r",
            now=None,
            shard=[*names],
            found=False,
            filter=[],
            budget_bytes=0,
            budget_seconds=0,
            percent=None,
            format=None,
            config=str(file),
            console="",
        )
        spark: Any = argparse.Namespace(session=None)
        return work.validate_shards(spark, settings, args)()

    names = ["events", "others"]
    monkeypatch.setattr(work, "job_runner", lambda _: None)
    monkeypatch.setattr(work, "beside", lambda *_: None)
    job.__dict__["names"] = names
    return job


@pytest.mark.parametrize("fails", ["", "strata.audit.table.publish"])
def test_a_mismatch_is_reported_though_verdicts_cannot_be_published(
    validated: Callable[..., Any], fails: str
) -> None:
    document, code = validated(fails)
    assert code == 3
    assert [one["part"] for one in document["alerts"]] == [LIE.part]
    assert judge(code, document).final


@pytest.mark.parametrize("fails", ["strata.jobs.validate.work.checked_as_declared"])
def test_a_mismatch_is_reported_though_the_next_shard_finds_no_store(
    validated: Callable[..., Any], fails: str
) -> None:
    document, code = validated(fails)
    assert code == 3
    assert [one["shard"] for one in document["shards"]] == ["events"]


def test_without_a_mismatch_the_failure_is_reported(validated: Callable[..., Any]) -> None:
    validated.__dict__["names"].remove("events")
    with pytest.raises(StrataError, match="is away"):
        validated("strata.audit.table.publish")


def test_a_report_that_is_not_complete_is_remarked(validated: Callable[..., Any]) -> None:
    """The job ends well: its verdicts hold. Nobody looks into the log of a job that ends well."""
    validated.__dict__["names"].remove("events")
    document, code = validated("strata.jobs.validate.report.build_report")
    assert code == 0
    [line] = remarks(document)
    assert line.startswith("the report is not complete: the database of states is away")


def test_nothing_that_follows_a_mismatch_fails_for_a_store_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(retry, "__defaults__", (Patience(), lambda _: None))
    stores = memory_stores()
    away = Faults([Outcome.REFUSED] * 2 * Patience().attempts)
    failing = replace(
        stores,
        blob=FaultyBlob(stores.blob, away),
        consensus=FaultyConsensus(stores.consensus, away),
    )
    guilty = replace(LIE, suspects="equal_to")
    assert contain(Machine(failing, lambda _: None), "events", [guilty]) == []
    forget(failing, "events", "r")
    assert away.drawn[Outcome.REFUSED] == 2 * Patience().attempts


@pytest.mark.parametrize("found", [LIE, CLEAN])
def test_the_command_goes_on_behind_a_mismatch_only(found: Verdict) -> None:
    report = ValidationReport("events", "r", (), (found,), "soft", "off", None)
    with nullcontext() if found is LIE else pytest.raises(Unavailable), _behind(report):
        raise AWAY

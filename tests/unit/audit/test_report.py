"""The report as Great Expectations makes it, on this machine and on S3."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from strata.audit.run import ValidationReport
from strata.audit.verdict import Verdict
from strata.jobs.validate import report as module
from strata.jobs.validate.mark import BANNER
from strata.jobs.validate.publish import ReportOnS3
from strata.jobs.validate.report import build_report
from tests.support import seaweed

CLEAN = Verdict(
    "", "events", "big", "id > 250", "shards/events/parts/a", "clean", 25, 0, 100, "both", 1, "1",
    "long × greater_than × both × exact",
)  # fmt: skip
LIE = replace(
    CLEAN,
    outcome="mismatch",
    accepted=3,
    column="id",
    bound="id.high recorded 250",
    replay="strata validate events --part a",
)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    try:
        found = seaweed.fresh_prefix()
    except seaweed.MissingError as missing:
        pytest.skip(str(missing))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in seaweed.IDENTITY.items():
            patch.setenv(name, value)
        yield found


def test_the_groups_of_a_run_build_one_report_by_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside: list[str] = []
    seen: list[int] = []

    def build(directory: Path, run: str, *rest: object) -> None:
        inside.append(run)
        time.sleep(0.05)
        seen.append(len(inside))
        inside.remove(run)

    monkeypatch.setattr(module, "_build", build)
    with ThreadPoolExecutor(4) as pool:
        for n in range(4):
            pool.submit(build_report, tmp_path, f"group {n}", [], {}, max_failed_rows=5)
    assert seen == [1, 1, 1, 1]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that GX loads
def test_each_finding_has_a_line_of_its_own_and_the_index_leads_to_it(tmp_path: Path) -> None:
    """Equal outcomes would be one line; a run may bear the name of the library's own sections."""
    other = replace(LIE, part="shards/events/parts/b", replay="strata validate events --part b")
    one = ValidationReport("events", "run", (), (CLEAN, LIE, other), "soft", "off", None)
    report = build_report(tmp_path, "profiling", [one], {"events": ()}, max_failed_rows=5)
    assert not report.success
    (path,) = set(
        re.findall(r'href="(validations/[^"]*/strata-events[^"]*)"', report.index.read_text())
    )
    page = report.index.parent / unquote(path)
    text = page.read_text()
    assert "fails:</strong>" in text or "fail:</strong>" in text
    assert "unexpected values found" not in text
    assert "% unexpected" not in text
    for finding in (LIE, other):
        assert text.count(f">{finding.replay}<") == 3  # rows, statistics, verdict


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that GX loads
def test_a_page_of_a_result_that_is_no_longer_kept_stays_where_alerts_point_to(
    tmp_path: Path,
) -> None:
    """It is one of a former version, too: it keeps its words, and loads nothing any more."""
    old, new = "2031-03-03", "2019-03-05"  # names that read as dates are names all the same
    for run in (old, new):
        one = ValidationReport("events", run, (), (LIE,), "soft", "off", None)
        report = build_report(tmp_path, run, [one], {}, max_failed_rows=5, limit=1)
        (page,) = report.index.parent.glob(f"validations/events/{old}/*/*.html")
        if run == old:
            page.write_text(f"<html><script src='static/x.js'></script><p>{LIE.replay}</p></html>")
    assert new in report.index.read_text()
    assert "Data Docs |" not in report.index.read_text()  # our own title stands above
    assert old not in report.index.read_text()
    assert LIE.replay in page.read_text()
    assert "<script" not in page.read_text()
    assert not (report.index.parent / "static").exists()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that GX loads
def test_runs_of_two_machines_are_in_one_index_of_bounded_length(
    address: str, tmp_path: Path
) -> None:
    """The index has room for two runs, so the first of three falls out."""

    def run(name: str, verdict: Verdict, machine: str) -> str:
        one = ValidationReport("events", name, (), (verdict,), "soft", "soft", None)
        report = build_report(
            tmp_path / machine,
            name,
            [one],
            {"events": ()},
            max_failed_rows=5,
            url=address,
            limit=2,
        )
        assert report.success == (verdict.outcome == "clean")
        assert report.url.startswith("s3://")
        return report.index.read_text("utf-8")

    first = run("run of monday", CLEAN, "a")
    run("run of tuesday", CLEAN, "b")
    last = run("run of wednesday", LIE, "a")

    assert "run of monday" in first
    assert "run of tuesday" in last  # made by the other machine
    assert "run of wednesday" in last
    assert "run of monday" not in last
    bucket = ReportOnS3(address)
    assert bucket._get("site/index.html").decode() == last
    assert len(bucket._listed("results")) == 2
    pages = [n for n in bucket._listed("site") if "wednesday" in n and "events" in n]
    assert any(
        "strata validate events --part a" in bucket._get(f"site/{p}").decode() for p in pages
    )


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that GX loads
def test_two_machines_that_publish_at_once_leave_an_index_of_both(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later index was of its own results and of those of before."""
    place = address.replace("?", "/at-once?", 1)
    publish, waiting = ReportOnS3.publish, ["tuesday"]

    def run(name: str) -> None:
        one = ValidationReport("events", name, (), (CLEAN,), "soft", "soft", None)
        build_report(tmp_path / name, name, [one], {"events": ()}, max_failed_rows=5, url=place)

    def beside(self: ReportOnS3, *given: Any) -> int:
        while waiting:  # it has fetched what there is, and has not uploaded yet
            run(waiting.pop())
        return publish(self, *given)

    monkeypatch.setattr(ReportOnS3, "publish", beside)
    run("monday")

    last = ReportOnS3(place)._get("site/index.html").decode()
    assert "monday" in last
    assert "tuesday" in last
    assert BANNER not in last

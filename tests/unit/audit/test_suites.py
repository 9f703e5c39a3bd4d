"""The suite of a shard and night: its lines carry numbers, and its pages put failures first."""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest

from strata.audit.compare import ColumnCount
from strata.audit.run import ValidationReport
from strata.audit.verdict import Summary, Verdict
from strata.errors import InvalidRequest
from strata.jobs.validate.markup import readable
from strata.jobs.validate.pages import Page
from strata.jobs.validate.report import build_report
from strata.state.state import Merge
from strata.sums.check import SumsCheck

DOCS = Path(__file__).parents[3] / "docs"
CLEAN = Verdict(
    "", "flights", "late", "delay > 600", "shards/flights/parts/a", "clean", 1_500, 0, 100, "both",
    1, "1", "long × greater_than × both × exact",
)  # fmt: skip
SUMMARY = Summary(
    "", "flights", "late", "delay > 600", "", 9, 900, 5, 500, 0, 0, 100, 4, 4, 400, 6_000, 0, 0, 0,
    0, 1.0, left_out_parts=1, left_out_bytes=100,
)  # fmt: skip
MERGE = Merge(4, 0, 0, 1, 0, "", 3, 900, 870, 1, 1, 9, 4, 1)
RUN = "scheduled__2026-11-22T00:00:00+00:00"
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the library


def night(*, bad: bool = False, shard: str = "flights") -> ValidationReport:
    some = [replace(CLEAN, shard=shard, part=f"shards/{shard}/parts/{n}") for n in range(4)]
    if bad:
        some[2] = replace(
            some[2],
            outcome="mismatch",
            accepted=3,
            column="delay",
            bound="upper 14, found 301",
            replay="strata validate flights --part 2",
        )
    some.append(replace(some[0], check="format", sql=""))
    summary = replace(SUMMARY, shard=shard, mismatches=int(bad))
    formats = replace(summary, check="format", checked_parts=1, audited_parts=1, left_out_parts=0)
    columns = (ColumnCount("delay", 1, 800, 0, 12, 0, 0),)
    return ValidationReport(
        shard, RUN, (summary, formats), tuple(some), "soft", "off" if bad else "soft", None, columns
    )


def descriptions(report: ValidationReport) -> list[str]:
    from strata.jobs.validate.suites import suite_of

    return [one.description for one in suite_of(report, [MERGE], 5).expectations]


def test_kept_sums_have_a_line(tmp_path: Path) -> None:
    """Equal, different, and left out by a budget, which is no evidence."""
    equal = SumsCheck("flights", 1_000, 12, 0, None)
    differ, large = replace(equal, different=3), replace(equal, groups=0, left_out_bytes=5_000)
    for check, good, said in (
        (equal, True, "Kept sums: 0 of 12 groups differ from flights at 1970-01-01T00:00:01Z."),
        (differ, False, "Kept sums: 3 of 12 groups differ from flights at 1970-01-01T00:00:01Z."),
        (large, True, "Kept sums: the budget left out 5,000 bytes; not compared."),
    ):
        folder = tmp_path / f"{check.different}-{check.left_out_bytes}"
        report = build_report(
            folder, "night", [night(shard="daily")], {}, max_failed_rows=5, sums={"daily": check}
        )
        failed = () if good else (f"daily: {said}",)
        assert (report.success, report.failed) == (good, failed)
        (page,) = report.index.parent.glob("validations/daily/night/*/*.html")
        assert said in page.read_text()
        replay = "strata sums flights --into daily --check"
        assert (replay in page.read_text()) is not good


def test_each_line_carries_its_numbers() -> None:
    assert descriptions(night()) == [
        "Mode soft before the night, soft after it.",
        "4 of 4 parts that late would skip hold no accepted row: 6,000 rows read.",
        "late: 4 of 4 checks came back clean; 5 of 9 parts would be skipped;"
        " the budget left out 1, which are no evidence.",
        "Format: 1 of 1 checked parts are as their manifests say; the shard has 9.",
        "5 of 5 parts were checked without an error.",
        "The statistics of 5 of 5 parts enclose the rows.",
        "5 of 5 planned checks came back with a verdict.",
        "800 of 800 values are the same in row codec and columns.",
        "0 of 12 statistics leave out a row (columns: 1).",
        "0 statistics are missing that the declaration says to keep.",
        "Last merges: 1; 900 updates in, 870 out.",
        "Parts that merges kept: 1 of the 4 in their results.",
    ]
    found = descriptions(night(bad=True))
    assert found[0] == "Mode soft before the night, off after it."
    assert found[1] == "3 of 4 parts that late would skip hold no accepted row: 6,000 rows read."


def test_a_check_that_did_not_come_back_is_no_empty_part() -> None:
    report = night()
    gone = tuple(replace(v, outcome="missing", rows=0) for v in report.verdicts)
    found = descriptions(replace(report, verdicts=gone))
    assert found[1] == "0 of 4 parts that late would skip hold no accepted row: 0 rows read."


def test_only_the_first_failures_are_lines_and_each_has_a_number() -> None:
    from strata.jobs.validate.suites import suite_of

    lie = replace(CLEAN, outcome="mismatch", accepted=3, bound="wrong")
    some = tuple(replace(lie, part=str(n)) for n in range(9))
    table = suite_of(replace(night(), verdicts=(*some, CLEAN)), [], 2).table
    shown = table["verdict 1"].dropna().tolist()
    assert shown == ["mismatch 1", "mismatch 2", "clean"]


def test_a_night_is_one_result_and_the_index_shows_failures_first(tmp_path: Path) -> None:
    for number, bad in enumerate((False, True)):
        report = build_report(
            tmp_path,
            f"scheduled__2026-11-2{number}T00:00:00+00:00",
            [night(shard="airports"), night(bad=bad)],
            {"flights": [MERGE]},
            max_failed_rows=5,
            console="/strata",
        )
        assert report.success == (not bad)
    index = report.index.read_text("utf-8")
    assert index.index(">flights<") < index.index(">airports<")  # its last night failed
    trend = re.findall(r'title="([^"]*)"', index)
    assert "<strong>1</strong> of 2 shards failed when last validated" in index
    assert trend[:2] == ["2026-11-20, scheduled: passed", "2026-11-21, scheduled: failed"]
    assert index.index("2026-11-21, scheduled</h3>") < index.index("2026-11-20, scheduled</h3>")
    assert '<a class="console" href="/strata/shards/flights/rollout">' in index
    page = report.index.parent / unquote(
        re.findall(r'href="(validations/flights/[^"]*-21T[^"]*)"', index)[0]
    )
    text = page.read_text("utf-8")
    assert (
        text.index("What failed") < text.index("3 of 4 parts that late") < text.index("What holds")
    )
    assert text.index("What holds") < text.index("800 of 800 values")
    assert re.search(r"<strong>\d+</strong> of \d+ checks failed", text)
    finding = text[text.index("<dl>") : text.index("</dl>")]
    assert re.findall("<dt>(.*?)</dt>", finding)[:2] == ["found", "part"]
    assert '<dd class="replay">' in finding
    assert "Unexpected Value" not in text
    assert "Evaluated Expectations" not in text
    assert ">null<" not in text
    assert "2026-11-21, scheduled" in text


@pytest.mark.parametrize(
    "console",
    [
        "javascript:alert(1)",
        "//evil.example/x",
        'https://h/"x',
        "https://h/?a",
        "ftp://h/",
        "x",
        "https://h/a b",
        "/\\evil.example",
        "https:///x",
    ],
)
def test_an_address_that_is_none_of_a_console_is_refused(tmp_path: Path, console: str) -> None:
    with pytest.raises(InvalidRequest, match="no address of a console"):
        build_report(tmp_path, "run", [], {}, max_failed_rows=1, console=console)


def test_a_name_that_airflow_did_not_make_stays() -> None:
    for name in ("monday", "scheduled__soon", "x__2026-11-22T00:00:00", "2026-11-22"):
        assert readable(name) == name
    assert readable("backfill__2026-11-22T04:00:00+00:00") == "2026-11-22 04:00, backfill"


def test_a_link_to_the_console_holds_the_name_as_text() -> None:
    page = Page("https://h/strata/").render(
        {
            "renderer_type": "ExpectationSuitePageRenderer",
            "page_title": "x",
            "expectation_suite_name": "a/b&lt;c",
            "sections": [],
        }
    )
    assert 'href="https://h/strata/shards/a%2Fb%3Cc/rollout"' in page


def test_the_gallery_lists_each_expectation_of_ours() -> None:
    from strata.jobs.validate.expectations import OURS

    gallery = (DOCS / "reference/expectations.md").read_text("utf-8")
    listed = re.findall(r"^\| `(expect_\w+)` \|", gallery, re.MULTILINE)
    known = [re.sub(r"(?<!^)(?=[A-Z])", "_", kind.__name__).lower() for kind in OURS]
    assert sorted(listed) == sorted(known)

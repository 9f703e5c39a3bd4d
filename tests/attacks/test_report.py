"""S3: text of data, names and errors runs in nobody's browser when it stands in the report."""

import json
from collections.abc import Sequence
from dataclasses import fields, replace
from html import unescape
from pathlib import Path

import pytest

from strata.audit.compare import ColumnCount
from strata.audit.run import ValidationReport
from strata.audit.verdict import Summary, Verdict, check_run
from strata.errors import InvalidRequest
from strata.jobs.validate import escaped
from strata.jobs.validate.report import build_report
from strata.state.state import Merge
from strata.sums.check import SumsCheck
from tests.attacks.hostile import HOSTILE, MARK, live

WORDS = ("shard", "check", "sql", "part", "layout", "code_version", "stratum", "column", "bound")
WORDS += ("error", "replay", "suspects")
PLAIN = Verdict("run", "s", "c", "", "p", "mismatch", 1, 1, 1, "both", 1, "1", "x")
SUMMARY = Summary(
    "run", "s", "c", "", "", 1, 1, 1, 1, 0, 0, 100, 2, 1, 1, 1, mismatches=1, errors=1, missing=0,
    parts_without_stats=0, seconds=0.5,
)  # fmt: skip
MERGE = Merge(1, 0, 0, 1, 0, "", 1, 1, 2, 1, 1, 1, 1, parts_kept=3)


def hostile_run(texts: Sequence[str]) -> tuple[ValidationReport, dict[str, list[Merge]]]:
    """Return a run and merges with each text in all fields that are text, in all tables.

    Each expectation fails, so that each shows its lines.
    """
    verdicts = [replace(PLAIN, **dict.fromkeys(WORDS, text)) for text in texts]
    verdicts += [replace(one, check="format") for one in verdicts]
    one = ValidationReport(
        "s",
        "run",
        tuple(replace(SUMMARY, shard=t, check=t, sql=t, now=t) for t in texts),
        tuple(verdicts),
        "on",
        "off",
        None,
        columns=tuple(ColumnCount(t, lies=1, differing=1, kept_missing=1) for t in texts),
    )
    return one, {"s": [replace(MERGE, reason=text) for text in texts]}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the libraries that GX loads
def test_no_text_of_a_verdict_a_count_or_a_merge_is_live_in_any_page(tmp_path: Path) -> None:
    from strata.jobs.validate.expectations import OURS  # the library warns while it is imported

    one, merges = hostile_run(HOSTILE)
    sums = {"s": SumsCheck(" ".join(HOSTILE), 1, 9, 3, None)}
    report = build_report(tmp_path, "run", [one], merges, max_failed_rows=99, sums=sums)
    pages = {page: page.read_text("utf-8") for page in report.index.parent.rglob("*.html")}
    assert not {page.name: live(text) for page, text in pages.items() if live(text)}
    results = [file.read_text("utf-8") for file in (tmp_path / "gx").rglob("uncommitted/**/*.json")]
    (result,) = [json.loads(text) for text in results]
    kinds = {one["expectation_config"]["type"] for one in result["results"] if not one["success"]}
    assert len(kinds) == len(OURS)
    assert not [live(text) for text in results if live(text)], "nor for the library's own pages"
    shown = unescape("".join(pages.values()))
    for text in HOSTILE:
        assert text in shown, "it is shown, as text"


def test_a_result_of_another_machine_is_made_inert_before_it_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "suite" / "run" / "1" / "x.json"
    file.parent.mkdir(parents=True)
    said = {HOSTILE[0]: [{"a": HOSTILE[1]}, 1.5, None, True], "plain": "x & y"}
    file.write_text(json.dumps(said))
    assert escaped.make_results_inert(tmp_path) == 1
    assert not live(file.read_text())
    assert json.loads(file.read_text())["plain"] == "x & y"
    assert escaped.make_results_inert(tmp_path) == 0, "and once is enough"


@pytest.mark.parametrize("kind", [Verdict, Summary, ColumnCount, Merge])
def test_each_field_that_is_text_is_attacked(kind: type) -> None:
    """A new field of a table has to be added above."""
    known = {*WORDS, "run", "outcome", "now", "reason"}
    assert {f.name for f in fields(kind) if "str" in str(f.type)} <= known | {"Outcome"}


@pytest.mark.parametrize(
    "name",
    [
        *HOSTILE,
        "a/b",
        "a\\b",
        "..",
        ".hidden",
        "",
        " ",
        "a\nb",
        "a\0b",
        "a\u202eb",
        "a" * 201,
        "a&b",
    ],
)
def test_a_name_of_a_run_holds_neither_a_path_nor_markup(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="cannot be the name of a run"):
        check_run(name)
    with pytest.raises(InvalidRequest, match="cannot be the name of a run"):
        build_report(tmp_path, name, [], {}, max_failed_rows=1)
    assert not list(tmp_path.iterdir())


def test_the_job_refuses_such_a_name_before_it_reads_anything(tmp_path: Path) -> None:
    from strata.jobs.validate.main import main

    result = tmp_path / "result.json"
    assert main(["--run", "a/b", "--result", str(result)]) == 2
    assert "cannot be the name of a run" in result.read_text()


def test_what_looks_live_is_seen_as_such() -> None:
    """The check of the pages cannot pass by being blind."""
    assert all(live(text) for text in HOSTILE if "\\x3c" not in text)
    assert MARK in escaped.text(HOSTILE[0])
    assert not any(live(escaped.text(text)) for text in HOSTILE)

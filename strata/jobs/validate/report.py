"""The report: Great Expectations suites over verdicts and summaries, never over raw rows.

There is one site, with one validation result per suite and run, named after the run. Failed lines
name shard, part, check, column, the bound that lied, and the command that repeats the check. The
pages open without a network.
"""

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pandas as pd

from strata.audit.compare import ColumnCount
from strata.audit.run import ValidationReport
from strata.audit.verdict import FORMAT_CHECK, SCHEMA, Summary, Verdict, check_run
from strata.jobs.validate import escaped
from strata.jobs.validate.offline import make_offline
from strata.jobs.validate.pages import Page
from strata.jobs.validate.publish import INDEX, Folders, ReportOnS3, prune
from strata.state.state import Merge

SITE: Final = "strata"
SITE_FOLDER: Final = "site"
JUDGED: Final = ("verdict", "accepted rows", "statistics", "failure")  # see _frame
NAMED: Final = ["shard", "part", "check", "column", "bound", "error", "replay"]
_INDEX: Final = {  # the columns that name a failed line of a suite
    "summary": ["shard", "check"],
    "statistics": ["shard", "column"],
    "compaction": ["shard", "seqno"],
}
RESULTS_SHOWN: Final = 200  # validation results on the index page; pages of older ones stay


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The place of the report, and whether every expectation held."""

    index: Path
    success: bool
    failed: tuple[str, ...]  # the descriptions of the expectations that failed
    url: str = ""  # of the index on S3, if the report goes there


def build_report(  # noqa: PLR0913 - options, by name
    directory: Path,
    run: str,
    reports: Sequence[ValidationReport],
    merges: Mapping[str, Sequence[Merge]],
    *,
    max_failed_rows: int,
    url: str = "",
    limit: int = RESULTS_SHOWN,
) -> WrittenReport:
    """Validate the tables of one run and bring the site up to date; `merges` by shard.

    Runs that share a folder, such as the groups of one run, take turns.
    `url`: where on S3 it goes as well. Raises: InvalidRequest for a run that cannot be a name;
    Corrupt when a page would load something from outside; Unavailable when S3 does not take it.
    """
    check_run(run)  # it names folders, and stands on the index page
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    directory.mkdir(parents=True, exist_ok=True)
    frame = _frame([v for one in reports for v in one.verdicts], max_failed_rows)
    is_format = frame["check"] == FORMAT_CHECK
    tables = {
        "soft_evaluation": frame[~is_format],
        "format": frame[is_format],
        "summary": _table(Summary, ((one.shard, s) for one in reports for s in one.summaries)),
        "statistics": _table(ColumnCount, ((one.shard, c) for one in reports for c in one.columns)),
        "compaction": _table(Merge, ((name, m) for name, some in merges.items() for m in some)),
    }
    with _alone(directory):
        return _build(directory, run, tables, url, limit)


def _build(
    directory: Path, run: str, tables: Mapping[str, pd.DataFrame], url: str, limit: int
) -> WrittenReport:
    context = _context(directory, limit)
    folders = Folders(directory / SITE_FOLDER, directory / "gx" / "uncommitted" / "validations")
    bucket = ReportOnS3(url) if url else None
    if bucket is not None:
        bucket.fetch(folders, limit)
    failed: list[str] = []
    for name, table in tables.items():
        failed += _validate(context, name, escaped.frame(table.reset_index(drop=True)), run)
    prune(folders, limit)
    escaped.make_results_inert(folders.results)
    context.build_data_docs(site_names=[SITE])
    make_offline(folders)
    if bucket is not None:
        bucket.publish(folders, limit)
    there = "" if bucket is None else bucket.index
    return WrittenReport(index_of(directory), not failed, tuple(failed), there)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Wait until nobody else on this machine builds this report; the pages are files."""
    with (directory / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def index_of(directory: Path) -> Path:
    """Return the first page of the report in a folder."""
    return directory / SITE_FOLDER / INDEX


def _table(kind: Any, rows: Iterable[tuple[str, Any]]) -> pd.DataFrame:
    """Return values of one kind as a frame, each with the shard that it is about."""
    names = ["shard", *(f.name for f in fields(kind) if f.name != "shard")]
    return pd.DataFrame([{"shard": name, **asdict(row)} for name, row in rows], columns=names)


def _frame(verdicts: Sequence[Verdict], max_failed_rows: int) -> pd.DataFrame:
    """Return the verdicts as a frame with at most `max_failed_rows` failed rows.

    Expectations check separate columns, in which each failure has a number: Great Expectations
    shows equal values as one line, with all their names side by side.
    """
    bad = [v for v in verdicts if v.outcome != "clean"][:max_failed_rows]
    good = [v for v in verdicts if v.outcome == "clean"]
    rows = []
    for number, verdict in enumerate((*bad, *good), 1):
        clean = verdict.outcome == "clean"
        looked_at = {
            "verdict": "clean" if clean else f"{verdict.outcome} {number}",
            "accepted rows": f"{verdict.accepted} ({number})" if verdict.accepted else "none",
            "statistics": f"lie {number}" if verdict.bound else "enclose",
            "failure": f"error {number}" if verdict.error else "none",
        }
        rows.append(asdict(verdict) | looked_at)
    return pd.DataFrame(rows, columns=[*SCHEMA.names, *JUDGED])


def _context(directory: Path, limit: int) -> Any:
    import great_expectations as gx

    context: Any = gx.get_context(mode="file", project_root_dir=directory)
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    view = {"module_name": Page.__module__, "class_name": Page.__name__}
    site: Any = {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {
            "class_name": "TupleFilesystemStoreBackend",
            "base_directory": str((directory / SITE_FOLDER).resolve()),
        },
        "site_index_builder": {
            "module_name": "strata.jobs.validate.index",
            "class_name": "ReportIndex",
            "validation_results_limit": limit,
            "view": view,
        },
        "site_section_builders": {
            "expectations": {"view": view},
            # Its own filter leaves out a run with the word "profiling" in its name.
            "validations": {"view": view, "run_name_filter": {"not_includes": "/"}},
            "profiling": "none",
        },
    }
    if SITE in context.get_site_names():
        context.update_data_docs_site(SITE, site)
    else:
        context.add_data_docs_site(SITE, site)
    return context


def _validate(context: Any, name: str, table: pd.DataFrame, run: str) -> list[str]:
    """Run one suite as a checkpoint; return the descriptions of what failed."""
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier

    source = context.data_sources.add_or_update_pandas("strata")
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("all")
    suite = gx.ExpectationSuite(name=name, expectations=_expectations(name))
    definition = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name=name, data=batch, suite=context.suites.add_or_update(suite))
    )
    columns = _INDEX.get(name) or [c for c in NAMED if c in table.columns]
    checkpoint = context.checkpoints.add_or_update(
        gx.Checkpoint(
            name=name,
            validation_definitions=[definition],
            result_format={
                "result_format": "COMPLETE", "unexpected_index_column_names": columns,
                "return_unexpected_index_query": False,
            },
        )
    )  # fmt: skip
    # Without a time, the library reads one from the name: of `monday`, next Monday's.
    this = RunIdentifier(run_name=run, run_time=datetime.now(UTC))
    result = checkpoint.run(batch_parameters={"dataframe": table}, run_id=this)
    return [
        f"{name}: {getattr(one.expectation_config, 'description', '')}"
        for validation in result.run_results.values()
        for one in validation.results
        if not one.success
    ]


def _expectations(name: str) -> list[Any]:
    if name == "summary":
        return [
            _expect_equal(
                "checked_parts", "audited_parts", "Every planned check came back with a verdict."
            ),
            _expect("mismatches", 0, "No check of any shard found a mismatch."),
            _expect("errors", 0, "Every part could be read and judged."),
        ]
    if name == "statistics":
        return [
            _expect("differing", 0, "Row codec and columns hold the same values."),
            _expect("lies", 0, "Every statement of the statistics is true of the rows."),
            _expect("kept_missing", 0, "What the keep list protects is there in every part."),
        ]
    if name == "compaction":
        return [
            _expect_at_least("updates_in", "updates_out", "No merge made updates."),
            _expect_at_least("parts_out", "parts_kept", "A part that was kept is in the result."),
        ]
    judged = [
        _expect("verdict", "clean", "Every planned check came back and was clean."),
        _expect("failure", "none", "No part raised an error while it was checked."),
        _expect("statistics", "enclose", "Every recorded statistic encloses the rows of its part."),
    ]
    if name == "format":
        return judged
    accepted = "No part that would be skipped holds a row that its filter accepts."
    return [_expect("accepted rows", "none", accepted), *judged]


def _expect(column: str, value: object, description: str) -> Any:
    from great_expectations.expectations.core.expect_column_values_to_be_in_set import (
        ExpectColumnValuesToBeInSet,
    )

    return ExpectColumnValuesToBeInSet(
        column=column, value_set=[value], description=description, severity=_severity()
    )


def _expect_equal(left: str, right: str, description: str) -> Any:
    from great_expectations.expectations.core.expect_column_pair_values_to_be_equal import (
        ExpectColumnPairValuesToBeEqual,
    )

    return ExpectColumnPairValuesToBeEqual(
        column_A=left, column_B=right, description=description, severity=_severity()
    )


def _expect_at_least(large: str, small: str, description: str) -> Any:
    from great_expectations.expectations.core import (
        expect_column_pair_values_a_to_be_greater_than_b as core,
    )

    return core.ExpectColumnPairValuesAToBeGreaterThanB(
        column_A=large, column_B=small, or_equal=True, description=description,
        severity=_severity(),
    )  # fmt: skip


def _severity() -> Any:
    from great_expectations.expectations.metadata_types import FailureSeverity

    return FailureSeverity.CRITICAL

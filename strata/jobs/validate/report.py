"""The report: one Great Expectations suite for each shard and night, never over raw rows.

There is one site, with one validation result per shard and run, named after the run. Each
expectation carries its numbers; failed lines name part, check, column, the bound that lied, and the
command that repeats the check. The pages open without a network.
"""

import fcntl
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from strata.audit.run import ValidationReport
from strata.audit.verdict import check_run
from strata.errors import InvalidRequest
from strata.jobs.validate import escaped
from strata.jobs.validate.mark import WORKS, begin, building, finish, under_way
from strata.jobs.validate.markup import TITLE, blank, written
from strata.jobs.validate.offline import make_offline
from strata.jobs.validate.outcome import NO_SUMS
from strata.jobs.validate.pages import Page
from strata.jobs.validate.publish import INDEX, Folders, ReportOnS3, prune
from strata.jobs.validate.suites import NAMED, Suite, suite_of
from strata.state.state import Merge
from strata.store.local_file import open_itself
from strata.sums.check import SumsCheck

SITE: Final = "strata"
SITE_FOLDER: Final = "site"
_ADDRESS: Final = re.compile(r"(https?://[^\s/\\?#<>\"'&]+)?(/[^\s/\\?#<>\"'&]+)*/?")
ROUNDS: Final = 8  # while other machines publish to the same place on S3
RESULTS_SHOWN: Final = 200  # validation results on the index page; pages of older ones stay


@dataclass(frozen=True, slots=True)
class WrittenReport:
    """The place of the report, and whether every expectation held."""

    index: Path
    success: bool
    failed: tuple[str, ...]  # the descriptions of the expectations that failed
    url: str = ""  # of the index on S3, if the report goes there
    problem: str = ""  # why it is not complete; empty: it is


def build_report(  # noqa: PLR0913 - options, by name
    directory: Path,
    run: str,
    reports: Sequence[ValidationReport],
    merges: Mapping[str, Sequence[Merge]],
    *,
    max_failed_rows: int,
    url: str = "",
    limit: int = RESULTS_SHOWN,
    console: str = "",
    sums: Mapping[str, SumsCheck] = NO_SUMS,
) -> WrittenReport:
    """Validate the shards of one run and bring the site up to date; `merges` and `sums` by shard.

    Runs that share a folder, such as the groups of one run, take turns.
    `url`: where on S3 it goes as well; `console`: the address of the console, for links to it.
    Raises: InvalidRequest for a run that cannot be a name;
    Corrupt when a page is missing or the library fails; Unavailable when the disk or S3 does. The
    index says that it is being built until all of it is there, also after such an error.
    """
    check_run(run)  # it names folders, and stands on the index page
    if console and not _ADDRESS.fullmatch(console):
        raise InvalidRequest(
            "this is no address of a console",
            console=console,
            cure="https://HOST/strata, or /strata",
        )
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    suites = [
        suite_of(one, merges.get(one.shard, ()), max_failed_rows, sums.get(one.shard))
        for one in reports
    ]
    with building(directory), _alone(directory):
        return _build(directory, run, suites, url, limit, console)


def _build(
    directory: Path, run: str, suites: Sequence[Suite], url: str, limit: int, console: str
) -> WrittenReport:
    folders = Folders(directory / SITE_FOLDER, directory / WORKS / "uncommitted" / "validations")
    empty = written(blank(TITLE, up="")[0])
    begin(directory, folders, run, empty)
    context = _context(directory, limit, console)
    bucket = ReportOnS3(url) if url else None
    if bucket is not None:
        bucket.fetch(folders, limit)
    failed: list[str] = []
    for suite in suites:
        failed += _validate(context, suite, run)
    _write_site(context, directory, folders, limit)
    for _ in range(ROUNDS):
        if bucket is None:
            break
        bucket.publish(folders, limit, partial(under_way, empty))
        if not bucket.fetch(folders, limit):
            break
        # Another machine has published meanwhile, and this index is over its own.
        begin(directory, folders, run, empty)
        _write_site(context, directory, folders, limit)
    there = "" if bucket is None else bucket.index
    return WrittenReport(index_of(directory), not failed, tuple(failed), there)


def _write_site(context: Any, directory: Path, folders: Folders, limit: int) -> None:
    """Make the pages of all results that are here, and take the mark off."""
    prune(folders, limit)
    escaped.make_results_inert(folders.results)
    context.build_data_docs(site_names=[SITE])
    make_offline(folders)
    finish(directory, folders)


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Wait until nobody else on this machine builds this report; the pages are files."""
    directory.mkdir(parents=True, exist_ok=True)
    lock = open_itself(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    with open(lock, "r+b", buffering=0) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def index_of(directory: Path) -> Path:
    """Return the first page of the report in a folder."""
    return directory / SITE_FOLDER / INDEX


def _context(directory: Path, limit: int, console: str) -> Any:
    import great_expectations as gx

    context: Any = gx.get_context(mode="file", project_root_dir=directory)
    context.variables.progress_bars = {"globally": False, "metric_calculations": False}
    view = {"module_name": Page.__module__, "class_name": Page.__name__, "console": console}
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


def _validate(context: Any, suite: Suite, run: str) -> list[str]:
    """Run one suite as a checkpoint; return the descriptions of what failed."""
    import great_expectations as gx
    from great_expectations.core.run_identifier import RunIdentifier

    name = suite.name
    source = context.data_sources.add_or_update_pandas("strata")
    batch = source.add_dataframe_asset(name).add_batch_definition_whole_dataframe("night")
    expected = gx.ExpectationSuite(name=name, expectations=[*suite.expectations])
    definition = context.validation_definitions.add_or_update(
        gx.ValidationDefinition(name=name, data=batch, suite=context.suites.add_or_update(expected))
    )
    checkpoint = context.checkpoints.add_or_update(
        gx.Checkpoint(
            name=name,
            validation_definitions=[definition],
            result_format={
                "result_format": "COMPLETE",
                "unexpected_index_column_names": NAMED,
                "return_unexpected_index_query": False,
            },
        )
    )
    # Without a time, the library reads one from the name: of `monday`, next Monday's.
    this = RunIdentifier(run_name=run, run_time=datetime.now(UTC))
    table = escaped.frame(suite.table)
    result = checkpoint.run(batch_parameters={"dataframe": table}, run_id=this)
    return [
        f"{name}: {getattr(one.expectation_config, 'description', '')}"
        for validation in result.run_results.values()
        for one in validation.results
        if not one.success
    ]

"""A report that breaks off never looks like a whole one, and the next build makes it whole."""

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from strata.audit.run import ValidationReport
from strata.errors import Corrupt, StrataError, Unavailable
from strata.jobs.validate import offline, report
from strata.jobs.validate.mark import BANNER, MARK
from strata.jobs.validate.markup import written
from strata.jobs.validate.report import build_report, index_of
from tests.unit.audit.test_report import CLEAN

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries that GX loads

STEPS: Final = ("_context", "_validate", "prune", "make_offline", "finish")


def build(folder: Path, run: str) -> None:
    one = ValidationReport("events", run, (), (CLEAN,), "soft", "soft", None)
    build_report(folder, run, [one], {}, max_failed_rows=5)


def killed_in(step: str, folder: Path) -> None:
    """Build in another process, which is killed where it comes to the step."""
    child = os.fork()
    if not child:
        setattr(report, step, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        build(folder, "killed")
        os._exit(1)  # it lived on
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("before", [False, True])
def test_a_killed_build_says_so_and_the_next_one_is_whole(
    step: str, before: bool, tmp_path: Path
) -> None:
    import strata.jobs.validate.expectations  # noqa: F401 - for the child as well

    if before:
        build(tmp_path, "before")
    killed_in(step, tmp_path)
    assert BANNER in index_of(tmp_path).read_text("utf-8")
    assert (tmp_path / MARK).read_text() == "killed"
    build(tmp_path, "again")
    index = index_of(tmp_path).read_text("utf-8")
    assert BANNER not in index
    assert "again" in index
    assert not (tmp_path / MARK).exists()
    assert not [*tmp_path.rglob(".*.part")]


HALF: Final = (
    "gx/great_expectations.yml",
    "gx/uncommitted/config_variables.yml",
    "gx/checkpoints/events.json",
    "gx/expectations/events.json",
    "gx/validation_definitions/events.json",
    "gx/uncommitted/validations/*/killed/*/*.json",
)


@pytest.mark.parametrize("name", HALF)
@pytest.mark.parametrize("left", [0, 40])
def test_what_a_killed_build_has_half_written_is_made_anew(
    name: str, left: int, tmp_path: Path
) -> None:
    build(tmp_path, "killed")
    (file,) = tmp_path.glob(name)
    file.write_bytes(file.read_bytes()[:left])
    (tmp_path / "site/expectations/.x.html.part").write_text("<ht")  # else it would go to S3
    (tmp_path / MARK).write_text("killed")
    build(tmp_path, "again")
    assert BANNER not in index_of(tmp_path).read_text("utf-8")
    assert not [*tmp_path.rglob(".*.part")]


def test_nothing_outside_of_the_report_is_deleted_or_emptied(tmp_path: Path) -> None:
    """Who may write into the report's folder may not write what the job may."""
    folder, other = tmp_path / "report", tmp_path / "other" / "time" / "keep.json"
    other.parent.mkdir(parents=True)
    other.write_text("{")
    build(folder, "killed")
    (folder / MARK).write_text("../../../../../other")
    build(folder, "again")
    checkpoints = folder / "gx" / "checkpoints"
    checkpoints.rename(tmp_path / "moved")
    (tmp_path / "moved" / "events.json").write_text("{")
    checkpoints.symlink_to(tmp_path / "moved")
    (folder / MARK).write_text("killed")
    with pytest.raises(StrataError):
        build(folder, "third")
    (folder / ".lock").unlink()
    (folder / ".lock").symlink_to(other)
    with pytest.raises(Unavailable, match="the report cannot be written"):
        build(folder, "fourth")
    assert other.read_text() == (tmp_path / "moved" / "events.json").read_text() == "{"


@pytest.mark.parametrize("make", [os.mkfifo, lambda mark: mark.symlink_to("/nowhere")])
def test_a_mark_that_is_no_file_is_not_waited_for(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    build(tmp_path, "first")
    make(tmp_path / MARK)
    build(tmp_path, "second")
    assert not os.path.lexists(tmp_path / MARK)


def test_a_half_result_of_another_run_is_an_error_as_before(tmp_path: Path) -> None:
    build(tmp_path, "other")
    (file,) = tmp_path.glob("gx/uncommitted/validations/*/other/*/*.json")
    file.write_text("{")
    (tmp_path / MARK).write_text("killed")
    with pytest.raises(Corrupt, match="no JSON"):
        build(tmp_path, "again")
    assert BANNER in index_of(tmp_path).read_text("utf-8")


def _folder_for_a_file(file: Path) -> None:
    file.unlink()
    (file / "x").mkdir(parents=True)


def _link_to_nowhere(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.parent / "nowhere" / "x")


@pytest.mark.parametrize("damage", [_folder_for_a_file, _link_to_nowhere])
@pytest.mark.parametrize(
    "name", [".lock", "gx/checkpoints/events.json", "site/expectations/events.html"]
)
def test_what_is_in_the_way_is_named_with_a_cure(
    damage: Callable[[Path], None], name: str, tmp_path: Path
) -> None:
    build(tmp_path, "first")
    damage(tmp_path / name)
    with pytest.raises(Unavailable, match="the report cannot be written") as error:
        build(tmp_path, "second")
    assert error.value.details["file"] == str(tmp_path / name)
    assert error.value.cure
    assert "\n" not in str(error.value)


def test_a_file_where_the_folder_should_be_is_named(tmp_path: Path) -> None:
    (tmp_path / "report").write_text("x")
    with pytest.raises(Unavailable, match=f"file='{tmp_path}/report' reason='File exists'"):
        build(tmp_path / "report", "run")


def test_an_error_of_the_library_is_one_of_ours(tmp_path: Path) -> None:
    build(tmp_path, "first")
    (tmp_path / "gx/great_expectations.yml").write_bytes(b"\xff{")
    with pytest.raises(StrataError, match=r"could not build the report .*UnicodeDecodeError") as e:
        build(tmp_path, "second")
    assert "validate again" in str(e.value.cure)


def test_half_a_page_is_no_page(tmp_path: Path) -> None:
    """The library writes its pages, and continues where the disk is full."""
    page = tmp_path / "index.html"
    html, _ = offline.blank("x", up="")
    page.write_text(written(html))
    assert offline._ends(page)
    for size in (0, 3, page.stat().st_size - 1):
        page.write_text(written(html)[:size])
        assert not offline._ends(page)

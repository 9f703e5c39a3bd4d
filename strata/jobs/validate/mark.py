"""The mark of a report that is being built, and what a build leaves behind that broke off.

A build takes seconds, and may be killed or find the disk full in any of them. From its first
moment to its last the index says that it is not whole, and the file `.building` names the run. The
index on S3 says so while files are uploaded. The next build finds that file: what the library
cannot read any more is deleted, and made anew. All of it can be made anew, but for results; of
these only the broken run's own may be half written.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from strata.errors import Corrupt, StrataError, Unavailable, bounded
from strata.jobs.validate.publish import INDEX, Folders
from strata.jobs.validate.whole import write_whole

MARK: Final = ".building"  # in the report's folder
WORKS: Final = "gx"  # of Great Expectations, in the report's folder
BANNER: Final = (
    '<p class="building" role="alert">This report is being built: results may be missing. '
    "If no validation is running, the last one broke off: run it again.</p>"
)
_MAIN: Final = "<main>"
_DERIVED: Final = ("checkpoints", "expectations", "validation_definitions")
_SETTINGS: Final = ("great_expectations.yml", "uncommitted/config_variables.yml")
_REASON_MAX: Final = 300  # characters of the library's own words


def begin(directory: Path, folders: Folders, run: str, blank: str) -> None:
    """Mark the report as unfinished; first tidy up after a build that broke off.

    `blank`: the index of a report that has none yet. Raises: OSError.
    """
    mark = directory / MARK
    if os.path.lexists(mark):
        _tidy(directory, folders, _run_of(mark))
    write_whole(mark, run.encode())
    index = folders.site / INDEX
    index.parent.mkdir(parents=True, exist_ok=True)
    before = index.read_text("utf-8", "replace") if index.exists() else ""
    write_whole(index, under_way(blank, before).encode())


def finish(directory: Path, folders: Folders) -> None:
    """Take the mark off a report that is whole. Raises: OSError."""
    index = folders.site / INDEX
    write_whole(index, index.read_bytes().replace(BANNER.encode(), b""))
    (directory / MARK).unlink()


def under_way(blank: str, before: str) -> str:
    """Return an index that says that it is being built; `blank` where there is none yet."""
    return marked(before if _MAIN in before else blank)


def marked(index: str) -> str:
    """Return an index that says that it is being built.

    >>> marked(marked("<main></main>")).count("role")
    1
    """
    return index if BANNER in index else index.replace(_MAIN, f"{_MAIN}{BANNER}", 1)


def _run_of(mark: Path) -> str:
    """Return the run that broke off; empty where somebody else has made the mark."""
    if mark.is_symlink() or not mark.is_file():
        return ""
    run = mark.read_text("utf-8", "replace")
    return run if Path(run).name == run else ""


def _tidy(directory: Path, folders: Folders, run: str) -> None:
    """Delete what the library makes anew and cannot read, and what the broken run half wrote.

    Nothing is deleted that a link or a name leads to outside of the report.
    """
    for part in [*directory.rglob(".*.part")]:
        part.unlink()
    works = directory / WORKS
    for name in _SETTINGS:
        (works / name).unlink(missing_ok=True)
    broken = [suite / run for suite in folders.results.glob("*/")] if run else []
    files = [file for name in _DERIVED for file in (works / name).glob("*.json")]
    files += [file for folder in broken for file in folder.glob("*/*.json")]
    own = directory.resolve()
    for file in files:
        inside = file.parent.resolve().is_relative_to(own) and not file.is_symlink()
        if inside and file.is_file() and not _is_json(file):
            file.unlink()


def _is_json(file: Path) -> bool:
    try:
        json.loads(file.read_bytes())
    except ValueError:
        return False
    return True


@contextmanager
def building(directory: Path) -> Iterator[None]:
    """Say in one sentence why a report cannot be built, for each error of the library.

    Raises: Unavailable where a disk, a right or a file is in the way; Corrupt for anything else.
    """
    try:
        yield
    except StrataError:
        raise
    except Exception as error:
        if outside := _of_outside(error):
            raise Unavailable(
                "the report cannot be written",
                certain=False,
                file=str(outside.filename or directory),
                reason=outside.strerror or str(outside),
                cure="see that this is a file or folder that the job may write and that its disk"
                " has room, then validate again",
            ) from error
        reason = " ".join(str(error).split())
        raise Corrupt(
            "Great Expectations could not build the report",
            folder=str(directory / WORKS),
            reason=bounded(f"{type(error).__name__}: {reason}", _REASON_MAX),
            cure="move all of this folder but uncommitted/validations away, then validate again",
        ) from error


def _of_outside(error: BaseException | None) -> OSError | None:
    """Return the error of the system that an error of the library comes from, if there is one."""
    while error is not None and not isinstance(error, OSError):
        error = error.__cause__ or error.__context__
    return error

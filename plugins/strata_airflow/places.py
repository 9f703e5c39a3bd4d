"""Where the project, its settings file and the jobs' results lie on this worker.

All of it follows from where this file is; `STRATA_CONFIG` and `STRATA_RESULTS` move the two that
an installation may want elsewhere.
"""

import os
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).resolve().parents[2]
JOBS: Final = PROJECT / "jobs"


def config_file() -> str:
    """Return the settings file that jobs get: `STRATA_CONFIG`, else `config/local.toml`."""
    return os.environ.get("STRATA_CONFIG") or str(PROJECT / "config" / "local.toml")


def results_dir() -> Path:
    """Return the folder for the jobs' results: `STRATA_RESULTS`, else `.strata/results`."""
    return Path(os.environ.get("STRATA_RESULTS") or PROJECT / ".strata" / "results")


def report_dir() -> Path:
    """Return the folder of the validation report, as the settings of the jobs say."""
    return _folder(".strata/report", "report_dir", "validate")


def declared_shards() -> list[str]:
    """Return the names of the shard declarations, for selections in forms.

    Names of files only, no declaration is opened: this runs each time a DAG file is parsed.
    """
    return sorted(file.stem for file in _folder("config/shards", "shards_dir").glob("*.y*ml"))


def registered_filters() -> list[str]:
    """Return the names of the registered filters (SHARD-NAME.yaml); as above."""
    files = _folder("config/filters", "filters_dir").glob("*.y*ml")
    return sorted({file.stem.partition("-")[2] or file.stem for file in files})


def _folder(default: str, name: str, *sections: str) -> Path:
    """Return a folder that the settings of the jobs name; a relative one is the project's."""
    said: Any = {}
    with suppress(OSError, tomllib.TOMLDecodeError):  # the job itself tells what is wrong
        said = tomllib.loads(Path(config_file()).read_text("utf-8"))
    for section in sections:
        said = said.get(section, {})
    variable = "__".join(["STRATA", *map(str.upper, (*sections, name))])
    return PROJECT / (os.environ.get(variable) or said.get(name) or default)

"""Where the project, its settings file and the jobs' results lie on this worker.

All of it follows from where this file is; `STRATA_CONFIG` and `STRATA_RESULTS` move the two that
an installation may want elsewhere.
"""

import os
import tomllib
from pathlib import Path
from typing import Final

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
    try:
        with Path(config_file()).open("rb") as file:
            said = tomllib.load(file).get("validate", {}).get("report_dir")
    except FileNotFoundError:
        said = None
    folder = os.environ.get("STRATA__VALIDATE__REPORT_DIR") or said or ".strata/report"
    return PROJECT / folder


def declared_shards() -> list[str]:
    """Return the names of the shard declarations in `config/shards`, for selections in forms.

    Names of files only, nothing is opened: this runs each time a DAG file is parsed.
    """
    return sorted(file.stem for file in (PROJECT / "config" / "shards").glob("*.y*ml"))


def registered_filters() -> list[str]:
    """Return the names of the filters in `config/filters` (SHARD-NAME.yaml); as above."""
    files = (PROJECT / "config" / "filters").glob("*.y*ml")
    return sorted({file.stem.partition("-")[2] or file.stem for file in files})

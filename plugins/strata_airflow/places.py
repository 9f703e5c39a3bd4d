"""The places of the jobs, their settings file and their results on this worker.

In a checkout of the project they follow from the place of this file; where the provider is
installed, from Airflow's home. `STRATA_CONFIG` and `STRATA_RESULTS` move the settings file and the
results.
"""

import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_ABOVE: Final = Path(__file__).resolve().parents[2]
CHECKOUT: Final = (_ABOVE / "strata" / "__init__.py").is_file()
# Where jobs start, and relative paths in settings begin.
PROJECT: Final = (
    _ABOVE if CHECKOUT else Path(os.environ.get("AIRFLOW_HOME") or "~/airflow").expanduser()
)
PYTHONPATH: Final = {"PYTHONPATH": str(PROJECT)} if CHECKOUT else {}  # what jobs need to be found


def job_file(job: str) -> str:
    """Return the program of a job: `main.py` in its folder of `strata.jobs`.

    The engine is found, not imported. Raises: ModuleNotFoundError if it is not installed.
    """
    return str(_engine() / "jobs" / job / "main.py")


def _engine() -> Path:
    if CHECKOUT:
        return PROJECT / "strata"
    found = importlib.util.find_spec("strata")
    if found is None or not found.submodule_search_locations:
        raise ModuleNotFoundError("no module named 'strata' (cure: pip install strata-shards)")
    return Path(found.submodule_search_locations[0])


def config_file() -> str:
    """Return the settings file that jobs get: `STRATA_CONFIG`, else `strata.toml`.

    The latter is in Airflow's home; in a checkout it is `config/local.toml`.
    """
    file = PROJECT / "config" / "local.toml" if CHECKOUT else PROJECT / "strata.toml"
    return os.environ.get("STRATA_CONFIG") or str(file)


def results_dir() -> Path:
    """Return the folder for the jobs' results: `STRATA_RESULTS`, else `.strata/results`."""
    return Path(os.environ.get("STRATA_RESULTS") or PROJECT / ".strata" / "results")


def report_dir() -> Path:
    """Return the folder of the validation report, from the settings of the jobs."""
    return _folder("validate.report_dir", ".strata/report")


def declared_shards() -> list[str]:
    """Return the names of the shard declarations, for selections in forms.

    Uses only names of files and opens no declaration: this runs each time a DAG file is parsed.
    """
    return sorted(file.stem for file in _yaml_files("shards_dir", "config/shards"))


def registered_filters() -> list[str]:
    """Return the names of the registered filters (SHARD-NAME.yaml); as above."""
    files = _yaml_files("filters_dir", "config/filters")
    return sorted({file.stem.partition("-")[2] or file.stem for file in files})


def _yaml_files(setting: str, default: str) -> list[Path]:
    return [f for f in _folder(setting, default).glob("*") if f.suffix in (".yaml", ".yml")]


def _folder(setting: str, default: str) -> Path:
    """Return a folder that the settings of the jobs name; a relative one is the project's."""
    # The engine's own reader needs only the standard library: in a checkout it is beside the
    # plugin, even if Airflow's environment lacks the engine.
    if CHECKOUT and str(PROJECT) not in sys.path:
        sys.path.append(str(PROJECT))
    from strata.config.settings import given_settings
    from strata.errors import InvalidRequest

    given = {}
    with suppress(InvalidRequest):  # the job itself reports the error
        given = given_settings(config_file(), os.environ)
    return PROJECT / str(given[setting].value if setting in given else default)

"""Where the demo and its Airflow keep their files, and the settings file that ties them together.

All of it lies under `.strata` in the project, so that removing that folder removes everything;
`STRATA_DEMO` names another folder, for a second demo beside the first.
"""

import os
import shutil
from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).resolve().parents[1]
HIDDEN: Final = Path(os.environ.get("STRATA_DEMO") or PROJECT / ".strata").resolve()
AIRFLOW_HOME: Final = HIDDEN / "airflow"
WORKSPACE: Final = HIDDEN / "demo"  # landing folder, blobs, consensus, report, results
CONFIG: Final = WORKSPACE / "strata.toml"
RESULTS: Final = WORKSPACE / "results"  # what each job wrote, one JSON file a try
REPORT: Final = WORKSPACE / "report"
CORES: Final = 2  # of Spark on this machine
HISTORY_DAYS: Final = 90  # compaction moves since so far behind upper; what cancelled goes away


def write_config(workspace: Path = WORKSPACE, blob: str = "", consensus: str = "") -> Path:
    """Write the demo's settings file with absolute places, and return its path.

    `blob` and `consensus` are the stores' addresses; by default a folder and SQLite.
    """
    workspace.mkdir(parents=True, exist_ok=True)
    blob = blob or f"file://{workspace}/blob"
    consensus = consensus or f"sqlite:///{workspace}/consensus.db"
    file = workspace / "strata.toml"
    file.write_text(
        "# Written by `make demo` and `make up`; changes are overwritten.\n"
        f'shards_dir = "{PROJECT / "config" / "shards"}"\n'
        f'filters_dir = "{PROJECT / "config" / "filters"}"\n'
        "\n[store]\n"
        f'blob = "{blob}"\n'
        f'consensus = "{consensus}"\n'
        f'landing = "{workspace}"\n'
        "\n[compact]\n"
        f"history_ms = {HISTORY_DAYS * 86_400_000}\n"
        f"\n[spark]\nshards_at_once = {CORES}\n"
        "\n[validate]\n"
        f'report_dir = "{workspace / "report"}"\n',
        encoding="utf-8",
    )
    return file


def reset() -> None:
    """Remove what an earlier demo left: its shards, its report and its Airflow."""
    for folder in (WORKSPACE, AIRFLOW_HOME):
        shutil.rmtree(folder, ignore_errors=True)

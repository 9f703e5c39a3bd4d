"""What a job loads before its session: not the engine, which Python loads while Java works."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

HEAVY = "{'numpy', 'pandas', 'pyarrow', 'sqlalchemy', 'strata.machine', 'strata.spark'}"
MAINS = [f"strata.jobs.{job}.main" for job in ("compact", "ingest", "stats", "validate")]


@pytest.mark.parametrize("module", [*MAINS, "strata.session.session"])
def test_the_engine_is_not_loaded_before_the_session(module: str) -> None:
    look = f"import sys, {module}; print(sorted({HEAVY} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", MAINS)
def test_each_job_loads_its_work_while_java_starts(module: str) -> None:
    source = Path(import_module(module).__file__ or "").read_text("utf-8")
    begun = source.index("with job_session(")
    assert source.index(f"        from {module.removesuffix('main')}work import") > begun

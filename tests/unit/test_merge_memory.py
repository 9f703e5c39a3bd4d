"""A merge stays within its memory: resident memory is measured, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "benchmarks" / "merge_memory.py"


@pytest.mark.long
@pytest.mark.parametrize("case", ["large", "runs", "cancel"])
def test_a_merge_takes_no_more_memory_than_it_was_allowed(case: str) -> None:
    # 256 MiB of updates; the benchmark ends with 1 where the peak is above the cap.
    done = subprocess.run(
        [sys.executable, str(PROGRAM), case, "--gib", "0.25", "--cap-mib", "256"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr

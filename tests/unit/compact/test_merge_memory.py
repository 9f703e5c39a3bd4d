"""A merge stays within its memory: resident memory is measured, in a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[3] / "benchmarks" / "merge_memory.py"
CASES = {
    # case: GiB of updates, the cap in MiB
    "large": (2.0, 512),
    "runs": (1.0, 128),  # parts are a quarter of that
    "rows": (0.6, 512),  # each of 50 MiB
    "among": (0.25, 512),  # such rows among small ones
    "cancel": (0.25, 256),
    "repeat": (1.0, 512),  # stored in a fraction of it
}


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("case", CASES)
def test_a_merge_takes_no_more_memory_than_it_was_allowed(case: str) -> None:
    # The benchmark ends with 1 where the peak is above the cap.
    gib, cap_mib = CASES[case]
    done = subprocess.run(
        [sys.executable, str(PROGRAM), case, "--gib", str(gib), "--cap-mib", str(cap_mib)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr

"""What allocators keep is given back near the limit, and not asked for again at every step."""

import platform
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from strata.updates import resident
from strata.updates.resident import Resident, giving_back, resident_bytes


def test_what_is_kept_is_given_back_near_the_limit_and_when_more_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readings = [100, 149, 151, 120, 151, 160, 150, 165]
    monkeypatch.setattr(resident, "resident_bytes", lambda: readings.pop(0))
    given: list[int] = []
    monkeypatch.setattr(resident, "give_back", lambda: given.append(len(readings)))
    watched = Resident(100)

    assert list(watched.settled([1, 2, 3, 4, 5])) == [1, 2, 3, 4, 5]

    # At 149: not near. At 151: given back, 120 is left. At 151: more came, 160 is left. Then less.
    assert given == [5, 3]


def test_memory_that_was_freed_goes_back_to_the_system() -> None:
    if not resident_bytes():
        pytest.skip("the system does not tell how much of a process is in memory")
    size = 64 * 1024 * 1024

    def step() -> int:
        np.frombuffer(pa.allocate_buffer(size), np.uint8)[:] = 1  # in use, then freed
        return 1

    before = resident_bytes()
    assert list(giving_back(step() for _ in range(2))) == [1, 1]

    assert resident_bytes() - before < size


FAULTS = """
import resource, sys
import numpy as np
from strata.updates.resident import keep_freed

if sys.argv[1] == "kept":
    keep_freed(2**30)
for round in range(20):
    if round == 1:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(393_216) for _ in range(8)]  # 24 MiB, all freed at once
    del arrays
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_freed_arrays_are_kept_for_the_next() -> None:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("another C library than the one that takes these options")

    def pages(how: str) -> int:
        ran = subprocess.run([sys.executable, "-c", FAULTS, how], capture_output=True, check=True)
        return int(ran.stdout)

    assert pages("kept") < pages("left alone") / 4
